//! The boxes of chunks, in columns: which elements of a chunk correspond to which positions of the array. They are checked here once, so that copying needs no
//! checks.

use std::borrow::Cow;
use std::ops::Range;

/// Elements start, start + step, ... (count of them) of a chunk along one dimension, at positions at, at + 1, ... of the array.
pub type Run = [i64; 4];

/// A dimension longer than this, covered by several runs, counts as not covered. Then the old chunk is read without need, but nothing else changes.
const LONGEST_BITMAP: usize = 1 << 30;

/// The properties of an entry's runs.
struct EntrySummary {
    runs: Range<usize>,
    low: usize,      // the first element of the chunk that they touch
    reach: usize,    // the last one plus 1
    position: usize, // the last position in the array plus 1
    elements: usize, // how many, repeated ones counted
    covered: usize,  // `reach` if every element below it is included, otherwise 0
}

/// The entries of which boxes are products, checked as far as possible without knowing their dimension.
pub struct Entries<'a> {
    runs: Cow<'a, [Run]>,
    summaries: Vec<EntrySummary>,
    some_empty: bool,
}

impl<'a> Entries<'a> {
    /// An Err names the invalid run or entry. shape: of a chunk
    pub fn new(entries: &[[i64; 2]], runs: impl Into<Cow<'a, [Run]>>, shape: &[usize]) -> Result<Entries<'a>, String> {
        let (runs, most) = (runs.into(), shape.iter().copied().max().unwrap_or(0));
        let summaries = entries.iter().map(|&entry| summary(entry, &runs, most)).collect::<Result<Vec<_>, _>>()?;
        let some_empty = summaries.iter().any(|summary| summary.elements == 0);
        Ok(Entries { runs, summaries, some_empty })
    }
}

/// The boxes of n chunks of d dimensions.
pub struct Boxes<'a> {
    pub inner_chunks: usize,
    dimensions: usize,
    index: &'a [i64],
    entries: &'a Entries<'a>,
}

impl<'a> Boxes<'a> {
    /// Checks that every box is inside a chunk of `shape` and inside an array of shape `array`. An Err names what is outside.
    /// index: for each of `inner_chunks` boxes an entry for each dimension
    pub fn new(
        inner_chunks: usize,
        index: &'a [i64],
        entries: &'a Entries<'a>,
        shape: &[usize],
        array: &[usize],
    ) -> Result<Boxes<'a>, String> {
        if shape.len() != array.len() {
            return Err(format!("the array has {} dimensions, the chunk {}", array.len(), shape.len()));
        }
        let dimensions = shape.len();
        if inner_chunks.checked_mul(dimensions) != Some(index.len()) {
            return Err(format!("index: {} numbers are not those of {inner_chunks} chunks", index.len()));
        }
        let boxes = Boxes { inner_chunks, dimensions, index, entries };
        for (i, &entry) in boxes.index.iter().enumerate() {
            let dimension = i % dimensions;
            let summary = usize::try_from(entry).ok().and_then(|entry| entries.summaries.get(entry));
            let summary = summary.ok_or_else(|| format!("index: there is no entry {entry}"))?;
            if summary.reach > shape[dimension] || summary.position > array[dimension] {
                let inner_chunk = i / dimensions;
                return Err(format!("the box of chunk {inner_chunk} reaches outside along dimension {dimension}"));
            }
        }
        Ok(boxes)
    }

    fn summaries(&self, inner_chunk: usize) -> impl DoubleEndedIterator<Item = &EntrySummary> + ExactSizeIterator {
        let row = &self.index[inner_chunk * self.dimensions..(inner_chunk + 1) * self.dimensions];
        row.iter().map(|&entry| &self.entries.summaries[entry as usize])
    }

    /// The runs of a chunk along each dimension.
    pub fn runs_of(&self, inner_chunk: usize) -> impl DoubleEndedIterator<Item = &'a [Run]> + ExactSizeIterator {
        self.summaries(inner_chunk).map(|summary| &self.entries.runs[summary.runs.clone()])
    }

    pub fn is_empty(&self, inner_chunk: usize) -> bool {
        self.entries.some_empty && self.summaries(inner_chunk).any(|summary| summary.elements == 0)
    }

    /// Whether the box contains every element of a chunk of `shape`.
    pub fn covers(&self, inner_chunk: usize, shape: &[usize]) -> bool {
        self.summaries(inner_chunk).zip(shape).all(|(summary, &extent)| summary.covered == extent)
    }

    /// How many elements the box has along the dimensions from `from` on, and the byte range in the chunk, given its strides along all
    /// dimensions, from the first of them to the end of the last.
    pub fn hull(&self, inner_chunk: usize, from: usize, strides: &[isize], itemsize: usize) -> (usize, Range<usize>) {
        let (mut elements, mut low, mut high) = (1usize, 0, 0);
        for (summary, &stride) in self.summaries(inner_chunk).zip(strides).skip(from) {
            elements = elements.saturating_mul(summary.elements);
            low += summary.low * stride as usize;
            high += summary.reach.saturating_sub(1) * stride as usize;
        }
        (elements, low..high + itemsize)
    }
}

/// `most` is the longest dimension of a chunk; longer ranges are refused later, when the dimension is known.
fn summary([first, count]: [i64; 2], runs: &[Run], most: usize) -> Result<EntrySummary, String> {
    let wrong = || format!("entries: ({first}, {count}) is not among {} runs", runs.len());
    let first = usize::try_from(first).map_err(|_| wrong())?;
    let end = usize::try_from(count).ok().and_then(|count| first.checked_add(count)).ok_or_else(wrong)?;
    let mine = runs.get(first..end).ok_or_else(wrong)?;
    let mut summary = EntrySummary { runs: first..end, low: usize::MAX, reach: 0, position: 0, elements: 0, covered: 0 };
    for run in mine {
        let (reach, position) = ends(run).ok_or_else(|| format!("runs: {run:?} is not a run"))?;
        summary.low = summary.low.min(run[0] as usize);
        summary.reach = summary.reach.max(reach);
        summary.position = summary.position.max(position);
        summary.elements = summary.elements.saturating_add(run[1] as usize);
    }
    summary.low = if mine.is_empty() { 0 } else { summary.low };
    if summary.reach <= most && covers_all(mine, &summary) {
        summary.covered = summary.reach;
    }
    Ok(summary)
}

/// The last element plus 1, and the last position in the array plus 1.
fn ends(&[start, count, step, at]: &Run) -> Option<(usize, usize)> {
    if start < 0 || count < 1 || step < 1 || at < 0 {
        return None;
    }
    let last = (count - 1).checked_mul(step)?.checked_add(start)?;
    Some((usize::try_from(last.checked_add(1)?).ok()?, usize::try_from(at.checked_add(count)?).ok()?))
}

fn covers_all(runs: &[Run], summary: &EntrySummary) -> bool {
    if let [[0, count, step, _]] = runs {
        return *step == 1 || *count == 1;
    }
    if summary.elements < summary.reach || summary.low > 0 || summary.reach > LONGEST_BITMAP {
        return false;
    }
    let mut seen = vec![false; summary.reach];
    for &[start, count, step, _] in runs {
        (0..count).for_each(|i| seen[(start + i * step) as usize] = true);
    }
    seen.into_iter().all(|seen| seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_make_no_sense_are_refused() {
        let max = i64::MAX;
        for run in [[-1, 1, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 1, 1, -1], [1, max, max, 0], [max, 1, 1, 0], [0, max, 1, 1]] {
            assert!(summary([0, 1], &[run], 10).is_err(), "{run:?}");
        }
        for entry in [[-1, 1], [0, 2], [0, -1], [max, max], [2, 0]] {
            assert!(summary(entry, &[[0, 1, 1, 0]], 10).is_err(), "{entry:?}");
        }
    }

    #[test]
    fn coverage_counts_elements_once() {
        let covered = |runs: &[Run]| summary([0, runs.len() as i64], runs, 10).unwrap().covered;
        assert_eq!(covered(&[[0, 5, 1, 3]]), 5);
        assert_eq!(covered(&[[0, 3, 2, 0], [1, 2, 2, 3]]), 5);
        assert_eq!(covered(&[[0, 3, 2, 0], [0, 3, 2, 3]]), 0);
        assert_eq!(covered(&[[1, 4, 1, 0]]), 0);
        assert_eq!(covered(&[[0, 3, 2, 0]]), 0);
        assert_eq!(covered(&[]), 0);
    }
}
