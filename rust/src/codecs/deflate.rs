//! gzip (RFC 1952), zlib (RFC 1950), and the bare DEFLATE (RFC 1951) used by GDeflate, through libdeflate.

use std::ptr::NonNull;

use libdeflate_sys as sys;

use super::{Refusal, lazy};
use crate::failures::{Code, Fault, Outcome};

#[derive(Clone, Copy, PartialEq)]
pub enum Format {
    Gzip,
    Zlib,
    Deflate,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Gzip => "gzip",
            Format::Zlib => "zlib",
            Format::Deflate => "deflate",
        }
    }
}

pub fn bound(format: Format, len: usize) -> Option<usize> {
    if len > usize::MAX / 4 {
        return None;
    }
    // SAFETY: a null compressor requests the bound of every level; nothing is dereferenced.
    Some(unsafe {
        match format {
            Format::Gzip => sys::libdeflate_gzip_compress_bound(std::ptr::null_mut(), len),
            Format::Zlib => sys::libdeflate_zlib_compress_bound(std::ptr::null_mut(), len),
            Format::Deflate => sys::libdeflate_deflate_compress_bound(std::ptr::null_mut(), len),
        }
    })
}

#[cold]
fn no_memory() -> Fault {
    Fault::new(Code::Io, "12 libdeflate: no memory")
}

/// The checksum of gzip and zip.
pub fn crc32(bytes: &[u8]) -> u32 {
    // SAFETY: the pointer and the length are those of a slice.
    unsafe { sys::libdeflate_crc32(0, bytes.as_ptr().cast(), bytes.len()) }
}

pub struct Unpacker(NonNull<sys::libdeflate_decompressor>);

// SAFETY: a decompressor is plain memory that is not bound to a thread.
unsafe impl Send for Unpacker {}

impl Drop for Unpacker {
    fn drop(&mut self) {
        // SAFETY: created by libdeflate, freed once.
        unsafe { sys::libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

impl Unpacker {
    pub fn new() -> Outcome<Unpacker> {
        // SAFETY: no arguments; null means out of memory.
        NonNull::new(unsafe { sys::libdeflate_alloc_decompressor() }).map(Unpacker).ok_or_else(no_memory)
    }

    /// All members of a gzip file, one after the other (zero bytes may follow the last), or one zlib stream.
    pub fn decode(&mut self, format: Format, input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
        let (mut used, mut made) = (0, 0);
        loop {
            let (eaten, grown) = self.member(format, &input[used..], &mut out[made..])?;
            (used, made) = (used + eaten, made + grown);
            let rest = &input[used..];
            if rest.is_empty() || (format == Format::Gzip && rest.iter().all(|&byte| byte == 0)) {
                return Ok(made);
            }
            if format != Format::Gzip {
                return Err(Refusal::bad(Code::Decode, format!("{}: {} bytes follow the stream", format.name(), rest.len())));
            }
        }
    }

    fn member(&mut self, format: Format, input: &[u8], out: &mut [u8]) -> Result<(usize, usize), Refusal> {
        let (mut used, mut made) = (0, 0);
        let call = match format {
            Format::Gzip => sys::libdeflate_gzip_decompress_ex,
            Format::Zlib => sys::libdeflate_zlib_decompress_ex,
            Format::Deflate => sys::libdeflate_deflate_decompress_ex,
        };
        // SAFETY: the decompressor is live and ours alone (&mut self); pointers and lengths are those of the slices.
        let answer = unsafe {
            let (from, to) = (input.as_ptr().cast(), out.as_mut_ptr().cast());
            call(self.0.as_ptr(), from, input.len(), to, out.len(), &raw mut used, &raw mut made)
        };
        match answer {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS if used > 0 && used <= input.len() && made <= out.len() => Ok((used, made)),
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Err(Refusal::Full),
            _ => Err(Refusal::bad(Code::Decode, format!("{}: corrupt, cut short, or its checksum does not match", format.name()))),
        }
    }
}

/// A compressor and its level.
pub struct Packer(NonNull<sys::libdeflate_compressor>, i32);

// SAFETY: as for Unpacker.
unsafe impl Send for Packer {}

impl Drop for Packer {
    fn drop(&mut self) {
        // SAFETY: created by libdeflate, freed once.
        unsafe { sys::libdeflate_free_compressor(self.0.as_ptr()) }
    }
}

impl Packer {
    pub fn lazy(slot: &mut Option<Packer>, level: i32) -> Outcome<&mut Packer> {
        if slot.as_ref().is_some_and(|known| known.1 != level) {
            *slot = None;
        }
        lazy(slot, || {
            // SAFETY: takes a number; null means out of memory, or an invalid level.
            let made = NonNull::new(unsafe { sys::libdeflate_alloc_compressor(level) }).ok_or_else(no_memory)?;
            Ok(Packer(made, level))
        })
    }

    /// One member without name or time, or one stream.
    pub fn encode(&mut self, format: Format, input: &[u8], out: &mut [u8]) -> Outcome<usize> {
        let call = match format {
            Format::Gzip => sys::libdeflate_gzip_compress,
            Format::Zlib => sys::libdeflate_zlib_compress,
            Format::Deflate => sys::libdeflate_deflate_compress,
        };
        // SAFETY: as in Unpacker::member.
        let made = unsafe { call(self.0.as_ptr(), input.as_ptr().cast(), input.len(), out.as_mut_ptr().cast(), out.len()) };
        if made == 0 {
            return Err(Fault::new(Code::Decode, format!("{}: could not encode {} bytes", format.name(), input.len())));
        }
        Ok(made)
    }
}
