//! `encode_chunks`: chunks gathered from a strided array, merged with old ones, encoded into segments.

use std::ops::Range;
use std::sync::Mutex;

use pyo3::prelude::*;

use crate::chunks::box_copies::{BoxCopier, CopyStrides, Direction};
use crate::chunks::boxes::{Boxes, Entries};
use crate::chunks::chain::Target;
use crate::chunks::copy::{fill, is_all};
use crate::chunks::points::Points;
use crate::chunks::program::{Elements, Program};
use crate::columns::{Column, ColumnMut, Room, Strided, Table, wrong};
use crate::failures::{FailureRows, Failures, MISSING, Outcome};
use crate::fetch::Rows;
use crate::memory::{Growing, Segment};
use crate::sources::{Blob, Files, Sources, span};
use crate::threads::{Lease, Threads, Worker, on_threads};

/// Decoded bytes for one segment, approximately. It does not depend on the number of threads, and neither do the segments.
const SEGMENT: usize = 1 << 20;
/// Less work is not worth a thread: with a codec, and with a copy only.
const WORTH_A_THREAD: usize = 64 << 10;
const WORTH_A_THREAD_COPIED: usize = 1 << 20;

/// The source of the elements of new chunks.
trait Gather: Sync {
    type Local<'a>
    where
        Self: 'a;

    fn local(&self) -> Self::Local<'_>;

    /// Selects a chunk.
    fn select(&self, local: &mut Self::Local<'_>, inner_chunk: usize);

    /// Whether every element of the chunk is given.
    fn covers(&self, inner_chunk: usize) -> bool;

    /// The whole chunk, if it is in the source exactly as it is stored.
    fn ready(&self, local: &Self::Local<'_>, inner_chunk: usize) -> Option<&[u8]>;

    fn gather(&self, local: &mut Self::Local<'_>, inner_chunk: usize, chunk: &mut [u8]);
}

struct BoxGather<'a> {
    program: &'a Program,
    boxes: Boxes<'a>,
    source: Room,
    strides: &'a [isize],
}

impl Gather for BoxGather<'_> {
    type Local<'b>
        = BoxCopier<'b>
    where
        Self: 'b;

    fn local(&self) -> BoxCopier<'_> {
        let program = self.program;
        let strides = CopyStrides { direction: Direction::ToChunk, item: &program.item, chunk: &program.strides, array: self.strides };
        BoxCopier::new(&self.boxes, strides)
    }

    fn select(&self, box_copier: &mut BoxCopier<'_>, inner_chunk: usize) {
        if !self.boxes.is_empty(inner_chunk) {
            box_copier.select(inner_chunk, 0);
        }
    }

    fn covers(&self, inner_chunk: usize) -> bool {
        self.boxes.covers(inner_chunk, &self.program.shape)
    }

    fn ready(&self, box_copier: &BoxCopier<'_>, inner_chunk: usize) -> Option<&[u8]> {
        if self.boxes.is_empty(inner_chunk) {
            return None;
        }
        let (_, at, len) = box_copier.one_row().filter(|row| row.2 == self.program.size)?;
        // SAFETY: the selected box is inside the source, which is lent for the call, as `len` contiguous bytes from `at` on.
        Some(unsafe { std::slice::from_raw_parts(self.source.start().wrapping_offset(at), len) })
    }

    fn gather(&self, box_copier: &mut BoxCopier<'_>, inner_chunk: usize, chunk: &mut [u8]) {
        if !self.boxes.is_empty(inner_chunk) {
            debug_assert_eq!(chunk.len(), self.program.size);
            // SAFETY: `chunk` is a whole chunk of our own; the box is inside the source, which is lent for the call.
            unsafe { box_copier.copy(0, chunk.as_mut_ptr(), self.source.start()) };
        }
    }
}

impl Gather for Points<'_> {
    type Local<'b>
        = ()
    where
        Self: 'b;

    fn local(&self) {}

    fn select(&self, (): &mut (), _inner_chunk: usize) {}

    fn covers(&self, inner_chunk: usize) -> bool {
        let (points, elements) = (self.of(inner_chunk), self.program.elements);
        if points.len() < elements {
            return false;
        }
        let mut seen = vec![false; elements]; // not more than there are points
        points.iter().for_each(|point| seen[point[0] as usize] = true);
        seen.into_iter().all(|seen| seen)
    }

    fn ready(&self, (): &(), _inner_chunk: usize) -> Option<&[u8]> {
        None
    }

    fn gather(&self, (): &mut (), inner_chunk: usize, chunk: &mut [u8]) {
        let item = &self.program.item;
        for (offset, address) in self.addresses(inner_chunk) {
            let to = &mut chunk[offset..][..item.size()];
            // SAFETY: `to` is one item; `address` is that of an item of the array (Points::new), which is lent for the call.
            unsafe { item.copy(address, to.as_mut_ptr()) };
        }
    }
}

/// The old chunks, for the elements that are not gathered.
struct Old<'a> {
    sources: Sources<'a>,
    rows: &'a [[i64; 3]],
}

struct Encode<'a, G> {
    program: &'a Program,
    gather: &'a G,
    old: Option<Old<'a>>,
    keep_fill: bool,
}

/// The result of one job.
struct Slot<'a> {
    inner_chunks: Range<usize>,
    lengths: &'a mut [[i64; 1]],
    segment: Growing,
}

impl<G: Gather> Encode<'_, G> {
    fn slot(&self, worker: &mut Worker, local: &mut G::Local<'_>, slot: &mut Slot<'_>, threads: &Threads, failures: &Failures) {
        let bound = self.program.chain.bound(self.program.size).unwrap_or(0);
        if let Ok(segment) = Growing::with_room(bound.saturating_mul(slot.inner_chunks.len())) {
            slot.segment = segment; // otherwise it grows, and a chunk that does not fit fails alone
        }
        for inner_chunk in slot.inner_chunks.clone() {
            if !self.program.chain.is_empty() && threads.ended() {
                return;
            }
            let start = slot.segment.len();
            let length = self.encode(worker, local, inner_chunk, &mut slot.segment, threads).unwrap_or_else(|fault| {
                failures.add(inner_chunk as i64, inner_chunk, fault);
                Some(0)
            });
            if length.is_none_or(|length| length == 0) {
                slot.segment.cut(start);
            }
            slot.lengths[inner_chunk - slot.inner_chunks.start] = [length.map_or(-1, |length| length as i64)];
        }
    }

    /// Appends a chunk; its length, or None if it is only the fill value.
    fn encode(
        &self,
        worker: &mut Worker,
        local: &mut G::Local<'_>,
        inner_chunk: usize,
        out: &mut Growing,
        threads: &Threads,
    ) -> Outcome<Option<usize>> {
        let program = self.program;
        let is_fill = |chunk: &[u8], stored: &[u8]| !self.keep_fill && is_all(chunk, stored);
        self.gather.select(local, inner_chunk);
        if self.gather.covers(inner_chunk)
            && !program.chain.sums_input()
            && let Some(chunk) = self.gather.ready(local, inner_chunk)
        {
            // Nothing is swapped here, so the fill value has its stored form.
            let skip = is_fill(chunk, &program.stored_fill);
            return if skip { Ok(None) } else { program.chain.encode(&mut worker.tools, chunk, out, &|| threads.ended()).map(Some) };
        }
        if program.chain.is_empty() {
            self.assemble(worker, local, inner_chunk, out.tail(program.size)?)?;
            let start = out.len();
            out.advance(program.size);
            let skip = is_fill(&out.bytes()[start..], &program.stored_fill);
            return Ok((!skip).then_some(program.size));
        }
        let mut scratch = std::mem::take(&mut worker.chunk);
        let done = scratch.room(program.size).and_then(|chunk| {
            self.assemble(worker, local, inner_chunk, chunk)?;
            if is_fill(chunk, &program.stored_fill) {
                return Ok(None);
            }
            program.chain.encode(&mut worker.tools, chunk, out, &|| threads.ended()).map(Some)
        });
        worker.chunk = scratch;
        done
    }

    fn assemble(&self, worker: &mut Worker, local: &mut G::Local<'_>, inner_chunk: usize, chunk: &mut [u8]) -> Outcome {
        if !self.gather.covers(inner_chunk) {
            self.load_old(worker, inner_chunk, chunk)?;
        }
        self.gather.gather(local, inner_chunk, chunk);
        Ok(())
    }

    fn load_old(&self, worker: &mut Worker, inner_chunk: usize, chunk: &mut [u8]) -> Outcome {
        let program = self.program;
        let none = (Blob::Missing, [MISSING, 0, 0]);
        let (blob, [_, start, length]) = match &self.old {
            Some(old) => (old.sources.blob(old.rows[inner_chunk][0]).unwrap_or(Blob::Missing), old.rows[inner_chunk]),
            None => none,
        };
        let mut decode = |worker: &mut Worker, bytes: &[u8]| {
            program.chain.decode(&mut worker.tools, bytes, &program.sizes, Target::Slice(chunk)).map(|_| ())
        };
        match blob {
            Blob::Missing => {}
            Blob::Buffer(bytes) => {
                let (start, length) = span(start, length, bytes.len() as u64)?;
                program.check_length(length)?;
                return decode(worker, &bytes[start as usize..(start + length) as usize]);
            }
            Blob::File(files, number) => {
                if let Some(opened) = files.handle(number)? {
                    let (start, length) = span(start, length, opened.version.size as u64)?;
                    program.check_length(length)?;
                    let mut read = std::mem::take(&mut worker.read);
                    let bytes = read.room(length as usize)?;
                    let done = opened.read_at(start, bytes).and_then(|()| decode(worker, bytes));
                    worker.read = read;
                    return done;
                }
            }
        }
        fill(chunk, &program.stored_fill);
        Ok(())
    }
}

/// Runs of chunks that become a segment each; never across the end of a group.
fn jobs(groups: &[[i64; 1]], inner_chunks: usize, size: usize) -> Result<Vec<Range<usize>>, String> {
    let sound = groups.first() == Some(&[0]) && groups.is_sorted() && groups.last() == Some(&[inner_chunks as i64]);
    if !sound {
        return Err(format!("groups: does not go from 0 upward to {inner_chunks}"));
    }
    let most = (SEGMENT / size).max(1);
    let mut jobs = Vec::new();
    for pair in groups.windows(2) {
        let (mut at, end) = (pair[0][0] as usize, pair[1][0] as usize);
        while at < end {
            let next = end.min(at + most);
            jobs.push(at..next);
            at = next;
        }
    }
    Ok(jobs)
}

type Answer = (Vec<Segment>, Vec<usize>, FailureRows);

#[allow(clippy::too_many_arguments)] // the contract's columns
fn encode_gathered<G: Gather>(
    py: Python<'_>,
    program: &Program,
    gather: &G,
    inner_chunks: usize,
    old: Option<&Bound<'_, PyAny>>,
    groups: &Bound<'_, PyAny>,
    keep_fill: bool,
    threads: isize,
    lengths: &Bound<'_, PyAny>,
) -> PyResult<Answer> {
    let old = old_rows(old, inner_chunks)?;
    let groups = Column::<1>::new(groups, "groups")?;
    let mut lengths = ColumnMut::<1>::of(lengths, "lengths", inner_chunks)?;
    let mut lengths = lengths.rows();
    let reads_files = old.as_ref().is_some_and(|rows| rows.files().is_some());
    let old = old.as_ref().map(|rows| Old { sources: rows.sources(), rows });
    let encode = Encode { program, gather, old, keep_fill };
    let jobs = jobs(&groups, inner_chunks, program.size).map_err(wrong)?;
    let table = std::iter::once(0).chain(jobs.iter().map(|inner_chunks| inner_chunks.end)).collect();
    let mut slots = Vec::with_capacity(jobs.len());
    for inner_chunks in jobs {
        let (mine, rest) = lengths.split_at_mut(inner_chunks.len());
        lengths = rest;
        slots.push(Mutex::new(Slot { inner_chunks, lengths: mine, segment: Growing::default() }));
    }
    let enough = if program.chain.is_empty() { WORTH_A_THREAD_COPIED } else { WORTH_A_THREAD };
    let decoded = inner_chunks.saturating_mul(program.size);
    let most = if decoded < enough { 1 } else { usize::MAX };
    let failures = Failures::default();
    let work = if reads_files { usize::MAX } else { program.chain.encoding_work(inner_chunks, decoded) };
    on_threads(py, work, threads, |threads| {
        threads.run_jobs(
            slots.len(),
            most,
            || (Lease::take(program.size), encode.gather.local()),
            |(worker, local), job| {
                // Each job has one thread: the lock is never contended.
                if let Ok(mut slot) = slots[job].lock() {
                    encode.slot(worker, local, &mut slot, threads, &failures);
                }
            },
        );
    })?;
    let segments = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).segment);
    Ok((segments.map(Segment::new).collect(), table, failures.into_rows()))
}

/// The `old` of a call: a row for each inner chunk.
fn old_rows<'py>(old: Option<&Bound<'py, PyAny>>, inner_chunks: usize) -> PyResult<Option<Rows<'py>>> {
    let Some(old) = old else { return Ok(None) };
    let (files, buffers, rows): (Option<Bound<'py, Files>>, Bound<'py, PyAny>, Bound<'py, PyAny>) = old.extract()?;
    let rows = Rows::new(files.as_ref(), &buffers, &rows)?;
    if rows.len() != inner_chunks {
        return Err(wrong(format!("old: expected {inner_chunks} rows, got {}", rows.len())));
    }
    Ok(Some(rows))
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's columns
pub fn encode_chunks(
    py: Python<'_>,
    program: &Bound<'_, Program>,
    source: &Bound<'_, PyAny>,
    elements: Elements<'_>,
    old: Option<&Bound<'_, PyAny>>,
    groups: &Bound<'_, PyAny>,
    keep_fill: bool,
    threads: isize,
    lengths: &Bound<'_, PyAny>,
) -> PyResult<Answer> {
    let program = program.get();
    let source = program.check_items(Strided::readable(source, "source")?, "source")?;
    match elements {
        Elements::Boxes(index, entries, runs) => {
            let index = Table::new(&index, "index", program.shape.len())?;
            let (entries, runs) = (Column::<2>::new(&entries, "entries")?, Column::<4>::new(&runs, "runs")?);
            let entries = Entries::new(&entries, &*runs, &program.shape).map_err(wrong)?;
            let boxes = Boxes::new(index.rows(), index.values(), &entries, &program.shape, &source.shape).map_err(wrong)?;
            let inner_chunks = boxes.inner_chunks;
            let gather = BoxGather { program, boxes, source: source.room(), strides: &source.strides };
            encode_gathered(py, program, &gather, inner_chunks, old, groups, keep_fill, threads, lengths)
        }
        Elements::Points(first, points) => {
            let (first, points) = (Column::<1>::new(&first, "first")?, Column::<2>::new(&points, "points")?);
            let inner_chunks = first.len().saturating_sub(1);
            let gather = Points::new(program, &first, &points, source.view(), inner_chunks).map_err(wrong)?;
            encode_gathered(py, program, &gather, inner_chunks, old, groups, keep_fill, threads, lengths)
        }
    }
}
