//! Blosc 1, through c-blosc's functions that take their context with them: no global state, one thread.

use std::ffi::{CStr, CString, c_int};
use std::ops::Range;

use blosc_src as sys;

use super::{Refusal, lz4, snappy};
use crate::failures::{Code, Fault, Outcome};

const HEADER: usize = sys::BLOSC_MIN_HEADER_LENGTH as usize;

// Of frames, as snappy.rs has them.
const VERSIONS: [u8; 2] = [2, 1];
const LZ4: u8 = 1;
const SHUFFLED: u8 = 0x01;
const STORED: u8 = 0x02;
const BIT_SHUFFLED: u8 = 0x04;
const NOT_SPLIT: u8 = 0x10;
const MOST_SPLITS: usize = 16;
const LEAST_SPLIT: usize = 128;

/// Elements are decoded alone where they are at most this part of a block: c-blosc puts the bytes of a whole block together much faster than one after the other.
const FEW: usize = 32;

/// As the codec's configuration says.
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

/// The size that a frame decodes to; None where its header does not agree with its length.
fn decoded_size(input: &[u8]) -> Option<usize> {
    let mut size = 0;
    // SAFETY: at least a header is there, and the call compares the header's length with input.len() before it looks further.
    let valid = input.len() >= HEADER && unsafe { sys::blosc_cbuffer_validate(input.as_ptr().cast(), input.len(), &raw mut size) } == 0;
    valid.then_some(size)
}

/// Nothing is taken from the header but what agrees with the lengths that the caller knows.
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
    let opened = snappy::is_inside(input).then(|| snappy::opened(input).ok_or_else(|| bad("corrupt"))).transpose()?;
    let input = opened.as_deref().unwrap_or(input);
    // SAFETY: validated above, or made with that size: the library reads no more than input.len() and writes no more than `size` bytes, which fit.
    let made = unsafe { sys::blosc_decompress_ctx(input.as_ptr().cast(), out.as_mut_ptr().cast(), size, 1) };
    if usize::try_from(made) != Ok(size) {
        return Err(bad("corrupt, or its compressor is not known"));
    }
    Ok(size)
}

/// The blocks of a frame that is validated.
struct Blocks<'a> {
    frame: &'a [u8],
    size: usize,
    /// Decoded bytes of a block; the last one may have less.
    block: usize,
    typesize: usize,
}

impl<'a> Blocks<'a> {
    fn of(frame: &'a [u8], size: usize) -> Option<Blocks<'a>> {
        let blocks = Blocks { frame, size, block: number(frame, 8)?, typesize: usize::from(frame[3]) };
        (blocks.block > 0 && blocks.typesize > 0).then_some(blocks)
    }

    /// Whether the bytes of its elements are shuffled and each of their planes is an LZ4 stream of its own, in all blocks but a shorter last one.
    fn are_planes(&self) -> bool {
        let flags = self.frame[2];
        self.frame[..2] == VERSIONS
            && flags >> 5 == LZ4
            && flags & (SHUFFLED | STORED | BIT_SHUFFLED | NOT_SPLIT) == SHUFFLED
            && (2..=MOST_SPLITS).contains(&self.typesize)
            && self.block % self.typesize == 0
            && self.block / self.typesize >= LEAST_SPLIT
    }

    /// Decodes these elements of a block of planes, which is not a shorter last one, to their place in `out`. None: something is wrong.
    fn elements(&self, block: usize, elements: Range<usize>, out: &mut [u8]) -> Option<()> {
        let first = HEADER.checked_add(4 * block)?;
        let mut at = number(self.frame, first)?;
        let mut plane = vec![0; elements.end];
        let start = block * self.block + elements.start * self.typesize;
        let places = out.get_mut(start..start + elements.len() * self.typesize)?;
        for byte in 0..self.typesize {
            let stream = self.frame.get(at.checked_add(4)?..)?.get(..number(self.frame, at)?)?;
            at += 4 + stream.len();
            match stream.len() == self.block / self.typesize {
                true => plane.copy_from_slice(&stream[..elements.end]),
                false => lz4::decode_start(stream, &mut plane)?,
            }
            for (place, &value) in places[byte..].iter_mut().step_by(self.typesize).zip(&plane[elements.start..]) {
                *place = value;
            }
        }
        Some(())
    }
}

fn number(frame: &[u8], at: usize) -> Option<usize> {
    let bytes = frame.get(at..)?.first_chunk::<4>()?;
    usize::try_from(i32::from_le_bytes(*bytes)).ok()
}

/// Decodes the bytes in `wanted` to their place in `out`, which has the size of all. Of a block of planes no more is decoded than the elements need, where they are few;
/// other blocks are decoded whole. False where that spares nothing or something is wrong: then all has to be decoded, which says what is wrong.
pub fn decode_part(input: &[u8], out: &mut [u8], wanted: &Range<usize>) -> bool {
    try_part(input, out, wanted).is_some()
}

fn try_part(input: &[u8], out: &mut [u8], wanted: &Range<usize>) -> Option<()> {
    let size = decoded_size(input).filter(|&size| size == out.len())?;
    let blocks = Blocks::of(input, size).filter(|_| !snappy::is_inside(input))?;
    let (first, end) = (wanted.start / blocks.block, wanted.end.div_ceil(blocks.block).max(1));
    let elements = wanted.start / blocks.typesize..wanted.end.div_ceil(blocks.typesize);
    if end - first == 1 && end * blocks.block <= size && blocks.are_planes() && elements.len() <= blocks.block / blocks.typesize / FEW {
        let before = first * blocks.block / blocks.typesize;
        return blocks.elements(first, elements.start - before..elements.end - before, out);
    }
    if end - first == size.div_ceil(blocks.block) || elements.end * blocks.typesize > size {
        return None;
    }
    let places = &mut out[elements.start * blocks.typesize..elements.end * blocks.typesize];
    let (start, count) = (c_int::try_from(elements.start).ok()?, c_int::try_from(elements.len()).ok()?);
    // SAFETY: validated above; the library reads no more than input.len(), and writes `count` elements of the header's type, as many as `places` has.
    let made = unsafe { sys::blosc_getitem(input.as_ptr().cast(), start, count, places.as_mut_ptr().cast()) };
    (usize::try_from(made) == Ok(places.len())).then_some(())
}

impl Blosc {
    pub fn encode(&self, input: &[u8], out: &mut [u8]) -> Outcome<usize> {
        let refused = || Fault::new(Code::Decode, format!("blosc: could not encode {} bytes", input.len()));
        if self.compressor.as_bytes() == b"snappy" {
            let frame = snappy::encode(self.level, self.shuffle, self.typesize, self.blocksize, input).ok_or_else(refused)?;
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
