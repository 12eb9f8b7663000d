//! Threads that live inside one call: tickets handed out by a counter, the calling thread working too; and pooled workers.

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::chunks::chain::Tools;
use crate::memory::Memory;

/// What a thread works with: contexts of codecs and scratch.
#[derive(Default)]
pub struct Worker {
    pub tools: Tools,
    /// Bytes read from files.
    pub read: Memory,
    /// A chunk being put together.
    pub chunk: Memory,
}

/// Workers that are kept, and the bytes of scratch that they hold together.
const IDLE_WORKERS: usize = 16;
const IDLE_SCRATCH: usize = 128 << 20;

struct Idle {
    workers: Vec<Worker>,
    scratch: usize,
}

/// Workers between calls; taken with `try_lock` only, so that a fork does no harm.
static IDLE: Mutex<Idle> = Mutex::new(Idle { workers: Vec::new(), scratch: 0 });

impl Worker {
    fn memories(&mut self) -> [&mut Memory; 4] {
        let [one, two] = &mut self.tools.stages;
        [&mut self.read, &mut self.chunk, one, two]
    }

    fn scratch(&mut self) -> usize {
        self.memories().iter().map(|memory| memory.capacity()).sum()
    }
}

/// A worker that goes back to the pool when it is dropped.
pub struct Lease(Option<Worker>);

impl Lease {
    /// A worker for chunks of `len` decoded bytes: of those at hand the one with the least scratch that has so much, so that a reader of large chunks and a writer of
    /// small ones beside it do not both end up with large scratch.
    pub fn take(len: usize) -> Lease {
        let idle = IDLE.try_lock().ok().and_then(|mut idle| {
            let rank = |worker: &mut Worker| match worker.scratch() {
                scratch if scratch >= len => (0, scratch),
                scratch => (1, usize::MAX - scratch),
            };
            let (_, at) = idle.workers.iter_mut().enumerate().map(|(at, worker)| (rank(worker), at)).min()?;
            let mut worker = idle.workers.swap_remove(at);
            idle.scratch -= worker.scratch();
            Some(worker)
        });
        Lease(Some(idle.unwrap_or_default()))
    }
}

impl Deref for Lease {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        self.0.as_ref().expect("held until dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Worker {
        self.0.as_mut().expect("held until dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(mut worker) = self.0.take() else { return };
        if thread::panicking() {
            return; // a context in an unknown state is not used again
        }
        if let Ok(mut idle) = IDLE.try_lock()
            && idle.workers.len() < IDLE_WORKERS
        {
            if idle.scratch + worker.scratch() > IDLE_SCRATCH {
                worker.memories().into_iter().for_each(Memory::free);
            }
            idle.scratch += worker.scratch();
            idle.workers.push(worker);
        }
    }
}

/// Does tickets 0..tickets on at most `threads` threads, in no order; each thread has its own state.
pub fn share<S>(tickets: usize, threads: usize, start: impl Fn() -> S + Sync, work: impl Fn(&mut S, usize) + Sync) {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut state = None;
        loop {
            let ticket = next.fetch_add(1, Ordering::Relaxed);
            if ticket >= tickets {
                return;
            }
            work(state.get_or_insert_with(&start), ticket);
        }
    };
    let helpers = threads.min(tickets).saturating_sub(1);
    if helpers == 0 {
        return run();
    }
    thread::scope(|scope| {
        for _ in 0..helpers {
            // A thread that the system refuses is work for the others.
            if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
}

/// Runs `work` without the GIL; a panic, which no input should cause, becomes a RuntimeError.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(|_| PyRuntimeError::new_err("the kernel failed: please report this"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ticket_is_done_once() {
        for threads in [0, 1, 3, 50] {
            let done: Vec<AtomicUsize> = (0..20).map(|_| AtomicUsize::new(0)).collect();
            share(
                20,
                threads,
                || (),
                |(), ticket| {
                    done[ticket].fetch_add(1, Ordering::Relaxed);
                },
            );
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
        share(0, 4, || (), |(), _| panic!("no ticket"));
    }

    #[test]
    fn small_chunks_leave_large_scratch_to_others() {
        let (mut large, mut small) = (Lease::take(0), Lease::take(0));
        large.chunk.room(40 << 20).unwrap();
        small.chunk.room(20 << 20).unwrap();
        drop(small);
        drop(large);
        let (small, large) = (Lease::take(10 << 20), Lease::take(30 << 20));
        assert!(small.chunk.capacity() <= 20 << 20);
        assert!(large.chunk.capacity() >= 40 << 20);
    }

    #[test]
    fn a_worker_is_used_again() {
        let mut lease = Lease::take(0);
        lease.chunk.room(100).unwrap()[0] = 7;
        lease.read.room(IDLE_SCRATCH + 1).unwrap();
        drop(lease);
        assert!(Lease::take(0).read.capacity() <= IDLE_SCRATCH);
        assert!(IDLE.lock().unwrap().scratch <= IDLE_SCRATCH);
    }
}
