//! Reads rows and passes their bytes on: sorted by offset, neighbours of a file merged into one read, groups of rows shared among threads.
//!
//! The sink uses the bytes. Their version is checked here.

use std::mem;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::{Bytes, Column, wrong};
use crate::failures::{Code, FailureRows, Failures, Fault, MISSING, Outcome};
use crate::memory::Memory;
use crate::sources::{Blob, Files, Opened, Sources, Version, span};
use crate::threads::{FEW, Lease, Threads, Worker, on_threads};

/// Bytes of one merged read (each thread holds as many), and the largest gap that is read to merge two rows.
const MERGED: u64 = 512 << 10;
const GAP: u64 = 4 << 10;
/// A read costs about as much as copying this many bytes.
pub const COST_OF_A_READ: usize = 4 << 10;
/// Smaller amounts of decoded bytes are not worth a thread: with a slow codec, and with copies or a codec about as fast, such as LZ4. Both take about 0.2 ms; a
/// thread costs 0.05 ms of CPU, and begins that much later.
const WORTH_A_THREAD: usize = 160 << 10;
const WORTH_A_THREAD_COPIED: usize = 1 << 20;
/// The most decoded bytes of one job.
const JOB_BYTES: usize = 8 << 20;

/// The part of a row that is read.
pub enum Requested {
    All,
    /// These bytes of it, counted from its start.
    Part(Range<usize>),
    /// The sink reads the bytes itself (`scattered`).
    Scattered,
}

/// Reads bytes of a row, counted from its start.
pub type ReadPart<'a> = &'a mut dyn FnMut(usize, &mut [u8]) -> Outcome;

/// The destination of the bytes of each row.
pub trait Sink: Sync {
    /// State that a thread keeps from one row to the next.
    type Local;

    fn local(&self) -> Self::Local;

    /// Decoded bytes of a row, approximately, as a measure of work.
    fn weight(&self, row: usize) -> usize;

    /// Whether bytes go through a codec that takes much longer than a copy.
    fn is_slow(&self) -> bool {
        true
    }

    /// Whether a row with this many bytes may be read at all.
    fn check_length(&self, _row: usize, _length: u64) -> Outcome {
        Ok(())
    }

    /// The part of a row that is read from a file.
    fn requested(&self, _row: usize) -> Requested {
        Requested::All
    }

    /// Memory for the requested bytes, if they need no further processing. Each row has its own part there.
    #[allow(clippy::mut_from_ref)]
    fn straight(&self, _local: &mut Self::Local, _row: usize, _length: usize) -> Option<&mut [u8]> {
        None
    }

    fn missing(&self, _local: &mut Self::Local, _worker: &mut Worker, _row: usize) -> Outcome {
        Ok(())
    }

    /// `bytes` are those of the row from `start` on.
    fn take(&self, local: &mut Self::Local, worker: &mut Worker, row: usize, bytes: &[u8], start: usize) -> Outcome;

    fn scattered(&self, _local: &mut Self::Local, _worker: &mut Worker, _row: usize, _read: ReadPart<'_>) -> Outcome {
        Ok(())
    }
}

/// A row, and its part to read.
struct Read {
    blob: i64,
    start: i64,
    length: i64,
    row: usize,
    requested: Requested,
}

impl Read {
    /// The bytes of the object that are read, if they are known before it is open and can be merged.
    fn extent(&self) -> Option<(u64, u64)> {
        let (start, length) = (u64::try_from(self.start).ok()?, u64::try_from(self.length).ok()?);
        let (from, to) = match &self.requested {
            Requested::All => (0, length),
            Requested::Part(part) => (part.start as u64, part.end as u64),
            Requested::Scattered => return None,
        };
        Some((start.checked_add(from)?, start.checked_add(to)?))
    }
}

/// The state of a file's version check in this call.
const UNSEEN: u8 = 0;
const AS_EXPECTED: u8 = 1;
const STALE: u8 = 2;

/// The versions that the files of a call must have, before and after.
pub struct Watch {
    expected: Vec<Option<Version>>,
    seen: Vec<AtomicU8>,
}

impl Watch {
    pub fn new(expected: Vec<Option<Version>>) -> Watch {
        let seen = expected.iter().map(|_| AtomicU8::new(UNSEEN)).collect();
        Watch { expected, seen }
    }

    /// Compares a file as it was opened, at its first use in the call, or, with `again`, as it is after its last use.
    fn check(&self, number: usize, opened: &Opened, again: bool) -> Outcome {
        let Some(expected) = self.expected[number] else { return Ok(()) };
        let seen = &self.seen[number];
        let state = match seen.load(Ordering::Relaxed) {
            AS_EXPECTED if !again => AS_EXPECTED,
            STALE => STALE,
            _ => {
                let version = if again { opened.version_now().map_err(Fault::io)? } else { opened.version };
                if version == expected { AS_EXPECTED } else { STALE }
            }
        };
        seen.store(state, Ordering::Relaxed);
        if state == STALE { Err(stale()) } else { Ok(()) }
    }

    /// Checks the used files that stay open again.
    fn check_again(&self, files: &Files) {
        for (number, seen) in self.seen.iter().enumerate() {
            if seen.load(Ordering::Relaxed) == AS_EXPECTED
                && files.stays_open()
                && !matches!(files.handle(number), Ok(Some(handle)) if self.check(number, &handle, true).is_ok())
            {
                seen.store(STALE, Ordering::Relaxed);
            }
        }
    }

    fn is_stale(&self, blob: i64) -> bool {
        usize::try_from(blob).is_ok_and(|number| self.seen.get(number).is_some_and(|seen| seen.load(Ordering::Relaxed) == STALE))
    }
}

#[cold]
fn stale() -> Fault {
    Fault::new(Code::Stale, "the file is not the one that was expected")
}

/// The `expect` of a call: for each file 24 bytes, or None.
pub fn parse_expect(expect: Option<&Bound<'_, PyAny>>, files: Option<&Files>) -> PyResult<Option<Watch>> {
    let Some(expect) = expect else { return Ok(None) };
    let mut expected = Vec::new();
    for version in expect.try_iter()? {
        let version: Option<Bound<'_, PyBytes>> = version?.extract()?;
        let parsed = version.map(|bytes| Version::parse(bytes.as_bytes()).ok_or_else(|| wrong("expect: a version is 24 bytes")));
        expected.push(parsed.transpose()?);
    }
    if expected.len() != files.map_or(0, Files::len) {
        return Err(wrong(format!("expect: got {} versions for {} files", expected.len(), files.map_or(0, Files::len))));
    }
    Ok(expected.iter().any(Option::is_some).then(|| Watch::new(expected)))
}

/// The rows of one call with their files and buffers, held during the call.
pub struct Rows<'py> {
    files: Option<Bound<'py, Files>>,
    buffers: Vec<Bytes>,
    rows: Column<3>,
}

impl<'py> Rows<'py> {
    /// ValueError if a row names a missing blob.
    pub fn new(files: Option<&Bound<'py, Files>>, buffers: &Bound<'_, PyAny>, rows: &Bound<'_, PyAny>) -> PyResult<Self> {
        let rows = Rows { files: files.cloned(), buffers: Bytes::all(buffers, "buffers")?, rows: Column::new(rows, "rows")? };
        rows.sources().check(&rows)?;
        Ok(rows)
    }

    pub fn files(&self) -> Option<&Files> {
        self.files.as_ref().map(Bound::get)
    }

    pub fn sources(&self) -> Sources<'_> {
        Sources::new(self.files(), &self.buffers)
    }

    /// Reads all rows into `sink`; returns the failures.
    pub fn fetch<S: Sink>(&self, py: Python<'_>, watch: Option<&Watch>, threads: isize, sink: &S) -> PyResult<FailureRows> {
        let (sources, rows): (_, &[[i64; 3]]) = (self.sources(), self);
        let weight = |row: usize| sink.weight(row).saturating_add(rows[row][2].max(0) as usize);
        let bytes = match self.files {
            None if rows.len() <= FEW => (0..rows.len()).map(weight).fold(0, usize::saturating_add),
            _ => usize::MAX,
        };
        Ok(on_threads(py, bytes, threads, |threads| fetch(&sources, rows, watch, threads, sink))?.into_rows())
    }
}

impl Deref for Rows<'_> {
    type Target = [[i64; 3]];

    fn deref(&self) -> &[[i64; 3]] {
        &self.rows
    }
}

/// Reads all rows, unless the call ends early; `sources` has all blobs of the rows.
pub fn fetch<S: Sink>(sources: &Sources<'_>, rows: &[[i64; 3]], watch: Option<&Watch>, threads: &Threads, sink: &S) -> Failures {
    let failures = Failures::default();
    let mut reads: Vec<Read> = Vec::with_capacity(rows.len());
    let (mut weight, mut largest) = (0usize, 0);
    for (row, &[blob, start, length]) in rows.iter().enumerate() {
        let own = sink.weight(row);
        (weight, largest) = (weight.saturating_add(own), largest.max(own));
        let requested = if blob >= 0 { sink.requested(row) } else { Requested::All };
        reads.push(Read { blob, start, length, row, requested });
    }
    let offset = |read: &Read| (read.blob, read.start);
    if !reads.is_sorted_by_key(offset) {
        reads.sort_unstable_by_key(|read| (read.blob, read.start, read.row));
    }
    let enough = if sink.is_slow() { WORTH_A_THREAD } else { WORTH_A_THREAD_COPIED };
    let most = if weight < enough { 1 } else { threads.most() };
    let groups = groups(&reads, sink, (weight / most.saturating_mul(4)).clamp(WORTH_A_THREAD, JOB_BYTES));
    let fetch = Fetch { sources, watch, sink, failures: &failures };
    let start = || (Lease::take(largest), sink.local());
    threads.run_jobs(groups.len(), most, start, |(worker, local), job| fetch.group(worker, local, &reads[groups[job].clone()]));
    if let (Some(watch), Some(files)) = (watch, sources.files) {
        watch.check_again(files);
        for (row, &[blob, ..]) in rows.iter().enumerate().rev() {
            if watch.is_stale(blob) {
                failures.set_stale(blob, row, stale());
            }
        }
    }
    failures
}

/// Groups of rows of one file that make one read, or of rows that need none; none with much more than `most` decoded bytes.
fn groups<S: Sink>(reads: &[Read], sink: &S, most: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let (mut weight, mut low, mut high): (usize, u64, Option<u64>) = (0, 0, None);
    for (at, read) in reads.iter().enumerate() {
        let extent = if read.blob >= 0 { read.extent() } else { None };
        weight = weight.saturating_add(sink.weight(read.row));
        if let Some(group) = groups.last_mut()
            && weight <= most
        {
            let first = &reads[group.start];
            let joins = match (extent, high) {
                (Some((from, to)), Some(end)) => {
                    first.blob == read.blob && from >= low && from <= end.saturating_add(GAP) && to.saturating_sub(low) <= MERGED
                }
                _ => read.blob < 0 && first.blob < 0,
            };
            if joins {
                group.end = at + 1;
                high = high.max(extent.map(|extent| extent.1));
                continue;
            }
        }
        groups.push(at..at + 1);
        weight = sink.weight(read.row);
        (low, high) = extent.map_or((0, None), |(from, to)| (from, Some(to)));
    }
    groups
}

struct Fetch<'a, S> {
    sources: &'a Sources<'a>,
    watch: Option<&'a Watch>,
    sink: &'a S,
    failures: &'a Failures,
}

impl<S: Sink> Fetch<'_, S> {
    fn group(&self, worker: &mut Worker, local: &mut S::Local, reads: &[Read]) {
        if let Some(Blob::File(files, number)) = self.sources.blob(reads[0].blob) {
            if let Err(fault) = self.file_group(worker, local, files, number, reads) {
                reads.iter().for_each(|read| self.failures.add(read.blob, read.row, fault.clone()));
            }
            return;
        }
        for read in reads {
            let done = match self.sources.blob(read.blob) {
                Some(Blob::Buffer(bytes)) => self.buffer(worker, local, read, bytes),
                _ => self.sink.missing(local, worker, read.row),
            };
            self.note(read, done);
        }
    }

    fn note(&self, read: &Read, done: Outcome) {
        if let Err(fault) = done {
            self.failures.add(read.blob, read.row, fault);
        }
    }

    fn buffer(&self, worker: &mut Worker, local: &mut S::Local, read: &Read, bytes: &[u8]) -> Outcome {
        let (start, length) = span(read.start, read.length, bytes.len() as u64)?;
        self.sink.check_length(read.row, length)?;
        self.sink.take(local, worker, read.row, &bytes[start as usize..(start + length) as usize], 0)
    }

    /// An Err is for all rows.
    fn file_group(&self, worker: &mut Worker, local: &mut S::Local, files: &Files, number: usize, reads: &[Read]) -> Outcome {
        let Some(handle) = files.handle(number)? else {
            for read in reads {
                debug_assert!(read.blob != MISSING);
                self.note(read, self.sink.missing(local, worker, read.row));
                self.failures.add(read.blob, read.row, Fault::new(Code::Missing, ""));
            }
            return Ok(());
        };
        let opened: &Opened = &handle;
        if let Some(watch) = self.watch {
            watch.check(number, opened, false)?;
        }
        let mut scratch = mem::take(&mut worker.read);
        if reads.len() == 1 || !self.merged(worker, local, opened, reads, &mut scratch) {
            for read in reads {
                self.note(read, self.single(worker, local, opened, read, &mut scratch));
            }
        }
        worker.read = scratch;
        match self.watch {
            Some(watch) if !files.stays_open() => watch.check(number, opened, true),
            _ => Ok(()),
        }
    }

    /// One read for all rows; false if it fails, so that each row is tried separately and the faulty ones are found.
    fn merged(&self, worker: &mut Worker, local: &mut S::Local, opened: &Opened, reads: &[Read], scratch: &mut Memory) -> bool {
        let size = opened.version.size as u64;
        let fits = |read: &Read| span(read.start, read.length, size).and_then(|(_, length)| self.sink.check_length(read.row, length));
        if !reads.iter().all(|read| fits(read).is_ok()) {
            return false;
        }
        let extents = || reads.iter().filter_map(Read::extent);
        let (low, high) = extents().fold((u64::MAX, 0), |(low, high), (from, to)| (low.min(from), high.max(to)));
        let Ok(bytes) = scratch.room((high - low) as usize) else { return false };
        if opened.read_at(low, bytes).is_err() {
            return false;
        }
        for (read, (from, to)) in reads.iter().zip(extents()) {
            let bytes = &bytes[(from - low) as usize..(to - low) as usize];
            let start = if let Requested::Part(part) = &read.requested { part.start } else { 0 };
            self.note(read, self.sink.take(local, worker, read.row, bytes, start));
        }
        true
    }

    fn single(&self, worker: &mut Worker, local: &mut S::Local, opened: &Opened, read: &Read, scratch: &mut Memory) -> Outcome {
        let (start, length) = span(read.start, read.length, opened.version.size as u64)?;
        self.sink.check_length(read.row, length)?;
        let part = match &read.requested {
            Requested::All => 0..length as usize,
            Requested::Part(part) => part.clone(),
            Requested::Scattered => {
                return self.sink.scattered(local, worker, read.row, &mut |from, into| opened.read_at(start + from as u64, into));
            }
        };
        let from = start + part.start as u64;
        if let Some(into) = self.sink.straight(local, read.row, part.len()) {
            return opened.read_at(from, into);
        }
        let bytes = scratch.room(part.len())?;
        opened.read_at(from, bytes)?;
        self.sink.take(local, worker, read.row, bytes, part.start)
    }
}
