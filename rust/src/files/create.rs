//! Creating whole files beneath a root, many in one call, under names that are only created and never replaced. No locks are taken (new_file.rs).
//!
//! The files of a run are written first, then all are synced, then each gets its name, and then each folder is synced. Files are synced at the same time, and so
//! are folders: a journal and a disk serve several syncs with one write.

use std::ops::Range;
use std::thread::Builder;
use std::time::Instant;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, Result as System};

use crate::files::folders::{TRIES, open_folder, sync};
use crate::files::lock::{LONGEST_NAME, Wait};
use crate::files::new_file::{create_whole, link_unnamed, open_unnamed};
use crate::files::pieces::WriteError;
use crate::files::publish::{Answer, Batch, ThreadState, WriteValue, changed, finish, present, published, refused};
use crate::sources::Version;

/// The result for a file that was created, but whose folder could not be synced: a crash may lose it.
fn unsynced(error: Errno) -> Answer {
    [-3, i64::from(error.raw_os_error()), 0, 0]
}

/// A name of a run, before it is linked. folder: its index among the folders of the run
struct Name<'a> {
    folder: usize,
    base: &'a str,
    /// The written file, which has no name yet; None if a file existed before
    new: Option<OwnedFd>,
    version: Version,
}

/// Creates names of a batch. A name that fails is tried again separately, to find the reason.
pub(crate) fn create_run(
    batch: &Batch<'_>,
    run: Range<usize>,
    write_value: &WriteValue<'_>,
    state: &mut ThreadState,
    wait: &Wait<'_>,
) -> Vec<Answer> {
    let mut folders: Vec<(&str, OwnedFd)> = Vec::new();
    let (mut names, mut polled) = (Vec::with_capacity(run.len()), Instant::now());
    for number in run.clone() {
        if wait.poll(&mut polled) {
            return Vec::new(); // files without a name vanish
        }
        names.push(write_one(batch, number, write_value, &mut folders, state).ok());
    }
    if wait.poll(&mut polled) {
        return Vec::new();
    }
    if batch.sync {
        let new: Vec<_> = names.iter().flatten().filter_map(|name| name.new.as_ref()).collect();
        let mut synced = sync_together(&new).into_iter();
        for slot in &mut names {
            slot.take_if(|name| name.new.is_some() && !matches!(synced.next(), Some(Ok(()))));
        }
    }
    let link = |name: Name<'_>| match &name.new {
        None => Some((name.folder, changed(Some(name.version)))),
        Some(file) => link_unnamed(folders[name.folder].1.as_fd(), file, name.base).ok().map(|()| (name.folder, published(name.version))),
    };
    let there: Vec<_> = names.into_iter().map(|name| name.and_then(link)).collect();
    let opened: Vec<_> = folders.iter().map(|(_, folder)| folder).collect();
    let synced = if batch.sync { sync_together(&opened) } else { vec![Ok(()); opened.len()] };
    let answers: Vec<_> =
        there.into_iter().map(|name| name.map(|(folder, answer)| synced[folder].map_or_else(unsynced, |()| answer))).collect();
    drop(folders);
    let mut alone = |number| create_one(batch, number, write_value, state, wait).unwrap_or_else(|error| refused(&error));
    run.zip(answers).map(|(number, answer)| answer.unwrap_or_else(|| alone(number))).collect()
}

/// Syncs files or folders at the same time: the first on this thread, as any for which the system has no thread.
fn sync_together(files: &[&OwnedFd]) -> Vec<System<()>> {
    let Some((first, others)) = files.split_first() else { return Vec::new() };
    std::thread::scope(|scope| {
        let started: Vec<_> = others.iter().map(|file| (file, Builder::new().spawn_scoped(scope, || sync(file.as_fd())))).collect();
        let mut synced = vec![sync(first.as_fd())];
        for (file, other) in started {
            synced.push(other.map_or_else(|_| sync(file.as_fd()), |other| other.join().unwrap_or(Err(Errno::IO))));
        }
        synced
    })
}

/// A creation whose folder could not be synced may be repeated, and then finds its own file: so the folder is synced even if a file existed before.
fn sync_folder(batch: &Batch<'_>, folder: BorrowedFd<'_>) -> System<()> {
    if batch.sync { sync(folder) } else { Ok(()) }
}

/// Writes the value of a name into a file without one, in the folder of the name.
fn write_one<'a>(
    batch: &'a Batch<'_>,
    number: usize,
    write_value: &WriteValue<'_>,
    folders: &mut Vec<(&'a str, OwnedFd)>,
    state: &mut ThreadState,
) -> Result<Name<'a>, WriteError> {
    let (path, base) = batch.names[number].rsplit_once('/').ok_or(Errno::INVAL)?;
    let folder = match folders.iter().position(|(held, _)| *held == path) {
        Some(at) => at,
        None => {
            folders.push((path, open_folder(batch.root, path, batch.make(true))?));
            folders.len() - 1
        }
    };
    let here = folders[folder].1.as_fd();
    if base.len() > LONGEST_NAME {
        return Err(Errno::NAMETOOLONG.into());
    }
    if let Some(version) = present(here, base)? {
        return Ok(Name { folder, base, new: None, version });
    }
    let file = open_unnamed(here)?;
    write_value(number, file.as_fd(), &mut state.scratch)?;
    let version = finish(file.as_fd(), None, false)?;
    Ok(Name { folder, base, new: Some(file), version })
}

/// Creates one name. After an error nothing was created.
fn create_one(
    batch: &Batch<'_>,
    number: usize,
    write_value: &WriteValue<'_>,
    state: &mut ThreadState,
    wait: &Wait<'_>,
) -> Result<Answer, WriteError> {
    state.within(batch, &batch.names[number], true, |folder, base, scratch| {
        let synced = |answer| Ok(sync_folder(batch, folder).map_or_else(unsynced, |()| answer));
        for _ in 0..TRIES {
            if let Some(version) = present(folder, base)? {
                return synced(changed(Some(version)));
            }
            let created = create_whole(folder, base, wait, |file: BorrowedFd<'_>| {
                write_value(number, file, scratch)?;
                finish(file, None, batch.sync)
            })?;
            if let Some(version) = created {
                return synced(published(version));
            }
        }
        Err(Errno::AGAIN.into())
    })
}
