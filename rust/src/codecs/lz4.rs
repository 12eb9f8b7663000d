//! LZ4 blocks after their decoded size, four bytes little-endian: the format of numcodecs.

use std::ffi::{c_char, c_int};

use lz4_sys as sys;

use super::Refusal;
use crate::failures::{Code, Fault, Outcome};

const HEADER: usize = 4;
const MOST: usize = 0x7E00_0000; // the most bytes of one LZ4 block

pub fn bound(len: usize) -> Option<usize> {
    // the library's own bound: a literal run costs one byte in 255, and the last one needs some room
    (len <= MOST).then(|| HEADER + len + len / 255 + 16)
}

pub fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
    let bad = |text: &str| Refusal::bad(Code::Decode, format!("lz4: {text}"));
    let Some((header, block)) = input.split_first_chunk::<HEADER>() else {
        return Err(bad("shorter than its header"));
    };
    let size = u32::from_le_bytes(*header) as usize;
    if c_int::try_from(block.len()).is_err() {
        return Err(bad("a block of 2 GiB or more"));
    }
    if size > MOST || size > block.len().saturating_mul(255) {
        return Err(bad("its header says more bytes than the block can hold"));
    }
    if size > out.len() {
        return Err(Refusal::Full);
    }
    decode_block(block, &mut out[..size]).ok_or_else(|| bad("corrupt, or not of the size that its header says"))?;
    Ok(size)
}

/// Decodes a block without a header to exactly the bytes of `out`; None if it is damaged or of another size.
pub fn decode_block(block: &[u8], out: &mut [u8]) -> Option<()> {
    let (size, room) = (c_int::try_from(block.len()).ok()?, c_int::try_from(out.len()).ok()?);
    // SAFETY: reads `size` bytes of block and writes at most `room` bytes of out.
    let made = unsafe { sys::LZ4_decompress_safe(block.as_ptr().cast(), out.as_mut_ptr().cast(), size, room) };
    (made == room).then_some(())
}

unsafe extern "C" {
    // lz4-sys links it, but does not declare it.
    fn LZ4_decompress_safe_partial(from: *const c_char, to: *mut c_char, from_size: c_int, requested: c_int, room: c_int) -> c_int;
}

/// Decodes the first bytes of a block without a header, as many as `out` has; None if it has fewer, or is damaged in them.
pub fn decode_start(block: &[u8], out: &mut [u8]) -> Option<()> {
    let (size, room) = (c_int::try_from(block.len()).ok()?, c_int::try_from(out.len()).ok()?);
    // SAFETY: reads `size` bytes of block and writes at most `room` bytes of out.
    let made = unsafe { LZ4_decompress_safe_partial(block.as_ptr().cast(), out.as_mut_ptr().cast(), size, room, room) };
    (made == room).then_some(())
}

/// acceleration: larger values are faster and give longer output; below 1 means 1.
pub fn encode(acceleration: i32, input: &[u8], out: &mut [u8]) -> Outcome<usize> {
    let refused = || Fault::new(Code::Decode, format!("lz4: could not encode {} bytes", input.len()));
    let (true, Some((header, room))) = (input.len() <= MOST, out.split_first_chunk_mut::<HEADER>()) else {
        return Err(refused());
    };
    *header = (input.len() as u32).to_le_bytes();
    let room_size = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
    // SAFETY: pointers and lengths are those of the slices; the input is at most MOST, and the output at most room_size.
    let made = unsafe {
        let (from, to) = (input.as_ptr().cast(), room.as_mut_ptr().cast());
        sys::LZ4_compress_fast(from, to, input.len() as c_int, room_size, acceleration)
    };
    match usize::try_from(made) {
        Ok(made) if made > 0 => Ok(HEADER + made),
        _ => Err(refused()),
    }
}
