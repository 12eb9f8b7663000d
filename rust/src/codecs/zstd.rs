//! Zstandard (RFC 8878), through libzstd.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use zstd_safe::{CCtx, CParameter, ResetDirective};
use zstd_sys::{self as sys, ZSTD_ErrorCode};

use super::Refusal;
use crate::failures::{Code, Fault, Outcome};

pub fn bound(len: usize) -> Option<usize> {
    // Above this libzstd answers with an error code.
    (len < usize::MAX / 256).then(|| zstd_safe::compress_bound(len))
}

/// A decompression context.
pub struct Decompressor(NonNull<sys::ZSTD_DCtx>);

// SAFETY: libzstd binds a context to no thread; the type is used through `&mut` alone.
unsafe impl Send for Decompressor {}

impl Decompressor {
    pub fn lazy(slot: &mut Option<Decompressor>) -> Outcome<&mut Decompressor> {
        match slot {
            Some(known) => Ok(known),
            None => {
                // SAFETY: no arguments; null where there is no memory.
                let made = NonNull::new(unsafe { sys::ZSTD_createDCtx() }).ok_or_else(no_memory)?;
                Ok(slot.insert(Decompressor(made)))
            }
        }
    }

    /// Decodes any number of frames, skippable ones among them, with or without their content size in the header.
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
        // SAFETY: the context lives; pointers and lengths are those of the slices.
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

    /// Decodes blocks (of at most 128 KiB each) until the first `needed` bytes of `out` are there. False where the frame does not say that it decodes to precisely
    /// `out`, has a checksum, which is of all bytes, or cannot be decoded so: then all of it has to be decoded, which says what is wrong.
    pub fn decode_start(&mut self, input: &[u8], out: &mut [u8], needed: usize) -> bool {
        let mut header = MaybeUninit::<sys::ZSTD_FrameHeader>::uninit();
        // SAFETY: pointer and length are those of the slice; the header is filled where the answer is 0.
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
        // SAFETY: the context lives.
        if failed(unsafe { sys::ZSTD_decompressBegin(self.0.as_ptr()) }) {
            return false;
        }
        let (mut at, mut made) = (0, 0);
        while made < needed {
            // SAFETY: the context lives and has begun.
            let next = unsafe { sys::ZSTD_nextSrcSizeToDecompress(self.0.as_ptr()) };
            let Some(part) = input.get(at..).and_then(|rest| rest.get(..next)).filter(|part| !part.is_empty()) else {
                return false;
            };
            let room = &mut out[made..];
            // SAFETY: pointers and lengths are those of the slices; what was decoded before lies right before `room`, where blocks refer to it.
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
        // SAFETY: it lives, and nobody else has it.
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

/// A compression context and what it is set to.
pub struct Compressor {
    context: CCtx<'static>,
    level: i32,
    checksum: bool,
}

impl Compressor {
    pub fn lazy(slot: &mut Option<Compressor>, level: i32, checksum: bool) -> Outcome<&mut Compressor> {
        if let Some(known) = slot
            && (known.level, known.checksum) != (level, checksum)
        {
            known.set(level, checksum)?;
        }
        match slot {
            Some(known) => Ok(known),
            None => {
                let mut made = Compressor { context: CCtx::try_create().ok_or_else(no_memory)?, level, checksum };
                made.set(level, checksum)?;
                Ok(slot.insert(made))
            }
        }
    }

    fn set(&mut self, level: i32, checksum: bool) -> Outcome {
        self.context.reset(ResetDirective::SessionAndParameters).map_err(refused)?;
        self.context.set_parameter(CParameter::CompressionLevel(level)).map_err(refused)?;
        self.context.set_parameter(CParameter::ChecksumFlag(checksum)).map_err(refused)?;
        (self.level, self.checksum) = (level, checksum);
        Ok(())
    }

    /// One frame with its content size in the header.
    pub fn encode(&mut self, input: &[u8], out: &mut [u8]) -> Outcome<usize> {
        self.context.compress2(out, input).map_err(refused)
    }
}

#[cold]
fn refused(error: usize) -> Fault {
    Fault::new(Code::Decode, format!("zstd: {}", zstd_safe::get_error_name(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(data: &[u8], checksum: bool) -> Vec<u8> {
        let mut slot = None;
        let mut out = vec![0; bound(data.len()).unwrap()];
        let made = Compressor::lazy(&mut slot, 3, checksum).unwrap().encode(data, &mut out).unwrap();
        out.truncate(made);
        out
    }

    #[test]
    fn the_start_is_decoded_without_the_rest() {
        let data: Vec<u8> = (0..500_000u32).map(|i| (i.wrapping_mul(i) >> 9) as u8 ^ (i / 3000) as u8).collect();
        let (mut slot, mut frame) = (None, encoded(&data, false));
        let context = Decompressor::lazy(&mut slot).unwrap();
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
    fn frames_of_another_size_or_with_a_checksum_are_decoded_whole() {
        let (data, mut slot) = (vec![7; 300_000], None);
        let context = Decompressor::lazy(&mut slot).unwrap();
        assert!(!context.decode_start(&encoded(&data, true), &mut vec![0; 300_000], 10));
        assert!(!context.decode_start(&encoded(&data, false), &mut vec![0; 300_001], 10));
        assert!(!context.decode_start(&encoded(&data[1..], false), &mut vec![0; 300_000], 10));
        assert!(context.decode_start(&encoded(&data, false), &mut vec![0; 300_000], 10));
    }
}
