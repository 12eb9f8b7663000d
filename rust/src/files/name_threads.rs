//! The names of one call, shared among its threads in runs of neighbours. The caller defines what is done with a name.

use std::ops::Range;
use std::sync::Mutex;

use pyo3::prelude::*;

use crate::threads::{Threads, on_threads};

pub(crate) const RUN: usize = 16; // names that a thread takes at once: they are often in one folder

/// Runs `step` for each row of the result, on at most this many threads, each with its own state; Ctrl-C ends the call between two rows and while a thread waits.
/// Then, and after a panic, the call raises, and the rows have any value.
pub(crate) fn for_names<const W: usize, State: Default>(
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
pub(crate) fn for_runs<const W: usize, State: Default>(
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
