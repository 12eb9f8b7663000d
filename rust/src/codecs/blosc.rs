//! Blosc 1, through c-blosc's functions that take their context with them: no global state, one thread.

use std::ffi::{CStr, CString};

use blosc_src as sys;

use super::{Refusal, snappy};
use crate::failures::{Code, Fault, Outcome};

const HEADER: usize = sys::BLOSC_MIN_HEADER_LENGTH as usize;

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

/// Nothing is taken from the header but what agrees with the lengths that the caller knows.
pub fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
    let bad = |text: &str| Refusal::bad(Code::Decode, format!("blosc: {text}"));
    if input.len() < HEADER {
        return Err(bad("shorter than its header"));
    }
    let mut size = 0;
    // SAFETY: at least a header is there, and the call compares the header's length with input.len() before it looks further.
    if unsafe { sys::blosc_cbuffer_validate(input.as_ptr().cast(), input.len(), &raw mut size) } != 0 {
        return Err(bad("the header does not agree with the length"));
    }
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
