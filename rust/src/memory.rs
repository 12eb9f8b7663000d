//! Memory that is used again: scratch that grows, and the pool to which segments return their memory.
//!
//! Pools are taken with `try_lock` only: a forked child may find them locked for ever, and then works without them.

use std::alloc::{Layout, alloc_zeroed};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::Mutex;
use std::{mem, ptr};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::columns::{BytesMut, Room};
use crate::failures::{Code, Fault, Outcome};

/// The most bytes in the segment pool.
const POOLED: usize = 128 << 20;
/// Segments of at least this size are worth pooling: fresh memory costs a page fault every 4 KiB.
const WORTH_POOLING: usize = 16 << 10;

/// The least size of a page on Linux.
const PAGE: usize = 4096;

/// Provides the pages of fresh memory in one call of the system: a page fault for each of them takes twice as long. Does nothing where they are there already.
#[pyfunction]
pub fn populate(values: &Bound<'_, PyAny>) -> PyResult<()> {
    populate_room(BytesMut::new(values, "values")?.room());
    Ok(())
}

/// The room is held by the caller. A system that refuses to populate it provides the pages later, one by one.
fn populate_room(room: Room) {
    let (start, end) = (room.start() as usize, (room.start() as usize).saturating_add(room.len()));
    let (first, end) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
    if first >= end {
        return;
    }
    let (middle, mut is_present) = (first.midpoint(end) / PAGE * PAGE, 0);
    // SAFETY: the system writes one byte, as one page is asked for, and touches no other memory.
    let known = unsafe { libc::mincore(middle as *mut _, PAGE, &raw mut is_present) } == 0;
    if known && is_present & 1 == 0 {
        // SAFETY: whole pages of the room; no byte of them changes.
        unsafe { libc::madvise(first as *mut _, end - first, libc::MADV_POPULATE_WRITE) };
    }
}

/// Bytes, all initialised, that a caller may overwrite; they do not shrink.
#[derive(Default)]
pub struct Memory(Vec<u8>);

impl Memory {
    pub fn of(bytes: Vec<u8>) -> Memory {
        Memory(bytes)
    }

    /// Room for `len` bytes of any value; its old content may be lost.
    pub fn room(&mut self, len: usize) -> Outcome<&mut [u8]> {
        if self.0.len() < len {
            self.0 = Vec::new(); // first free the old memory, then allocate
            self.0 = zeroed(len.max(4096)).ok_or_else(|| out_of_memory(len))?;
        }
        Ok(&mut self.0[..len])
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    pub fn capacity(&self) -> usize {
        self.0.len()
    }

    pub fn free(&mut self) {
        self.0 = Vec::new();
    }
}

/// Zeroed bytes: the system provides large ones page by page when they are touched, so an unused rest costs nothing.
fn zeroed(len: usize) -> Option<Vec<u8>> {
    let layout = Layout::array::<u8>(len).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout has a size above zero.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    // SAFETY: allocated by the global allocator with the layout of `len` bytes, all of them initialised to zero.
    Some(unsafe { Vec::from_raw_parts(start, len, len) })
}

#[cold]
pub fn out_of_memory(len: usize) -> Fault {
    Fault::new(Code::Io, format!("12 no memory for {len} bytes")) // 12 is ENOMEM
}

struct Pool {
    idle: VecDeque<Memory>,
    bytes: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { idle: VecDeque::new(), bytes: 0 });

/// Memory of at least `len` bytes, from the pool if it has some that fits.
pub fn take(len: usize) -> Outcome<Memory> {
    if len >= WORTH_POOLING
        && let Ok(mut pool) = POOL.try_lock()
        && let Some(at) = pool.idle.iter().rposition(|memory| (len..=len.saturating_mul(4)).contains(&memory.capacity()))
        && let Some(memory) = pool.idle.remove(at)
    {
        pool.bytes -= memory.capacity();
        return Ok(memory);
    }
    let mut memory = Memory::default();
    if len > 0 {
        memory.room(len)?;
    }
    Ok(memory)
}

/// Returns memory to the pool, which frees its oldest memory if it would hold too much.
pub fn give(memory: Memory) {
    let size = memory.capacity();
    if (WORTH_POOLING..=POOLED).contains(&size)
        && let Ok(mut pool) = POOL.try_lock()
    {
        while pool.bytes + size > POOLED {
            let Some(oldest) = pool.idle.pop_front() else { break };
            pool.bytes -= oldest.capacity();
        }
        pool.bytes += size;
        pool.idle.push_back(memory);
    }
}

/// Bytes that are appended to, in pooled memory.
#[derive(Default)]
pub struct Growing {
    memory: Memory,
    len: usize,
}

impl Growing {
    pub fn with_room(len: usize) -> Outcome<Growing> {
        Ok(Growing { memory: take(len)?, len: 0 })
    }

    pub fn of(memory: Memory, len: usize) -> Growing {
        Growing { memory, len }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }

    /// The next `len` bytes, to be written before `advance` includes them.
    pub fn tail(&mut self, len: usize) -> Outcome<&mut [u8]> {
        let needed = self.len.checked_add(len).ok_or_else(|| out_of_memory(len))?;
        if needed > self.memory.capacity() {
            let mut larger = take(needed.max(self.memory.capacity().saturating_mul(2)))?;
            larger.bytes_mut()[..self.len].copy_from_slice(&self.memory.bytes()[..self.len]);
            give(mem::replace(&mut self.memory, larger));
        }
        Ok(&mut self.memory.bytes_mut()[self.len..needed])
    }

    pub fn advance(&mut self, len: usize) {
        self.len = (self.len + len).min(self.memory.capacity());
    }

    pub fn append(&mut self, bytes: &[u8]) -> Outcome {
        self.tail(bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Removes the bytes that were appended after `len`.
    pub fn cut(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        give(mem::take(&mut self.memory));
    }
}

/// Frozen bytes that the kernel created, lent to Python without a copy; their memory returns to a pool when the segment is dropped.
#[pyclass(frozen, module = "frazil._kernel")]
pub struct Segment(Growing);

impl Segment {
    pub fn new(bytes: Growing) -> Segment {
        Segment(bytes)
    }
}

#[pymethods]
impl Segment {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// # Safety
    /// Called by Python with a view to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let bytes = slf.get().0.bytes();
        let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: Python's view; the bytes do not move or change while the object lives (it is frozen), and the view holds the object. Marked as
        // read-only, so a request to write is refused.
        if unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) } == 0 {
            return Ok(());
        }
        // SAFETY: as above; a refused view holds nothing.
        unsafe { (*view).obj = ptr::null_mut() };
        Err(PyErr::fetch(slf.py()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_keeps_what_was_appended() {
        let mut bytes = Growing::with_room(3).unwrap();
        for i in 0..10_000u32 {
            bytes.append(&i.to_le_bytes()).unwrap();
        }
        bytes.cut(39_996);
        assert_eq!(bytes.len(), 39_996);
        assert_eq!(bytes.bytes()[39_992..], 9998u32.to_le_bytes());
    }

    #[test]
    fn populated_memory_keeps_its_bytes() {
        let mut memory = vec![0i64; 1 << 17]; // fresh: the system has provided no page
        populate_room(Room::of(&mut memory));
        assert!(memory.iter().all(|&value| value == 0));
        memory.fill(7);
        populate_room(Room::of(&mut memory));
        assert!(memory.iter().all(|&value| value == 7));
        populate_room(Room::of(&mut memory[..100]));
    }

    #[test]
    fn what_cannot_be_had_is_a_failure() {
        assert_eq!(Memory::default().room(usize::MAX).unwrap_err().code, Code::Io);
        assert_eq!(Growing::with_room(1 << 62).err().unwrap().code, Code::Io);
    }
}
