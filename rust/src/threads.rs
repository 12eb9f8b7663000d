//! Threads that live inside one call: a counter assigns jobs, or names of files, the calling thread works too, and a signal ends the call. And pooled
//! workers.

use std::ops::{Deref, DerefMut, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::chunks::chain::Tools;
use crate::memory::Memory;

/// The tools of a thread: contexts of codecs and scratch.
#[derive(Default)]
pub struct Worker {
    pub tools: Tools,
    /// Bytes read from files.
    pub read: Memory,
    /// A chunk in progress.
    pub chunk: Memory,
}

/// Workers that are kept, and the bytes of their scratch together.
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

/// A worker that returns to the pool when it is dropped.
pub struct Lease(Worker);

impl Lease {
    /// A worker for chunks of `len` decoded bytes: the available one with the least scratch that is large enough, so that a reader of large chunks and a writer
    /// of small ones at the same time do not both end up with large scratch.
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
        Lease(idle.unwrap_or_default())
    }
}

impl Deref for Lease {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.0
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Worker {
        &mut self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if thread::panicking() {
            return; // a context in an unknown state is not used again
        }
        if let Ok(mut idle) = IDLE.try_lock()
            && idle.workers.len() < IDLE_WORKERS
        {
            let mut worker = std::mem::take(&mut self.0);
            if idle.scratch + worker.scratch() > IDLE_SCRATCH {
                worker.memories().into_iter().for_each(Memory::free);
            }
            idle.scratch += worker.scratch();
            idle.workers.push(worker);
        }
    }
}

/// How long a call runs before it checks again whether Python has a signal to handle.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The threads of one call, and whether it ends early. Python handles signals, such as that of Ctrl-C, only in its main thread, and only when it is asked to:
/// the thread that made the call asks between jobs.
pub struct Threads {
    most: usize,
    caller: ThreadId,
    ended: AtomicBool,
    /// Locked only by the caller.
    signals: Mutex<Signals>,
}

struct Signals {
    next_poll: Instant,
    /// Whether the caller is Python's main thread; None until a call has taken long enough to need it.
    is_main: Option<bool>,
    raised: Option<PyErr>,
}

impl Threads {
    pub fn new(most: isize) -> Threads {
        let signals = Signals { next_poll: Instant::now() + POLL_INTERVAL, is_main: None, raised: None };
        Threads { most: most.max(1) as usize, caller: thread::current().id(), ended: AtomicBool::new(false), signals: Mutex::new(signals) }
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// Whether the rest of the call need not be done, as it returns an error. To be checked by every thread after work of about a millisecond.
    pub fn ended(&self) -> bool {
        if !self.ended.load(Ordering::Relaxed)
            && thread::current().id() == self.caller
            && let Ok(mut signals) = self.signals.lock()
            && signals.raise()
        {
            self.ended.store(true, Ordering::Relaxed);
        }
        self.ended.load(Ordering::Relaxed)
    }

    /// Runs jobs 0..jobs on at most this many of the threads, in no order; each thread has its own state. If the call ends early, some are skipped.
    pub fn run_jobs<S>(&self, jobs: usize, most: usize, start: impl Fn() -> S + Sync, work: impl Fn(&mut S, usize) + Sync) {
        let next = AtomicUsize::new(0);
        let run = || {
            let mut state = None;
            let _panic = EndOnPanic(&self.ended);
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= jobs || self.ended() {
                    return;
                }
                work(state.get_or_insert_with(&start), job);
            }
        };
        let helpers = self.most.min(most).min(jobs).saturating_sub(1);
        if helpers == 0 {
            return run();
        }
        let (busy, caller) = (AtomicUsize::new(helpers), thread::current());
        thread::scope(|scope| {
            for started in 0..helpers {
                let help = || {
                    let _end = ThreadEnd { busy: &busy, caller: &caller };
                    run();
                };
                if thread::Builder::new().spawn_scoped(scope, help).is_err() {
                    // The system has no more threads: the others do all the work.
                    busy.fetch_sub(helpers - started, Ordering::Release);
                    break;
                }
            }
            run();
            while busy.load(Ordering::Acquire) > 0 {
                thread::park_timeout(POLL_INTERVAL); // the others may wait for locks: a signal must end that
                self.ended();
            }
        });
    }
}

/// Ends the call when a thread panics: the others may wait for locks, and a caller that panics no longer lets Python handle signals.
struct EndOnPanic<'a>(&'a AtomicBool);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Records the end of a thread, however it ends.
struct ThreadEnd<'a> {
    busy: &'a AtomicUsize,
    caller: &'a Thread,
}

impl Drop for ThreadEnd<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::Release);
        self.caller.unpark();
    }
}

impl Signals {
    /// Lets Python handle signals if it is time; returns whether a handler raised.
    fn raise(&mut self) -> bool {
        let now = Instant::now();
        if self.raised.is_none() && self.is_main != Some(false) && now >= self.next_poll {
            self.next_poll = now + POLL_INTERVAL;
            // The check itself runs Python code, in which a pending signal is handled: an exception of its handler must not be lost.
            self.raised = Python::try_attach(|py| {
                let is_main = self.is_main.map_or_else(|| is_main_thread(py), Ok);
                is_main.and_then(|is_main| if *self.is_main.insert(is_main) { py.check_signals() } else { Ok(()) }).err()
            })
            .flatten();
        }
        self.raised.is_some()
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}

/// Runs `work` on at most this many threads, without the GIL as `detached`. Raises the exception of a Python signal handler, whatever `work` returns.
pub fn on_threads<T: Send>(py: Python<'_>, bytes: usize, most: isize, work: impl FnOnce(&Threads) -> T + Send) -> PyResult<T> {
    let threads = Threads::new(most);
    let answer = detached(py, bytes, || work(&threads));
    let signals = threads.signals.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    signals.raised.map_or(answer, Err)
}

pub const RUN: usize = 16; // names that a thread takes at once: they are often in one folder

/// Runs `step` for each row of the result, on at most this many threads, each with its own state; Ctrl-C ends the call between two rows and while a thread waits.
/// Then, and after a panic, the call raises, and the rows have any value.
pub fn for_names<const W: usize, State: Default>(
    py: Python<'_>,
    threads: usize,
    result: &mut [[i64; W]],
    step: impl Fn(usize, &mut State, &Threads) -> [i64; W] + Sync,
) -> PyResult<()> {
    for_runs(py, threads, result, RUN, |run, state, threads| {
        run.map_while(|number| (!threads.ended()).then(|| step(number, state, threads))).collect()
    })
}

/// As for_names, for runs of at most `length` neighbours: `step` returns the results of the first names of a run, as many as it has done.
pub fn for_runs<const W: usize, State: Default>(
    py: Python<'_>,
    threads: usize,
    result: &mut [[i64; W]],
    length: usize,
    step: impl Fn(Range<usize>, &mut State, &Threads) -> Vec<[i64; W]> + Sync,
) -> PyResult<()> {
    let runs: Vec<_> = result.chunks_mut(length).map(Mutex::new).collect();
    on_threads(py, usize::MAX, isize::try_from(threads).unwrap_or(isize::MAX), |threads| {
        threads.run_jobs(runs.len(), usize::MAX, State::default, |state, job| {
            // Each run has one thread: the lock is never contended.
            if let Ok(mut rows) = runs[job].lock() {
                let answers = step(job * length..job * length + rows.len(), state, threads);
                rows[..answers.len()].copy_from_slice(&answers);
            }
        });
    })
}

/// More items than this are not brief work, however small they are: each takes a microsecond or more.
pub const FEW: usize = 16;

/// Bytes up to which work takes less than it costs to give the GIL away: another thread is woken on another core, and this one waits for it.
const BRIEF: usize = 4 << 10;

/// Runs `work` without the GIL, unless it is brief; a panic, which no input should cause, becomes a RuntimeError.
///
/// bytes: what it reads or makes in memory; usize::MAX if it reads files, waits for anything, has more than FEW items or a codec that takes long for a few bytes
pub fn detached<T: Send>(py: Python<'_>, bytes: usize, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let caught = || catch_unwind(AssertUnwindSafe(work));
    let done = if bytes <= BRIEF { caught() } else { py.detach(caught) };
    done.map_err(|_| PyRuntimeError::new_err("the kernel failed: please report this"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_is_done_once() {
        for threads in [0, 1, 3, 50] {
            let done: Vec<AtomicUsize> = (0..20).map(|_| AtomicUsize::new(0)).collect();
            Threads::new(threads).run_jobs(
                20,
                usize::MAX,
                || (),
                |(), job| {
                    done[job].fetch_add(1, Ordering::Relaxed);
                },
            );
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
        Threads::new(4).run_jobs(0, 4, || (), |(), _| panic!("no job"));
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
