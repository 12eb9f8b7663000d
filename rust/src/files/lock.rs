//! The write lock of one name, by tensorstore's protocol, so that its writers and ours exclude each other.
//!
//! A writer that replaces or removes `key` first opens `key.__lock` and takes an open-file-description write lock on it. While it waits,
//! the previous writer may rename that file over `key` or remove it, so the descriptor must still be the file of that name; otherwise
//! the writer opens it again. The new value is written into the lock file, which is renamed over `key`. A crash leaves at worst a lock file without
//! a holder: the next writer takes it over. publish.rs decides what is written and when it is published.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::{Errno, Result};
use std::time::Duration;

use crate::files::beneath::{kind_of, open_in, retry, stat_in, unlink_in};
use crate::files::folders::TRIES;
use crate::threads::Threads;

const SUFFIX: &str = ".__lock";
const PERMISSIONS: RawMode = 0o777;
const LONGEST_NAME: usize = 255 - SUFFIX.len(); // bytes of a key's last component, so that its lock file has a name
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(2);

/// Refuses a name (or the last component of one) that could not be locked, and so neither replaced nor erased.
pub(crate) fn check_length(name: &str) -> Result<()> {
    let base = name.rsplit('/').next().unwrap_or(name);
    if base.len() > LONGEST_NAME { Err(Errno::NAMETOOLONG) } else { Ok(()) }
}

/// A held lock. If it is dropped unpublished, it removes its file.
pub(crate) struct Lock<'f> {
    folder: BorrowedFd<'f>,
    name: String,
    file: OwnedFd,
    mode: RawMode,
    published: bool,
}

impl<'f> Lock<'f> {
    /// Waits for the lock of `key` in `folder`; then its file is empty. NOENT: the folder itself was removed, INTR: the call has ended, STALE: on a network file
    /// system another machine has replaced or removed the file of the lock.
    pub fn acquire(folder: BorrowedFd<'f>, key: &str, threads: &Threads) -> Result<Self> {
        let name = [key, SUFFIX].concat();
        let mut replaced = 0;
        loop {
            let file = open_in(folder, &name, OFlags::WRONLY | OFlags::CREATE)?;
            let held = match wait_for(file.as_fd(), threads).and_then(|()| rustix::fs::fstat(&file)) {
                Err(Errno::STALE) if replaced < TRIES => {
                    replaced += 1;
                    continue;
                }
                held => held?,
            };
            if kind_of(&held) != FileType::RegularFile {
                return Err(Errno::NXIO);
            }
            if is_named(folder, &name, &held)? {
                if held.st_nlink > 1 {
                    // A crash, or a copy of the store made of links, left a value with this name too: we must not truncate it.
                    unlink_in(folder, &name)?;
                    unlock(file.as_fd());
                    continue;
                }
                let lock = Lock { folder, name, file, mode: held.st_mode, published: false };
                if held.st_size > 0 {
                    retry(|| rustix::fs::ftruncate(&lock.file, 0))?;
                }
                return Ok(lock);
            }
            unlock(file.as_fd());
        }
    }

    /// Waits while another writer has the lock of `key`, without taking it over. INTR: the call has ended.
    pub fn wait_free(folder: BorrowedFd<'_>, key: &str, threads: &Threads) -> Result<()> {
        let file = open_in(folder, &[key, SUFFIX].concat(), OFlags::WRONLY)?;
        wait_for(file.as_fd(), threads)?;
        unlock(file.as_fd());
        Ok(())
    }

    /// Whether a writer has the lock of `key`, or was killed with it.
    pub fn is_there(folder: BorrowedFd<'_>, key: &str) -> Result<bool> {
        has_name(folder, &[key, SUFFIX].concat())
    }

    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Gives the file the permissions of the file that it will replace. If we may not change them, as the lock file was left by another user, it
    /// fails if others could do more with the new file than with the old one.
    pub fn keep_mode(&self, mode: RawMode) -> Result<()> {
        let (target, given) = (mode & PERMISSIONS, self.mode & PERMISSIONS);
        if target == given {
            return Ok(());
        }
        match retry(|| rustix::fs::fchmod(&self.file, Mode::from_raw_mode(target))) {
            Err(Errno::PERM) if given & !target == 0 => Ok(()),
            done => done,
        }
    }

    /// Renames the lock file to `key`, if nothing has that name (EXIST), on file systems that support this (else cannot_rename).
    /// It always has exactly one name: after a crash between a link and an unlink, the next writer that takes the lock would truncate the value.
    pub fn publish_new(&mut self, key: &str) -> Result<()> {
        rename_new(self.folder, &self.name, key)?;
        self.published = true;
        Ok(())
    }

    /// Gives the lock file the name `key` too, if nothing has it (EXIST).
    pub fn link(&self, key: &str) -> Result<()> {
        retry(|| rustix::fs::linkat(self.folder, &self.name, self.folder, key, AtFlags::empty()))
    }

    /// Renames the lock file over `key` and releases the lock.
    pub fn publish(mut self, key: &str) -> Result<()> {
        retry(|| rustix::fs::renameat(self.folder, &self.name, self.folder, key))?;
        self.published = true;
        Ok(())
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        if !self.published {
            // No process that follows the protocol renames or removes a file whose lock is ours; check again because of those that do not.
            let ours = rustix::fs::fstat(&self.file).and_then(|held| is_named(self.folder, &self.name, &held));
            if ours == Ok(true) {
                let _ = unlink_in(self.folder, &self.name);
            }
        }
        // Closing the file is not enough if a child was forked meanwhile, as it has the same open file description.
        unlock(self.file.as_fd());
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_new(folder: BorrowedFd<'_>, from: &str, to: &str) -> Result<()> {
    retry(|| rustix::fs::renameat_with(folder, from, folder, to, rustix::fs::RenameFlags::NOREPLACE))
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_new(_: BorrowedFd<'_>, _: &str, _: &str) -> Result<()> {
    Err(Errno::NOSYS)
}

fn is_named(folder: BorrowedFd<'_>, name: &str, held: &Stat) -> Result<bool> {
    Ok(stat_in(folder, name)?.is_some_and(|named| named.st_ino == held.st_ino && named.st_dev == held.st_dev))
}

/// Whether anything has a name, which may be longer than names can be.
pub(crate) fn has_name(folder: BorrowedFd<'_>, name: &str) -> Result<bool> {
    match stat_in(folder, name) {
        Err(Errno::NAMETOOLONG) => Ok(false),
        found => Ok(found?.is_some()),
    }
}

/// Polls, since a blocking wait would not notice Ctrl-C. The pauses are short compared to a write, and grow.
fn wait_for(file: BorrowedFd<'_>, threads: &Threads) -> Result<()> {
    let mut pause = SHORTEST;
    loop {
        match set_lock(file, true) {
            Ok(()) => return Ok(()),
            Err(Errno::AGAIN | Errno::ACCESS | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if threads.ended() {
            return Err(Errno::INTR);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST);
    }
}

fn unlock(file: BorrowedFd<'_>) {
    let _ = set_lock(file, false);
}

/// Takes (or releases) the write lock on the whole file if that is possible at once. A lock of the open file description, not of the
/// process: threads exclude each other too, and closing another descriptor of the file does not release it.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(unsafe_code)]
fn set_lock(file: BorrowedFd<'_>, exclusive: bool) -> Result<()> {
    use rustix::fd::AsRawFd;
    let kind = if exclusive { libc::F_WRLCK } else { libc::F_UNLCK };
    let whole = libc::flock { l_type: kind as libc::c_short, l_whence: libc::SEEK_SET as libc::c_short, l_start: 0, l_len: 0, l_pid: 0 };
    // SAFETY: the descriptor is open, as it is borrowed; F_OFD_SETLK reads one `struct flock` from the pointer, which is valid for the call.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) };
    if answer == 0 { Ok(()) } else { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)) }
}

/// On systems without such locks, flock has the same owner (the open file description), and tensorstore uses it there.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_lock(file: BorrowedFd<'_>, exclusive: bool) -> Result<()> {
    use rustix::fs::FlockOperation;
    let operation = if exclusive { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::Unlock };
    rustix::fs::flock(file, operation)
}
