//! Copies the boxes of chunks between chunks and a strided array, one chunk after the other on one thread.

use std::cell::Cell;

use crate::chunks::boxes::{Boxes, Run};
use crate::chunks::copy::{Axis, Copier, Item};
use crate::failures::Outcome;

/// Runs of this length or more get their own plan.
const LONG_RUN: i64 = 16;

#[derive(Clone, Copy, PartialEq)]
pub enum Direction {
    ToArray,
    ToChunk,
}

/// The two strides of all copies of a call: bytes between neighbours along each dimension.
#[derive(Clone, Copy)]
pub struct CopyStrides<'a> {
    pub direction: Direction,
    pub item: &'a Item,
    pub chunk: &'a [isize],
    pub array: &'a [isize],
}

impl CopyStrides<'_> {
    fn axis(&self, dimension: usize, run: &Run) -> Axis {
        let chunk = self.chunk[dimension].wrapping_mul(run[2] as isize);
        let array = self.array[dimension];
        match self.direction {
            Direction::ToArray => Axis { count: run[1] as usize, from: chunk, to: array },
            Direction::ToChunk => Axis { count: run[1] as usize, from: array, to: chunk },
        }
    }

    /// The offset of an element from the first one on either side.
    fn offsets(&self, dimension: usize, run: &Run, number: i64) -> (isize, isize) {
        let (element, position) = (run[0] + number * run[2], run[3] + number);
        (self.chunk[dimension].wrapping_mul(element as isize), self.array[dimension].wrapping_mul(position as isize))
    }

    /// # Safety
    /// As Copier::run, with the strides in the roles of the direction.
    unsafe fn run(&self, copier: &Copier, chunk: *mut u8, array: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.direction {
                Direction::ToArray => copier.run(self.item, chunk, array),
                Direction::ToChunk => copier.run(self.item, array, chunk),
            }
        }
    }
}

/// The box of one chunk, planned: dimensions before `split` are walked element by element, the others are one copy. Plans are kept
/// from one chunk to the next, as neighbours mostly differ only in their position.
pub struct BoxCopier<'a> {
    boxes: &'a Boxes<'a>,
    strides: CopyStrides<'a>,
    runs: Vec<&'a [Run]>,
    split: usize,
    key: Vec<(i64, i64)>, // count and step of each dimension from `split` on, for which `copier` was planned
    copier: Copier,
    long: Cell<Copier>,
    base: (isize, isize), // of the dimensions from `split` on
}

impl<'a> BoxCopier<'a> {
    pub fn new(boxes: &'a Boxes<'a>, strides: CopyStrides<'a>) -> BoxCopier<'a> {
        let mut copier = Copier::default();
        copier.plan([].into_iter(), strides.item);
        let (runs, key) = (Vec::with_capacity(strides.chunk.len()), Vec::with_capacity(strides.chunk.len()));
        BoxCopier { boxes, strides, runs, split: 0, key, copier, long: Cell::default(), base: (0, 0) }
    }

    /// Selects a chunk whose box is not empty; at least `walked` dimensions are walked.
    pub fn select(&mut self, inner_chunk: usize, walked: usize) {
        if walked > 0 || self.split > 0 || !self.select_like_before(inner_chunk) {
            self.select_anew(inner_chunk, walked);
        }
    }

    /// Selects a chunk whose box differs from the previous one only in its position, as most do; false if it does not.
    fn select_like_before(&mut self, inner_chunk: usize) -> bool {
        if self.key.len() != self.strides.chunk.len() {
            return false;
        }
        let (mut chunk, mut array) = (0isize, 0isize);
        for (dimension, (runs, key)) in self.boxes.runs_of(inner_chunk).zip(&self.key).enumerate() {
            let [run] = runs else { return false };
            if (run[1], run[2]) != *key {
                return false;
            }
            chunk = chunk.wrapping_add(self.strides.chunk[dimension].wrapping_mul(run[0] as isize));
            array = array.wrapping_add(self.strides.array[dimension].wrapping_mul(run[3] as isize));
        }
        self.base = (chunk, array);
        true
    }

    fn select_anew(&mut self, inner_chunk: usize, walked: usize) {
        self.runs.clear();
        self.runs.extend(self.boxes.runs_of(inner_chunk));
        let split = self.runs.iter().rposition(|runs| runs.len() != 1).map_or(0, |last| last + 1).max(walked);
        self.base = (0, 0);
        let mut same = split == self.split && self.key.len() == self.runs.len() - split;
        for (dimension, runs) in self.runs.iter().enumerate().skip(split) {
            let (chunk, array) = self.strides.offsets(dimension, &runs[0], 0);
            self.base = (self.base.0.wrapping_add(chunk), self.base.1.wrapping_add(array));
            same = same && self.key[dimension - split] == (runs[0][1], runs[0][2]);
        }
        if !same {
            self.split = split;
            self.key.clear();
            self.key.extend(self.runs[split..].iter().map(|runs| (runs[0][1], runs[0][2])));
            let (strides, runs) = (self.strides, &self.runs);
            self.copier.plan((split..runs.len()).map(|dimension| strides.axis(dimension, &runs[dimension][0])), strides.item);
        }
    }

    /// Where the selected box begins in chunk and array, and its length, if its bytes are contiguous in both.
    pub fn one_row(&self) -> Option<(isize, isize, usize)> {
        if self.split > 0 {
            return None;
        }
        self.copier.one_row().map(|len| (self.base.0, self.base.1, len))
    }

    /// Copies the selected box, or one of the parts that `parts` gives for the same `walked`.
    ///
    /// # Safety
    /// `chunk` is the address at which the chunk begins (or would begin, if only the hull of the box is in memory) and `array` the first element of the array
    /// with which the boxes were checked, both moved by the offsets of the part; the source may be read and the destination written at the elements of the box
    /// or part; they do not overlap.
    pub unsafe fn copy(&self, walked: usize, chunk: *mut u8, array: *mut u8) {
        if self.split == walked {
            let (chunk, array) = (chunk.wrapping_offset(self.base.0), array.wrapping_offset(self.base.1));
            // SAFETY: the runs of a box are inside the chunk and inside the array (Boxes::new).
            return unsafe { self.strides.run(&self.copier, chunk, array) };
        }
        let (outer, last) = (self.split - 1, self.runs[self.split - 1]);
        let strides = self.strides;
        let mut long = self.long.take();
        let copied = self.walk(walked, outer, self.base, &mut |(from_chunk, from_array)| {
            for run in last {
                let rest = if run[1] >= LONG_RUN {
                    let tail = (self.split..self.runs.len()).map(|dimension| strides.axis(dimension, &self.runs[dimension][0]));
                    long.plan(std::iter::once(strides.axis(outer, run)).chain(tail), strides.item);
                    (1, &long)
                } else {
                    (run[1], &self.copier)
                };
                for number in 0..rest.0 {
                    let (a, b) = strides.offsets(outer, run, number);
                    let chunk = chunk.wrapping_offset(from_chunk.wrapping_add(a));
                    let array = array.wrapping_offset(from_array.wrapping_add(b));
                    // SAFETY: as above; the walk visits only elements of the runs.
                    unsafe { strides.run(rest.1, chunk, array) };
                }
            }
            Ok(())
        });
        debug_assert!(copied.is_ok());
        self.long.set(long);
    }

    /// Calls `visit` with the offsets (chunk, array) of each part of the box with one index along each of the first `walked` dimensions, at most as many as in
    /// `select`.
    pub fn parts(&self, walked: usize, visit: &mut impl FnMut((isize, isize)) -> Outcome) -> Outcome {
        self.walk(0, walked, (0, 0), visit)
    }

    fn walk(&self, dimension: usize, end: usize, at: (isize, isize), visit: &mut impl FnMut((isize, isize)) -> Outcome) -> Outcome {
        if dimension == end {
            return visit(at);
        }
        for run in self.runs[dimension] {
            for number in 0..run[1] {
                let (chunk, array) = self.strides.offsets(dimension, run, number);
                self.walk(dimension + 1, end, (at.0.wrapping_add(chunk), at.1.wrapping_add(array)), visit)?;
            }
        }
        Ok(())
    }
}
