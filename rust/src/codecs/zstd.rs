//! Zstandard (RFC 8878), through libzstd.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use zstd_sys::{self as sys, ZSTD_EndDirective, ZSTD_ErrorCode, ZSTD_ResetDirective, ZSTD_cParameter};

use super::{Ended, Refusal, lazy};
use crate::failures::{Code, Fault, Outcome};

/// Bytes that libzstd compresses as one block, and the step after which a long call checks whether it has ended.
const BLOCK: usize = 128 << 10;
/// Levels from here on take up to 100 milliseconds for a block: larger inputs are encoded in steps. At lower levels steps begin at this many bytes.
const SLOW_LEVEL: i32 = 13;
const LARGE: usize = 1 << 20;

pub fn bound(len: usize) -> Option<usize> {
    // Above this libzstd returns an error code.
    (len < usize::MAX / 256).then(|| zstd_safe::compress_bound(len))
}

/// A decompression context.
pub struct Decompressor(NonNull<sys::ZSTD_DCtx>);

// SAFETY: libzstd does not bind a context to a thread; the type is used only through `&mut`.
unsafe impl Send for Decompressor {}

impl Decompressor {
    pub fn new() -> Outcome<Decompressor> {
        // SAFETY: no arguments; null means out of memory.
        NonNull::new(unsafe { sys::ZSTD_createDCtx() }).map(Decompressor).ok_or_else(no_memory)
    }

    /// Decodes any number of frames, also skippable ones, with or without their content size in the header.
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
        // SAFETY: the context is live; pointers and lengths are those of the slices.
        let made =
            unsafe { sys::ZSTD_decompressDCtx(self.0.as_ptr(), out.as_mut_ptr().cast(), out.len(), input.as_ptr().cast(), input.len()) };
        match failed(made) {
            false => Ok(made),
            true if made.wrapping_neg() == ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize => Err(Refusal::Full),
            true => {
                let checksum = made.wrapping_neg() == ZSTD_ErrorCode::ZSTD_error_checksum_wrong as usize;
                let code = if checksum { Code::Checksum } else { Code::Decode };
                Err(Refusal::bad(code, format!("zstd: {}", zstd_safe::get_error_name(made))))
            }
        }
    }

    /// Decodes blocks (of at most 128 KiB each) until the first `needed` bytes of `out` are decoded. False if the header does not state that the frame decodes
    /// to exactly `out`, if the frame has a checksum, which covers all bytes, or after an error: then the whole frame must be decoded, which reports the error.
    pub fn decode_start(&mut self, input: &[u8], out: &mut [u8], needed: usize) -> bool {
        let mut header = MaybeUninit::<sys::ZSTD_FrameHeader>::uninit();
        // SAFETY: pointer and length are those of the slice; the header is filled if the result is 0.
        let header = unsafe {
            if sys::ZSTD_getFrameHeader(header.as_mut_ptr(), input.as_ptr().cast(), input.len()) != 0 {
                return false;
            }
            header.assume_init()
        };
        let is_frame = header.frameType == sys::ZSTD_FrameType_e::ZSTD_frame;
        if !is_frame || header.frameContentSize != out.len() as u64 || header.checksumFlag != 0 || header.dictID != 0 {
            return false;
        }
        // SAFETY: the context is live.
        if failed(unsafe { sys::ZSTD_decompressBegin(self.0.as_ptr()) }) {
            return false;
        }
        let (mut at, mut made) = (0, 0);
        while made < needed {
            // SAFETY: the context is live and has begun.
            let next = unsafe { sys::ZSTD_nextSrcSizeToDecompress(self.0.as_ptr()) };
            let Some(part) = input.get(at..).and_then(|rest| rest.get(..next)).filter(|part| !part.is_empty()) else {
                return false;
            };
            let room = &mut out[made..];
            // SAFETY: pointers and lengths are those of the slices; the bytes decoded before are right before `room`, where blocks refer to them.
            let decoded = unsafe {
                sys::ZSTD_decompressContinue(self.0.as_ptr(), room.as_mut_ptr().cast(), room.len(), part.as_ptr().cast(), part.len())
            };
            if failed(decoded) || decoded > room.len() {
                return false;
            }
            (at, made) = (at + next, made + decoded);
        }
        true
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: it is live, and not used elsewhere.
        unsafe { sys::ZSTD_freeDCtx(self.0.as_ptr()) };
    }
}

fn failed(answer: usize) -> bool {
    // SAFETY: takes a number.
    unsafe { sys::ZSTD_isError(answer) != 0 }
}

#[cold]
fn no_memory() -> Fault {
    Fault::new(Code::Io, "12 zstd: no memory for a context")
}

/// A compression context and its settings.
pub struct Compressor {
    context: NonNull<sys::ZSTD_CCtx>,
    /// Level, and whether frames end in a checksum; None before they are set.
    settings: Option<(i32, bool)>,
}

// SAFETY: as for Decompressor.
unsafe impl Send for Compressor {}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: it is live, and not used elsewhere.
        unsafe { sys::ZSTD_freeCCtx(self.context.as_ptr()) };
    }
}

impl Compressor {
    pub fn lazy(slot: &mut Option<Compressor>, level: i32, checksum: bool) -> Outcome<&mut Compressor> {
        let compressor = lazy(slot, || {
            // SAFETY: no arguments; null means out of memory.
            let context = NonNull::new(unsafe { sys::ZSTD_createCCtx() }).ok_or_else(no_memory)?;
            Ok(Compressor { context, settings: None })
        })?;
        if compressor.settings != Some((level, checksum)) {
            compressor.set(level, checksum)?;
        }
        Ok(compressor)
    }

    fn set(&mut self, level: i32, checksum: bool) -> Outcome {
        let context = self.context.as_ptr();
        // SAFETY: the context is live; the others are numbers. Parameter 9 is ZSTD_c_stableInBuffer: the input is read in place, not copied first.
        unsafe {
            done(sys::ZSTD_CCtx_reset(context, ZSTD_ResetDirective::ZSTD_reset_session_and_parameters))?;
            done(sys::ZSTD_CCtx_setParameter(context, ZSTD_cParameter::ZSTD_c_compressionLevel, level))?;
            done(sys::ZSTD_CCtx_setParameter(context, ZSTD_cParameter::ZSTD_c_checksumFlag, checksum.into()))?;
            done(sys::ZSTD_CCtx_setParameter(context, ZSTD_cParameter::ZSTD_c_experimentalParam9, 1))?;
        }
        self.settings = Some((level, checksum));
        Ok(())
    }

    /// One frame with its content size in the header.
    pub fn encode(&mut self, input: &[u8], out: &mut [u8], ended: Ended<'_>) -> Outcome<usize> {
        let is_slow = self.settings.is_some_and(|(level, _)| level >= SLOW_LEVEL);
        if input.len() > if is_slow { BLOCK } else { LARGE } {
            return self.encode_in_steps(input, out, ended);
        }
        let (to, from) = (out.as_mut_ptr().cast(), input.as_ptr().cast());
        // SAFETY: the context is live; pointers and lengths are those of the slices.
        done(unsafe { sys::ZSTD_compress2(self.context.as_ptr(), to, out.len(), from, input.len()) })
    }

    /// The same, block by block, until the call has ended.
    fn encode_in_steps(&mut self, input: &[u8], out: &mut [u8], ended: Ended<'_>) -> Outcome<usize> {
        let context = self.context.as_ptr();
        // SAFETY: the context is live. A call that ended may have left it in the middle of a frame.
        unsafe {
            done(sys::ZSTD_CCtx_reset(context, ZSTD_ResetDirective::ZSTD_reset_session_only))?;
            done(sys::ZSTD_CCtx_setPledgedSrcSize(context, input.len() as u64))?;
        }
        let mut from = sys::ZSTD_inBuffer { src: input.as_ptr().cast(), size: 0, pos: 0 };
        let mut to = sys::ZSTD_outBuffer { dst: out.as_mut_ptr().cast(), size: out.len(), pos: 0 };
        loop {
            if ended() {
                return Err(Fault::new(Code::Encode, "zstd: interrupted"));
            }
            from.size = input.len().min(from.size + BLOCK);
            let last = from.size == input.len();
            let directive = if last { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue };
            // SAFETY: the context is live; the buffers are parts of the slices, and the input keeps its place and value between the calls.
            let left = done(unsafe { sys::ZSTD_compressStream2(context, &raw mut to, &raw mut from, directive) })?;
            if last {
                return if left == 0 { Ok(to.pos) } else { Err(Fault::new(Code::Decode, "zstd: the room is too small")) };
            }
        }
    }
}

/// The result of a call, unless it is an error.
fn done(answer: usize) -> Outcome<usize> {
    if failed(answer) {
        return Err(Fault::new(Code::Decode, format!("zstd: {}", zstd_safe::get_error_name(answer))));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(data: &[u8], checksum: bool) -> Vec<u8> {
        let mut slot = None;
        let mut out = vec![0; bound(data.len()).unwrap()];
        let made = Compressor::lazy(&mut slot, 3, checksum).unwrap().encode(data, &mut out, &|| false).unwrap();
        out.truncate(made);
        out
    }

    #[test]
    fn the_start_is_decoded_without_the_rest() {
        let data: Vec<u8> = (0..500_000u32).map(|i| (i.wrapping_mul(i) >> 9) as u8 ^ (i / 3000) as u8).collect();
        let (mut context, mut frame) = (Decompressor::new().unwrap(), encoded(&data, false));
        let last = frame.len() - 1;
        for needed in [0, 1, 1000, 131_072, 131_073, 400_000, 499_999] {
            let mut out = vec![0; data.len()];
            assert!(context.decode_start(&frame, &mut out, needed));
            assert_eq!(out[..needed], data[..needed]);
        }
        frame.truncate(last); // of the last block
        let mut out = vec![0; data.len()];
        assert!(context.decode_start(&frame, &mut out, 100_000));
        assert_eq!(out[..100_000], data[..100_000]);
        assert!(!context.decode_start(&frame, &mut out, 499_999));
        assert!(!context.decode_start(&frame[..4], &mut out, 1));
        assert!(!context.decode_start(&frame[..20], &mut out, 1));
    }

    #[test]
    fn a_large_chunk_is_one_frame_of_its_size_and_ends_early() {
        let data: Vec<u8> = (0..(3 << 20) + 12_345u32).map(|i| (i.wrapping_mul(i) >> 11) as u8 & 15).collect();
        for (level, checksum) in [(-3, true), (3, false), (9, true), (13, false), (19, true)] {
            let mut slot = None;
            let context = Compressor::lazy(&mut slot, level, checksum).unwrap();
            let (mut whole, mut out) = (vec![0; bound(data.len()).unwrap()], vec![0; bound(data.len()).unwrap()]);
            let (to, from) = (whole.as_mut_ptr().cast(), data.as_ptr().cast());
            // SAFETY: as in encode.
            let size = done(unsafe { sys::ZSTD_compress2(context.context.as_ptr(), to, whole.len(), from, data.len()) }).unwrap();
            let steps = std::cell::Cell::new(0);
            let ended = || steps.replace(steps.get() + 1) == 3;
            assert!(context.encode(&data, &mut out, &ended).is_err());
            assert_eq!(steps.get(), 4);
            let made = context.encode(&data, &mut out, &|| false).unwrap();
            assert!(made <= size + size / 1000, "level {level}: {made} bytes instead of {size}");
            let (mut context, mut decoded) = (Decompressor::new().unwrap(), vec![0; data.len()]);
            assert!(context.decode(&out[..made], &mut decoded).is_ok_and(|size| size == data.len()));
            assert!(decoded == data);
            assert_eq!(context.decode_start(&out[..made], &mut decoded, 1), !checksum);
        }
    }

    #[test]
    fn frames_of_another_size_or_with_a_checksum_are_decoded_whole() {
        let (data, mut context) = (vec![7; 300_000], Decompressor::new().unwrap());
        assert!(!context.decode_start(&encoded(&data, true), &mut vec![0; 300_000], 10));
        assert!(!context.decode_start(&encoded(&data, false), &mut vec![0; 300_001], 10));
        assert!(!context.decode_start(&encoded(&data[1..], false), &mut vec![0; 300_000], 10));
        assert!(context.decode_start(&encoded(&data, false), &mut vec![0; 300_000], 10));
    }
}
