//! Opening, looking at and removing names in and beneath a folder, without following links. Nothing here reads or writes.
//!
//! Linux has openat2, by which the system itself keeps every step beneath the root. If it is missing (older kernels, sandboxes, other
//! systems), each folder on the path is opened from the one above with O_NOFOLLOW, which gives the same guarantee with more calls.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::time::Duration;

/// Flags that open a folder.
pub const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const SHORTEST: Duration = Duration::from_micros(20); // pauses between tries, 2.6 s in all
const LONGEST: Duration = Duration::from_secs(2);
const FILE: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens the regular file `name` ("c/0/1") beneath `root` for reading, with the result of fstat. A folder is EISDIR, anything else
/// ENXIO, which the system returns for sockets.
pub fn open_beneath(root: BorrowedFd<'_>, name: &str) -> Result<(OwnedFd, Stat), Errno> {
    // NONBLOCK: a FIFO without a writer would wait for ever.
    let file = resolve_beneath(root, name, OFlags::RDONLY | FILE, Mode::empty())?;
    let stat = fstat(&file)?;
    match kind_of(&stat) {
        FileType::RegularFile => Ok((file, stat)),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::NXIO),
    }
}

/// openat beneath `root` with any flags; every component is a plain name.
pub fn resolve_beneath(root: BorrowedFd<'_>, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    if !is_plain(name) {
        return Err(Errno::INVAL);
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        use std::sync::atomic::{AtomicBool, Ordering};
        static MISSING: AtomicBool = AtomicBool::new(false);
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let mut pause = SHORTEST;
        while !MISSING.load(Ordering::Relaxed) {
            match openat2(root, name, flags, mode, resolve) {
                Err(Errno::INTR) => {}
                // a file server or another process has a lease on the file, and is asked to return it
                Err(Errno::AGAIN) if pause < LONGEST => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                Err(Errno::NOSYS) => MISSING.store(true, Ordering::Relaxed),
                Err(Errno::PERM) => break, // sandboxes refuse the call itself with this error
                answer => return answer,
            }
        }
    }
    resolve_by_steps(root, name, flags, mode)
}

fn resolve_by_steps(root: BorrowedFd<'_>, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let mut parts = name.split('/').peekable();
    let mut folder: Option<OwnedFd> = None;
    while let Some(part) = parts.next() {
        let here = folder.as_ref().map_or(root, |fd| fd.as_fd());
        if parts.peek().is_none() {
            return retry(|| openat(here, part, flags | OFlags::NOFOLLOW, mode)).map_err(|error| link_error(error, here, part));
        }
        folder =
            Some(retry(|| openat(here, part, FOLDER | OFlags::NOFOLLOW, Mode::empty())).map_err(|error| link_error(error, here, part))?);
    }
    Err(Errno::NOENT)
}

/// For the system, a link in place of a folder is "not a folder"; but a name below a link is refused, not missing.
fn link_error(error: Errno, folder: BorrowedFd<'_>, part: &str) -> Errno {
    let is_link = error == Errno::NOTDIR && stat_in(folder, part).is_ok_and(|found| found.as_ref().map(kind_of) == Some(FileType::Symlink));
    if is_link { Errno::LOOP } else { error }
}

/// Opens or creates a file in a folder, by its name there.
pub fn open_in(folder: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    retry(|| openat(folder, name, flags | FILE, Mode::from_raw_mode(0o666)))
}

/// What has a name in a folder; None if nothing has it.
pub fn stat_in(folder: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<Option<Stat>, Errno> {
    match retry(|| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some),
    }
}

/// Removes the name of a file in a folder.
pub fn unlink_in(folder: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    retry(|| unlinkat(folder, name, AtFlags::empty()))
}

pub fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode as _)
}

/// Whether every component of a name is a plain name, so that it stays beneath its root.
pub fn is_plain(name: &str) -> bool {
    !name.contains('\0') && !name.split('/').any(|part| matches!(part, "" | "." | ".."))
}

/// Repeats a call that was interrupted by a signal.
pub fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_folder::TestFolder;
    use std::fs;
    use std::os::unix::fs::symlink;

    type Resolve = fn(BorrowedFd<'_>, &str, OFlags, Mode) -> Result<OwnedFd, Errno>;

    #[test]
    fn both_ways_stay_beneath_the_root() {
        let scratch = TestFolder::new("beneath");
        let base = &scratch.0;
        fs::create_dir_all(base.join("root/a")).unwrap();
        fs::write(base.join("outside"), "no").unwrap();
        fs::write(base.join("root/a/file"), "yes").unwrap();
        symlink("../outside", base.join("root/climb")).unwrap();
        symlink("a", base.join("root/link")).unwrap();
        let root = fs::File::open(base.join("root")).unwrap();
        for resolve in [resolve_beneath as Resolve, resolve_by_steps] {
            let open = |name: &str| resolve(root.as_fd(), name, OFlags::RDONLY | FILE, Mode::empty());
            assert!(open("a/file").is_ok());
            assert_eq!(open("a/none").unwrap_err(), Errno::NOENT);
            assert_eq!(open("climb").unwrap_err(), Errno::LOOP);
            assert_eq!(open("link/file").unwrap_err(), Errno::LOOP);
            assert_eq!(resolve(root.as_fd(), "link", OFlags::DIRECTORY, Mode::empty()).unwrap_err(), Errno::LOOP);
            assert_eq!(open("a/file/x").unwrap_err(), Errno::NOTDIR);
        }
        for name in ["../outside", "/etc/passwd", "a/../a/file", "", "a//file", "a/\0"] {
            assert_eq!(open_beneath(root.as_fd(), name).unwrap_err(), Errno::INVAL, "{name:?}");
        }
        assert_eq!(open_beneath(root.as_fd(), "a").unwrap_err(), Errno::ISDIR);
    }
}
