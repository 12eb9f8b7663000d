//! The walk through one open shard: from its index, over the indexes of the shards in it, to the bytes of its inner chunks. A loop with one level per step.

use std::collections::HashMap;

use crate::chunks::shard_index::{EMPTY, Entry, ShardIndex};
use crate::failures::{Fault, Outcome};
use crate::memory::{Memory, out_of_memory};
use crate::sources::{Opened, span};

/// The bytes of a chunk of the array: a part of an open file, or of a buffer.
pub struct Extent<'a> {
    pub bytes: Bytes<'a>,
    /// Where the chunk begins, and its length.
    pub base: u64,
    pub size: u64,
}

pub enum Bytes<'a> {
    File(&'a Opened),
    Buffer(&'a [u8]),
}

impl<'a> Extent<'a> {
    /// length < 0: up to the end
    pub fn new(bytes: Bytes<'a>, base: i64, length: i64) -> Outcome<Extent<'a>> {
        let whole = match &bytes {
            Bytes::File(opened) => opened.version.size.max(0) as u64,
            Bytes::Buffer(bytes) => bytes.len() as u64,
        };
        let (base, size) = span(base, length, whole)?;
        Ok(Extent { bytes, base, size })
    }

    /// The index of a shard in this chunk, `size` bytes from `start` on. A document may declare more inner chunks than memory holds.
    fn new_table(&self, index: &ShardIndex, start: u64, size: u64, scratch: &mut Memory) -> Outcome<Vec<Entry>> {
        index.span(size)?; // before memory is taken for a table that a short shard cannot have
        let mut table = Vec::new();
        table.try_reserve_exact(index.total).map_err(|_| out_of_memory(16 * index.total))?;
        table.resize(index.total, EMPTY);
        self.read_index(index, start, size, scratch, &mut table)?;
        Ok(table)
    }

    /// Reads and decodes the index of a shard in this chunk, `size` bytes from `start` on.
    pub fn read_index(&self, index: &ShardIndex, start: u64, size: u64, scratch: &mut Memory, table: &mut [Entry]) -> Outcome {
        let span = index.span(size)?;
        let (from, to) = (self.base + start + span.start, self.base + start + span.end);
        match self.bytes {
            Bytes::Buffer(bytes) => index.decode(&bytes[from as usize..to as usize], size, table),
            Bytes::File(opened) => {
                let data = scratch.room(index.nbytes)?;
                opened.read_at(from, data)?;
                index.decode(data, size, table)
            }
        }
    }
}

/// The place of each inner chunk in the chunk of the array, EMPTY for a missing one. An Err names the inner chunk at fault.
///
/// table: the index of the outermost level. numbers: for each level, the number of each inner chunk in its index.
pub fn find_chunks(
    extent: &Extent<'_>,
    levels: &[&ShardIndex],
    table: &[Entry],
    mut numbers: impl FnMut(usize) -> Vec<i64>,
    scratch: &mut Memory,
) -> Result<Vec<Entry>, (usize, Fault)> {
    let mut outer = numbers(0);
    let mut found: Vec<Entry> = outer.iter().map(|&number| table[number as usize]).collect();
    let mut group = vec![0usize; if levels.len() > 1 { outer.len() } else { 0 }]; // for each inner chunk, the shard of the level above that contains it
    for (depth, level) in levels.iter().enumerate().skip(1) {
        let inner = numbers(depth);
        let mut groups: HashMap<(usize, i64), usize> = HashMap::new();
        let mut tables: Vec<Option<(i64, Vec<Entry>)>> = Vec::new();
        for inner_chunk in 0..found.len() {
            let key = (group[inner_chunk], outer[inner_chunk]);
            let number = match groups.get(&key) {
                Some(&number) => number,
                None => {
                    let [start, length] = found[inner_chunk];
                    tables.push(if start < 0 {
                        None
                    } else {
                        let table = extent.new_table(level, start as u64, length as u64, scratch);
                        Some((start, table.map_err(|fault| (inner_chunk, fault))?))
                    });
                    groups.insert(key, tables.len() - 1);
                    tables.len() - 1
                }
            };
            group[inner_chunk] = number;
            found[inner_chunk] = match &tables[number] {
                Some((base, table)) => match table[inner[inner_chunk] as usize] {
                    EMPTY => EMPTY,
                    [start, length] => [base + start, length],
                },
                None => EMPTY,
            };
        }
        outer = inner;
    }
    Ok(found)
}
