//! Bytes-to-bytes codecs: their definition, the bounds of their output, and their contexts. One file each; chains are in
//! chain.rs.

use std::ops::Range;

mod blosc;
mod deflate;
mod fletcher32;
mod gdeflate;
mod lz4;
mod shuffle;
mod snappy;
mod zstd;

pub use blosc::{Blosc, version as blosc_version};
pub use deflate::crc32;
use deflate::{Format, Packer, Unpacker};

use crate::failures::{Code, Fault, Outcome};

#[derive(Clone, Debug, PartialEq)]
pub enum Codec {
    Crc32c,
    Fletcher32,
    /// Bytes of an element, above 0.
    Shuffle {
        size: usize,
    },
    Gzip {
        level: i32,
    },
    Zlib {
        level: i32,
    },
    Zstd {
        level: i32,
        checksum: bool,
    },
    Blosc(Blosc),
    Lz4 {
        acceleration: i32,
    },
    Gdeflate {
        level: i32,
    },
}

/// Whether the rest of the call need not be done: checked by codecs that take long (`Threads::ended`).
pub type Ended<'a> = &'a dyn Fn() -> bool;

/// Why a codec could not decode.
pub enum Refusal {
    /// The decoded bytes do not fit into the given room.
    Full,
    Bad(Fault),
}

impl Refusal {
    #[cold]
    fn bad(code: Code, text: impl Into<String>) -> Refusal {
        Refusal::Bad(Fault::new(code, text))
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::Bad(fault)
    }
}

/// Contexts that the libraries keep between calls, created when first needed.
#[derive(Default)]
pub struct Contexts {
    zstd_out: Option<zstd::Decompressor>,
    zstd_in: Option<zstd::Compressor>,
    unpacker: Option<Unpacker>,
    packer: Option<Packer>,
}

/// The context in a slot, created when it is first needed.
fn lazy<T>(slot: &mut Option<T>, create: impl FnOnce() -> Outcome<T>) -> Outcome<&mut T> {
    match slot {
        Some(context) => Ok(context),
        None => Ok(slot.insert(create()?)),
    }
}

impl Codec {
    pub fn name(&self) -> &'static str {
        match self {
            Codec::Crc32c => "crc32c",
            Codec::Fletcher32 => "fletcher32",
            Codec::Shuffle { .. } => "shuffle",
            Codec::Gzip { .. } => "gzip",
            Codec::Zlib { .. } => "zlib",
            Codec::Zstd { .. } => "zstd",
            Codec::Blosc(_) => "blosc",
            Codec::Lz4 { .. } => "lz4",
            Codec::Gdeflate { .. } => "gdeflate",
        }
    }

    /// Whether it only appends a sum of four bytes to the data; the others create new bytes.
    pub fn is_checksum(&self) -> bool {
        matches!(self, Codec::Crc32c | Codec::Fletcher32)
    }

    /// Whether decoding takes much longer than a copy.
    pub fn is_slow(&self) -> bool {
        match self {
            Codec::Crc32c | Codec::Fletcher32 | Codec::Shuffle { .. } | Codec::Lz4 { .. } => false,
            Codec::Blosc(blosc) => blosc.is_slow(),
            Codec::Gzip { .. } | Codec::Zlib { .. } | Codec::Zstd { .. } | Codec::Gdeflate { .. } => true,
        }
    }

    /// Whether encoding 4 KiB takes more than some 50 microseconds: Zstandard's search at high levels, and tables that are made for each chunk.
    pub fn encodes_slowly(&self) -> bool {
        match self {
            Codec::Blosc(blosc) => blosc.encodes_slowly(),
            Codec::Zstd { level, .. } => *level > 9,
            Codec::Gdeflate { .. } => true,
            Codec::Crc32c | Codec::Fletcher32 | Codec::Shuffle { .. } | Codec::Lz4 { .. } | Codec::Gzip { .. } | Codec::Zlib { .. } => {
                false
            }
        }
    }

    /// Whether encoding reads the input twice, once for a checksum. If another thread changes it meanwhile, the result cannot be decoded.
    pub fn sums_input(&self) -> bool {
        matches!(self, Codec::Gzip { .. } | Codec::Zlib { .. } | Codec::Zstd { checksum: true, .. })
    }

    /// Bytes to which `len` bytes are encoded, if that does not depend on their values.
    pub fn exact(&self, len: usize) -> Option<usize> {
        match self {
            Codec::Crc32c | Codec::Fletcher32 => Some(len.saturating_add(4)),
            Codec::Shuffle { .. } => Some(len),
            _ => None,
        }
    }

    /// The checksum of bytes; 0 for other codecs.
    pub fn sum(&self, bytes: &[u8]) -> u32 {
        match self {
            Codec::Crc32c => crc32c::crc32c(bytes),
            Codec::Fletcher32 => fletcher32::sum(bytes),
            _ => 0,
        }
    }

    /// The bytes before a checksum (the last four bytes, little-endian), if it matches them.
    pub fn checked<'a>(&self, input: &'a [u8]) -> Outcome<&'a [u8]> {
        let name = self.name();
        let Some((bytes, sum)) = input.split_last_chunk::<4>() else {
            return Err(Fault::new(Code::Checksum, format!("{name}: {} bytes are too few for a checksum", input.len())));
        };
        let (stored, found) = (u32::from_le_bytes(*sum), self.sum(bytes));
        if stored != found && !(*self == Codec::Fletcher32 && fletcher32::is_variant(bytes, stored)) {
            return Err(Fault::new(Code::Checksum, format!("{name}: stored {stored:08x}, computed {found:08x}")));
        }
        Ok(bytes)
    }

    /// Bytes that encoding `len` bytes can need; None if the codec cannot take that many.
    pub fn bound(&self, len: usize) -> Option<usize> {
        match self {
            Codec::Crc32c | Codec::Fletcher32 => len.checked_add(4),
            Codec::Shuffle { .. } => Some(len),
            Codec::Gzip { .. } => deflate::bound(Format::Gzip, len),
            Codec::Zlib { .. } => deflate::bound(Format::Zlib, len),
            Codec::Zstd { .. } => zstd::bound(len),
            Codec::Blosc(_) => blosc::bound(len),
            Codec::Lz4 { .. } => lz4::bound(len),
            Codec::Gdeflate { .. } => gdeflate::bound(len),
        }
    }

    /// The most encoded bytes of any sane encoder for `len` decoded bytes: longer ones are not even read.
    pub fn most_encoded(&self, len: usize) -> usize {
        self.exact(len).unwrap_or_else(|| len.saturating_mul(8).saturating_add(1 << 20))
    }

    /// Decodes into `out`, which may stay partly unused; returns the number of bytes.
    pub fn decode(&self, contexts: &mut Contexts, input: &[u8], out: &mut [u8]) -> Result<usize, Refusal> {
        match self {
            Codec::Crc32c | Codec::Fletcher32 => {
                let bytes = self.checked(input)?;
                out.get_mut(..bytes.len()).ok_or(Refusal::Full)?.copy_from_slice(bytes);
                Ok(bytes.len())
            }
            Codec::Shuffle { size } => shuffle::decode(*size, input, out),
            Codec::Gzip { .. } => lazy(&mut contexts.unpacker, Unpacker::new)?.decode(Format::Gzip, input, out),
            Codec::Zlib { .. } => lazy(&mut contexts.unpacker, Unpacker::new)?.decode(Format::Zlib, input, out),
            Codec::Zstd { .. } => lazy(&mut contexts.zstd_out, zstd::Decompressor::new)?.decode(input, out),
            Codec::Blosc(_) => blosc::decode(input, out),
            Codec::Lz4 { .. } => lz4::decode(input, out),
            Codec::Gdeflate { .. } => gdeflate::decode(input, out),
        }
    }

    /// Decodes as `decode`, where `out` has the size of the decoded bytes, but only those in `requested` are needed; the others may have any value.
    /// Errors in encoded bytes that are not needed for these are not noticed.
    pub fn decode_part(&self, contexts: &mut Contexts, input: &[u8], out: &mut [u8], requested: &Range<usize>) -> Result<usize, Refusal> {
        let done = match self {
            Codec::Zstd { .. } if requested.end < out.len() => {
                lazy(&mut contexts.zstd_out, zstd::Decompressor::new)?.decode_start(input, out, requested.end)
            }
            Codec::Blosc(_) if requested.len() < out.len() => blosc::decode_part(input, out, requested),
            _ => false,
        };
        if done { Ok(out.len()) } else { self.decode(contexts, input, out) }
    }

    /// Encodes into `out`, which has room for `bound` bytes; returns the number of bytes.
    pub fn encode(&self, contexts: &mut Contexts, input: &[u8], out: &mut [u8], ended: Ended<'_>) -> Outcome<usize> {
        match self {
            Codec::Crc32c | Codec::Fletcher32 => {
                let (bytes, sum) = out.split_at_mut(input.len());
                bytes.copy_from_slice(input);
                sum[..4].copy_from_slice(&self.sum(bytes).to_le_bytes()); // of the copy: another thread may change the input meanwhile
                Ok(input.len() + 4)
            }
            Codec::Shuffle { size } => Ok(shuffle::encode(*size, input, out)),
            Codec::Gzip { level } => Packer::lazy(&mut contexts.packer, *level)?.encode(Format::Gzip, input, out),
            Codec::Zlib { level } => Packer::lazy(&mut contexts.packer, *level)?.encode(Format::Zlib, input, out),
            Codec::Zstd { level, checksum } => {
                lazy(&mut contexts.zstd_in, zstd::Compressor::new)?.encode(*level, *checksum, input, out, ended)
            }
            Codec::Blosc(blosc) => blosc.encode(input, out),
            Codec::Lz4 { acceleration } => lz4::encode(*acceleration, input, out),
            Codec::Gdeflate { level } => gdeflate::encode(Packer::lazy(&mut contexts.packer, *level)?, input, out),
        }
    }
}
