//! `encode_elements`: encodes chunks of views by vlen-utf8, vlen-bytes and vlen-array (format: decode.rs), and then by further codecs.

use std::sync::Mutex;

use pyo3::prelude::*;

use crate::chunks::chain::Chain;
use crate::columns::{Bytes, Column, ColumnMut, wrong};
use crate::elements::heap::{Heap, VIEW, View};
use crate::failures::{Code, FailureRows, Failures, Fault, MISSING, Outcome};
use crate::memory::{Growing, Segment};
use crate::sources::{Blob, Sources, span};
use crate::threads::{Lease, Threads, Worker, on_threads};

/// Elements in a segment, approximately.
const SEGMENT: usize = 32 << 10;
/// Fewer elements are not worth a thread.
const WORTH_A_THREAD: usize = 4 << 10;

struct Encode<'a> {
    chain: &'a Chain,
    heap: Heap<'a>,
    sources: Sources<'a>,
    rows: &'a [[i64; 3]],
}

impl Encode<'_> {
    /// Appends a chunk; its length, or None if the row is missing.
    fn encode(&self, worker: &mut Worker, inner_chunk: usize, out: &mut Growing, threads: &Threads) -> Outcome<Option<usize>> {
        let [blob, start, length] = self.rows[inner_chunk];
        let Some(Blob::Buffer(bytes)) = self.sources.blob(blob).filter(|_| blob != MISSING && length >= 0) else { return Ok(None) };
        let (start, length) = span(start, length, bytes.len() as u64)?;
        let views = bytes[start as usize..(start + length) as usize].as_chunks::<VIEW>().0;
        let mut scratch = std::mem::take(&mut worker.chunk);
        let done = self
            .serialise(views, &mut scratch)
            .and_then(|size| self.chain.encode(&mut worker.tools, &scratch.bytes()[..size], out, &|| threads.ended()).map(Some));
        worker.chunk = scratch;
        done
    }

    fn serialise(&self, views: &[[u8; VIEW]], scratch: &mut crate::memory::Memory) -> Outcome<usize> {
        let size = views.iter().map(|view| View::read(view).length as usize + 4).sum::<usize>() + 4;
        let count = u32::try_from(views.len()).map_err(|_| Fault::new(Code::Encode, "vlen: a chunk may have 2^32 - 1 elements at most"))?;
        let (head, mut rest) = scratch.room(size)?.split_at_mut(4);
        head.copy_from_slice(&count.to_le_bytes());
        for view in views.iter().map(View::read) {
            let element = self.heap.element(view)?;
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(4);
            let (text, tail) = tail.split_at_mut(element.len());
            head.copy_from_slice(&view.length.to_le_bytes());
            text.copy_from_slice(element);
            rest = tail;
        }
        Ok(size)
    }
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's columns
pub fn encode_elements(
    py: Python<'_>,
    codecs: &Bound<'_, PyAny>,
    heap: &Bound<'_, PyAny>,
    buffers: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    threads: isize,
    lengths: &Bound<'_, PyAny>,
) -> PyResult<(Vec<Segment>, Vec<usize>, FailureRows)> {
    let chain = Chain::parse(codecs)?;
    let (heap, buffers) = (Bytes::all(heap, "heap")?, Bytes::all(buffers, "buffers")?);
    let rows = Column::<3>::new(rows, "rows")?;
    let sources = Sources::new(None, &buffers);
    sources.check(&rows)?;
    let held = heap.iter().map(|one| one.as_slice().len()).sum();
    let mut lengths = ColumnMut::<1>::of(lengths, "lengths", rows.len())?;
    if rows.iter().any(|row| row[2] >= 0 && row[2] % VIEW as i64 != 0) {
        return Err(wrong("rows: not a multiple of 16 bytes"));
    }
    let encode = Encode { chain: &chain, heap: Heap::new(&heap), sources, rows: &rows };
    let elements = rows.iter().map(|row| usize::try_from(row[2]).unwrap_or(0) / VIEW).max().unwrap_or(0).max(1);
    let most = (SEGMENT / elements).max(1);
    let slots: Vec<_> = lengths.rows().chunks_mut(most).map(|lengths| Mutex::new((lengths, Growing::default()))).collect();
    let table = (0..slots.len()).map(|slot| slot * most).chain([rows.len()]).collect();
    let helped = if rows.len().saturating_mul(elements) < WORTH_A_THREAD { 1 } else { usize::MAX };
    let failures = Failures::default();
    let bytes = rows.len().saturating_mul(elements).saturating_mul(VIEW).saturating_add(held);
    on_threads(py, chain.encoding_work(rows.len(), bytes), threads, |threads| {
        threads.run_jobs(
            slots.len(),
            helped,
            || Lease::take(elements.saturating_mul(VIEW)),
            |worker, slot| {
                // Each slot has one thread: the lock is never contended.
                let Ok(mut held) = slots[slot].lock() else { return };
                let (lengths, segment) = &mut *held;
                for (i, length) in lengths.iter_mut().enumerate() {
                    if threads.ended() {
                        return;
                    }
                    let (inner_chunk, start) = (slot * most + i, segment.len());
                    let made = encode.encode(worker, inner_chunk, segment, threads).unwrap_or_else(|fault| {
                        segment.cut(start);
                        failures.add(inner_chunk as i64, inner_chunk, fault);
                        Some(0)
                    });
                    *length = [made.map_or(-1, |made| made as i64)];
                }
            },
        );
    })?;
    let segments = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).1);
    Ok((segments.map(Segment::new).collect(), table, failures.into_rows()))
}
