//! Chains of bytes-to-bytes codecs: the bounds of each stage, decoding and encoding through scratch.

use std::ffi::CString;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::codecs::{Blosc, Codec, Contexts, Ended, Refusal};
use crate::columns::wrong;
use crate::failures::{Code, Fault, Outcome};
use crate::memory::{Growing, Memory};
use crate::threads::FEW;

/// The number of bytes to which a stage of a chain decodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    Exactly(usize),
    AtMost(usize),
}

/// All bytes are requested.
pub const ALL: Range<usize> = 0..usize::MAX;

/// Contexts of the codecs, and scratch for the bytes between two of them.
#[derive(Default)]
pub struct Tools {
    contexts: Contexts,
    pub stages: [Memory; 2],
}

/// Where the last stage of decoding puts its bytes.
pub enum Target<'a> {
    /// In scratch, or nowhere if the codecs only remove bytes at the end; bytes outside of this range may have any value.
    Anywhere(Range<usize>),
    /// Here; the size must be that of the slice.
    Slice(&'a mut [u8]),
    /// Here, grown as needed.
    Memory(&'a mut Memory),
}

/// The place of the decoded bytes.
#[derive(Clone)]
pub enum Decoded {
    Input(Range<usize>),
    Stage(usize, Range<usize>),
    Target(usize),
}

impl Decoded {
    /// The bytes; none if they are in the target.
    fn bytes<'a>(&self, stages: &'a [Memory; 2], input: &'a [u8]) -> &'a [u8] {
        match self {
            Decoded::Input(range) => &input[range.clone()],
            Decoded::Stage(number, range) => &stages[*number].bytes()[range.clone()],
            Decoded::Target(_) => &[],
        }
    }

    /// The bytes, the scratch for those of the next codec, and its number.
    fn next<'a>(&self, [one, two]: &'a mut [Memory; 2], input: &'a [u8]) -> (&'a [u8], &'a mut Memory, usize) {
        match self {
            Decoded::Stage(0, range) => (&one.bytes()[range.clone()], two, 1),
            Decoded::Stage(_, range) => (&two.bytes()[range.clone()], one, 0),
            Decoded::Input(range) => (&input[range.clone()], one, 0),
            Decoded::Target(_) => (&[], one, 0),
        }
    }
}

pub struct Chain {
    codecs: Vec<Codec>, // in the order of encoding
}

impl Chain {
    pub fn parse(codecs: &Bound<'_, PyAny>) -> PyResult<Chain> {
        Ok(Chain { codecs: codecs.try_iter()?.map(|codec| parse_codec(&codec?)).collect::<PyResult<_>>()? })
    }

    pub fn is_empty(&self) -> bool {
        self.codecs.is_empty()
    }

    /// Whether decoding takes much longer than a copy.
    pub fn is_slow(&self) -> bool {
        self.codecs.iter().any(Codec::is_slow)
    }

    /// As Codec::sums_input, for the input of the chain.
    pub fn sums_input(&self) -> bool {
        self.codecs.first().is_some_and(Codec::sums_input)
    }

    /// The bytes of work that encodes these bytes of some items, as threads::detached takes them.
    pub fn encoding_work(&self, items: usize, bytes: usize) -> usize {
        if items > FEW || self.codecs.iter().any(Codec::encodes_slowly) { usize::MAX } else { bytes }
    }

    /// Whether the first codec creates new decoded bytes, so that they can be put anywhere at no cost.
    pub fn makes_bytes(&self) -> bool {
        self.codecs.first().is_some_and(|codec| !codec.is_checksum())
    }

    /// The sizes to which codec i decodes (sizes[i]) for a whole of `whole`; the last is that of the encoded bytes.
    pub fn sizes(&self, whole: Size) -> Vec<Size> {
        let mut sizes = vec![whole];
        for codec in &self.codecs {
            let (Size::Exactly(size) | Size::AtMost(size)) = sizes[sizes.len() - 1];
            sizes.push(match (codec.exact(size), sizes[sizes.len() - 1]) {
                (Some(size), Size::Exactly(_)) => Size::Exactly(size),
                _ => Size::AtMost(codec.most_encoded(size)),
            });
        }
        sizes
    }

    /// Room that encoding `len` bytes can need; None if a codec cannot take that many.
    pub fn bound(&self, len: usize) -> Option<usize> {
        self.codecs.iter().try_fold(len, |len, codec| codec.bound(len))
    }

    /// Undoes the codecs; `sizes` is the result of `sizes()`.
    pub fn decode(&self, tools: &mut Tools, input: &[u8], sizes: &[Size], mut target: Target<'_>) -> Outcome<Decoded> {
        check_size(input.len(), sizes[self.codecs.len()])?;
        let mut at = Decoded::Input(0..input.len());
        for (i, codec) in self.codecs.iter().enumerate().rev() {
            let (bytes, stage, number) = at.next(&mut tools.stages, input);
            if codec.is_checksum() {
                let len = codec.checked(bytes)?.len();
                check_size(len, sizes[i])?;
                if let Decoded::Stage(_, range) | Decoded::Input(range) = &mut at {
                    range.end = range.start + len;
                }
                continue;
            }
            at = match &mut target {
                Target::Slice(out) if i == 0 => Decoded::Target(exactly(codec, &mut tools.contexts, bytes, out)?),
                Target::Anywhere(requested) if i == 0 => {
                    Decoded::Stage(number, 0..part(codec, &mut tools.contexts, bytes, sizes[i], stage, requested)?)
                }
                Target::Memory(memory) if i == 0 => Decoded::Target(within(codec, &mut tools.contexts, bytes, sizes[i], memory)?),
                _ => Decoded::Stage(number, 0..within(codec, &mut tools.contexts, bytes, sizes[i], stage)?),
            };
        }
        if matches!(at, Decoded::Target(_)) {
            return Ok(at);
        }
        let bytes = at.bytes(&tools.stages, input);
        match target {
            Target::Anywhere(_) => return Ok(at),
            Target::Slice(out) if out.len() == bytes.len() => out.copy_from_slice(bytes),
            Target::Slice(out) => return Err(other_size(bytes.len(), out.len())),
            Target::Memory(memory) => memory.room(bytes.len())?.copy_from_slice(bytes),
        }
        Ok(Decoded::Target(bytes.len()))
    }

    /// Decodes to bytes in the input or in scratch; those outside of `requested` may have any value.
    pub fn view<'a>(&self, tools: &'a mut Tools, input: &'a [u8], sizes: &[Size], requested: Range<usize>) -> Outcome<&'a [u8]> {
        let at = self.decode(tools, input, sizes, Target::Anywhere(requested))?;
        Ok(at.bytes(&tools.stages, input))
    }

    /// Applies the codecs and appends the result; returns the number of bytes. If a codec refuses, that is a failure of encoding, not of the stored bytes.
    pub fn encode(&self, tools: &mut Tools, input: &[u8], out: &mut Growing, ended: Ended<'_>) -> Outcome<usize> {
        self.encode_all(tools, input, out, ended).map_err(|fault| match fault.code {
            Code::Io => fault, // there is no memory
            _ => Fault { code: Code::Encode, ..fault },
        })
    }

    fn encode_all(&self, tools: &mut Tools, input: &[u8], out: &mut Growing, ended: Ended<'_>) -> Outcome<usize> {
        let start = out.len();
        let last = self.codecs.iter().rposition(|codec| !codec.is_checksum());
        let mut at = Decoded::Input(0..input.len());
        for codec in &self.codecs[..last.unwrap_or(0)] {
            let (bytes, stage, number) = at.next(&mut tools.stages, input);
            let room = stage.room(bound(codec, bytes.len())?)?;
            at = Decoded::Stage(number, 0..codec.encode(&mut tools.contexts, bytes, room, ended)?);
        }
        let bytes = at.bytes(&tools.stages, input);
        match last {
            Some(last) => {
                let codec = &self.codecs[last];
                let made = codec.encode(&mut tools.contexts, bytes, out.tail(bound(codec, bytes.len())?)?, ended)?;
                out.advance(made);
            }
            None => out.append(bytes)?,
        }
        for checksum in &self.codecs[last.map_or(0, |last| last + 1)..] {
            let sum = checksum.sum(&out.bytes()[start..]);
            out.append(&sum.to_le_bytes())?;
        }
        Ok(out.len() - start)
    }
}

fn bound(codec: &Codec, len: usize) -> Outcome<usize> {
    codec.bound(len).ok_or_else(|| Fault::new(Code::Encode, format!("{}: {len} bytes are more than it can take", codec.name())))
}

#[cold]
fn other_size(found: usize, expected: usize) -> Fault {
    Fault::new(Code::Size, format!("{found} bytes where {expected} are expected"))
}

pub fn check_size(found: usize, expected: Size) -> Outcome {
    match expected {
        Size::Exactly(size) if found != size => Err(other_size(found, size)),
        Size::AtMost(size) if found > size => Err(Fault::new(Code::Size, format!("{found} bytes where at most {size} are expected"))),
        _ => Ok(()),
    }
}

/// Decodes to exactly the bytes of `out`.
fn exactly(codec: &Codec, contexts: &mut Contexts, input: &[u8], out: &mut [u8]) -> Outcome<usize> {
    part_of(codec, contexts, input, out, &ALL)
}

/// As `within`, if only the bytes in `requested` are needed: only as many as these require are decoded.
fn part(codec: &Codec, contexts: &mut Contexts, input: &[u8], size: Size, memory: &mut Memory, requested: &Range<usize>) -> Outcome<usize> {
    match size {
        Size::Exactly(exact) if requested.end <= exact => part_of(codec, contexts, input, memory.room(exact)?, requested),
        _ => within(codec, contexts, input, size, memory),
    }
}

fn part_of(codec: &Codec, contexts: &mut Contexts, input: &[u8], out: &mut [u8], requested: &Range<usize>) -> Outcome<usize> {
    match codec.decode_part(contexts, input, out, requested) {
        Ok(made) if made == out.len() => Ok(made),
        Ok(made) => Err(Fault::new(Code::Size, format!("{}: decodes to {made} bytes, not {}", codec.name(), out.len()))),
        Err(Refusal::Full) => Err(Fault::new(Code::Size, format!("{}: decodes to more than {} bytes", codec.name(), out.len()))),
        Err(Refusal::Bad(fault)) => Err(fault),
    }
}

/// Decodes into memory of a known size, or memory that grows with the decoded bytes. It never grows because of the size in a header.
fn within(codec: &Codec, contexts: &mut Contexts, input: &[u8], size: Size, memory: &mut Memory) -> Outcome<usize> {
    let most = match size {
        Size::Exactly(size) => return exactly(codec, contexts, input, memory.room(size)?),
        Size::AtMost(most) => most,
    };
    let mut room = input.len().saturating_mul(32).max(64 << 10).min(most);
    loop {
        match codec.decode(contexts, input, memory.room(room)?) {
            Ok(made) => return Ok(made),
            Err(Refusal::Bad(fault)) => return Err(fault),
            Err(Refusal::Full) if room == most => {
                return Err(Fault::new(Code::Size, format!("{}: decodes to more than {most} bytes", codec.name())));
            }
            Err(Refusal::Full) => room = room.saturating_mul(4).min(most),
        }
    }
}

fn parse_codec(codec: &Bound<'_, PyAny>) -> PyResult<Codec> {
    let codec = codec.cast::<PyTuple>().map_err(|_| wrong("codecs: expected tuples"))?;
    let name: String = codec.get_item(0)?.extract()?;
    let number = |at: usize, low: i64, high: i64| -> PyResult<i64> {
        let value: i64 = codec.get_item(at)?.extract()?;
        if value < low || value > high {
            return Err(wrong(format!("codecs: {name}: {value} is not in {low}..={high}")));
        }
        Ok(value)
    };
    let (parsed, length) = match name.as_str() {
        "crc32c" => (Codec::Crc32c, 1),
        "fletcher32" => (Codec::Fletcher32, 1),
        "shuffle" => (Codec::Shuffle { size: number(1, 1, i64::from(i32::MAX))? as usize }, 2),
        "gzip" => (Codec::Gzip { level: number(1, 0, 9)? as i32 }, 2),
        "zlib" => (Codec::Zlib { level: number(1, 0, 9)? as i32 }, 2),
        "zstd" => (Codec::Zstd { level: number(1, -131_072, 22)? as i32, checksum: codec.get_item(2)?.extract()? }, 3),
        "lz4" => (Codec::Lz4 { acceleration: number(1, i64::from(i32::MIN), i64::from(i32::MAX))? as i32 }, 2),
        "gdeflate" => (Codec::Gdeflate { level: number(1, 0, 12)? as i32 }, 2),
        "blosc" => {
            let compressor: String = codec.get_item(1)?.extract()?;
            if !["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"].contains(&compressor.as_str()) {
                return Err(wrong(format!("codecs: blosc: unknown compressor {compressor:?}")));
            }
            let blosc = Blosc {
                compressor: CString::new(compressor)?,
                level: number(2, 0, 9)? as i32,
                shuffle: number(3, 0, 2)? as i32,
                typesize: number(4, 1, i64::from(i32::MAX))? as usize,
                blocksize: number(5, 0, i64::from(i32::MAX))? as usize,
            };
            (Codec::Blosc(blosc), 6)
        }
        _ => return Err(wrong(format!("codecs: unknown codec {name:?}"))),
    };
    if codec.len() != length {
        return Err(wrong(format!("codecs: {name}: expected {length} items, got {}", codec.len())));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZSTD: Codec = Codec::Zstd { level: 3, checksum: true };
    const NEVER: Ended<'static> = &|| false;
    const GZIP: Codec = Codec::Gzip { level: 5 };
    const ZLIB: Codec = Codec::Zlib { level: 1 };
    const LZ4: Codec = Codec::Lz4 { acceleration: 1 };

    fn blosc() -> Codec {
        Codec::Blosc(Blosc { compressor: c"lz4".into(), level: 5, shuffle: 1, typesize: 2, blocksize: 0 })
    }

    fn snappy() -> Codec {
        Codec::Blosc(Blosc { compressor: c"snappy".into(), level: 5, shuffle: 2, typesize: 2, blocksize: 0 })
    }

    fn data(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i / 7 % 50 + i % 3) as u8).collect()
    }

    fn chains() -> Vec<Chain> {
        let all = [Codec::Crc32c, Codec::Fletcher32, Codec::Shuffle { size: 4 }, ZSTD, GZIP, ZLIB, LZ4, blosc()];
        let mut chains = vec![Chain { codecs: vec![] }, Chain { codecs: vec![ZSTD, snappy()] }];
        for a in &all {
            chains.push(Chain { codecs: vec![a.clone()] });
            for b in &all {
                chains.push(Chain { codecs: vec![a.clone(), b.clone()] });
                for c in &all {
                    chains.push(Chain { codecs: vec![a.clone(), b.clone(), c.clone(), Codec::Crc32c] });
                }
            }
        }
        chains
    }

    #[test]
    fn every_chain_round_trips() {
        let mut tools = Tools::default();
        for chain in chains() {
            // long input passes through one or two codecs: what a third one adds does not depend on the length
            for len in [1usize, 300, 70_000].into_iter().take(if chain.codecs.len() < 4 { 3 } else { 2 }) {
                let data = data(len);
                let mut encoded = Growing::default();
                let made = chain.encode(&mut tools, &data, &mut encoded, NEVER).unwrap();
                assert_eq!(made, encoded.len());
                assert!(made <= chain.bound(len).unwrap());
                let sizes = chain.sizes(Size::Exactly(len));
                assert_eq!(chain.view(&mut tools, encoded.bytes(), &sizes, ALL).unwrap(), data);
                let mut out = vec![0; len];
                chain.decode(&mut tools, encoded.bytes(), &sizes, Target::Slice(&mut out)).unwrap();
                assert_eq!(out, data);
                for requested in [0..1, len - 1..len, len / 3..len / 3 + 1, len / 4..len / 2 + 1, 0..len] {
                    let got = chain.view(&mut tools, encoded.bytes(), &sizes, requested.clone()).unwrap();
                    assert_eq!((got.len(), &got[requested.clone()]), (len, &data[requested]));
                }
                let (sizes, mut memory) = (chain.sizes(Size::AtMost(len)), Memory::default());
                let Decoded::Target(made) = chain.decode(&mut tools, encoded.bytes(), &sizes, Target::Memory(&mut memory)).unwrap() else {
                    panic!("not in the target")
                };
                assert_eq!(memory.bytes()[..made], data);
            }
        }
    }

    #[test]
    fn another_size_is_a_failure_of_size() {
        let mut tools = Tools::default();
        for chain in chains() {
            let mut encoded = Growing::default();
            chain.encode(&mut tools, &data(1000), &mut encoded, NEVER).unwrap();
            for size in [Size::Exactly(999), Size::Exactly(1001), Size::AtMost(999)] {
                let sizes = chain.sizes(size);
                let fault = chain.view(&mut tools, encoded.bytes(), &sizes, ALL).unwrap_err();
                assert_eq!(fault.code, Code::Size, "{}", fault.text);
            }
        }
    }

    #[test]
    fn what_cannot_be_encoded_is_no_failure_of_decoding() {
        let codec = Codec::Blosc(Blosc { compressor: c"unknown".into(), level: 5, shuffle: 1, typesize: 2, blocksize: 0 });
        let fault = Chain { codecs: vec![codec] }.encode(&mut Tools::default(), &data(100), &mut Growing::default(), NEVER).unwrap_err();
        assert_eq!(fault.code, Code::Encode);
        assert_eq!(bound(&LZ4, 1 << 31).unwrap_err().code, Code::Encode);
    }

    #[test]
    fn a_bomb_costs_no_more_than_its_bound() {
        let mut tools = Tools::default();
        let zeros = vec![0u8; 4 << 20];
        for codec in [ZSTD, GZIP, ZLIB, LZ4, snappy()] {
            let chain = Chain { codecs: vec![codec] };
            let mut encoded = Growing::default();
            chain.encode(&mut tools, &zeros, &mut encoded, NEVER).unwrap();
            let mut tools = Tools::default();
            let sizes = chain.sizes(Size::AtMost(1 << 20));
            assert_eq!(chain.view(&mut tools, encoded.bytes(), &sizes, ALL).unwrap_err().code, Code::Size);
            assert!(tools.stages[0].capacity() <= 1 << 20);
        }
    }

    #[test]
    fn cut_or_changed_bytes_never_panic() {
        let mut tools = Tools::default();
        for chain in chains() {
            let data = data(500);
            let mut encoded = Growing::default();
            chain.encode(&mut tools, &data, &mut encoded, NEVER).unwrap();
            let sizes = chain.sizes(Size::Exactly(500));
            for cut in (0..encoded.len()).step_by(7) {
                assert!(chain.view(&mut tools, &encoded.bytes()[..cut], &sizes, ALL).is_err());
            }
            for at in (0..encoded.len()).step_by(5) {
                let mut bytes = encoded.bytes().to_vec();
                bytes[at] ^= 1 << (at % 8);
                let _ = chain.view(&mut tools, &bytes, &sizes, ALL);
            }
        }
    }
}
