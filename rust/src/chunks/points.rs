//! Points: single elements of chunks, each with its position in a one-dimensional array.

use std::ops::Range;

use crate::chunks::program::Program;
use crate::columns::{Room, View};
use crate::failures::Outcome;
use crate::fetch::{COST_OF_A_READ, ReadPart, Requested, Sink};
use crate::threads::Worker;

/// The points of n chunks, checked, and their array.
pub struct Points<'a> {
    pub program: &'a Program,
    first: &'a [[i64; 1]],
    points: &'a [[i64; 2]],
    array: Room,
    stride: isize,
}

impl<'a> Points<'a> {
    /// array: of items that the program has (Program::check_items)
    pub fn new(
        program: &'a Program,
        first: &'a [[i64; 1]],
        points: &'a [[i64; 2]],
        array: View<'_>,
        inner_chunks: usize,
    ) -> Result<Points<'a>, String> {
        if first.len().checked_sub(1) != Some(inner_chunks) {
            return Err(format!("first: expected {} numbers, got {}", inner_chunks + 1, first.len()));
        }
        let (&[extent], &[stride]) = (array.shape, array.strides) else {
            return Err(format!("the array has {} dimensions, not one", array.shape.len()));
        };
        if first[0][0] < 0 || !first.is_sorted() || first[inner_chunks][0] > points.len() as i64 {
            return Err(format!("first: does not go upward within 0..={}", points.len()));
        }
        let inside = |value: i64, end: usize| usize::try_from(value).is_ok_and(|value| value < end);
        if let Some(point) = points[first[0][0] as usize..first[inner_chunks][0] as usize]
            .iter()
            .find(|point| !inside(point[0], program.elements) || !inside(point[1], extent))
        {
            return Err(format!("points: {point:?} lies outside the chunk or the array"));
        }
        Ok(Points { program, first, points, array: array.room, stride })
    }

    pub fn of(&self, inner_chunk: usize) -> &'a [[i64; 2]] {
        &self.points[self.first[inner_chunk][0] as usize..self.first[inner_chunk + 1][0] as usize]
    }

    /// The offset of each point in its chunk, in bytes, and its address in the array.
    pub fn addresses(&self, inner_chunk: usize) -> impl Iterator<Item = (usize, *mut u8)> {
        self.of(inner_chunk).iter().map(|&[position, at]| {
            let offset = self.stride.wrapping_mul(at as isize);
            (self.program.offset(position as usize), self.array.start().wrapping_offset(offset))
        })
    }

    fn hull(&self, inner_chunk: usize) -> Range<usize> {
        let (low, high) = self.addresses(inner_chunk).fold((usize::MAX, 0), |(low, high), (offset, _)| (low.min(offset), high.max(offset)));
        if low > high { 0..0 } else { low..high + self.program.itemsize }
    }

    /// Copies the points of a chunk out of it.
    fn scatter(&self, inner_chunk: usize, chunk: &[u8], start: usize) {
        let item = &self.program.item;
        for (offset, address) in self.addresses(inner_chunk) {
            let from = &chunk[offset - start..][..item.size()];
            // SAFETY: `from` is one item; `address` is that of an item of the array (Points::new), which is lent for the call.
            unsafe { item.copy(from.as_ptr(), address) };
        }
    }
}

impl<'a> Sink for &'a Points<'a> {
    type Local = ();

    fn local(&self) {}

    fn weight(&self, inner_chunk: usize) -> usize {
        if self.program.chain.is_empty() { self.of(inner_chunk).len() * self.program.itemsize } else { self.program.size }
    }

    fn is_slow(&self) -> bool {
        self.program.chain.is_slow()
    }

    fn check_length(&self, _inner_chunk: usize, length: u64) -> Outcome {
        self.program.check_length(length)
    }

    fn requested(&self, inner_chunk: usize) -> Requested {
        if !self.program.chain.is_empty() {
            return Requested::All;
        }
        let hull = self.hull(inner_chunk);
        if hull.len() > COST_OF_A_READ && hull.len() / COST_OF_A_READ > self.of(inner_chunk).len() {
            return Requested::Scattered;
        }
        Requested::Part(hull)
    }

    fn missing(&self, (): &mut (), _worker: &mut Worker, inner_chunk: usize) -> Outcome {
        for (_, address) in self.addresses(inner_chunk) {
            let fill = &self.program.fill;
            // SAFETY: as in `scatter`; the fill value is one item.
            unsafe { std::ptr::copy_nonoverlapping(fill.as_ptr(), address, fill.len()) };
        }
        Ok(())
    }

    fn take(&self, (): &mut (), worker: &mut Worker, inner_chunk: usize, bytes: &[u8], start: usize) -> Outcome {
        let program = self.program;
        let chunk = match program.chain.is_empty() {
            true => bytes,
            false => program.chain.view(&mut worker.tools, bytes, &program.sizes, self.hull(inner_chunk))?,
        };
        self.scatter(inner_chunk, chunk, start);
        Ok(())
    }

    fn scattered(&self, (): &mut (), worker: &mut Worker, inner_chunk: usize, read: ReadPart<'_>) -> Outcome {
        let item = &self.program.item;
        for (offset, address) in self.addresses(inner_chunk) {
            let bytes = worker.chunk.room(item.size())?;
            read(offset, bytes)?;
            // SAFETY: as in `scatter`.
            unsafe { item.copy(bytes.as_ptr(), address) };
        }
        Ok(())
    }
}
