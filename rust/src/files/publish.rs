//! Replacing and removing whole files beneath a root, many in one call, each under its lock (lock.rs) if its name can be written again.
//!
//! A value is written into the lock file and renamed over its key, so a reader sees the old file or the new one, and a crash leaves the old one. If no file
//! may exist, the file system refuses to replace one: that also excludes writers without locks. Files that are only created and never replaced need no
//! lock at all (create.rs).

use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::{Errno, Result as System};

use crate::columns::{Bytes, Column, ColumnMut, wrong};
use crate::files::append_files::forget_journal;
use crate::files::beneath::{kind_of, retry, stat_in, unlink_in};
use crate::files::create::create_run;
use crate::files::folders::{LastFolder, Make, TRIES, borrowed, check_names, settle, sync_names};
use crate::files::lock::Lock;
use crate::files::new_file::{cannot_rename, create_whole};
use crate::files::write_pieces::{WriteError, write_pieces};
use crate::sources::{Files, Sources, Version};
use crate::threads::{RUN, Threads, for_names, for_runs, on_threads};

/// Values of so many bytes on average are written by several threads, one value by each at a time; smaller ones in runs.
const LARGE: i64 = 256 << 10;

/// The expected state of a name.
pub(crate) enum Expect {
    Any,
    Absent,
    /// Absent, and no process ever replaces a created file.
    New,
    /// As New, for the last name of a run: it is created after all others are, and only if they are.
    Last,
    Is(Version),
}

impl Expect {
    fn parse(bytes: Option<&[u8]>) -> PyResult<Expect> {
        match bytes {
            None => Ok(Expect::Any),
            Some([]) => Ok(Expect::Absent),
            Some([1]) => Ok(Expect::New),
            Some([2]) => Ok(Expect::Last),
            Some(bytes) => Version::parse(bytes).map(Expect::Is).ok_or_else(|| wrong("expect: a version is 24 bytes")),
        }
    }

    pub(crate) fn admits(&self, present: Option<Version>) -> bool {
        match self {
            Expect::Any => true,
            Expect::Absent | Expect::New | Expect::Last => present.is_none(),
            Expect::Is(version) => present == Some(*version),
        }
    }
}

/// Writes the value of a name into an empty file. It gets scratch memory.
pub(crate) type WriteValue<'a> = dyn Fn(usize, BorrowedFd<'_>, &mut Vec<u8>) -> Result<(), WriteError> + Sync + 'a;

/// A row of the result.
pub(crate) type Answer = [i64; 4];

pub(crate) fn published(version: Version) -> Answer {
    [0, version.inode, version.size, version.changed]
}

pub(crate) fn changed(present: Option<Version>) -> Answer {
    present.map_or([-1, 0, -1, 0], |version| [-1, version.inode, version.size, version.changed])
}

pub(crate) fn refused(error: &WriteError) -> Answer {
    match error {
        WriteError::System(error) => [error.raw_os_error() as i64, 0, 0, 0],
        WriteError::Piece(code) => [-2, *code as i64, 0, 0],
    }
}

/// The result for a name that was created, replaced or removed, but whose folder could not be synced: a crash may undo it.
pub(crate) fn unsynced(error: Errno) -> Answer {
    [-3, i64::from(error.raw_os_error()), 0, 0]
}

/// Names beneath a root, with their expected states.
pub(crate) struct Batch<'a> {
    pub root: BorrowedFd<'a>,
    pub names: &'a [String],
    pub expect: Vec<Expect>,
    pub sync: bool,
}

impl<'a> Batch<'a> {
    pub fn new(root: i32, names: &'a [String], expect: Vec<Expect>, sync: bool) -> PyResult<Self> {
        if names.len() != expect.len() {
            return Err(wrong(format!("expect: expected {} entries, got {}", names.len(), expect.len())));
        }
        check_names(names, "names")?;
        Ok(Batch { root: borrowed(root)?, names, expect, sync })
    }

    pub fn make(&self, missing: bool) -> Make {
        match (missing, self.sync) {
            (false, _) => Make::Nothing,
            (true, false) => Make::Loose,
            (true, true) => Make::Durable,
        }
    }
}

/// State that one thread keeps from name to name: its last folder, and scratch memory.
#[derive(Default)]
pub(crate) struct ThreadState {
    folder: LastFolder,
    pub scratch: Vec<u8>,
}

impl ThreadState {
    /// Calls `act` with the folder of `name` and its last component; again with a new folder if the folder was removed meanwhile.
    pub fn within<T>(
        &mut self,
        batch: &Batch<'_>,
        name: &str,
        make: bool,
        mut act: impl FnMut(BorrowedFd<'_>, &str, &mut Vec<u8>) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let mut tries = if make && name.contains('/') { TRIES } else { 1 };
        loop {
            let (folder, base) = self.folder.enter(batch.root, name, batch.make(make))?;
            let done = act(folder, base, &mut self.scratch);
            tries -= 1;
            if tries == 0 || !matches!(done, Err(WriteError::System(Errno::NOENT | Errno::STALE))) {
                return done;
            }
            self.folder = LastFolder::default();
        }
    }
}

/// The version of the file under a name in a folder.
pub(crate) fn present(folder: BorrowedFd<'_>, base: &str) -> System<Option<Version>> {
    Ok(look_up(folder, base)?.as_ref().map(Version::of))
}

/// The file under a name in a folder; anything but a regular file is refused.
pub(crate) fn look_up(folder: BorrowedFd<'_>, base: &str) -> System<Option<Stat>> {
    let found = stat_in(folder, base)?;
    match found.as_ref().map(kind_of) {
        None | Some(FileType::RegularFile) => Ok(found),
        Some(FileType::Directory) => Err(Errno::ISDIR),
        Some(FileType::Symlink) => Err(Errno::LOOP),
        Some(_) => Err(Errno::NXIO),
    }
}

/// Gives the file its own time of change, later than that of the version before. The system's time stamps do not advance for milliseconds, and an
/// inode is soon used again: two versions of a key could look the same, and a conditional put would replace a version that its caller never saw.
pub(crate) fn stamp(file: BorrowedFd<'_>, before: Option<Version>) -> System<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let time = before.map_or(now, |version| now.max(version.changed.saturating_add(1)));
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let time = Timespec { tv_sec: time.div_euclid(1_000_000_000), tv_nsec: time.rem_euclid(1_000_000_000) };
    match retry(|| rustix::fs::futimens(file, &Timestamps { last_access: omit, last_modification: time })) {
        // a lock file left by another user, or a disk without times of change: the file keeps the system's time stamp
        Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP) => Ok(()),
        done => done,
    }
}

/// The steps that a written file needs before it gets its name.
pub(crate) fn finish(file: BorrowedFd<'_>, before: Option<Version>, durable: bool) -> Result<Version, WriteError> {
    stamp(file, before)?;
    settle(file, durable)?;
    Ok(Version::of(&rustix::fs::fstat(file)?))
}

fn publish_one(
    batch: &Batch<'_>,
    number: usize,
    write_value: &WriteValue<'_>,
    state: &mut ThreadState,
    threads: &Threads,
) -> Result<Answer, WriteError> {
    let expect = &batch.expect[number];
    let make = !matches!(expect, Expect::Is(_)); // a new folder has no file of that version
    let done = state.within(batch, &batch.names[number], make, |folder, base, scratch| {
        let mut write = |file: BorrowedFd<'_>, before| {
            write_value(number, file, scratch)?;
            finish(file, before, batch.sync)
        };
        if !matches!(expect, Expect::Any) {
            let now = present(folder, base)?; // a look is enough to see that it must fail
            if !expect.admits(now) {
                return Ok(changed(now));
            }
        }
        let lock = Lock::acquire(folder, base, threads)?;
        let old = look_up(folder, base)?;
        let before = old.as_ref().map(Version::of);
        if !expect.admits(before) {
            return Ok(changed(before));
        }
        if let Some(old) = &old {
            lock.keep_mode(old.st_mode)?; // before the new one has content that others could read
        }
        let version = write(lock.file(), before)?;
        let answer = match expect {
            Expect::Absent | Expect::New | Expect::Last => publish_new(lock, folder, base, threads, version, |file| write(file, None))?,
            _ => lock.publish(base).map(|()| published(version))?,
        };
        if old.is_some() {
            forget_journal(folder, base);
        }
        Ok(synced(batch, folder, answer))
    });
    match done {
        Err(WriteError::System(Errno::NOENT | Errno::NOTDIR)) if !make => Ok(changed(None)),
        done => done,
    }
}

/// Gives a written lock file its name, which must not exist, as a writer without locks may have created it. `write` is called if that needs another file.
fn publish_new(
    mut lock: Lock<'_>,
    folder: BorrowedFd<'_>,
    base: &str,
    threads: &Threads,
    version: Version,
    mut write: impl FnMut(BorrowedFd<'_>) -> Result<Version, WriteError>,
) -> Result<Answer, WriteError> {
    created_or_present(folder, base, || match lock.publish_new(base) {
        Ok(()) => Ok(Some(version)),
        Err(Errno::EXIST) => Ok(None),
        Err(error) if cannot_rename(error) => create_whole(folder, base, threads, &mut write),
        Err(error) => Err(error.into()),
    })
}

/// Calls `create`, which returns None if the name exists, again if the file with that name was removed meanwhile.
pub(crate) fn created_or_present(
    folder: BorrowedFd<'_>,
    base: &str,
    mut create: impl FnMut() -> Result<Option<Version>, WriteError>,
) -> Result<Answer, WriteError> {
    for _ in 0..TRIES {
        if let Some(version) = create()? {
            return Ok(published(version));
        }
        if let Some(version) = present(folder, base)? {
            return Ok(changed(Some(version)));
        }
    }
    Err(Errno::AGAIN.into())
}

/// The answer, once the folder is synced, if that is requested. A creation whose folder could not be synced may be repeated, and then finds its own file: so the
/// folder is synced even if a file existed before.
pub(crate) fn synced(batch: &Batch<'_>, folder: BorrowedFd<'_>, answer: Answer) -> Answer {
    sync_folder(batch, folder).map_or_else(unsynced, |()| answer)
}

pub(crate) fn sync_folder(batch: &Batch<'_>, folder: BorrowedFd<'_>) -> System<()> {
    if batch.sync { sync_names(folder) } else { Ok(()) }
}

fn erase_one(batch: &Batch<'_>, number: usize, state: &mut ThreadState, threads: &Threads) -> Result<Answer, WriteError> {
    let expect = &batch.expect[number];
    let erased = state.within(batch, &batch.names[number], false, |folder, base, _| {
        let now = present(folder, base)?;
        if !expect.admits(now) || (now.is_none() && !Lock::is_there(folder, base)?) {
            return Ok(changed(now));
        }
        let lock = Lock::acquire(folder, base, threads)?;
        let before = present(folder, base)?;
        let Some(version) = before.filter(|_| expect.admits(before)) else {
            return Ok(changed(before));
        };
        unlink_in(folder, base)?;
        forget_journal(folder, base);
        drop(lock);
        Ok(synced(batch, folder, published(version)))
    });
    match erased {
        Err(WriteError::System(Errno::NOENT | Errno::NOTDIR)) => Ok(changed(None)), // its folder is missing
        erased => erased,
    }
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's
pub fn publish_files(
    py: Python<'_>,
    root: i32,
    names: Vec<String>,
    files: Option<&Bound<'_, Files>>,
    buffers: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    expect: &Bound<'_, PyAny>,
    sync: bool,
    threads: usize,
    result: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let batch = Batch::new(root, &names, expectations(expect)?, sync)?;
    let buffers = Bytes::all(buffers, "buffers")?;
    let rows = Column::<3>::new(rows, "rows")?;
    let offsets = Column::<1>::of(offsets, "offsets", names.len() + 1)?;
    let mut result = ColumnMut::<4>::of(result, "result", names.len())?;
    let sources = Sources::new(files.map(Bound::get), &buffers);
    let rows: &[[i64; 3]] = &rows;
    let values = parts_of(rows, &offsets)?;
    sources.check(rows)?;
    let write = |number: usize, file: BorrowedFd<'_>, scratch: &mut Vec<u8>| write_pieces(file, &sources, values[number], scratch);
    let others = batch.expect.len() - usize::from(matches!(batch.expect.last(), Some(Expect::Last)));
    let bytes: i64 = rows.iter().map(|row| row[2].max(0)).fold(0, i64::saturating_add);
    let are_large = bytes / LARGE >= names.len() as i64;
    let run = if are_large && others == names.len() { 1 } else { RUN };
    if others >= RUN && others < names.len() || batch.expect[..others].iter().any(|expect| matches!(expect, Expect::Last)) {
        return Err(wrong("expect: only the last name of one run can be created after the others"));
    }
    if batch.expect[..others].iter().all(|expect| matches!(expect, Expect::New)) {
        return for_runs(py, threads, result.rows(), run, |run, state, threads| create_run(&batch, run, &write, state, threads));
    }
    for_runs(py, threads, result.rows(), run, |run, state, threads| {
        let publish = |number| publish_one(&batch, number, &write, state, threads).unwrap_or_else(|error| refused(&error));
        run.take_while(|_| !threads.ended()).map(publish).collect()
    })
}

#[pyfunction]
pub fn erase_files(
    py: Python<'_>,
    root: i32,
    names: Vec<String>,
    expect: &Bound<'_, PyAny>,
    sync: bool,
    result: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let batch = Batch::new(root, &names, expectations(expect)?, sync)?;
    let mut result = ColumnMut::<4>::of(result, "result", names.len())?;
    for_names(py, 1, result.rows(), |number, state, threads| {
        erase_one(&batch, number, state, threads).unwrap_or_else(|error| refused(&error))
    })
}

/// Without locks: for names that are written once and never again, so that no writer can interfere.
#[pyfunction]
pub fn unlink_files(py: Python<'_>, root: i32, names: Vec<String>, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let root = borrowed(root)?;
    check_names(&names, "names")?;
    let mut result = ColumnMut::<1>::of(result, "result", names.len())?;
    for_names(py, 1, result.rows(), |number, last: &mut LastFolder, _| {
        match last.enter(root, &names[number], Make::Nothing).and_then(|(folder, base)| unlink_in(folder, base)) {
            Ok(()) => [0],
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => [-1],
            Err(error) => [i64::from(error.raw_os_error())],
        }
    })
}

/// Returns when no other writer has the lock of `name`; at once if it cannot be opened. Python's signal handlers may end the wait.
#[pyfunction]
pub fn await_lock(py: Python<'_>, root: i32, name: String) -> PyResult<()> {
    let names = [name];
    let batch = Batch::new(root, &names, vec![Expect::Any], false)?;
    on_threads(py, usize::MAX, 1, |threads| {
        let _ = ThreadState::default().within(&batch, &names[0], false, |folder, base, _| Ok(Lock::wait_free(folder, base, threads)?));
    })
}

/// The items offsets[i]..offsets[i + 1] for each i.
pub(crate) fn parts_of<'a, T>(items: &'a [T], offsets: &[[i64; 1]]) -> PyResult<Vec<&'a [T]>> {
    let part = |pair: &[[i64; 1]]| items.get(usize::try_from(pair[0][0]).ok()?..usize::try_from(pair[1][0]).ok()?);
    offsets.windows(2).map(part).collect::<Option<_>>().ok_or_else(|| wrong("offsets: they do not rise within the rows"))
}

pub(crate) fn expectations(expect: &Bound<'_, PyAny>) -> PyResult<Vec<Expect>> {
    let parse = |item: Bound<'_, PyAny>| {
        let bytes = (!item.is_none()).then(|| Bytes::new(&item, "expect")).transpose()?;
        Expect::parse(bytes.as_ref().map(Bytes::as_slice))
    };
    expect.try_iter()?.map(|item| parse(item?)).collect()
}
