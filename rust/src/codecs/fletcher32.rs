//! The Fletcher-32 of HDF5 files: over words of two bytes, the high one first; stored in four bytes after the data.

/// Words that can be summed twice without overflow of 64 bits, by a large margin.
const WORDS: usize = 1 << 16;

/// The last of an odd number of bytes is the high one of a word.
pub fn sum(data: &[u8]) -> u32 {
    let (words, last) = data.as_chunks::<2>();
    let (mut first, mut second) = (0u64, 0u64);
    for part in words.chunks(WORDS) {
        // as `second` counts each word once for every word from it on
        let (mut plain, mut weighted) = (0u64, 0u64);
        for (i, &word) in part.iter().enumerate() {
            let word = u64::from(u16::from_be_bytes(word));
            plain += word;
            weighted += word * (part.len() - i) as u64;
        }
        second = folded(second + part.len() as u64 * first + weighted);
        first = folded(first + plain);
    }
    if let [byte] = last {
        first = folded(first + (u64::from(*byte) << 8));
        second = folded(second + first);
    }
    (second as u32) << 16 | first as u32
}

/// The remainder by 2^16 - 1 in the form of end-around carry: 0 only for 0.
fn folded(number: u64) -> u64 {
    if number == 0 { 0 } else { (number - 1) % 0xFFFF + 1 }
}

/// Whether another implementation stores this sum: zarrs leaves out the last byte of an odd number.
pub fn is_variant(data: &[u8], stored: u32) -> bool {
    data.len() % 2 == 1 && sum(&data[..data.len() - 1]) == stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_definition() {
        assert_eq!(sum(b""), 0);
        assert_eq!(sum(&[0; 9]), 0);
        for len in [1usize, 2, 7, 360, 131_072, 300_001] {
            let data: Vec<u8> = (0..len).map(|i| (i * 31 % 256) as u8).collect();
            let (mut first, mut second) = (0u64, 0u64);
            for word in data.chunks(2) {
                first = folded(first + (u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0))));
                second = folded(second + first);
            }
            assert_eq!(sum(&data), (second << 16 | first) as u32);
            assert_eq!(is_variant(&data, sum(&data[..len / 2 * 2])), len % 2 == 1);
        }
    }
}
