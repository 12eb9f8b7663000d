//! Frames of blosc 1 with Snappy inside, which our build of c-blosc does not support. This file reads and writes the streams; c-blosc undoes the shuffles.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::blosc::{BIT_SHUFFLED, HEADER, LEAST_SPLIT, MOST_SPLITS, NOT_SPLIT, SHUFFLED, STORED, number};
use crate::failures::Outcome;
use crate::memory::out_of_memory;

const SNAPPY: u8 = 2; // the format, in the upper three bits of the flags
const USUAL_BLOCK: usize = 128 << 10;

/// Whether a frame, at least a header of it, has Snappy inside.
pub fn is_inside(frame: &[u8]) -> bool {
    frame[2] >> 5 == SNAPPY && frame[2] & STORED == 0
}

/// Empty memory with room for this many bytes.
pub fn with_room(len: usize) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| out_of_memory(len))?;
    Ok(bytes)
}

/// The most bytes of an opened frame: the decoded ones, and its description of blocks with a length for each stream.
pub fn opened_bound(frame: &[u8]) -> usize {
    let size = number(frame, 4).unwrap_or(0);
    size.saturating_add(size / 8).saturating_add(2 * frame.len())
}

/// The same frame with every stream decoded, which is a valid frame for any compressor; None if the frame is invalid. `made` is empty, with room for it.
pub fn opened(frame: &[u8], mut made: Vec<u8>) -> Option<Vec<u8>> {
    let (flags, typesize) = (frame[2], usize::from(frame[3]));
    let (size, block) = (number(frame, 4)?, number(frame, 8)?);
    if block == 0 || typesize == 0 || frame[1] != 1 {
        return None;
    }
    let blocks = size.div_ceil(block);
    if blocks > (frame.len() - HEADER) / 4 {
        return None;
    }
    made.extend_from_slice(&frame[..HEADER]);
    made[2] = flags & 0x1F;
    made.resize(HEADER + 4 * blocks, 0);
    let mut decoder = Decoder::new();
    for i in 0..blocks {
        let bytes = block.min(size - i * block);
        let split = flags & NOT_SPLIT == 0 && typesize <= MOST_SPLITS && block / typesize >= LEAST_SPLIT && bytes == block;
        let splits = if split { typesize } else { 1 };
        let each = bytes / splits;
        let start = i32::try_from(made.len()).ok()?;
        made[HEADER + 4 * i..HEADER + 4 * i + 4].copy_from_slice(&start.to_le_bytes());
        let mut at = number(frame, HEADER + 4 * i)?;
        for _ in 0..splits {
            let length = number(frame, at)?;
            let stream = frame.get(at + 4..(at + 4).checked_add(length)?)?;
            at += 4 + length;
            made.extend_from_slice(&i32::try_from(each).ok()?.to_le_bytes());
            if length == each {
                made.extend_from_slice(stream);
                continue;
            }
            if decompress_len(stream).ok()? != each {
                return None;
            }
            let from = made.len();
            made.resize(from + each, 0);
            decoder.decompress(stream, &mut made[from..]).ok()?;
        }
    }
    let whole = i32::try_from(made.len()).ok()?;
    made[12..16].copy_from_slice(&whole.to_le_bytes());
    Some(made)
}

/// A frame; it is at most 16 bytes longer than the input. shuffle: 0 none, 1 by bytes, 2 by bits. None beyond 2 GiB. `made` is empty, with room for it.
pub fn encode(mut made: Vec<u8>, level: i32, shuffle: i32, typesize: usize, blocksize: usize, input: &[u8]) -> Option<Vec<u8>> {
    let size = i32::try_from(input.len()).ok()?;
    i32::try_from(input.len() + HEADER).ok()?;
    let typesize = if typesize > usize::from(u8::MAX) { 1 } else { typesize };
    let block = block_size(if blocksize == 0 { USUAL_BLOCK } else { blocksize }, typesize, input.len());
    let blocks = input.len().div_ceil(block);
    let flag = match shuffle {
        1 if typesize > 1 => SHUFFLED,
        2 => BIT_SHUFFLED,
        _ => 0,
    };
    made.extend_from_slice(&[2, 1, flag | NOT_SPLIT | SNAPPY << 5, typesize as u8]);
    made.extend_from_slice(&size.to_le_bytes());
    made.extend_from_slice(&i32::try_from(block).ok()?.to_le_bytes());
    made.resize(HEADER + 4 * blocks, 0);
    let (mut encoder, mut stream) = (Encoder::new(), vec![0; max_compress_len(block)]);
    for (i, bytes) in input.chunks(block).enumerate() {
        if level == 0 || made.len() >= input.len() + HEADER {
            break;
        }
        let shuffled = match flag {
            SHUFFLED => shuffle_bytes(bytes, typesize),
            BIT_SHUFFLED => shuffle_bits(bytes, typesize),
            _ => bytes.to_vec(),
        };
        let start = i32::try_from(made.len()).ok()?;
        made[HEADER + 4 * i..HEADER + 4 * i + 4].copy_from_slice(&start.to_le_bytes());
        let length = encoder.compress(&shuffled, &mut stream).ok()?;
        let kept = if length < shuffled.len() { &stream[..length] } else { &shuffled };
        made.extend_from_slice(&i32::try_from(kept.len()).ok()?.to_le_bytes());
        made.extend_from_slice(kept);
    }
    if level == 0 || made.len() >= input.len() + HEADER {
        made.truncate(HEADER);
        made[2] |= STORED;
        made.extend_from_slice(input);
    }
    let whole = i32::try_from(made.len()).ok()?;
    made[12..16].copy_from_slice(&whole.to_le_bytes());
    Some(made)
}

/// Whole elements, a multiple of eight if there are that many: bits are shuffled in such groups.
fn block_size(requested: usize, typesize: usize, len: usize) -> usize {
    let block = requested.min(len).max(1);
    [8 * typesize, typesize].iter().find(|&&group| block >= group).map_or(block, |group| block / group * group)
}

/// The first bytes of all elements, then the second ones ...; an incomplete element stays at the end.
fn shuffle_bytes(bytes: &[u8], typesize: usize) -> Vec<u8> {
    let (elements, rest) = bytes.split_at(bytes.len() / typesize * typesize);
    let mut made = Vec::with_capacity(bytes.len());
    for at in 0..typesize {
        made.extend(elements.iter().skip(at).step_by(typesize));
    }
    made.extend_from_slice(rest);
    made
}

/// The lowest bits of the first bytes of all elements, then the next bits ...; nothing if the number of elements is not a multiple of eight.
fn shuffle_bits(bytes: &[u8], typesize: usize) -> Vec<u8> {
    let count = bytes.len() / typesize;
    if count == 0 || !count.is_multiple_of(8) {
        return bytes.to_vec();
    }
    let mut made = bytes.to_vec();
    let (row, mut at) = (count / 8, 0);
    for byte in 0..typesize {
        for bit in 0..8 {
            for group in 0..row {
                made[at] = (0..8).fold(0, |packed, i| packed | (bytes[(8 * group + i) * typesize + byte] >> bit & 1) << i);
                at += 1;
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i / 64 % 50) as u8).collect()
    }

    #[test]
    fn frames_are_opened() {
        for (len, shuffle, typesize, blocksize) in [(1, 0, 1, 0), (1000, 1, 4, 0), (5003, 2, 2, 512), (4096, 2, 8, 500), (999, 1, 7, 140)] {
            let frame = encode(vec![], 5, shuffle, typesize, blocksize, &data(len)).unwrap();
            assert!(frame.len() <= len + HEADER);
            assert_eq!(is_inside(&frame), len > 1);
            if is_inside(&frame) {
                let opened = opened(&frame, vec![]).unwrap();
                assert!(opened.len() <= opened_bound(&frame));
                assert!(!is_inside(&opened));
                assert_eq!(number(&opened, 12), Some(opened.len()));
            }
        }
    }

    #[test]
    fn damaged_frames_never_panic() {
        let frame = encode(vec![], 5, 1, 2, 256, &data(1000)).unwrap();
        assert!(is_inside(&frame));
        for cut in HEADER..frame.len() {
            let _ = opened(&frame[..cut], vec![]);
        }
        for at in 0..frame.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut bytes = frame.clone();
                bytes[at] = value;
                if let Some(made) = number(&bytes, 4).filter(|&size| size <= 2000).and_then(|_| opened(&bytes, vec![])) {
                    assert!(made.len() < 20_000);
                }
            }
        }
    }

    #[test]
    fn what_does_not_shrink_is_stored() {
        let noise: Vec<u8> = (0..1000u32).map(|i| (i.wrapping_mul(i).wrapping_mul(2_654_435_761) >> 21) as u8).collect();
        for (level, input) in [(0, data(1000)), (9, noise), (9, vec![])] {
            let frame = encode(vec![], level, 0, 1, 0, &input).unwrap();
            assert!(!is_inside(&frame));
            assert_eq!(frame[HEADER..], input);
        }
    }
}
