//! Files beneath a root that are changed in place under their lock, and restored after a kill, many in one call. The steps are in append.rs.

use pyo3::prelude::*;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, OFlags, Stat, StatxFlags};
use rustix::io::{Errno, Result as System};

use crate::columns::{Bytes, Column, ColumnMut, wrong};
use crate::files::append::{Copies, append, append_state, overwrite, restore};
use crate::files::append_journal::{Disk, Identity, State, Target, Write};
use crate::files::beneath::{kind_of, open_in, retry, unlink_in};
use crate::files::folders::{LastFolder, Make, borrowed, check_names, flush, sync, sync_names};
use crate::files::lock::{Lock, has_name};
use crate::files::publish::{Answer, Batch, changed, expectations, parts_of, present, published, refused, stamp};
use crate::files::write_pieces::write_all;
use crate::sources::{Version, read_up_to};
use crate::threads::{Threads, for_names};

const JOURNAL: &str = ".__append.__lock";
/// How far a time of change must advance to be another one, in ns: some disks keep whole seconds, or two of them.
const STEPS: [i64; 3] = [0, 1_000_000_000, 2_000_000_000];
/// Disks that do not keep times of change exactly keep multiples of this, in ns. On others one time in a million is one.
const COARSE: i64 = 1_000_000;
/// The result for a file that must be replaced whole.
const NOT_IN_PLACE: Answer = [-3, 0, 0, 0];

/// A file and its journal in a folder, under the lock of the file.
struct Shard<'f> {
    folder: BorrowedFd<'f>,
    journal_name: String,
    file: OwnedFd,
    /// What others have seen last.
    version: Version,
    /// The journal, from when this process created it until it removes it.
    journal: Option<OwnedFd>,
}

impl<'f> Shard<'f> {
    /// The lock of the file is held.
    fn open(folder: BorrowedFd<'f>, base: &str, _lock: &Lock<'_>) -> System<Self> {
        let file = open_in(folder, base, OFlags::RDWR)?;
        let version = Version::of(&rustix::fs::fstat(&file)?);
        Ok(Shard { folder, journal_name: [base, JOURNAL].concat(), file, version, journal: None })
    }

    fn target(&self, target: Target) -> System<BorrowedFd<'_>> {
        match target {
            Target::Shard => Ok(self.file.as_fd()),
            Target::Journal => self.journal.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF),
            Target::Folder => Ok(self.folder),
        }
    }

    fn stat(&self) -> System<Stat> {
        rustix::fs::fstat(&self.file)
    }

    /// Sets a time of change later than those before, by more than `step` ns.
    fn stamp_later(&mut self, step: i64) -> System<()> {
        let latest = self.version.changed.max(Version::of(&self.stat()?).changed);
        stamp(self.file.as_fd(), Some(Version { changed: latest.saturating_add(step), ..self.version }))?;
        self.version = Version::of(&self.stat()?);
        Ok(())
    }
}

impl Disk for Shard<'_> {
    fn identity(&self) -> System<Identity> {
        Ok(Identity { inode: self.stat()?.st_ino, birth_time: birth_time_of(self.file.as_fd()) })
    }

    fn size(&self) -> System<u64> {
        Ok(self.stat()?.st_size as u64)
    }

    fn read(&self, at: u64, length: u64) -> System<Vec<u8>> {
        read_all(self.file.as_fd(), at, length as usize)
    }

    fn read_journal(&self) -> System<Option<Vec<u8>>> {
        let file = match open_in(self.folder, &self.journal_name, OFlags::RDONLY) {
            Err(Errno::NOENT) => return Ok(None),
            file => file?,
        };
        let size = rustix::fs::fstat(&file)?.st_size as usize;
        read_all(file.as_fd(), 0, size).map(Some)
    }

    /// A separate file: a second name of the lock file would be created faster, but a process that takes the lock over after a kill writes into that file.
    fn create_journal(&mut self) -> System<()> {
        self.journal = Some(open_in(self.folder, &self.journal_name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?);
        Ok(())
    }

    fn remove_journal(&mut self) -> System<()> {
        self.journal = None;
        remove(self.folder, &self.journal_name)
    }

    fn write(&mut self, target: Target, at: u64, bytes: &[u8]) -> System<()> {
        write_all(self.target(target)?, bytes, at).map(|_| ())
    }

    fn cut(&mut self, size: u64) -> System<()> {
        retry(|| rustix::fs::ftruncate(&self.file, size))
    }

    fn stamp(&mut self) -> System<()> {
        let seen = self.version;
        for step in STEPS {
            self.stamp_later(step)?;
            if self.version != seen {
                break;
            }
        }
        Ok(())
    }

    fn stamp_exactly(&mut self) -> System<bool> {
        let seen = self.version;
        self.stamp_later(0)?;
        Ok(self.version != seen && self.version.changed % COARSE != 0)
    }

    fn flush(&mut self) -> System<()> {
        flush(self.file.as_fd())
    }

    fn sync(&mut self, target: Target) -> System<()> {
        let file = self.target(target)?;
        if matches!(target, Target::Folder) { sync_names(file) } else { sync(file) }
    }
}

/// The time of birth in ns, 0 if the system does not know it.
#[cfg(target_os = "linux")]
fn birth_time_of(file: BorrowedFd<'_>) -> u64 {
    match rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME) {
        Ok(found) if found.stx_mask & StatxFlags::BTIME.bits() != 0 => {
            (found.stx_btime.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(u64::from(found.stx_btime.tv_nsec))
        }
        _ => 0,
    }
}

#[cfg(not(target_os = "linux"))]
fn birth_time_of(_: BorrowedFd<'_>) -> u64 {
    0
}

fn read_all(file: BorrowedFd<'_>, at: u64, length: usize) -> System<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::NOMEM)?; // a damaged journal may name any length
    bytes.resize(length, 0);
    if read_up_to(file, &mut bytes, at)? < length { Err(Errno::IO) } else { Ok(bytes) }
}

fn remove(folder: BorrowedFd<'_>, name: &str) -> System<()> {
    match unlink_in(folder, name) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Removes the journal of a file that was replaced or removed. A process that still finds it sees that it belongs to another file.
pub(crate) fn forget_journal(folder: BorrowedFd<'_>, base: &str) {
    let _ = remove(folder, &[base, JOURNAL].concat());
}

/// head: how many of the first bytes of the file the last writes overwrite. None: all writes overwrite, without a journal
fn change_one(batch: &Batch<'_>, number: usize, writes: &[Write<'_>], head: Option<u64>, threads: &Threads) -> System<Answer> {
    let mut last = LastFolder::default(); // not that of the name before: it may have been moved while its lock was awaited
    let (folder, base) = last.enter(batch.root, &batch.names[number], Make::Nothing)?;
    let lock = Lock::acquire(folder, base, threads)?;
    let found = present(folder, base)?;
    let Some(version) = found.filter(|_| batch.expect[number].admits(found)) else { return Ok(changed(found)) };
    let mut shard = match Shard::open(folder, base, &lock) {
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY | Errno::AGAIN) => return Ok(NOT_IN_PLACE),
        shard => shard?,
    };
    let held = shard.stat()?;
    if held.st_nlink != 1 || !is_ours(&held) || kind_of(&held) != FileType::RegularFile {
        return Ok(NOT_IN_PLACE);
    }
    if Version::of(&held) != version || restore(&mut shard, Copies::Remove)? != State::Nothing {
        return Ok(changed(Some(Version::of(&shard.stat()?))));
    }
    let done = match head {
        Some(head) => append(&mut shard, writes, head, batch.sync),
        None => overwrite(&mut shard, writes, batch.sync),
    };
    match done {
        Ok(()) => Ok(published(Version::of(&shard.stat()?))),
        Err(Errno::NOTSUP) => Ok(NOT_IN_PLACE),
        Err(error) => Err(error),
    }
}

/// Whether we may set the time of change of the file.
#[allow(unsafe_code)]
fn is_ours(stat: &Stat) -> bool {
    // SAFETY: it has no arguments, and cannot fail.
    let user = unsafe { libc::geteuid() };
    user == 0 || user == stat.st_uid
}

/// 0: no writer is active, and none left anything; 1: one has finished by now; 2: one was killed, and its changes were undone; 3: one was killed before the
/// file was copied. look: nothing is undone; copies: a copy is restored too, and is 2 then.
fn restore_one(root: BorrowedFd<'_>, name: &str, look: bool, copies: Copies, threads: &Threads) -> System<[i64; 1]> {
    let mut last = LastFolder::default();
    let (folder, base) = last.enter(root, name, Make::Nothing)?;
    let journal = [base, JOURNAL].concat();
    if !has_name(folder, &journal)? && !Lock::is_there(folder, base)? {
        return Ok([0]);
    }
    let lock = Lock::acquire(folder, base, threads)?;
    let mut shard = match Shard::open(folder, base, &lock) {
        Err(Errno::NOENT) => return remove(folder, &journal).map(|()| [1]),
        shard => shard?,
    };
    let left = if look { append_state(&shard)? } else { restore(&mut shard, copies)? };
    Ok(match left {
        State::Torn => [2],
        State::Copied => [3],
        State::Nothing | State::Finished => [1],
    })
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's
pub fn change_files(
    py: Python<'_>,
    root: i32,
    names: Vec<String>,
    buffers: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    heads: &Bound<'_, PyAny>,
    expect: &Bound<'_, PyAny>,
    journal: bool,
    sync: bool,
    result: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let batch = Batch::new(root, &names, expectations(expect)?, sync)?;
    let buffers = Bytes::all(buffers, "buffers")?;
    let rows = Column::<4>::new(rows, "rows")?;
    let offsets = Column::<1>::of(offsets, "offsets", names.len() + 1)?;
    let heads = Column::<1>::of(heads, "heads", names.len())?;
    let mut result = ColumnMut::<4>::of(result, "result", names.len())?;
    let write = |&[buffer, start, length, at]: &[i64; 4]| -> Option<Write<'_>> {
        let bytes = buffers.get(usize::try_from(buffer).ok()?)?.as_slice();
        let start = usize::try_from(start).ok()?;
        Some((u64::try_from(at).ok()?, bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)?))
    };
    let writes: Vec<Write<'_>> = rows.iter().map(write).collect::<Option<_>>().ok_or_else(|| wrong("rows: outside of their buffers"))?;
    let of_names = parts_of(&writes, &offsets)?;
    let heads: &[[i64; 1]] = &heads;
    for_names(py, 1, result.rows(), |number, (): &mut (), threads| {
        let head = journal.then(|| heads[number][0].max(0) as u64);
        match change_one(&batch, number, of_names[number], head, threads) {
            Err(Errno::NOENT | Errno::NOTDIR) => changed(None),
            done => done.unwrap_or_else(|error| refused(&error.into())),
        }
    })
}

#[pyfunction]
pub fn restore_files(py: Python<'_>, root: i32, names: Vec<String>, look: bool, copies: &str, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let root = borrowed(root)?;
    check_names(&names, "names")?;
    let mut result = ColumnMut::<1>::of(result, "result", names.len())?;
    let copies = match copies {
        "keep" => Copies::Keep,
        "restore" => Copies::Restore,
        "remove" => Copies::Remove,
        _ => return Err(wrong("copies: keep, restore or remove")),
    };
    for_names(py, 1, result.rows(), |number, (): &mut (), threads| match restore_one(root, &names[number], look, copies, threads) {
        Err(Errno::NOENT | Errno::NOTDIR) => [0],
        Err(error) => [-i64::from(error.raw_os_error())],
        Ok(answer) => answer,
    })
}

/// The time of birth of an open file.
#[pyfunction]
pub fn birth_time(fd: i32) -> u64 {
    // SAFETY: the caller keeps the file open during the call; nothing here closes it.
    birth_time_of(unsafe { BorrowedFd::borrow_raw(fd) })
}
