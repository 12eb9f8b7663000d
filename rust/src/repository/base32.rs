//! Ids as text: 12 bytes as 20 characters of Crockford's base 32, highest bits first, zero bits at the end.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::{Bytes, wrong};

pub const ID_BYTES: usize = 12;
pub const ID_TEXT: usize = 20;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const NO_DIGIT: u8 = 255;
/// Digits are read in either case, O as 0, I and L as 1; U is invalid.
const DIGITS: [u8; 256] = digits();
/// Bits of the text that are not in the id.
const SPARE_BITS: u32 = (ID_TEXT * 5 - ID_BYTES * 8) as u32;

const fn digits() -> [u8; 256] {
    let mut table = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 32 {
        let letter = ALPHABET[digit];
        table[letter as usize] = digit as u8;
        table[letter.to_ascii_lowercase() as usize] = digit as u8;
        digit += 1;
    }
    table[b'O' as usize] = 0;
    table[b'o' as usize] = 0;
    table[b'I' as usize] = 1;
    table[b'i' as usize] = 1;
    table[b'L' as usize] = 1;
    table[b'l' as usize] = 1;
    table
}

pub fn encode(id: &[u8; ID_BYTES]) -> [u8; ID_TEXT] {
    let mut bits = id.iter().fold(0u128, |bits, &byte| bits << 8 | u128::from(byte)) << SPARE_BITS;
    let mut text = [0; ID_TEXT];
    for character in text.iter_mut().rev() {
        *character = ALPHABET[(bits & 31) as usize];
        bits >>= 5;
    }
    text
}

/// None for another number of characters, or an invalid digit; the spare bits may have any value.
pub fn decode(text: &[u8]) -> Option<[u8; ID_BYTES]> {
    let text: &[u8; ID_TEXT] = text.try_into().ok()?;
    let mut all = 0;
    let mut bits = |characters: &[u8]| {
        characters.iter().fold(0u64, |bits, &character| {
            let digit = DIGITS[character as usize];
            all |= digit;
            bits << 5 | u64::from(digit & 31)
        })
    };
    // 12 characters are 60 bits; 8 more are 40, the last of which are spare
    let (high, low) = (bits(&text[..12]), bits(&text[12..]));
    if all == NO_DIGIT {
        return None;
    }
    let mut id = [0; ID_BYTES];
    let number = (u128::from(high) << 40 | u128::from(low)) >> SPARE_BITS;
    id.copy_from_slice(&number.to_be_bytes()[16 - ID_BYTES..]);
    Some(id)
}

#[pyfunction]
pub fn encode_ids(ids: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let ids = Bytes::new(ids, "ids")?;
    match ids.as_slice().as_chunks() {
        (ids, []) => Ok(ids.iter().map(|id| encode(id).map(char::from).iter().collect()).collect()),
        _ => Err(wrong(format!("ids: {} bytes are not a multiple of {ID_BYTES}", ids.as_slice().len()))),
    }
}

#[pyfunction]
pub fn decode_id<'py>(py: Python<'py>, text: &str) -> Option<Bound<'py, PyBytes>> {
    decode(text.as_bytes()).map(|id| PyBytes::new(py, &id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_text() {
        let id: [u8; 12] = std::array::from_fn(|i| i as u8);
        assert_eq!(&encode(&id), b"000G40R40M30E209185G");
        assert_eq!(decode(b"000G40R40M30E209185G"), Some(id));
    }

    #[test]
    fn reading_is_lenient_where_it_may_be() {
        assert_eq!(decode(b"oOig4lr40m30e209185z"), decode(b"001G41R40M30E209185G"));
        assert!(decode(b"oOig4lr40m30e209185z").is_some());
        for text in [&b""[..], b"000G40R40M30E209185", b"000G40R40M30E209185G0", b"U00G40R40M30E209185G", b"000G40R40M30E209185\xff"] {
            assert_eq!(decode(text), None);
        }
    }

    #[test]
    fn every_bit_comes_back() {
        for bit in 0..96 {
            let mut id = [0u8; 12];
            id[bit / 8] = 1 << (bit % 8);
            assert_eq!(decode(&encode(&id)), Some(id));
        }
    }
}
