//! Creating whole files beneath a root, many in one call, under names that are only created and never replaced. No locks are taken (new_file.rs).
//!
//! The files of a run are written first, then all are synced, then each gets its name, and then each folder is synced: a journal serves several syncs with one
//! write. A last file that refers to the others gets its name after that, and only if all others have theirs: so a crash never leaves it without them.

use std::ops::Range;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, Result as System};

use crate::files::folders::{open_folder, sync};
use crate::files::lock::check_length;
use crate::files::new_file::{create_whole, link_unnamed, open_unnamed};
use crate::files::publish::{
    Answer, Batch, Expect, ThreadState, WriteValue, changed, created_or_present, finish, present, published, refused, sync_folder, synced,
    unsynced,
};
use crate::files::write_pieces::WriteError;
use crate::sources::Version;
use crate::threads::Threads;

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
    threads: &Threads,
) -> Vec<Answer> {
    let mut folders: Vec<(&str, OwnedFd)> = Vec::new();
    let mut names = Vec::with_capacity(run.len());
    for number in run.clone() {
        if threads.ended() {
            return Vec::new(); // files without a name vanish
        }
        names.push(write_one(batch, number, write_value, &mut folders, state).ok());
    }
    if threads.ended() {
        return Vec::new();
    }
    if batch.sync {
        let new: Vec<_> = names.iter().flatten().filter_map(|name| name.new.as_ref()).collect();
        let mut synced = sync_files(&new).into_iter();
        for slot in &mut names {
            slot.take_if(|name| name.new.is_some() && !matches!(synced.next(), Some(Ok(()))));
        }
    }
    let others = run.len() - usize::from(matches!(batch.expect[run.end - 1], Expect::Last));
    let last = names.split_off(others);
    let mut named = name_files(batch, names, &folders);
    if named.iter().all(|answer| answer.is_some_and(is_there)) {
        named.extend(name_files(batch, last, &folders));
    }
    named.resize(run.len(), None);
    drop(folders);
    let mut answers: Vec<Answer> = Vec::with_capacity(run.len());
    for (at, (number, answer)) in run.zip(named).enumerate() {
        answers.push(match answer {
            Some(answer) => answer,
            None if at == others && !answers.iter().copied().all(is_there) => refused(&Errno::CANCELED.into()),
            None => create_one(batch, number, write_value, state, threads).unwrap_or_else(|error| refused(&error)),
        });
    }
    answers
}

/// Whether a file is there, created now or before, and no crash loses it.
fn is_there(answer: Answer) -> bool {
    matches!(answer[0], 0 | -1)
}

/// Gives written files their names, and syncs the folders of these. None for a name that has to be tried again separately.
fn name_files(batch: &Batch<'_>, names: Vec<Option<Name<'_>>>, folders: &[(&str, OwnedFd)]) -> Vec<Option<Answer>> {
    let link = |name: Name<'_>| match &name.new {
        None => Some((name.folder, changed(Some(name.version)))),
        Some(file) => link_unnamed(folders[name.folder].1.as_fd(), file, name.base).ok().map(|()| (name.folder, published(name.version))),
    };
    let there: Vec<_> = names.into_iter().map(|name| name.and_then(link)).collect();
    let mut done = vec![None; folders.len()];
    let mut answer = |(folder, answer): (usize, Answer)| {
        let done = *done[folder].get_or_insert_with(|| sync_folder(batch, folders[folder].1.as_fd()));
        done.map_or_else(unsynced, |()| answer)
    };
    there.into_iter().map(|name| name.map(&mut answer)).collect()
}

/// Syncs files. The data of all are sent to the disk before the first sync, which then commits the journal for all of them.
fn sync_files(files: &[&OwnedFd]) -> Vec<System<()>> {
    if let [file] = files {
        return vec![sync(file.as_fd())];
    }
    let begun: Vec<_> = files.iter().map(|file| write_out(file.as_fd(), false)).collect();
    let written: Vec<_> = files.iter().zip(begun).map(|(file, begun)| begun.and_then(|()| write_out(file.as_fd(), true))).collect();
    files.iter().zip(written).map(|(file, written)| written.and_then(|()| sync(file.as_fd()))).collect()
}

/// Begins to send the data of a file to the disk, or waits until they are sent. That is not a sync: neither the journal nor the cache of the disk is written.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn write_out(file: BorrowedFd<'_>, wait: bool) -> System<()> {
    use rustix::fd::AsRawFd;
    let flags = if wait { libc::SYNC_FILE_RANGE_WAIT_AFTER } else { libc::SYNC_FILE_RANGE_WRITE };
    // SAFETY: the descriptor is open, as it is borrowed; the call takes numbers only.
    let answer = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    match Errno::from_io_error(&std::io::Error::last_os_error()) {
        _ if answer == 0 => Ok(()),
        Some(Errno::NOSYS | Errno::PERM) => Ok(()), // sandboxes refuse this call; the sync does the work alone
        error => Err(error.unwrap_or(Errno::IO)),
    }
}

#[cfg(not(target_os = "linux"))]
fn write_out(_: BorrowedFd<'_>, _: bool) -> System<()> {
    Ok(())
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
    check_length(base)?;
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
    threads: &Threads,
) -> Result<Answer, WriteError> {
    state.within(batch, &batch.names[number], true, |folder, base, scratch| {
        let mut write = |file: BorrowedFd<'_>| {
            write_value(number, file, scratch)?;
            finish(file, None, batch.sync)
        };
        let answer = created_or_present(folder, base, || match present(folder, base)? {
            Some(_) => Ok(None), // nothing is written
            None => create_whole(folder, base, threads, &mut write),
        })?;
        Ok(synced(batch, folder, answer))
    })
}
