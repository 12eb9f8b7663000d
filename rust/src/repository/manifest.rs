//! Manifests: files of chunk references, read into columns; and the functions on manifests for Python.
//!
//! The file is one MessagePack value: [version, flags, {[node, [index, ...]]: payload}], a payload being {"Inline": bytes}, {"Ref": [id, offset, length]} or
//! {"Virtual": [{"Absolute": location}, offset, length]}. Structs may be maps by name too.

use std::collections::HashMap;
use std::mem;
use std::str;

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::columns::{Bytes, wrong};
use crate::failures::{Code, FailureRows};
use crate::memory::{Growing, Memory, Segment};
use crate::repository::base32::{self, ID_BYTES};
use crate::repository::manifest_encode;
use crate::repository::msgpack::{Read, Reader, broken};
use crate::repository::references::{COLUMNS, Columns, INLINE, NATIVE, References, VIRTUAL, join};
use crate::threads::detached;

/// The only version of the format.
pub const VERSION: u64 = 0;

const MANIFEST: [&str; 3] = ["icechunk_manifest_format_version", "icechunk_manifest_format_flags", "chunks"];
const NATIVE_FIELDS: [&str; 3] = ["id", "offset", "length"];
const VIRTUAL_FIELDS: [&str; 3] = ["location", "offset", "length"];

/// The fewest bytes of a reference: a key of no indices, and no inline bytes.
const SHORTEST: usize = 13;
const POSITIONS: u64 = i64::MAX as u64;

#[derive(Default)]
struct Decoder<'a> {
    out: References,
    numbers: HashMap<&'a [u8], i32>,
    latest: Option<(&'a [u8], i32)>,
    key: (u32, Vec<u32>),
    key_before: (u32, Vec<u32>),
    rows: usize,
    unordered: bool,
}

fn push<const W: usize>(column: &mut Vec<u8>, item: [u8; W]) {
    column.extend_from_slice(&item);
}

fn shown(text: &[u8]) -> String {
    let start = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
    format!("{start:?}{}", if text.len() > 40 { "..." } else { "" })
}

/// Begins at offset 0; the flags are read whole and unchanged.
pub fn decode(data: &[u8]) -> Read<References> {
    let mut decoder = Decoder::default();
    push(&mut decoder.out.starts, 0i64.to_ne_bytes());
    push(&mut decoder.out.location_starts, 0i64.to_ne_bytes());
    let mut reader = Reader::new(data);
    reader.fields("a manifest", MANIFEST, |reader, field| match field {
        0 => check_version(reader),
        1 => {
            let start = reader.at();
            check_flags(reader)?;
            decoder.out.flags = data[start..reader.at()].to_vec();
            Ok(())
        }
        _ => decoder.chunks(reader),
    })?;
    if reader.left() > 0 {
        return broken(reader.at(), format!("{} bytes follow the manifest", reader.left()));
    }
    let mut references = decoder.out;
    if decoder.unordered
        && let Some(rows) = references.keys().order()
    {
        references.pick(&rows);
    }
    Ok(references)
}

fn check_version(reader: &mut Reader) -> Read {
    let at = reader.at();
    match reader.natural(u64::MAX, "the version of the manifest's format")? {
        VERSION => Ok(()),
        version => broken(at, format!("version {version} of the manifest format is not known, only version {VERSION}")),
    }
}

pub fn check_flags(reader: &mut Reader) -> Read {
    for _ in 0..reader.map("the flags")? {
        let at = reader.at();
        let name = reader.text("the name of a flag")?;
        if str::from_utf8(name).is_err() {
            return broken(at, "the name of a flag is no UTF-8");
        }
        reader.skip()?;
    }
    Ok(())
}

fn position(reader: &mut Reader, what: &str) -> Read<i64> {
    Ok(reader.natural(POSITIONS, what)? as i64)
}

fn identity(reader: &mut Reader) -> Read<[u8; ID_BYTES]> {
    let at = reader.at();
    let text = reader.text("the id of a chunk")?;
    match base32::decode(text) {
        Some(id) => Ok(id),
        None => broken(at, format!("{} is no id of 20 characters in base 32", shown(text))),
    }
}

impl<'a> Decoder<'a> {
    fn chunks(&mut self, reader: &mut Reader<'a>) -> Read {
        let at = reader.at();
        let count = reader.map("the map of chunks")?;
        // Room is made for as many references as the bytes can hold, not for the claimed count.
        if count > u32::MAX as usize || !self.out.reserve(count.min(reader.left() / SHORTEST)) {
            return broken(at, format!("{count} references are more than there is memory for"));
        }
        for _ in 0..count {
            self.read_key(reader)?;
            self.payload(reader)?;
            self.rows += 1;
        }
        Ok(())
    }

    fn read_key(&mut self, reader: &mut Reader<'a>) -> Read {
        let at = reader.at();
        match reader.array("the key of a reference")? {
            2 => {}
            count => return broken(at, format!("the key of a reference is expected to be a node and its indices, not {count} values")),
        }
        mem::swap(&mut self.key, &mut self.key_before);
        self.key.0 = reader.natural(u64::from(u32::MAX), "the id of a node")? as u32;
        self.key.1.clear();
        for _ in 0..reader.array("the indices of a chunk")? {
            let index = reader.natural(u64::from(u32::MAX), "the index of a chunk")?;
            self.key.1.push(index as u32);
            push(&mut self.out.coordinates, (index as i64).to_ne_bytes());
        }
        push(&mut self.out.nodes, self.key.0.to_ne_bytes());
        push(&mut self.out.starts, (self.out.coordinates.len() as i64 / 8).to_ne_bytes());
        self.unordered |= self.rows > 0 && self.key <= self.key_before;
        Ok(())
    }

    fn payload(&mut self, reader: &mut Reader<'a>) -> Read {
        let at = reader.at();
        let (mut id, mut offset, mut length, mut location) = ([0; ID_BYTES], 0, 0, -1i32);
        let kind = match reader.variant("the payload of a reference")? {
            b"Inline" => {
                let bytes = reader.binary("an inline chunk")?;
                (offset, length) = (self.out.inline.len() as i64, bytes.len() as i64);
                self.out.inline.extend_from_slice(bytes);
                INLINE
            }
            b"Ref" => {
                reader.fields("a native reference", NATIVE_FIELDS, |reader, field| {
                    match field {
                        0 => id = identity(reader)?,
                        1 => offset = position(reader, "the offset of a chunk")?,
                        _ => length = position(reader, "the length of a chunk")?,
                    }
                    Ok(())
                })?;
                NATIVE
            }
            b"Virtual" => {
                reader.fields("a virtual reference", VIRTUAL_FIELDS, |reader, field| {
                    match field {
                        0 => location = self.location(reader)?,
                        1 => offset = position(reader, "the offset of a chunk")?,
                        _ => length = position(reader, "the length of a chunk")?,
                    }
                    Ok(())
                })?;
                VIRTUAL
            }
            other => return broken(at, format!("a payload is Inline, Ref or Virtual, not {}", shown(other))),
        };
        if offset.checked_add(length).is_none() {
            return broken(at, format!("a chunk from byte {offset} on has no {length} bytes"));
        }
        push(&mut self.out.kinds, [kind]);
        push(&mut self.out.ids, id);
        push(&mut self.out.offsets, offset.to_ne_bytes());
        push(&mut self.out.lengths, length.to_ne_bytes());
        push(&mut self.out.locations, location.to_ne_bytes());
        Ok(())
    }

    fn location(&mut self, reader: &mut Reader<'a>) -> Read<i32> {
        let at = reader.at();
        let text = match reader.variant("the location of a virtual chunk")? {
            b"Absolute" => reader.text("the location of a virtual chunk")?,
            other => return broken(at, format!("a location is Absolute, not {}", shown(other))),
        };
        if let Some((latest, number)) = self.latest
            && latest == text
        {
            return Ok(number);
        }
        let number = match self.numbers.get(text) {
            Some(&number) => number,
            None => self.new_location(at, text)?,
        };
        self.latest = Some((text, number));
        Ok(number)
    }

    fn new_location(&mut self, at: usize, text: &'a [u8]) -> Read<i32> {
        if str::from_utf8(text).is_err() {
            return broken(at, format!("the location {} is no UTF-8", shown(text)));
        }
        let Ok(number) = i32::try_from(self.numbers.len()) else { return broken(at, "there are too many locations") };
        self.numbers.insert(text, number);
        self.out.location_text.extend_from_slice(text);
        push(&mut self.out.location_starts, (self.out.location_text.len() as i64).to_ne_bytes());
        Ok(number)
    }
}

pub fn segment(mut bytes: Vec<u8>) -> Segment {
    bytes.shrink_to_fit();
    let len = bytes.len();
    Segment::new(Growing::of(Memory::of(bytes), len))
}

#[pyfunction]
pub fn decode_manifest(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<(Vec<Segment>, FailureRows)> {
    let data = Bytes::new(data, "data")?;
    let data = data.as_slice();
    let decoded = detached(py, data.len(), || decode(data).map(|references| references.into_columns().map(segment)))?;
    Ok(match decoded {
        Ok(columns) => (columns.into(), Vec::new()),
        Err(found) => (Vec::new(), vec![(found.at, Code::Decode as i64, found.text)]),
    })
}

#[pyfunction]
pub fn encode_manifest(py: Python<'_>, columns: &Bound<'_, PyAny>) -> PyResult<Segment> {
    let columns = Bytes::all(columns, "columns")?;
    let columns: [&[u8]; COLUMNS] = lent(&columns)?;
    check_memory(2 * total(&columns))?;
    detached(py, total(&columns), || manifest_encode::encode(columns).map(segment))?.map_err(wrong)
}

#[pyfunction]
pub fn join_references(py: Python<'_>, parts: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Segment>>> {
    let parts = parts.try_iter()?.map(|part| Bytes::all(&part?, "columns")).collect::<PyResult<Vec<_>>>()?;
    let mut bytes = 0;
    let mut columns = Vec::with_capacity(parts.len());
    for part in &parts {
        let part = lent(part)?;
        bytes += total(&part);
        columns.push(Columns::new(part).map_err(wrong)?);
    }
    check_memory(3 * bytes)?; // the columns joined, then picked in order, and the order
    let joined = detached(py, bytes, || join(&columns))?.map_err(wrong)?;
    Ok(joined.map(|references| {
        let [_, columns @ ..] = references.into_columns();
        columns.map(segment).into()
    }))
}

/// Raises MemoryError where there is no room for this many bytes; an allocation that fails later would abort the process.
fn check_memory(bytes: usize) -> PyResult<()> {
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| PyMemoryError::new_err(()))
}

fn lent<const N: usize>(columns: &[Bytes]) -> PyResult<[&[u8]; N]> {
    let columns: Vec<&[u8]> = columns.iter().map(Bytes::as_slice).collect();
    columns.try_into().map_err(|_| wrong(format!("columns: expected {N} of them")))
}

fn total(columns: &[&[u8]]) -> usize {
    columns.iter().map(|column| column.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"\x93\x00\x80\x83\
        \x92\x03\x92\x00\x01\x81\xa6Inline\xc4\x02ab\
        \x92\x03\x92\x01\x00\x81\xa3Ref\x93\xb4000G40R40M30E209185G\x05\x64\
        \x92\x04\x90\x81\xa7Virtual\x93\x81\xa8Absolute\xa6file:x\xcc\x80\x01";

    fn again(references: References) -> Vec<u8> {
        let columns = references.into_columns();
        manifest_encode::encode(columns.each_ref().map(Vec::as_slice)).unwrap()
    }

    #[test]
    fn what_is_read_is_written_again() {
        let references = decode(FILE).unwrap();
        assert_eq!(references.kinds, [INLINE, NATIVE, VIRTUAL]);
        assert_eq!(references.inline, b"ab");
        assert_eq!(references.ids[12..24], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(references.location_text, b"file:x");
        assert_eq!(again(references), FILE);
    }

    #[test]
    fn every_cut_is_noticed() {
        for end in 0..FILE.len() {
            assert!(decode(&FILE[..end]).is_err_and(|found| found.at <= end && !found.text.is_empty()));
        }
        assert!(decode(&[FILE, b"\xc0"].concat()).is_err_and(|found| found.at == FILE.len()));
    }

    #[test]
    fn no_changed_byte_breaks_anything() {
        let mut file = FILE.to_vec();
        for at in 0..file.len() {
            for byte in 0..=255 {
                file[at] = byte;
                if let Ok(references) = decode(&file) {
                    let written = again(references);
                    assert_eq!(again(decode(&written).unwrap()), written);
                }
            }
            file[at] = FILE[at];
        }
    }

    #[test]
    fn what_is_claimed_is_not_believed() {
        for claim in
            [&b"\x93\x00\x80\xdf\xff\xff\xff\xff\x92"[..], b"\x93\x00\xdf\xff\xff\xff\xff", b"\x93\x00\x80\x81\x92\x03\xdd\xff\xff\xff\xff"]
        {
            assert!(decode(claim).is_err());
        }
    }
}
