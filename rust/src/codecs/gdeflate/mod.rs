//! GDeflate: DEFLATE (RFC 1951) with its bits distributed over 32 lanes, in the container of `zarrs.gdeflate`. Pages of 64 KiB are packed separately.
//!
//! A lane holds at least 32 bits whenever a symbol is read from it; it is refilled with the next word of the page. Consecutive symbols are in consecutive
//! lanes. The distance of a match is in the same lane as its length, at the next turn of that lane. Length code 285 has 16 more bits.
//! For encoding, libdeflate chooses the symbols, which are then distributed over the lanes.

mod huffman;
mod lanes;
mod page_reader;
mod page_writer;

use huffman::corrupt;

use super::Refusal;
use super::deflate::{Format, Packer, bound as deflate_bound};
use crate::failures::{Code, Outcome};

const PAGE: usize = 1 << 16;
const LANES: usize = 32;
const WORD: u32 = 32;

fn number(input: &[u8], at: usize) -> Option<usize> {
    let bytes = input.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
}

/// The header: the decoded length, the number of pages, their lengths; then the pages.
pub fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
    let header =
        number(input, 0).zip(number(input, 8)).filter(|&(length, pages)| pages <= input.len() / 8 - 2 && length.div_ceil(PAGE) == pages);
    let Some((length, pages)) = header else {
        return Err(Refusal::bad(Code::Decode, "gdeflate: its header makes no sense"));
    };
    let out = out.get_mut(..length).ok_or(Refusal::Full)?;
    let mut at = 16 + 8 * pages;
    for (page, out) in out.chunks_mut(PAGE).enumerate() {
        let end = number(input, 16 + 8 * page).and_then(|length| at.checked_add(length));
        let bytes = end.and_then(|end| input.get(at..end)).ok_or_else(|| corrupt("a page lies beyond the end"))?;
        page_reader::decode_page(bytes, out)?;
        at += bytes.len();
    }
    if at != input.len() {
        return Err(Refusal::bad(Code::Decode, format!("gdeflate: {} bytes follow the pages", input.len() - at)));
    }
    Ok(length)
}

pub fn bound(len: usize) -> Option<usize> {
    let pages = len.div_ceil(PAGE);
    len.checked_add(16)?.checked_add(pages.checked_mul(8 + 2 * 4 * LANES + 4096)?)
}

pub fn encode(packer: &mut Packer, input: &[u8], out: &mut [u8]) -> Outcome<usize> {
    let (pages, mut made) = (input.len().div_ceil(PAGE), Vec::new());
    let mut header = Vec::with_capacity(16 + 8 * pages);
    header.extend((input.len() as u64).to_le_bytes());
    header.extend((pages as u64).to_le_bytes());
    let mut deflated = vec![0; deflate_bound(Format::Deflate, PAGE).unwrap_or(2 * PAGE)];
    for page in input.chunks(PAGE) {
        let (size, before) = (packer.encode(Format::Deflate, page, &mut deflated)?, made.len());
        page_writer::encode_page(&deflated[..size], &mut made)?;
        header.extend(((made.len() - before) as u64).to_le_bytes());
    }
    let size = header.len() + made.len();
    let out = out.get_mut(..size).ok_or_else(|| corrupt("has more bytes than its bound"))?;
    out[..header.len()].copy_from_slice(&header);
    out[header.len()..].copy_from_slice(&made);
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(level: i32, input: &[u8]) -> usize {
        let mut packed = vec![0; bound(input.len()).unwrap()];
        let size = encode(Packer::lazy(&mut None, level).unwrap(), input, &mut packed).unwrap();
        let mut out = vec![0; input.len()];
        assert!(matches!(decode(&packed[..size], &mut out), Ok(made) if made == input.len()));
        assert!(out == input);
        for cut in [0, 1, size / 2, size - 1] {
            assert!(decode(&packed[..cut], &mut out).is_err());
        }
        if !input.is_empty() {
            assert!(matches!(decode(&packed[..size], &mut out[1..]), Err(Refusal::Full)));
        }
        size
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 24
        };
        let noise: Vec<u8> = (0..20_000).map(|_| random() as u8).collect();
        let text: Vec<u8> = (0..20_000).map(|at| if random() < 40 { random() as u8 % 7 } else { (at / 50) as u8 }).collect();
        for level in [0, 6] {
            for input in [&noise, &text, &vec![7; PAGE], &vec![0; PAGE + 1], &vec![]] {
                there_and_back(level, input);
                there_and_back(level, &input[..input.len().min(5)]);
            }
        }
        assert!(there_and_back(6, &vec![0; 3 * PAGE]) < 3000);
    }

    #[test]
    fn damage_is_refused_or_of_the_right_size() {
        let input: Vec<u8> = (0..1000u32).map(|at| (at * at / 50) as u8).collect();
        let mut packed = vec![0; bound(input.len()).unwrap()];
        let size = encode(Packer::lazy(&mut None, 6).unwrap(), &input, &mut packed).unwrap();
        let mut out = vec![0; input.len()];
        for at in 0..size {
            for bit in 0..8 {
                packed[at] ^= 1 << bit;
                if let Ok(made) = decode(&packed[..size], &mut out) {
                    assert!(made <= out.len());
                }
                packed[at] ^= 1 << bit;
            }
        }
    }
}
