//! Zstandard (RFC 8878), through libzstd.

use zstd_safe::{CCtx, CParameter, DCtx, ResetDirective};
use zstd_sys::ZSTD_ErrorCode;

use super::Refusal;
use crate::failures::{Code, Fault, Outcome};

pub fn bound(len: usize) -> Option<usize> {
    // Above this libzstd answers with an error code.
    (len < usize::MAX / 256).then(|| zstd_safe::compress_bound(len))
}

/// Decodes any number of frames, skippable ones among them, with or without their content size in the header.
pub fn decode(context: &mut Option<DCtx<'static>>, input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
    let context = match context {
        Some(context) => context,
        None => context.insert(DCtx::try_create().ok_or_else(no_memory)?),
    };
    context.decompress(out, input).map_err(|error| {
        const FULL: ZSTD_ErrorCode = ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall;
        const CHECKSUM: ZSTD_ErrorCode = ZSTD_ErrorCode::ZSTD_error_checksum_wrong;
        let number = error.wrapping_neg();
        if number == FULL as usize {
            return Refusal::Full;
        }
        let code = if number == CHECKSUM as usize { Code::Checksum } else { Code::Decode };
        Refusal::bad(code, format!("zstd: {}", zstd_safe::get_error_name(error)))
    })
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
