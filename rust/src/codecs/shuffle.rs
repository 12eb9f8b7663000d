//! The shuffle of HDF5 and numcodecs: byte 0 of all elements, then byte 1 of all, and so on; bytes after the last whole element stay at the end.

use super::Refusal;

/// Bytes of a strip whose planes are written in turns, for element sizes without a compiled loop.
const STRIP: usize = 4 << 10;

/// `size`: bytes of an element, above 0.
pub fn encode(size: usize, input: &[u8], out: &mut [u8]) -> usize {
    let whole = input.len() / size * size;
    let out = &mut out[..input.len()];
    let (planes, rest) = out.split_at_mut(whole);
    match size {
        1 => planes.copy_from_slice(&input[..whole]),
        2 => split::<2>(&input[..whole], planes),
        4 => split::<4>(&input[..whole], planes),
        8 => split::<8>(&input[..whole], planes),
        _ => any(size, whole / size, |element, plane, count| planes[plane] = input[element * size + count]),
    }
    rest.copy_from_slice(&input[whole..]);
    input.len()
}

pub fn decode(size: usize, input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
    let whole = input.len() / size * size;
    let out = out.get_mut(..input.len()).ok_or(Refusal::Full)?;
    let (elements, rest) = out.split_at_mut(whole);
    match size {
        1 => elements.copy_from_slice(&input[..whole]),
        2 => join::<2>(&input[..whole], elements),
        4 => join::<4>(&input[..whole], elements),
        8 => join::<8>(&input[..whole], elements),
        _ => any(size, whole / size, |element, plane, count| elements[element * size + count] = input[plane]),
    }
    rest.copy_from_slice(&input[whole..]);
    Ok(input.len())
}

fn split<const SIZE: usize>(elements: &[u8], planes: &mut [u8]) {
    let count = elements.len() / SIZE;
    let (elements, _) = elements.as_chunks::<SIZE>();
    for (byte, plane) in planes.chunks_exact_mut(count.max(1)).enumerate() {
        for (to, element) in plane.iter_mut().zip(elements) {
            *to = element[byte];
        }
    }
}

fn join<const SIZE: usize>(planes: &[u8], elements: &mut [u8]) {
    let count = elements.len() / SIZE;
    let planes: [&[u8]; SIZE] = std::array::from_fn(|byte| &planes[byte * count..][..count]);
    let (elements, _) = elements.as_chunks_mut::<SIZE>();
    for (i, element) in elements.iter_mut().enumerate() {
        for byte in 0..SIZE {
            element[byte] = planes[byte][i];
        }
    }
}

/// Calls `copy` with (element, its position in a plane, byte of the element) for all bytes, strip by strip.
fn any(size: usize, count: usize, mut copy: impl FnMut(usize, usize, usize)) {
    let strip = (STRIP / size).max(1);
    for first in (0..count).step_by(strip) {
        for byte in 0..size {
            for element in first..count.min(first + strip) {
                copy(element, byte * count + element, byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_are_in_the_order_of_bytes() {
        let mut out = [0; 7];
        assert_eq!(encode(3, &[1, 2, 3, 4, 5, 6, 7], &mut out), 7);
        assert_eq!(out, [1, 4, 2, 5, 3, 6, 7]);
    }

    #[test]
    fn every_size_round_trips() {
        for size in [1, 2, 3, 4, 7, 8, 16, 5000, 1 << 30] {
            for len in [0, 1, 7, 8, 64, 1001, 20_001] {
                let data: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
                let (mut planes, mut back) = (vec![0; len], vec![0; len]);
                encode(size, &data, &mut planes);
                let count = len / size;
                if count > 0 {
                    assert_eq!(planes[count * (size - 1)..][..count], (0..count).map(|i| data[i * size + size - 1]).collect::<Vec<_>>());
                }
                assert!(decode(size, &planes, &mut back).is_ok_and(|made| made == len));
                assert_eq!(back, data);
                assert!(len == 0 || decode(size, &planes, &mut back[1..]).is_err());
            }
        }
    }
}
