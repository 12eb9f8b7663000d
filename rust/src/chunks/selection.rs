//! The part of an array that a read selects: boxes (columns for each axis) or points. They determine the shards that are read, and in each the inner chunks
//! that are needed. Nothing is read here.

use std::iter;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::chunks::boxes::{Boxes, Entries, Run};
use crate::chunks::decode::Chunks;
use crate::chunks::points::Points;
use crate::chunks::program::Program;
use crate::chunks::shard_index::ShardIndex;
use crate::columns::{Column, View, wrong};
use crate::failures::Failures;
use crate::fetch::{Watch, fetch};
use crate::sources::Sources;
use crate::threads::Threads;

/// Shards in some order, each with its inner chunks; both are counted from 0.
pub trait Selection: Sync {
    fn shards(&self) -> usize;

    /// Coordinates of a shard in the grid of the array.
    fn coordinates(&self, shard: usize) -> Vec<i64>;

    /// The number of inner chunks of a shard.
    fn inner_chunks(&self, shard: usize) -> usize;

    /// For each inner chunk of a shard its number in the index of a level.
    fn numbers(&self, shard: usize, level: usize) -> Vec<i64>;

    /// Coordinates of an inner chunk in the array's grid of inner chunks.
    fn chunk(&self, shard: usize, inner_chunk: usize) -> Vec<i64>;

    /// Decodes the inner chunks of these shards, a row for each. An Err is an error of the caller.
    fn decode(
        &self,
        shards: Range<usize>,
        sources: &Sources<'_>,
        rows: &[[i64; 3]],
        watch: Option<&Watch>,
        threads: &Threads,
    ) -> Result<Failures, String>;
}

/// How many inner chunks of an axis form one inner chunk of each level; with how many of those there are in a shard, and the stride of their number.
fn divisors(levels: &[&ShardIndex], axis: usize) -> Vec<[i64; 3]> {
    let below = |level: usize| levels[level + 1..].iter().map(|level| level.counts[axis]).product();
    (0..levels.len()).map(|level| [below(level), levels[level].counts[axis], levels[level].strides[axis]]).collect()
}

/// Inner chunks along an axis of a shard.
fn extent(levels: &[&ShardIndex], axis: usize) -> i64 {
    levels.iter().map(|level| level.counts[axis]).product()
}

/// The columns of one axis of a box. An entry is an inner chunk that is selected along it.
struct Axis {
    /// Coordinates of the entries' chunks.
    chunks: Vec<i64>,
    /// Coordinates of the selected shards, and the first entry of each; one more at the end.
    shards: Vec<i64>,
    starts: Vec<usize>,
    /// For each level, the part of each entry in the number of an inner chunk.
    numbers: Vec<Vec<i64>>,
    /// Entries of the axes before this one.
    before: usize,
}

impl Axis {
    /// entries: of this axis and those before it
    fn new(chunks: Vec<i64>, entries: usize, levels: &[&ShardIndex], axis: usize) -> Axis {
        let extent = extent(levels, axis);
        let (mut shards, mut starts) = (Vec::new(), Vec::new());
        for (entry, &chunk) in chunks.iter().enumerate() {
            let shard = chunk.div_euclid(extent);
            if shards.last() != Some(&shard) {
                shards.push(shard);
                starts.push(entry);
            }
        }
        starts.push(chunks.len());
        let number = |chunk: i64, [divide, count, stride]: [i64; 3]| chunk.rem_euclid(extent) / divide % count * stride;
        let numbers = divisors(levels, axis).into_iter().map(|by| chunks.iter().map(|&chunk| number(chunk, by)).collect());
        Axis { numbers: numbers.collect(), before: entries - chunks.len(), chunks, shards, starts }
    }
}

/// An axis whose elements are start, start + step, ... (size of them), in chunks of `extent` elements: its entries low to high.
fn regular([start, step, size, length, extent, low, high]: [i64; 7]) -> PyResult<(Vec<i64>, Vec<Run>)> {
    if start < 0 || step < 1 || size < 1 || extent < 1 || low < 0 || high < low {
        return Err(wrong("axes: not an axis"));
    }
    let [start, step, size, length, extent] = [start, step, size, length, extent].map(i128::from);
    let dense = step <= extent; // no chunk between the first and the last is skipped
    let entry = |number: i128| {
        if !dense {
            let element = number * step + start;
            return (element / extent, [element % extent, 1, 1, number]);
        }
        let chunk = start / extent + number;
        let base = chunk * extent;
        let position = |element: i128| (-(start - element).div_euclid(step)).clamp(0, size); // of the first selected element from there on
        let (begin, end) = (position(base), position(base + extent.min(length - base)));
        (chunk, [start + begin * step - base, end - begin, step, begin])
    };
    let entries = (low..high).map(|number| entry(i128::from(number)));
    Ok(entries.map(|(chunk, run)| (chunk as i64, run.map(|value| value as i64))).unzip())
}

/// A product of axes.
pub struct BoxSelection<'a> {
    program: &'a Program,
    axes: Vec<Axis>,
    entries: Entries<'static>,
    /// The shards of the product in C order that are read; None: all.
    rows: Option<Vec<usize>>,
    shards: usize,
    out: View<'a>,
}

impl<'a> BoxSelection<'a> {
    /// axes: for each a tuple, as the contract says.
    pub fn new(
        program: &'a Program,
        levels: &[&ShardIndex],
        axes: &Bound<'_, PyAny>,
        rows: Option<&Bound<'_, PyAny>>,
        out: View<'a>,
    ) -> PyResult<BoxSelection<'a>> {
        let (mut all, mut entries, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for axis in axes.try_iter()? {
            let axis = axis?;
            let first = runs.len() as i64;
            let (chunks, of_axis) = if axis.cast::<PyTuple>().is_ok_and(|axis| axis.len() == 7) {
                let (chunks, of_axis) = regular(axis.extract()?)?;
                entries.extend((0..of_axis.len() as i64).map(|run| [first + run, 1]));
                (chunks, of_axis)
            } else {
                let (chunks, of_axis, columns): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) = axis.extract()?;
                let (chunks, columns) = (Column::<1>::new(&chunks, "axes")?, Column::<4>::new(&columns, "axes")?);
                let of_axis = Column::<2>::of(&of_axis, "axes", chunks.len())?;
                entries.extend(of_axis.iter().map(|&[run, count]| [run.saturating_add(first), count]));
                (chunks.as_flattened().to_vec(), columns.to_vec())
            };
            runs.extend(of_axis);
            if all.len() == program.shape.len() {
                return Err(wrong(format!("axes: more than {} dimensions", all.len())));
            }
            all.push(Axis::new(chunks, entries.len(), levels, all.len()));
        }
        if all.len() != program.shape.len() {
            return Err(wrong(format!("axes: got {} for {} dimensions", all.len(), program.shape.len())));
        }
        let shards = all.iter().map(|axis| axis.shards.len()).product();
        let row = |row: &[i64; 1]| usize::try_from(row[0]).ok().filter(|&row| row < shards);
        let rows = match rows {
            Some(rows) => Column::<1>::new(rows, "rows")?.iter().map(row).collect::<Option<Vec<_>>>().map(Some),
            None => Some(None),
        };
        let rows = rows.ok_or_else(|| wrong("rows: there is no such shard"))?;
        let entries = Entries::new(&entries, runs, &program.shape).map_err(wrong)?;
        Ok(BoxSelection { program, axes: all, entries, rows, shards, out })
    }

    /// The entries of a shard along each axis.
    fn ranges(&self, shard: usize) -> Vec<Range<usize>> {
        let mut rest = self.rows.as_ref().map_or(shard, |rows| rows[shard]);
        let mut ranges = vec![0..0; self.axes.len()];
        for (axis, range) in self.axes.iter().zip(&mut ranges).rev() {
            let at = rest % axis.shards.len();
            rest /= axis.shards.len();
            *range = axis.starts[at]..axis.starts[at + 1];
        }
        ranges
    }

    /// For each inner chunk of a shard the sum of the values of its entries in `columns`.
    fn sums<'b>(&'b self, shard: usize, column: impl Fn(&'b Axis) -> &'b [i64]) -> Vec<i64> {
        let mut sums = vec![0];
        for (axis, range) in self.axes.iter().zip(self.ranges(shard)) {
            let values = &column(axis)[range];
            sums = sums.iter().flat_map(|sum| values.iter().map(move |value| sum + value)).collect();
        }
        sums
    }
}

impl Selection for BoxSelection<'_> {
    fn shards(&self) -> usize {
        self.rows.as_ref().map_or(self.shards, Vec::len)
    }

    fn coordinates(&self, shard: usize) -> Vec<i64> {
        let ranges = self.ranges(shard);
        self.axes
            .iter()
            .zip(ranges)
            .map(|(axis, range)| axis.shards[axis.starts.partition_point(|&start| start <= range.start) - 1])
            .collect()
    }

    fn inner_chunks(&self, shard: usize) -> usize {
        self.ranges(shard).into_iter().map(|range| range.len()).product()
    }

    fn numbers(&self, shard: usize, level: usize) -> Vec<i64> {
        self.sums(shard, |axis| &axis.numbers[level])
    }

    fn chunk(&self, shard: usize, inner_chunk: usize) -> Vec<i64> {
        let mut rest = inner_chunk;
        let mut chunk = vec![0; self.axes.len()];
        for ((axis, range), at) in self.axes.iter().zip(self.ranges(shard)).zip(&mut chunk).rev() {
            *at = axis.chunks[range.start + rest % range.len().max(1)];
            rest /= range.len().max(1);
        }
        chunk
    }

    fn decode(
        &self,
        shards: Range<usize>,
        sources: &Sources<'_>,
        rows: &[[i64; 3]],
        watch: Option<&Watch>,
        threads: &Threads,
    ) -> Result<Failures, String> {
        let mut index = Vec::with_capacity(rows.len() * self.axes.len());
        for shard in shards {
            let ranges = self.ranges(shard);
            let mut at: Vec<usize> = ranges.iter().map(|range| range.start).collect();
            for _ in 0..ranges.iter().map(Range::len).product() {
                index.extend(at.iter().zip(&self.axes).map(|(&entry, axis)| (axis.before + entry) as i64));
                for (entry, range) in at.iter_mut().zip(&ranges).rev() {
                    *entry += 1;
                    if *entry < range.end {
                        break;
                    }
                    *entry = range.start;
                }
            }
        }
        let boxes = Boxes::new(rows.len(), &index, &self.entries, &self.program.shape, self.out.shape)?;
        let chunks = Chunks::new(self.program, boxes, self.out.room, self.out.strides);
        Ok(fetch(sources, rows, watch, threads, &&chunks))
    }
}

/// Single elements. Columns as in the contract.
pub struct PointSelection<'a> {
    program: &'a Program,
    shards: &'a [i64],
    offsets: &'a [[i64; 1]],
    chunks: &'a [i64],
    first: &'a [[i64; 1]],
    points: &'a [[i64; 2]],
    out: View<'a>,
    /// For each axis: inner chunks in a shard, and the divisors of each level.
    axes: Vec<(i64, Vec<[i64; 3]>)>,
}

impl<'a> PointSelection<'a> {
    #[allow(clippy::too_many_arguments)] // the contract's columns
    pub fn new(
        program: &'a Program,
        levels: &[&ShardIndex],
        shards: &'a [i64],
        offsets: &'a [[i64; 1]],
        chunks: &'a [i64],
        first: &'a [[i64; 1]],
        points: &'a [[i64; 2]],
        out: View<'a>,
    ) -> PyResult<PointSelection<'a>> {
        let rank = program.shape.len();
        let inner_chunks = first.len().saturating_sub(1);
        let fits = |column: &[i64], rows: usize| rows.checked_mul(rank) == Some(column.len());
        let ends = offsets.first() == Some(&[0]) && offsets.last() == Some(&[inner_chunks as i64]);
        if !ends || !offsets.is_sorted() || first.is_empty() || !fits(shards, offsets.len() - 1) || !fits(chunks, inner_chunks) {
            return Err(wrong("shards, offsets, chunks, first: do not fit each other"));
        }
        let axes = (0..rank).map(|axis| (extent(levels, axis), divisors(levels, axis))).collect();
        Ok(PointSelection { program, shards, offsets, chunks, first, points, out, axes })
    }

    fn range(&self, shard: usize) -> Range<usize> {
        self.offsets[shard][0] as usize..self.offsets[shard + 1][0] as usize
    }

    fn chunk_of(&self, inner_chunk: usize) -> &'a [i64] {
        &self.chunks[inner_chunk * self.axes.len()..(inner_chunk + 1) * self.axes.len()]
    }
}

impl Selection for PointSelection<'_> {
    fn shards(&self) -> usize {
        self.offsets.len() - 1
    }

    fn coordinates(&self, shard: usize) -> Vec<i64> {
        self.shards[shard * self.axes.len()..(shard + 1) * self.axes.len()].to_vec()
    }

    fn inner_chunks(&self, shard: usize) -> usize {
        self.range(shard).len()
    }

    fn numbers(&self, shard: usize, level: usize) -> Vec<i64> {
        let number = |(&chunk, (extent, by)): (&i64, &(i64, Vec<[i64; 3]>))| {
            let [divide, count, stride] = by[level];
            chunk.rem_euclid(*extent) / divide % count * stride
        };
        self.range(shard).map(|inner_chunk| iter::zip(self.chunk_of(inner_chunk), &self.axes).map(number).sum()).collect()
    }

    fn chunk(&self, shard: usize, inner_chunk: usize) -> Vec<i64> {
        self.chunk_of(self.range(shard).start + inner_chunk).to_vec()
    }

    fn decode(
        &self,
        shards: Range<usize>,
        sources: &Sources<'_>,
        rows: &[[i64; 3]],
        watch: Option<&Watch>,
        threads: &Threads,
    ) -> Result<Failures, String> {
        let inner_chunks = self.offsets[shards.start][0] as usize..self.offsets[shards.end][0] as usize;
        let points =
            Points::new(self.program, &self.first[inner_chunks.start..=inner_chunks.end], self.points, self.out, inner_chunks.len())?;
        Ok(fetch(sources, rows, watch, threads, &&points))
    }
}
