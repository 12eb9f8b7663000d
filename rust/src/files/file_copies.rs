//! Whole files in place of old ones, without locks, as no other process writes their names yet: copies and links of files beneath a root, many in one call, and
//! files that Python writes part by part.
//!
//! A file has no name before it is whole (new_file.rs), so a crash leaves nothing of it; then it gets its name, replacing an old file. A copy has the time of
//! change of its source. It is made from one open descriptor, and again if the file was changed in place meanwhile.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, fstat, linkat};
use rustix::io::{Errno, Result as System};

use crate::columns::{Bytes, ColumnMut, wrong};
use crate::files::beneath::{FOLDER, open_beneath, open_in, retry, unlink_in};
use crate::files::folders::{LastFolder, Make, borrowed, check_names, open_folder, settle};
use crate::files::lock::check_length;
use crate::files::new_file::{link_unnamed, open_unnamed, unique_name};
use crate::files::publish::look_up;
use crate::files::write_pieces::{copy_range, write_all};
use crate::sources::{as_os_error, read_up_to};
use crate::threads::{Threads, for_names};

const ATTEMPTS: usize = 3; // to copy a file that others change
const TRIES: usize = 64; // to find an unused name
const BUFFER: u64 = 1 << 18;

/// A row of the result.
type Answer = [i64; 2];

const ABSENT: Answer = [-1, 0];
const CHANGED: Answer = [-2, 0];

fn not_read(error: Errno) -> Answer {
    [error.raw_os_error() as i64, 0]
}

fn not_written(error: Errno) -> Answer {
    [error.raw_os_error() as i64, 1]
}

struct Batch<'a> {
    source: BorrowedFd<'a>,
    sources: &'a [String],
    root: BorrowedFd<'a>,
    names: &'a [String],
    sync: bool,
}

/// State that one thread keeps from name to name.
#[derive(Default)]
struct ThreadState {
    from: LastFolder,
    to: LastFolder,
    scratch: Vec<u8>,
}

/// The folder of a name that is written, and its last component.
fn enter_target<'a>(to: &'a mut LastFolder, root: BorrowedFd<'a>, name: &'a str) -> System<(BorrowedFd<'a>, &'a str)> {
    check_length(name)?;
    to.enter(root, name, Make::Loose)
}

/// The folder of a file that is read, and its last component. Err: the answer.
fn enter_source<'a>(from: &'a mut LastFolder, batch: &'a Batch<'_>, number: usize) -> Result<(BorrowedFd<'a>, &'a str), Answer> {
    from.enter(batch.source, &batch.sources[number], Make::Nothing).map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => ABSENT,
        error => not_read(error),
    })
}

fn copy_one(batch: &Batch<'_>, number: usize, state: &mut ThreadState, threads: &Threads) -> Answer {
    let ThreadState { from, to, scratch } = state;
    let (from, old) = match enter_source(from, batch, number) {
        Ok(entered) => entered,
        Err(answer) => return answer,
    };
    for _ in 0..ATTEMPTS {
        let (file, before) = match open_beneath(from, old) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR) => return ABSENT,
            Err(error) => return not_read(error),
        };
        let (folder, base) = match enter_target(to, batch.root, &batch.names[number]) {
            Ok(entered) => entered,
            Err(error) => return not_written(error),
        };
        let copy_bytes = |made: BorrowedFd<'_>| copy_bytes(file.as_fd(), made, before.st_size as u64, scratch, || threads.ended());
        let made = Unnamed::create(folder, base);
        match made.and_then(|made| copy_open(file.as_fd(), &before, made, batch.sync, copy_bytes)) {
            Ok(true) => return [0, before.st_size],
            Ok(false) => {}
            Err(error) => return not_written(error),
        }
    }
    CHANGED
}

/// Makes a name a link to a file.
fn link_one(batch: &Batch<'_>, number: usize, state: &mut ThreadState) -> Answer {
    let ThreadState { from, to, .. } = state;
    let (from, old) = match enter_source(from, batch, number) {
        Ok(entered) => entered,
        Err(answer) => return answer,
    };
    match look_up(from, old) {
        Ok(Some(_)) => {}
        Ok(None) | Err(Errno::ISDIR) => return ABSENT,
        Err(error) => return not_read(error),
    }
    let linked = enter_target(to, batch.root, &batch.names[number]).and_then(|(folder, base)| {
        let link = |name: &str| retry(|| linkat(from, old, folder, name, AtFlags::empty()));
        match link(base) {
            Err(Errno::EXIST) => {}
            done => return done,
        }
        let ((), between) = with_new_name(link)?;
        let done = rename(folder, &between, base);
        remove(folder, &between); // if both names are one file already, renaming does nothing and leaves both
        done
    });
    linked.map_or_else(not_written, |()| [0, 0])
}

/// Makes `base` in `folder` a copy of an open file, in `made`; `copy_bytes` writes the bytes and returns their number. False if the file was changed meanwhile;
/// then, and after any error, the name is unchanged.
fn copy_open<F: AsFd>(
    file: BorrowedFd<'_>,
    before: &Stat,
    made: Unnamed<F>,
    durable: bool,
    copy_bytes: impl FnOnce(BorrowedFd<'_>) -> System<u64>,
) -> System<bool> {
    let copied = copy_bytes(made.file.as_fd())?;
    let after = fstat(file)?;
    let state = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    if copied != before.st_size as u64 || state(&after) != state(before) {
        return Ok(false);
    }
    set_times(made.file.as_fd(), before)?;
    made.publish(durable).map(|()| true)
}

fn set_times(made: BorrowedFd<'_>, of: &Stat) -> System<()> {
    let last_access = Timespec { tv_sec: of.st_atime as _, tv_nsec: of.st_atime_nsec as _ };
    let last_modification = Timespec { tv_sec: of.st_mtime as _, tv_nsec: of.st_mtime_nsec as _ };
    match retry(|| rustix::fs::futimens(made, &Timestamps { last_access, last_modification })) {
        Err(Errno::NOSYS | Errno::NOTSUP) => Ok(()), // a disk without times of change
        done => done,
    }
}

/// Gives a file without a name its name, replacing an old file.
fn link_over(folder: BorrowedFd<'_>, made: &OwnedFd, base: &str) -> System<()> {
    match link_unnamed(folder, made, base) {
        Err(Errno::EXIST) => {}
        done => return done,
    }
    let ((), between) = with_new_name(|name| link_unnamed(folder, made, name))?;
    let done = rename(folder, &between, base);
    if done.is_err() {
        remove(folder, &between);
    }
    done
}

/// Refuses a name that is a link or a folder, as all writes do.
fn rename(folder: BorrowedFd<'_>, old: &str, new: &str) -> System<()> {
    look_up(folder, new)?;
    retry(|| rustix::fs::renameat(folder, old, folder, new))
}

/// Removes an unfinished copy; if that fails, listings do not show it.
fn remove(folder: BorrowedFd<'_>, name: &str) {
    let _ = unlink_in(folder, name);
}

/// Calls with a name that ends like those of locks, which listings hide, and with another one while the name is in use.
fn with_new_name<T>(mut create: impl FnMut(&str) -> System<T>) -> System<(T, String)> {
    for _ in 0..TRIES {
        let name = unique_name(".copy-") + ".__lock";
        match create(&name) {
            Err(Errno::EXIST) => {}
            created => return created.map(|created| (created, name)),
        }
    }
    Err(Errno::EXIST)
}

/// Copies the first `size` bytes into an empty file; returns how many there were. INTR if the call must stop.
fn copy_bytes(file: BorrowedFd<'_>, made: BorrowedFd<'_>, size: u64, scratch: &mut Vec<u8>, stop: impl FnMut() -> bool) -> System<u64> {
    let done = copy_range(file, 0, made, 0, size, stop)?;
    copy_through_memory(file, made, done, size, scratch)
}

fn copy_through_memory(file: BorrowedFd<'_>, made: BorrowedFd<'_>, mut done: u64, size: u64, scratch: &mut Vec<u8>) -> System<u64> {
    if done < size && (scratch.len() as u64) < (size - done).min(BUFFER) {
        scratch.resize((size - done).min(BUFFER) as usize, 0);
    }
    while done < size {
        let most = (scratch.len() as u64).min(size - done) as usize;
        let count = read_up_to(file, &mut scratch[..most], done)?;
        if count == 0 {
            break;
        }
        done = write_all(made, &scratch[..count], done)?;
    }
    Ok(done)
}

/// A file that Python writes part by part; None when it has its name, or was given up.
#[pyclass(module = "frazil._kernel")]
pub struct NewFile(Option<Unnamed<OwnedFd>>);

/// A file that gets its name when it is whole. between: until then, a name that no listing shows, where the disk has no files without a name
struct Unnamed<F: AsFd> {
    folder: F,
    base: String,
    file: OwnedFd,
    between: Option<String>,
    size: u64,
}

impl Unnamed<OwnedFd> {
    /// With the permissions of the file that it replaces.
    fn beneath(root: BorrowedFd<'_>, name: &str) -> System<Unnamed<OwnedFd>> {
        check_length(name)?;
        let (path, base) = name.rsplit_once('/').unwrap_or(("", name));
        let folder = match path {
            "" => open_in(root, ".", FOLDER)?,
            path => open_folder(root, path, Make::Loose)?,
        };
        let old = look_up(folder.as_fd(), base)?; // a link or a folder is refused before its bytes are read
        let made = Unnamed::create(folder, base)?;
        if let Some(old) = old {
            // before it has content that others could read
            retry(|| rustix::fs::fchmod(&made.file, Mode::from_raw_mode(old.st_mode & 0o777)))?;
        }
        Ok(made)
    }
}

impl<F: AsFd> Unnamed<F> {
    fn create(folder: F, base: &str) -> System<Unnamed<F>> {
        match open_unnamed(folder.as_fd()) {
            Ok(file) => Ok(Unnamed { folder, base: base.to_owned(), file, between: None, size: 0 }),
            Err(_) => Unnamed::named(folder, base),
        }
    }

    fn named(folder: F, base: &str) -> System<Unnamed<F>> {
        let (file, name) = with_new_name(|name| open_in(folder.as_fd(), name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL))?;
        Ok(Unnamed { folder, base: base.to_owned(), file, between: Some(name), size: 0 })
    }

    fn publish(mut self, durable: bool) -> System<()> {
        settle(self.file.as_fd(), durable)?;
        let folder = self.folder.as_fd();
        let Some(between) = &self.between else {
            return match link_over(folder, &self.file, &self.base) {
                Ok(()) => Ok(()),
                Err(refused @ (Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO)) => Err(refused),
                Err(_) => self.copy(durable), // if the disk cannot do it at all, this fails too
            };
        };
        rename(folder, between, &self.base)?;
        self.between = None;
        Ok(())
    }

    /// Copies the file to its name, where the system cannot link it: without /proc, older ones link only files that have a name.
    fn copy(&self, durable: bool) -> System<()> {
        let (file, stat) = (self.file.as_fd(), fstat(&self.file)?);
        let (made, size) = (Unnamed::named(self.folder.as_fd(), &self.base)?, stat.st_size as u64);
        if copy_bytes(file, made.file.as_fd(), size, &mut Vec::new(), || false)? != size {
            return Err(Errno::IO);
        }
        retry(|| rustix::fs::fchmod(&made.file, Mode::from_raw_mode(stat.st_mode & 0o777)))?;
        set_times(made.file.as_fd(), &stat)?;
        made.publish(durable)
    }
}

impl<F: AsFd> Drop for Unnamed<F> {
    fn drop(&mut self) {
        if let Some(between) = &self.between {
            remove(self.folder.as_fd(), between);
        }
    }
}

#[pymethods]
impl NewFile {
    #[new]
    fn new(py: Python<'_>, root: i32, name: String) -> PyResult<NewFile> {
        let root = borrowed(root)?;
        check_names(std::slice::from_ref(&name), "name")?;
        py.detach(|| Unnamed::beneath(root, &name)).map(|file| NewFile(Some(file))).map_err(as_os_error)
    }

    fn write(&mut self, py: Python<'_>, part: &Bound<'_, PyAny>) -> PyResult<()> {
        let (part, file) = (Bytes::new(part, "part")?, self.0.as_mut().ok_or_else(ended)?);
        let bytes = part.as_slice();
        file.size = py.detach(|| write_all(file.file.as_fd(), bytes, file.size)).map_err(as_os_error)?;
        Ok(())
    }

    fn publish(&mut self, py: Python<'_>, sync: bool) -> PyResult<()> {
        let file = self.0.take().ok_or_else(ended)?;
        py.detach(|| file.publish(sync)).map_err(as_os_error)
    }

    fn give_up(&mut self) {
        self.0 = None;
    }
}

fn ended() -> PyErr {
    PyValueError::new_err("the file is no longer written")
}

#[pyfunction]
#[pyo3(signature = (source, sources, root, names, sync, threads, result, link=false))]
#[allow(clippy::too_many_arguments)] // the contract's
pub fn copy_files(
    py: Python<'_>,
    source: i32,
    sources: Vec<String>,
    root: i32,
    names: Vec<String>,
    sync: bool,
    threads: usize,
    result: &Bound<'_, PyAny>,
    link: bool,
) -> PyResult<()> {
    let (source, root) = (borrowed(source)?, borrowed(root)?);
    if sources.len() != names.len() {
        return Err(wrong(format!("sources: expected {} entries, got {}", names.len(), sources.len())));
    }
    check_names(&sources, "sources")?;
    check_names(&names, "names")?;
    let mut result = ColumnMut::<2>::of(result, "result", names.len())?;
    let batch = Batch { source, sources: &sources, root, names: &names, sync };
    for_names(
        py,
        threads,
        result.rows(),
        |number, state, threads| {
            if link { link_one(&batch, number, state) } else { copy_one(&batch, number, state, threads) }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_folder::TestFolder;
    use std::fs::{self, File};
    use std::io::Write;

    /// A folder with a file "source".
    fn with_source(name: &str, value: &[u8]) -> TestFolder {
        let made = TestFolder::new(name);
        fs::write(made.0.join("source"), value).unwrap();
        made
    }

    fn unnamed<'a>(folder: &'a File, base: &str) -> Unnamed<BorrowedFd<'a>> {
        Unnamed::create(folder.as_fd(), base).unwrap()
    }

    fn named<'a>(folder: &'a File, base: &str) -> Unnamed<BorrowedFd<'a>> {
        Unnamed::named(folder.as_fd(), base).unwrap()
    }

    #[test]
    fn both_ways_copy_the_bytes_there_are() {
        let value: Vec<u8> = (0..2 * BUFFER as usize + 5).map(|i| (i % 251) as u8).collect();
        let scratch = with_source("copies-bytes", &value);
        let source = File::open(scratch.0.join("source")).unwrap();
        type Way = fn(BorrowedFd<'_>, BorrowedFd<'_>, u64) -> System<u64>;
        let ways: [Way; 2] = [
            |file, made, size| copy_bytes(file, made, size, &mut vec![], || false),
            |file, made, size| copy_through_memory(file, made, 0, size, &mut vec![0; 10]),
        ];
        for way in ways {
            for size in [0, 1, value.len() as u64, value.len() as u64 + 9] {
                let made = File::create(scratch.0.join("made")).unwrap();
                let there = size.min(value.len() as u64);
                assert_eq!(way(source.as_fd(), made.as_fd(), size), Ok(there));
                assert_eq!(fs::read(scratch.0.join("made")).unwrap(), value[..there as usize]);
            }
        }
    }

    #[test]
    fn a_file_that_changes_meanwhile_is_no_copy() {
        let scratch = with_source("copies-changes", b"value");
        let folder = scratch.folder();
        fs::write(scratch.0.join("old"), b"old").unwrap();
        let (file, before) = open_beneath(folder.as_fd(), "source").unwrap();
        let write_also = |made: BorrowedFd<'_>| {
            File::options().append(true).open(scratch.0.join("source")).unwrap().write_all(b"more").unwrap();
            copy_through_memory(file.as_fd(), made, 0, 5, &mut vec![])
        };
        assert_eq!(copy_open(file.as_fd(), &before, unnamed(&folder, "old"), false, write_also), Ok(false));
        let (file, before) = open_beneath(folder.as_fd(), "source").unwrap();
        let cut = |made: BorrowedFd<'_>| copy_through_memory(file.as_fd(), made, 0, 4, &mut vec![]);
        assert_eq!(copy_open(file.as_fd(), &before, unnamed(&folder, "old"), false, cut), Ok(false));
        assert_eq!(copy_open(file.as_fd(), &before, named(&folder, "old"), false, cut), Ok(false));
        assert_eq!(fs::read(scratch.0.join("old")).unwrap(), b"old");
        assert_eq!(scratch.names(), ["old", "source"]);
    }

    #[test]
    fn a_copy_gets_its_name_when_it_is_whole_and_fails_without_a_trace() {
        let scratch = with_source("copies-names", b"value");
        let folder = scratch.folder();
        let (file, before) = open_beneath(folder.as_fd(), "source").unwrap();
        fs::create_dir(scratch.0.join("folder")).unwrap();
        let fill = |made: BorrowedFd<'_>| {
            assert!(scratch.names().iter().all(|name| name == "source" || name == "folder" || name.ends_with('d')));
            copy_through_memory(file.as_fd(), made, 0, 5, &mut vec![])
        };
        let hidden = |made: BorrowedFd<'_>| {
            assert!(scratch.names()[0].ends_with(".__lock"));
            copy_through_memory(file.as_fd(), made, 0, 5, &mut vec![])
        };
        for _ in 0..2 {
            assert_eq!(copy_open(file.as_fd(), &before, unnamed(&folder, "unnamed"), true, fill), Ok(true));
            assert_eq!(copy_open(file.as_fd(), &before, named(&folder, "named"), true, hidden), Ok(true));
            unnamed(&folder, "copied").copy(true).unwrap();
        }
        let full = |_: BorrowedFd<'_>| Err(Errno::NOSPC);
        assert_eq!(copy_open(file.as_fd(), &before, unnamed(&folder, "unnamed"), false, full), Err(Errno::NOSPC));
        assert_eq!(copy_open(file.as_fd(), &before, named(&folder, "named"), false, full), Err(Errno::NOSPC));
        let copy_bytes = |made: BorrowedFd<'_>| copy_through_memory(file.as_fd(), made, 0, 5, &mut vec![]);
        assert_eq!(copy_open(file.as_fd(), &before, unnamed(&folder, "folder"), false, copy_bytes), Err(Errno::ISDIR));
        assert_eq!(scratch.names(), ["copied", "folder", "named", "source", "unnamed"]);
        for name in ["named", "unnamed"] {
            assert_eq!(fs::read(scratch.0.join(name)).unwrap(), b"value");
        }
        let changed = |name: &str| fs::metadata(scratch.0.join(name)).unwrap().modified().unwrap();
        assert_eq!((changed("unnamed"), changed("named")), (changed("source"), changed("source")));
    }
}
