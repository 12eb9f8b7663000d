//! The map of nodes in a snapshot: the place of each node, and the few facts that are needed of all nodes. Python decodes a node when it is needed.

use std::str;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::columns::{Bytes, wrong};
use crate::failures::{Code, FailureRows};
use crate::memory::Segment;
use crate::repository::base32;
use crate::repository::manifest::segment;
use crate::repository::msgpack::{Read, Reader, broken};
use crate::threads::detached;

/// Start of the key, start of the value, its end, the node's id, its kind; for a plain node also where its attributes begin, for a plain array its metadata and
/// its list of manifests.
type Row = [i64; 8];

const UNKNOWN: i64 = -1;
const GROUP: i64 = 0;
const ARRAY: i64 = 1;

/// The fewest bytes of an entry.
const SHORTEST: usize = 2;

struct Index<'a> {
    paths: Vec<&'a str>,
    rows: Vec<Row>,
    end: usize,
}

impl Index<'_> {
    /// Whether every node has a known id that no other node has.
    fn has_distinct_ids(&self) -> bool {
        let mut ids: Vec<i64> = self.rows.iter().map(|row| row[3]).collect();
        ids.sort_unstable();
        ids.first().is_none_or(|&lowest| lowest != UNKNOWN) && ids.is_sorted_by(|one, next| one < next)
    }
}

fn index(data: &[u8], at: usize, count: usize) -> Read<Index<'_>> {
    let mut reader = Reader::new(data);
    reader.go(at);
    let most = reader.left() / SHORTEST;
    if count > most {
        return broken(at, format!("{count} nodes are expected where {} bytes are left", reader.left()));
    }
    let (mut paths, mut rows) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let start = reader.at();
        let path = reader.text("the path of a node")?;
        let Ok(path) = str::from_utf8(path) else { return broken(start, "the path of a node must be UTF-8") };
        let id_start = reader.at();
        let (id, kind) = id_and_kind(reader.clone());
        let spans = if kind == UNKNOWN { None } else { plain(reader.clone(), path).ok().flatten() };
        let [attributes, metadata, manifests] = spans.unwrap_or([UNKNOWN; 3]);
        reader.skip()?;
        paths.push(path);
        rows.push([start as i64, id_start as i64, reader.at() as i64, id, kind, attributes, metadata, manifests]);
    }
    Ok(Index { paths, rows, end: reader.at() })
}

/// Id and kind of a node that is an array of four, as all known writers write it; UNKNOWN for any other form.
fn id_and_kind(mut reader: Reader<'_>) -> (i64, i64) {
    if reader.array("a node") != Ok(4) {
        return (UNKNOWN, UNKNOWN);
    }
    let Ok(id) = reader.natural(u64::from(u32::MAX), "the id of a node") else { return (UNKNOWN, UNKNOWN) };
    (id as i64, kind(reader).unwrap_or(UNKNOWN))
}

fn kind(mut reader: Reader<'_>) -> Read<i64> {
    reader.skip()?; // its path
    reader.skip()?; // its attributes
    let mut variant = reader.clone();
    Ok(match (reader.text("the kind of a node"), variant.variant("the kind of a node")) {
        (Ok(b"Group"), _) => GROUP,
        (_, Ok(b"Array")) => ARRAY,
        _ => UNKNOWN,
    })
}

/// Where attributes, metadata and manifests begin, for a node in which only its attributes and its metadata can be wrong: Python checks those, and
/// the manifests when they are needed.
fn plain(mut reader: Reader<'_>, path: &str) -> Read<Option<[i64; 3]>> {
    let names = path.strip_prefix('/').unwrap_or("");
    if path != "/" && names.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Ok(None);
    }
    reader.array("a node")?;
    reader.skip()?; // its id
    if reader.text("the path of a node")? != path.as_bytes() {
        return Ok(None);
    }
    let attributes = reader.at() as i64;
    reader.skip()?;
    if reader.clone().text("the kind of a node").is_ok() {
        return Ok(Some([attributes, UNKNOWN, UNKNOWN]));
    }
    reader.variant("the kind of a node")?;
    if reader.array("the data of an array")? != 2 {
        return Ok(None);
    }
    let metadata = reader.at() as i64;
    reader.skip()?;
    let manifests = reader.at() as i64;
    for _ in 0..reader.array("the manifests of an array")? {
        if reader.array("a reference to a manifest")? != 2 || base32::decode(reader.text("the id of a manifest")?).is_none() {
            return Ok(None);
        }
        for _ in 0..reader.array("the extents of a manifest")? {
            for _ in 0..reader.array("the extents of a manifest")? {
                reader.natural(u64::from(u32::MAX), "the extents of a manifest")?;
            }
        }
    }
    Ok(Some([attributes, metadata, manifests]))
}

/// Paths, rows, the offset after the last entry, whether all ids are known and distinct.
type Found = (Vec<Py<PyString>>, Option<Segment>, usize, bool, FailureRows);

#[pyfunction]
pub fn find_nodes(py: Python<'_>, data: &Bound<'_, PyAny>, at: usize, count: usize) -> PyResult<Found> {
    let data = Bytes::new(data, "data")?;
    let data = data.as_slice();
    if at > data.len() {
        return Err(wrong("at: beyond the data"));
    }
    let indexed = detached(py, data.len() - at, || index(data, at, count).map(|index| (index.has_distinct_ids(), index)))?;
    Ok(match indexed {
        Ok((distinct, index)) => {
            let paths = index.paths.into_iter().map(|path| PyString::new(py, path).unbind()).collect();
            let rows = index.rows.into_iter().flatten().flat_map(i64::to_ne_bytes).collect();
            (paths, Some(segment(rows)), index.end, distinct, Vec::new())
        }
        Err(found) => (Vec::new(), None, at, false, vec![(found.at, Code::Decode as i64, found.text)]),
    })
}

/// Where `count` values that begin at `at` end; -1 if the bytes end before, or if no value begins there.
#[pyfunction]
pub fn skip_values(data: &[u8], at: usize, count: usize) -> i64 {
    let mut reader = Reader::new(data);
    reader.go(at);
    let skipped = at <= data.len() && (0..count).all(|_| reader.skip().is_ok());
    if skipped { reader.at() as i64 } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &[u8] = b"\xa1/\x94\x01\xa1/\xc0\xa5Group\
        \xa2/a\x94\xcd\x01\x00\xa2/a\x81\xa6Inline\x81\xa1x\x93\x01\x02\x03\x81\xa5Array\x92\x98\x90\x90\
        \xa2/b\xc0\
        \xa2/c\x94\xa1z\xa2/c\xc0\xa5Group\
        \xa2/d\x94\x05\xa2/d\xc0\xa5Table";

    fn whole() -> Vec<u8> {
        let mut data = NODES.to_vec();
        let array = data.windows(3).position(|window| window == b"\x92\x98\x90").unwrap();
        data.splice(array + 1..array + 4, [0xc0, 0xc0]);
        data
    }

    #[test]
    fn nodes_are_found() {
        let data = whole();
        let found = index(&data, 0, 5).unwrap_or_else(|broken| panic!("{broken:?}"));
        assert_eq!(found.paths, ["/", "/a", "/b", "/c", "/d"]);
        assert_eq!(found.end, data.len());
        let kinds: Vec<_> = found.rows.iter().map(|row| (row[3], row[4])).collect();
        assert_eq!(kinds, [(1, GROUP), (256, ARRAY), (UNKNOWN, UNKNOWN), (UNKNOWN, UNKNOWN), (5, UNKNOWN)]);
        let mut end = 0;
        for row in found.rows {
            assert_eq!(row[0], end);
            assert!(row[0] < row[1] && row[1] < row[2]);
            end = row[2];
        }
    }

    #[test]
    fn ids_are_distinct_unless_two_nodes_have_one_or_one_is_unknown() {
        let distinct = |bytes: &[u8], count| index(bytes, 0, count).unwrap_or_else(|broken| panic!("{broken:?}")).has_distinct_ids();
        let two = |number| [&b"\xa2/a\x94\x07\xa2/a\xc0\xa5Group\xa2/b\x94"[..], &[number], b"\xa2/b\xc0\xa5Group"].concat();
        assert!(distinct(b"", 0));
        assert!(distinct(&two(6), 2));
        assert!(!distinct(&two(7), 2));
        assert!(!distinct(&two(0xff), 2));
    }

    #[test]
    fn parts_of_plain_nodes_are_found() {
        let found = |bytes: &[u8]| {
            let index = index(bytes, 0, 1).unwrap_or_else(|broken| panic!("{broken:?}"));
            let row = index.rows[0];
            (row[5], row[6], row[7])
        };
        let nothing = (UNKNOWN, UNKNOWN, UNKNOWN);
        let array = |path: &[u8], manifests: &[u8]| [b"\xa2/a\x94\x07", path, b"\xc0\x81\xa5Array\x92\x91\xc3", manifests].concat();
        let reference = b"\x91\x92\xb4000G40R40M30E209185G\x92\x92\x00\xcd\x01\x00\x90";
        assert_eq!(found(b"\xa2/a\x94\x07\xa2/a\xc0\xa5Group"), (8, UNKNOWN, UNKNOWN));
        assert_eq!(found(b"\xa1/\x94\x07\xa1/\xc0\xa5Group"), (6, UNKNOWN, UNKNOWN));
        assert_eq!(found(&array(b"\xa2/a", b"\x90")), (8, 17, 19));
        assert_eq!(found(&array(b"\xa2/a", reference)), (8, 17, 19));
        assert_eq!(found(&array(b"\xa2/b", b"\x90")), nothing);
        assert_eq!(found(&array(b"\xa2/a", b"\x91\xc0")), nothing);
        assert_eq!(found(&array(b"\xa2/a", b"\x91\x92\xa1Z\x90")), nothing);
        assert_eq!(found(b"\xa1a\x94\x07\xa1a\xc0\xa5Group"), nothing);
        assert_eq!(found(b"\xa3/..\x94\x07\xa3/..\xc0\xa5Group"), nothing);
        assert_eq!(found(b"\xa3/a/\x94\x07\xa3/a/\xc0\xa5Group"), nothing);
    }

    #[test]
    fn every_cut_is_noticed() {
        let data = whole();
        for end in 0..data.len() {
            assert!(index(&data[..end], 0, 5).is_err_and(|found| found.at <= end));
        }
        assert!(index(&data, 0, usize::MAX).is_err());
        assert!(index(b"\xa1\xff\xc0", 0, 1).is_err());
        assert!(index(b"\x01\xc0", 0, 1).is_err());
    }

    #[test]
    fn no_changed_byte_breaks_anything() {
        let mut data = whole();
        for at in 0..data.len() {
            let kept = data[at];
            for byte in 0..=255 {
                data[at] = byte;
                if let Ok(found) = index(&data, 0, 5) {
                    assert!(found.end <= data.len());
                }
            }
            data[at] = kept;
        }
    }
}
