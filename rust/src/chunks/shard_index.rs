//! Shard indexes as stacked tables: int64[g, total, 2], start and length of each inner chunk of g shards, counted from the shard's first byte; (-1, -1) for an
//! empty one.
//!
//! Here their bytes are read, checked and written (sharding codec 1.0, Binary shard format). The callers decide which inner chunks are needed.

use std::ops::Range;

use pyo3::prelude::*;

use crate::columns::{BytesMut, Column, ColumnMut, Room, wrong};
use crate::failures::{Code, FailureRows, Failures, Fault, Outcome};
use crate::fetch::{Rows, Sink};
use crate::sources::Files;
use crate::threads::Worker;

/// Start and length of an inner chunk; EMPTY if there is none.
pub type Entry = [i64; 2];
pub const EMPTY: Entry = [-1, -1];

/// The most inner chunks of a shard, as in codecs/chain/compilation.py.
const MOST: usize = 1 << 31;

/// The index of the shards of one level: a frozen value, created by `shard_index`.
#[pyclass(frozen, module = "frazil._kernel")]
pub struct ShardIndex {
    /// Inner chunks of a shard along each dimension of the array, and the stride of their number along it.
    pub counts: Vec<i64>,
    pub strides: Vec<i64>,
    /// Inner chunks of a shard.
    pub total: usize,
    /// Bytes of an encoded index.
    pub nbytes: usize,
    pub at_end: bool,
    swapped: bool,
    /// crc32c codecs after `bytes`; None: other codecs, which the kernel does not support.
    checksums: Option<usize>,
}

impl ShardIndex {
    /// At the end of its shard, without checksums.
    #[cfg(test)]
    pub fn plain(counts: Vec<i64>) -> ShardIndex {
        let total = counts.iter().product::<i64>() as usize;
        ShardIndex { strides: vec![1; counts.len()], counts, total, nbytes: 16 * total, at_end: true, swapped: false, checksums: Some(0) }
    }

    /// The range of the index in a shard of `size` bytes.
    pub fn span(&self, size: u64) -> Outcome<Range<u64>> {
        let nbytes = self.nbytes as u64;
        if size < nbytes {
            return Err(Fault::new(Code::Index, format!("a shard of {size} bytes is too short for its index of {nbytes} bytes")));
        }
        Ok(if self.at_end { size - nbytes..size } else { 0..nbytes })
    }

    pub fn is_plain(&self) -> bool {
        self.checksums.is_some()
    }

    /// Decodes and checks the index of a shard of `size` bytes. `data` has `nbytes` bytes, `table` has `total` entries.
    pub fn decode(&self, data: &[u8], size: u64, table: &mut [Entry]) -> Outcome {
        let checksums = self.checksums.unwrap_or(0);
        let entries = 16 * self.total;
        for end in (0..checksums).map(|i| entries + 4 * i) {
            let stored = u32::from_le_bytes([data[end], data[end + 1], data[end + 2], data[end + 3]]);
            let found = crc32c::crc32c(&data[..end]);
            if found != stored {
                let text =
                    format!("the checksum of the shard index does not match: crc32c is {found:#010x}, but {stored:#010x} was stored");
                return Err(Fault::new(Code::IndexChecksum, text));
            }
        }
        for (entry, words) in table.iter_mut().zip(data[..entries].as_chunks::<16>().0) {
            let [mut start, mut length] = [0, 8].map(|at| i64::from_ne_bytes(words[at..at + 8].try_into().unwrap_or_default()));
            if self.swapped {
                (start, length) = (start.swap_bytes(), length.swap_bytes());
            }
            *entry = [start, length];
        }
        self.check(size, table)
    }

    /// Refuses an entry that is half empty, reaches beyond a shard of `size` bytes or into its index, or past 64 bits.
    pub fn check(&self, size: u64, table: &[Entry]) -> Outcome {
        let index = self.span(size)?;
        let (low, high) = if self.at_end { (0, index.start) } else { (index.end, size) };
        let fits = |&[start, length]: &Entry| {
            let (start, length) = (start as u64, length as u64);
            start <= high && length <= high - start && (start >= low || length == 0)
        };
        match table.iter().position(|entry| *entry != EMPTY && !fits(entry)) {
            Some(number) => Err(wrong_entry(number, table[number], size)),
            None => Ok(()),
        }
    }

    /// Encodes the index of one shard; `out` has `nbytes` bytes.
    fn encode(&self, table: &[Entry], out: &mut [u8]) {
        let entries = 16 * self.total;
        for (words, &[start, length]) in out[..entries].as_chunks_mut::<16>().0.iter_mut().zip(table) {
            let [start, length] = if self.swapped { [start.swap_bytes(), length.swap_bytes()] } else { [start, length] };
            words[..8].copy_from_slice(&start.to_ne_bytes());
            words[8..].copy_from_slice(&length.to_ne_bytes());
        }
        for end in (0..self.checksums.unwrap_or(0)).map(|i| entries + 4 * i) {
            let sum = crc32c::crc32c(&out[..end]);
            out[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

#[cold]
fn wrong_entry(number: usize, [start, length]: Entry, size: u64) -> Fault {
    let (start, length) = (start as u64, length as u64);
    let text = if (start == u64::MAX) != (length == u64::MAX) {
        format!("entry {number} of the shard index is half empty: offset {start}, nbytes {length}")
    } else {
        format!(
            "entry {number} of the shard index reaches outside the shard of {size} bytes, or into the index itself: offset {start}, nbytes {length}"
        )
    };
    Fault::new(Code::Index, text)
}

#[pyfunction]
pub fn shard_index(
    counts: Vec<i64>,
    strides: Vec<i64>,
    at_end: bool,
    nbytes: usize,
    swapped: bool,
    checksums: Option<usize>,
) -> PyResult<ShardIndex> {
    let total = counts.iter().try_fold(1usize, |total, &count| total.checked_mul(usize::try_from(count).ok()?));
    let total = total.filter(|&total| (1..=MOST).contains(&total)).ok_or_else(|| wrong("counts: too many inner chunks, or none"))?;
    let last = counts.iter().zip(&strides).try_fold(0i64, |sum, (count, stride)| (count - 1).checked_mul(*stride)?.checked_add(sum));
    if strides.len() != counts.len() || strides.iter().any(|&stride| stride < 1) || last.is_none_or(|last| last >= total as i64) {
        return Err(wrong("strides: do not number the inner chunks of a shard"));
    }
    if checksums.is_some_and(|checksums| checksums > 1 << 16 || nbytes != 16 * total + 4 * checksums) {
        return Err(wrong(format!("nbytes: {nbytes} bytes are not those of an index of {total} inner chunks")));
    }
    Ok(ShardIndex { counts, strides, total, nbytes, at_end, swapped, checksums })
}

/// Indexes that are read as rows and decoded into their tables.
struct Indexes<'a> {
    index: &'a ShardIndex,
    sizes: &'a [[i64; 1]],
    tables: Room,
}

impl Indexes<'_> {
    #[allow(clippy::mut_from_ref)] // each shard has its own table
    fn table(&self, shard: usize) -> Option<&mut [Entry]> {
        let nbytes = 16 * self.index.total;
        // SAFETY: `tables` is lent for the call; tables of two shards do not overlap, and each shard is one row, which one thread takes.
        let bytes = unsafe { self.tables.part(shard * nbytes, nbytes) }?;
        // SAFETY: ColumnMut checked the alignment of int64, and any bytes are an int64.
        let (before, entries, _) = unsafe { bytes.align_to_mut::<Entry>() };
        (before.is_empty() && entries.len() == self.index.total).then_some(entries)
    }
}

impl Sink for Indexes<'_> {
    type Local = ();

    fn local(&self) {}

    fn weight(&self, _row: usize) -> usize {
        self.index.nbytes
    }

    fn check_length(&self, row: usize, length: u64) -> Outcome {
        let size = self.sizes[row][0].max(0) as u64;
        self.index.span(size)?;
        if length != self.index.nbytes as u64 {
            return Err(Fault::new(Code::Range, format!("{length} bytes where an index of {} is expected", self.index.nbytes)));
        }
        Ok(())
    }

    fn missing(&self, (): &mut (), _worker: &mut Worker, row: usize) -> Outcome {
        if let Some(table) = self.table(row) {
            table.fill(EMPTY);
        }
        Ok(())
    }

    fn take(&self, (): &mut (), _worker: &mut Worker, row: usize, bytes: &[u8], _start: usize) -> Outcome {
        match self.table(row) {
            Some(table) => self.index.decode(bytes, self.sizes[row][0].max(0) as u64, table),
            None => Err(Fault::new(Code::Range, "there is no table for the index")),
        }
    }
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's columns
pub fn read_indexes(
    py: Python<'_>,
    index: &Bound<'_, ShardIndex>,
    files: Option<&Bound<'_, Files>>,
    buffers: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    sizes: &Bound<'_, PyAny>,
    tables: &Bound<'_, PyAny>,
    threads: isize,
) -> PyResult<FailureRows> {
    let index = index.get();
    if !index.is_plain() {
        return Err(wrong("index: its codecs are not the kernel's"));
    }
    let rows = Rows::new(files, buffers, rows)?;
    let sizes = Column::<1>::of(sizes, "sizes", rows.len())?;
    let mut tables = ColumnMut::<2>::of(tables, "tables", rows.len().saturating_mul(index.total))?;
    let indexes = Indexes { index, sizes: &sizes, tables: tables.room() };
    rows.fetch(py, None, threads, &indexes)
}

#[pyfunction]
pub fn check_indexes(index: &Bound<'_, ShardIndex>, sizes: &Bound<'_, PyAny>, tables: &Bound<'_, PyAny>) -> PyResult<FailureRows> {
    let index = index.get();
    let (sizes, tables) = (Column::<1>::new(sizes, "sizes")?, Column::<2>::new(tables, "tables")?);
    if tables.len() != sizes.len().saturating_mul(index.total) {
        return Err(wrong(format!("tables: {} entries are not those of {} shards", tables.len(), sizes.len())));
    }
    let failures = Failures::default();
    for (shard, (size, table)) in sizes.iter().zip(tables.chunks_exact(index.total)).enumerate() {
        if let Err(fault) = index.check(size[0].max(0) as u64, table) {
            failures.add(shard as i64, shard, fault);
        }
    }
    Ok(failures.into_rows())
}

#[pyfunction]
pub fn write_indexes(index: &Bound<'_, ShardIndex>, tables: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> PyResult<()> {
    let index = index.get();
    let tables = Column::<2>::new(tables, "tables")?;
    let mut out = BytesMut::new(out, "out")?;
    let shards = tables.len() / index.total;
    let out = out.as_slice();
    if !index.is_plain() || tables.len() != shards * index.total || out.len() != shards * index.nbytes {
        return Err(wrong("tables, out: not those of this index"));
    }
    for (table, out) in tables.chunks_exact(index.total).zip(out.chunks_exact_mut(index.nbytes)) {
        index.encode(table, out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(at_end: bool, swapped: bool, checksums: usize) -> ShardIndex {
        ShardIndex { counts: vec![3], strides: vec![1], total: 3, nbytes: 48 + 4 * checksums, at_end, swapped, checksums: Some(checksums) }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        for (at_end, swapped, checksums) in [(true, false, 1), (false, true, 0), (false, false, 2)] {
            let index = index(at_end, swapped, checksums);
            let low = if at_end { 0 } else { index.nbytes as i64 };
            let table = [[low, 5], EMPTY, [low + 5, 0]];
            let mut data = vec![0; index.nbytes];
            index.encode(&table, &mut data);
            let mut found = [EMPTY; 3];
            index.decode(&data, index.nbytes as u64 + 5, &mut found).unwrap();
            assert_eq!(found, table);
            assert_eq!(index.decode(&data, index.nbytes as u64 + 4, &mut found).unwrap_err().code, Code::Index);
            if checksums > 0 {
                data[3] ^= 1;
                assert_eq!(index.decode(&data, index.nbytes as u64 + 5, &mut found).unwrap_err().code, Code::IndexChecksum);
            }
        }
    }

    #[test]
    fn entries_that_make_no_sense_are_refused() {
        let (end, start) = (index(true, false, 0), index(false, false, 0));
        for bad in [[-1, 0], [0, -1], [i64::MAX, i64::MAX], [-2, 1], [1, -2], [101, 0], [0, 101], [100, 1]] {
            assert_eq!(end.check(148, &[bad]).unwrap_err().code, Code::Index, "{bad:?}");
        }
        assert!(end.check(148, &[[100, 0], [0, 100], EMPTY]).is_ok());
        assert!(start.check(148, &[[48, 100], [0, 0], [148, 0]]).is_ok());
        for bad in [[47, 1], [148, 1], [48, 101]] {
            assert!(start.check(148, &[bad]).is_err(), "{bad:?}");
        }
        assert!(end.check(47, &[EMPTY]).is_err());
    }
}
