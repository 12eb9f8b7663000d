//! Threads that share the names of one call, with the GIL released. The caller defines what is done with a name.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, Thread};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::files::lock::Wait;

pub(crate) const RUN: usize = 16; // names that a thread takes at once: they are often in one folder

/// Records the end of a thread, however it ends.
struct Leaving<'a> {
    busy: &'a AtomicUsize,
    caller: &'a Thread,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::Release);
        self.caller.unpark();
    }
}

/// Runs `step` for each row of the result, on at most this many threads, each with its own state; Ctrl-C stops it between two rows and while it waits. `lost`
/// is the result for rows whose thread died.
pub(crate) fn carry_out<const W: usize, State: Default>(
    py: Python<'_>,
    threads: usize,
    result: &mut [[i64; W]],
    lost: [i64; W],
    step: impl Fn(usize, &mut State, &Wait<'_>) -> [i64; W] + Sync,
) -> PyResult<()> {
    carry_out_runs(py, threads, result, lost, |run, state, wait| {
        let mut polled = Instant::now();
        run.map_while(|number| (!wait.poll(&mut polled)).then(|| step(number, state, wait))).collect()
    })
}

/// As carry_out, for several neighbours at once: `step` returns the results of the first names of a run, as many as it has done.
pub(crate) fn carry_out_runs<const W: usize, State: Default>(
    py: Python<'_>,
    threads: usize,
    result: &mut [[i64; W]],
    lost: [i64; W],
    step: impl Fn(Range<usize>, &mut State, &Wait<'_>) -> Vec<[i64; W]> + Sync,
) -> PyResult<()> {
    let count = result.len();
    let threads = threads.clamp(1, count.div_ceil(RUN).max(1));
    let (stop, next, busy) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(threads));
    let caller = std::thread::current();
    result.fill(lost);
    let work = |wait: Wait<'_>| {
        let _done = Leaving { busy: &busy, caller: &caller };
        let (mut state, mut answers, mut polled) = (State::default(), Vec::new(), Instant::now());
        loop {
            let run = next.fetch_add(RUN, Ordering::Relaxed);
            if run >= count || wait.poll(&mut polled) {
                break;
            }
            answers.extend((run..).zip(step(run..count.min(run.saturating_add(RUN)), &mut state, &wait)));
        }
        answers
    };
    let raised = py.detach(|| {
        let raised = std::cell::RefCell::new(None);
        let signals = || {
            let checked = Python::try_attach(|py| py.check_signals());
            let Some(Err(error)) = checked else { return false };
            *raised.borrow_mut() = Some(error);
            true
        };
        std::thread::scope(|scope| {
            let mut others = Vec::new();
            for started in 1..threads {
                let spawned = Builder::new().spawn_scoped(scope, || work(Wait { stop: &stop, signals: None }));
                match spawned {
                    Ok(other) => others.push(other),
                    Err(_) => {
                        // The system has no more threads: the existing ones do all the work.
                        busy.fetch_sub(threads - started, Ordering::Release);
                        break;
                    }
                }
            }
            let wait = || Wait { stop: &stop, signals: Some(&signals) };
            let mut answers = work(wait());
            let mut polled = Instant::now();
            while busy.load(Ordering::Acquire) > 0 {
                std::thread::park_timeout(Duration::from_millis(20));
                wait().poll(&mut polled);
            }
            answers.extend(others.into_iter().filter_map(|other| other.join().ok()).flatten());
            for (number, answer) in answers {
                result[number] = answer;
            }
        });
        raised.into_inner()
    });
    raised.map_or(Ok(()), Err)
}
