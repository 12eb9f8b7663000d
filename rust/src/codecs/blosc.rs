//! Blosc 1, through c-blosc's functions that take their context as an argument: no global state, one thread.

use std::ffi::{CStr, CString, c_int};
use std::ops::Range;

use blosc_src as sys;

use super::{Refusal, lz4, snappy};
use crate::failures::{Code, Fault, Outcome};

pub(super) const HEADER: usize = sys::BLOSC_MIN_HEADER_LENGTH as usize;

// Of frames; also for snappy.rs.
const VERSIONS: [u8; 2] = [2, 1];
const LZ4: u8 = 1;
pub(super) const SHUFFLED: u8 = 0x01;
pub(super) const STORED: u8 = 0x02;
pub(super) const BIT_SHUFFLED: u8 = 0x04;
pub(super) const NOT_SPLIT: u8 = 0x10;
pub(super) const MOST_SPLITS: usize = 16;
pub(super) const LEAST_SPLIT: usize = 128;

/// A plane that is this many times as long as its stream has long matches. A match in which LZ4 must stop is copied byte by byte, which takes longer than the
/// whole plane.
const LONG_MATCHES: usize = 8;

/// Elements are decoded separately if they are at most this part of a block: c-blosc decodes a whole block much faster than its elements one after the other.
const FEW: usize = 32;

/// The codec's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Blosc {
    pub compressor: CString,
    pub level: i32,
    pub shuffle: i32,
    pub typesize: usize,
    pub blocksize: usize,
}

pub fn version() -> String {
    // SAFETY: a constant C string of the library.
    unsafe { CStr::from_ptr(sys::blosc_get_version_string()) }.to_string_lossy().into_owned()
}

pub fn bound(len: usize) -> Option<usize> {
    (len <= sys::BLOSC_MAX_BUFFERSIZE as usize).then(|| len + sys::BLOSC_MAX_OVERHEAD as usize)
}

/// The size to which a frame decodes; None if its header does not agree with its length.
fn decoded_size(input: &[u8]) -> Option<usize> {
    let mut size = 0;
    // SAFETY: the input has at least a header, and the call compares the header's length with input.len() before it reads more.
    let valid = input.len() >= HEADER && unsafe { sys::blosc_cbuffer_validate(input.as_ptr().cast(), input.len(), &raw mut size) } == 0;
    valid.then_some(size)
}

/// Uses only values of the header that agree with the lengths that the caller knows.
pub fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
    let bad = |text: &str| Refusal::bad(Code::Decode, format!("blosc: {text}"));
    if input.len() < HEADER {
        return Err(bad("shorter than its header"));
    }
    let Some(size) = decoded_size(input) else {
        return Err(bad("the header does not agree with the length"));
    };
    if size > out.len() {
        return Err(Refusal::Full);
    }
    let mut opened = None;
    if snappy::is_inside(input) {
        let room = snappy::with_room(snappy::opened_bound(input))?;
        opened = Some(snappy::opened(input, room).ok_or_else(|| bad("corrupt"))?);
    }
    let input = opened.as_deref().unwrap_or(input);
    // SAFETY: validated above, or created with that size: the library reads no more than input.len() and writes no more than `size` bytes, which fit.
    let made = unsafe { sys::blosc_decompress_ctx(input.as_ptr().cast(), out.as_mut_ptr().cast(), size, 1) };
    if usize::try_from(made) != Ok(size) {
        return Err(bad("corrupt, or its compressor is not known"));
    }
    Ok(size)
}

/// The blocks of a validated frame.
struct Blocks<'a> {
    frame: &'a [u8],
    /// Decoded bytes of a block, a multiple of the type's size; the last one may have fewer.
    block: usize,
    typesize: usize,
}

impl<'a> Blocks<'a> {
    fn of(frame: &'a [u8]) -> Option<Blocks<'a>> {
        let blocks = Blocks { frame, block: number(frame, 8)?, typesize: usize::from(frame[3]) };
        // If a block does not have whole elements, splitting it leaves out its last bytes: c-blosc's getitem would return old content of its memory.
        (blocks.block > 0 && blocks.typesize > 0 && blocks.block.is_multiple_of(blocks.typesize)).then_some(blocks)
    }

    /// Whether the bytes of its elements are shuffled and each plane is a separate LZ4 stream, in all blocks except a shorter last one.
    fn are_planes(&self) -> bool {
        let flags = self.frame[2];
        self.frame[..2] == VERSIONS
            && flags >> 5 == LZ4
            && flags & (SHUFFLED | STORED | BIT_SHUFFLED | NOT_SPLIT) == SHUFFLED
            && (2..=MOST_SPLITS).contains(&self.typesize)
            && self.block / self.typesize >= LEAST_SPLIT
    }

    /// Decodes these elements of a block of planes, which is not a shorter last one, to their position in `out`. None: an error.
    fn elements(&self, block: usize, elements: Range<usize>, out: &mut [u8]) -> Option<()> {
        let first = HEADER.checked_add(4 * block)?;
        let mut at = number(self.frame, first)?;
        let mut plane = vec![0; self.block / self.typesize];
        let start = block * self.block + elements.start * self.typesize;
        let target = out.get_mut(start..start + elements.len() * self.typesize)?;
        for byte in 0..self.typesize {
            let stream = self.frame.get(at.checked_add(4)?..)?.get(..number(self.frame, at)?)?;
            at += 4 + stream.len();
            match stream.len() {
                stored if stored == plane.len() => plane.copy_from_slice(stream),
                short if short < plane.len() / LONG_MATCHES => lz4::decode_block(stream, &mut plane)?,
                _ => lz4::decode_start(stream, &mut plane[..elements.end])?,
            }
            for (out, &value) in target[byte..].iter_mut().step_by(self.typesize).zip(&plane[elements.start..]) {
                *out = value;
            }
        }
        Some(())
    }
}

/// A number in a frame; None if it is beyond the end, or negative.
pub(super) fn number(frame: &[u8], at: usize) -> Option<usize> {
    let bytes = frame.get(at..)?.first_chunk::<4>()?;
    usize::try_from(i32::from_le_bytes(*bytes)).ok()
}

/// Decodes the bytes in `requested` to their position in `out`, which has the size of all. Of a block of planes only the needed elements are decoded, if they are
/// few; other blocks are decoded whole. False if that saves nothing, or after an error: then everything must be decoded, which reports the error.
pub fn decode_part(input: &[u8], out: &mut [u8], requested: &Range<usize>) -> bool {
    try_part(input, out, requested).is_some()
}

fn try_part(input: &[u8], out: &mut [u8], requested: &Range<usize>) -> Option<()> {
    let size = decoded_size(input).filter(|&size| size == out.len() && !requested.is_empty())?;
    let blocks = Blocks::of(input).filter(|_| !snappy::is_inside(input))?;
    let (first, end) = (requested.start / blocks.block, requested.end.div_ceil(blocks.block).max(1));
    let elements = requested.start / blocks.typesize..requested.end.div_ceil(blocks.typesize);
    if end - first == 1 && end * blocks.block <= size && blocks.are_planes() && elements.len() <= blocks.block / blocks.typesize / FEW {
        let before = first * blocks.block / blocks.typesize;
        return blocks.elements(first, elements.start - before..elements.end - before, out);
    }
    if end - first == size.div_ceil(blocks.block) || elements.end * blocks.typesize > size {
        return None;
    }
    let target = &mut out[elements.start * blocks.typesize..elements.end * blocks.typesize];
    let (start, count) = (c_int::try_from(elements.start).ok()?, c_int::try_from(elements.len()).ok()?);
    // SAFETY: validated above; the library reads no more than input.len(), and writes `count` elements of the header's type, which is the size of `target`.
    let made = unsafe { sys::blosc_getitem(input.as_ptr().cast(), start, count, target.as_mut_ptr().cast()) };
    (usize::try_from(made) == Ok(target.len())).then_some(())
}

impl Blosc {
    /// As Codec::is_slow.
    pub fn is_slow(&self) -> bool {
        matches!(self.compressor.as_bytes(), b"zlib" | b"zstd")
    }

    pub fn encodes_slowly(&self) -> bool {
        match self.compressor.as_bytes() {
            b"zlib" => true,
            b"zstd" => self.level > 5, // Zstandard's level 11 and more
            _ => false,
        }
    }

    pub fn encode(&self, input: &[u8], out: &mut [u8]) -> Outcome<usize> {
        let refused = || Fault::new(Code::Decode, format!("blosc: could not encode {} bytes", input.len()));
        if self.compressor.as_bytes() == b"snappy" {
            let room = snappy::with_room(out.len())?;
            let frame = snappy::encode(room, self.level, self.shuffle, self.typesize, self.blocksize, input).ok_or_else(refused)?;
            out.get_mut(..frame.len()).ok_or_else(refused)?.copy_from_slice(&frame);
            return Ok(frame.len());
        }
        // SAFETY: pointers and lengths are those of the slices; the name is a C string; one thread, no global state.
        let made = unsafe {
            sys::blosc_compress_ctx(
                self.level,
                self.shuffle,
                self.typesize,
                input.len(),
                input.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                out.len(),
                self.compressor.as_ptr(),
                self.blocksize,
                1,
            )
        };
        match usize::try_from(made) {
            Ok(made) if made > 0 => Ok(made),
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 400_003;

    fn data() -> Vec<u8> {
        (0..SIZE as u32 / 8).flat_map(|i| (u64::from(i.wrapping_mul(i) >> 7) << 20).to_le_bytes()).chain([1, 2, 3]).collect()
    }

    fn frames() -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for compressor in [c"lz4", c"lz4hc", c"blosclz", c"zstd", c"zlib", c"snappy"] {
            for (shuffle, typesize, blocksize) in
                [(1, 8, 0), (1, 8, 8192), (1, 2, 70_000), (0, 8, 8192), (2, 8, 8192), (1, 3, 0), (1, 40, 9000)]
            {
                for level in [0, 5] {
                    let blosc = Blosc { compressor: compressor.into(), level, shuffle, typesize, blocksize };
                    let mut out = vec![0; bound(SIZE).unwrap()];
                    let made = blosc.encode(&data(), &mut out).unwrap();
                    out.truncate(made);
                    frames.push(out);
                }
            }
        }
        frames
    }

    fn ranges() -> [Range<usize>; 10] {
        [0..0, 0..1, 0..8192, 8191..8193, 8192..8192, 100_000..100_008, 100_001..100_002, 3..399_000, SIZE - 4..SIZE, 0..SIZE]
    }

    #[test]
    fn the_wanted_bytes_are_those_of_a_whole_decode() {
        let (data, mut parts) = (data(), 0);
        for frame in frames() {
            for requested in ranges() {
                let mut out = vec![0; SIZE];
                if decode_part(&frame, &mut out, &requested) {
                    assert_eq!(out[requested.clone()], data[requested]);
                    parts += 1;
                }
            }
        }
        assert!(parts > 300, "{parts}");
    }

    #[test]
    fn blocks_of_parts_of_elements_are_refused() {
        let (block, typesize, count) = (1000usize, 3u8, 4usize);
        let plane = vec![7; block / usize::from(typesize)];
        let of_block = usize::from(typesize) * (4 + plane.len());
        let mut frame = vec![VERSIONS[0], VERSIONS[1], LZ4 << 5 | SHUFFLED, typesize];
        let numbers = [count * block, block, HEADER + 4 * count + count * of_block];
        let starts = (0..count).map(|i| HEADER + 4 * count + i * of_block);
        frame.extend(numbers.into_iter().chain(starts).flat_map(|number| (number as u32).to_le_bytes()));
        for _ in 0..count * usize::from(typesize) {
            frame.extend((plane.len() as u32).to_le_bytes().iter().chain(&plane));
        }
        let mut out = vec![0; count * block];
        assert!(decode(&frame, &mut out).is_err());
        for requested in [0..1, 990..1000, 998..1003] {
            assert!(!decode_part(&frame, &mut out, &requested));
        }
    }

    #[test]
    fn damaged_frames_never_panic_and_other_sizes_are_refused() {
        for frame in frames() {
            for requested in [0..8192, 8191..8193, 3..399_000, SIZE - 4..SIZE] {
                assert!(!decode_part(&frame, &mut vec![0; SIZE - 1], &(0..1)));
                for at in [0, 1, 2, 3, 5, 9, 13, 16, 17, 20, 21, 40, frame.len() / 2, frame.len() - 1] {
                    let mut damaged = frame.clone();
                    damaged[at] ^= 1 << (at % 8);
                    decode_part(&damaged, &mut vec![0; SIZE], &requested);
                    decode_part(&frame[..at], &mut vec![0; SIZE], &requested);
                }
            }
        }
    }
}
