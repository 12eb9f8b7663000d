//! `assemble_shards`: inner chunks laid out in shards, one after the other, as rows of bytes to write and as the stacked table of their indexes.
//!
//! Only columns are read or written here. The bytes of an index are in shard_index.rs.

use pyo3::prelude::*;

use crate::chunks::shard_index::{Entry, ShardIndex};
use crate::columns::{Column, ColumnMut, wrong};

/// Rows (blob, start, length) of bytes.
type Row = [i64; 3];

/// Encoded inner chunks: the shard of each, its number in the index (NO_ENTRY: it is not in the index), and its bytes.
struct Chunks<'a> {
    shard: &'a [[i64; 1]],
    number: &'a [[i64; 1]],
    rows: &'a [Row],
    /// The bytes of chunk i are rows[first[i]..first[i + 1]]; None: rows[i].
    first: Option<&'a [[i64; 1]]>,
}

const NO_ENTRY: i64 = -1;

impl<'a> Chunks<'a> {
    fn rows_of(&self, chunk: usize) -> &'a [Row] {
        match self.first {
            Some(first) => &self.rows[first[chunk][0] as usize..first[chunk + 1][0] as usize],
            None => &self.rows[chunk..=chunk],
        }
    }

    /// The chunks that have bytes, by shard, and in a shard by key; equal ones in the given order.
    fn in_order(&self, keys: Option<&[[i64; 1]]>) -> Vec<usize> {
        let key = |&chunk: &usize| (self.shard[chunk][0], keys.map_or(0, |keys| keys[chunk][0] as u64), chunk);
        let mut order: Vec<usize> = (0..self.shard.len()).filter(|&chunk| self.rows_of(chunk).iter().all(|row| row[2] >= 0)).collect();
        if !order.is_sorted_by_key(key) {
            order.sort_unstable_by_key(key);
        }
        order
    }
}

/// The shards in progress.
struct Shards<'a> {
    tables: &'a mut [Entry],
    out: &'a mut [Row],
    offsets: &'a mut [[i64; 1]],
}

impl Shards<'_> {
    /// Returns how many rows there are.
    ///
    /// starts: where the first chunk of each shard begins in it. blob: of the bytes of all indexes; with `empty` also those of shards without chunks
    fn assemble(&mut self, chunks: &Chunks<'_>, order: &[usize], starts: &[[i64; 1]], index: &ShardIndex, blob: i64, empty: bool) -> usize {
        let (mut used, mut at, mut written, nbytes) = (0, 0, 0, index.nbytes as i64);
        for (shard, start) in starts.iter().enumerate() {
            let begin = used;
            let count = order[at..].iter().take_while(|&&chunk| chunks.shard[chunk][0] == shard as i64).count();
            let index_row = [blob, written * nbytes, nbytes];
            let present = count > 0 || empty;
            if present && !index.at_end {
                self.append(&mut used, begin, index_row);
            }
            let mut offset = start[0];
            for &chunk in &order[at..at + count] {
                let mut length = 0;
                for &row in chunks.rows_of(chunk) {
                    self.append(&mut used, begin, row);
                    length += row[2];
                }
                if chunks.number[chunk][0] != NO_ENTRY {
                    self.tables[shard * index.total + chunks.number[chunk][0] as usize] = [offset, length];
                }
                offset += length;
            }
            if present && index.at_end {
                self.append(&mut used, begin, index_row);
            }
            written += i64::from(present);
            at += count;
            self.offsets[shard + 1] = [used as i64];
        }
        used
    }

    /// Adds a row to those of a shard, which begin at `begin`; merges it with the last one if it continues that one in the same blob.
    fn append(&mut self, used: &mut usize, begin: usize, row: Row) {
        if *used > begin {
            let last = &mut self.out[*used - 1];
            if last[0] == row[0] && last[1] >= 0 && last[1] + last[2] == row[1] {
                last[2] += row[2];
                return;
            }
        }
        self.out[*used] = row;
        *used += 1;
    }
}

fn check(chunks: &Chunks<'_>, shards: usize, total: usize) -> Result<(), String> {
    if chunks.shard.iter().any(|shard| !(0..shards as i64).contains(&shard[0])) {
        return Err(format!("shard: not one of {shards} shards"));
    }
    if chunks.number.iter().any(|number| !(NO_ENTRY..total as i64).contains(&number[0])) {
        return Err(format!("number: not one of {total} inner chunks"));
    }
    let rows = chunks.rows.len() as i64;
    let sound = match chunks.first {
        Some(first) => first.first() == Some(&[0]) && first.is_sorted() && first.last() == Some(&[rows]),
        None => chunks.rows.len() == chunks.shard.len(),
    };
    if !sound {
        return Err(format!("first: does not go from 0 upward to {rows}"));
    }
    let lengths = chunks.rows.iter().try_fold(0i64, |sum, row| sum.checked_add(row[2].max(0)));
    lengths.filter(|&sum| sum <= 1 << 62).map(|_| ()).ok_or_else(|| "rows: too many bytes".to_owned())
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's columns
pub fn assemble_shards(
    index: &Bound<'_, ShardIndex>,
    shard: &Bound<'_, PyAny>,
    number: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    first: Option<&Bound<'_, PyAny>>,
    keys: Option<&Bound<'_, PyAny>>,
    starts: &Bound<'_, PyAny>,
    blob: i64,
    empty: bool,
    tables: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
) -> PyResult<usize> {
    let index = index.get();
    let shard = Column::<1>::new(shard, "shard")?;
    let count = shard.len();
    let (number, rows) = (Column::<1>::of(number, "number", count)?, Column::<3>::new(rows, "rows")?);
    let first = first.map(|first| Column::<1>::of(first, "first", count + 1)).transpose()?;
    let keys = keys.map(|keys| Column::<1>::of(keys, "keys", count)).transpose()?;
    let starts = Column::<1>::new(starts, "starts")?;
    let mut tables = ColumnMut::<2>::of(tables, "tables", starts.len().saturating_mul(index.total))?;
    let mut out = ColumnMut::<3>::of(out, "out", rows.len() + starts.len())?;
    let mut offsets = ColumnMut::<1>::of(offsets, "offsets", starts.len() + 1)?;
    let chunks = Chunks { shard: &shard, number: &number, rows: &rows, first: first.as_deref() };
    check(&chunks, starts.len(), index.total).map_err(wrong)?;
    if starts.iter().any(|start| !(0..1 << 62).contains(&start[0])) {
        return Err(wrong("starts: outside of a shard"));
    }
    let order = chunks.in_order(keys.as_deref());
    let mut shards = Shards { tables: tables.rows(), out: out.rows(), offsets: offsets.rows() };
    shards.offsets[0] = [0];
    Ok(shards.assemble(&chunks, &order, &starts, index, blob, empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_lie_in_order_of_their_keys() {
        let rows = [[-1, 0, 3], [-1, 3, 2], [-2, 0, 4], [-1, 9, -1]];
        let chunks = Chunks { shard: &[[1], [1], [0], [0]], number: &[[2], [0], [1], [0]], rows: &rows, first: None };
        check(&chunks, 3, 3).unwrap();
        let (mut tables, mut out, mut offsets) = ([[-1, -1]; 9], [[0; 3]; 7], [[0]; 4]);
        let mut shards = Shards { tables: &mut tables, out: &mut out, offsets: &mut offsets };
        let order = chunks.in_order(Some(&[[0], [-1], [0], [0]]));
        assert_eq!(shards.assemble(&chunks, &order, &[[0], [0], [0]], &ShardIndex::plain(vec![3]), -3, false), 4);
        assert_eq!(out[..4], [[-2, 0, 4], [-3, 0, 48], [-1, 0, 5], [-3, 48, 48]]);
        assert_eq!(offsets, [[0], [2], [4], [4]]);
        assert_eq!((tables[1], tables[5], tables[3], tables[0]), ([0, 4], [0, 3], [3, 2], [-1, -1]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let of = |shard, number, first| Chunks { shard, number, rows: &[[-1, 0, 3]], first };
        assert!(check(&of(&[[1]], &[[0]], None), 1, 1).is_err());
        assert!(check(&of(&[[0]], &[[1]], None), 1, 1).is_err());
        assert!(check(&of(&[[0]], &[[0]], Some(&[[0], [2]])), 1, 1).is_err());
        assert!(check(&of(&[[0], [0]], &[[0], [0]], None), 1, 1).is_err());
        assert!(check(&of(&[[0]], &[[NO_ENTRY]], Some(&[[0], [1]])), 1, 1).is_ok());
    }
}
