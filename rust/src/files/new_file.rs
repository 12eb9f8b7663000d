//! A new file that gets its name only when it is whole, and only if the name is not in use. The file system itself ensures that, also among writers
//! without locks. publish.rs decides what is written, and what a taken name means.
//!
//! The file has no name while it is written (O_TMPFILE), so no listing shows it, and a crash leaves nothing. On file systems
//! without such files, it has a name that sorts after all others and ends like those of locks, which listings hide; its lock is held, so a process that clears
//! the folder waits.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::AtFlags;
use rustix::io::{Errno, Result as System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::files::beneath::retry;
use crate::files::lock::{Lock, check_length};
use crate::files::write_pieces::WriteError;
use crate::threads::Threads;

/// Creates `base` in `folder`; returns the result of `write`, which may be called again with another empty file; None if the name exists.
/// NOENT: the folder was removed.
pub(crate) fn create_whole<T>(
    folder: BorrowedFd<'_>,
    base: &str,
    threads: &Threads,
    mut write: impl FnMut(BorrowedFd<'_>) -> Result<T, WriteError>,
) -> Result<Option<T>, WriteError> {
    check_length(base)?;
    if let Ok(file) = open_unnamed(folder) {
        let written = write(file.as_fd())?;
        match link_unnamed(folder, &file, base) {
            Ok(()) => return Ok(Some(written)),
            Err(Errno::EXIST) => return Ok(None),
            Err(Errno::NOENT) => return Err(Errno::NOENT.into()),
            Err(_) => {} // if the disk cannot do it at all, the other way fails too
        }
    }
    create_named(folder, base, threads, write)
}

fn create_named<T>(
    folder: BorrowedFd<'_>,
    base: &str,
    threads: &Threads,
    mut write: impl FnMut(BorrowedFd<'_>) -> Result<T, WriteError>,
) -> Result<Option<T>, WriteError> {
    let mut lock = Lock::acquire(folder, &unique_name("~"), threads)?; // sorts after all others in a folder
    let written = write(lock.file())?;
    let published = match lock.publish_new(base) {
        // dropping the lock removes the other name; on a disk without links, the system says that one is not permitted
        Err(error) if cannot_rename(error) => lock.link(base).map_err(|error| if error == Errno::PERM { Errno::NOTSUP } else { error }),
        renamed => renamed,
    };
    match published {
        Ok(()) => Ok(Some(written)),
        Err(Errno::EXIST) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a rename was refused because the file system cannot rename without replacing.
pub(crate) fn cannot_rename(error: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP].contains(&error)
}

/// A name that begins so, and that no other file has.
pub(crate) fn unique_name(beginning: &str) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{beginning}{:x}-{now:x}-{:x}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

#[cfg(target_os = "linux")]
pub(crate) fn open_unnamed(folder: BorrowedFd<'_>) -> System<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC; // also read, where it cannot be linked but must be copied
    retry(|| rustix::fs::openat(folder, ".", flags, Mode::from_raw_mode(0o666)))
}

/// NOENT: the folder was removed, nothing else.
#[cfg(target_os = "linux")]
pub(crate) fn link_unnamed(folder: BorrowedFd<'_>, file: &OwnedFd, base: &str) -> System<()> {
    use rustix::fd::AsRawFd;
    // By the descriptor alone, which older systems allow only to some; else by its name in /proc, if that exists.
    match retry(|| rustix::fs::linkat(file, "", folder, base, AtFlags::EMPTY_PATH)) {
        Err(error) if error != Errno::EXIST => {}
        done => return done,
    }
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    match retry(|| rustix::fs::linkat(rustix::fs::CWD, &name, folder, base, AtFlags::SYMLINK_FOLLOW)) {
        Err(Errno::NOENT) if rustix::fs::fstat(folder)?.st_nlink > 0 => Err(Errno::OPNOTSUPP),
        done => done,
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_unnamed(_: BorrowedFd<'_>) -> System<OwnedFd> {
    Err(Errno::OPNOTSUPP)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn link_unnamed(_: BorrowedFd<'_>, _: &OwnedFd, _: &str) -> System<()> {
    Err(Errno::OPNOTSUPP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_folder::TestFolder;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn fill(file: BorrowedFd<'_>) -> Result<u8, WriteError> {
        rustix::io::pwrite(file, b"value", 0)?;
        Ok(7)
    }

    #[test]
    fn both_ways_create_and_replace_nothing() {
        let scratch = TestFolder::new("fresh-both");
        let folder = scratch.folder();
        let threads = Threads::new(1);
        let unnamed = create_whole(folder.as_fd(), "Z.json", &threads, |file| {
            assert!(scratch.names().iter().all(|name| name.as_str() >= "~"));
            fill(file)
        });
        assert!(matches!(unnamed, Ok(Some(7))));
        let named = create_named(folder.as_fd(), "a.json", &threads, |file| {
            let names = scratch.names();
            assert_eq!(names[0], "Z.json");
            assert!(names[1].starts_with('~') && names[1].ends_with(".__lock"));
            fill(file)
        });
        assert!(matches!(named, Ok(Some(7))));
        fs::create_dir(scratch.0.join("folder")).unwrap();
        for base in ["a.json", "Z.json", "folder"] {
            assert!(matches!(create_whole(folder.as_fd(), base, &threads, fill), Ok(None)));
            assert!(matches!(create_named(folder.as_fd(), base, &threads, fill), Ok(None)));
        }
        assert_eq!(scratch.names(), ["Z.json", "a.json", "folder"]);
        for base in ["a.json", "Z.json"] {
            assert_eq!(fs::read(scratch.0.join(base)).unwrap(), b"value");
            assert_eq!(fs::metadata(scratch.0.join(base)).unwrap().nlink(), 1);
        }
    }

    #[test]
    fn what_fails_leaves_nothing() {
        let scratch = TestFolder::new("fresh-fails");
        let folder = scratch.folder();
        let threads = Threads::new(1);
        let fail = |_: BorrowedFd<'_>| -> Result<(), WriteError> { Err(Errno::NOSPC.into()) };
        let failed = |done| matches!(done, Err(WriteError::System(Errno::NOSPC)));
        assert!(failed(create_whole(folder.as_fd(), "a", &threads, fail)));
        assert!(failed(create_named(folder.as_fd(), "a", &threads, fail)));
        assert!(scratch.names().is_empty());
        fs::remove_dir(&scratch.0).unwrap();
        let gone = create_whole(folder.as_fd(), "a", &threads, fill);
        assert!(matches!(gone, Err(WriteError::System(Errno::NOENT))));
        let long = create_whole(folder.as_fd(), &"n".repeat(249), &threads, fill);
        assert!(matches!(long, Err(WriteError::System(Errno::NAMETOOLONG))));
    }

    #[test]
    fn a_linked_lock_file_is_never_cut() {
        let scratch = TestFolder::new("fresh-linked");
        let folder = scratch.folder();
        let threads = Threads::new(1);
        fs::write(scratch.0.join("a"), b"value").unwrap();
        fs::hard_link(scratch.0.join("a"), scratch.0.join("b.__lock")).unwrap();
        let mut lock = Lock::acquire(folder.as_fd(), "b", &threads).unwrap();
        assert_eq!(fs::read(scratch.0.join("a")).unwrap(), b"value");
        assert_eq!(lock.publish_new("a"), Err(Errno::EXIST));
        lock.link("c").unwrap();
        drop(lock);
        assert_eq!(scratch.names(), ["a", "c"]);
    }
}
