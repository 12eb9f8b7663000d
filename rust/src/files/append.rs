//! Changing a shard in place so that it can be restored after a kill at any moment: the steps.
//!
//! docs/design/044-shards-in-place.md defines them. append_journal.rs is the journal, append_files.rs the disk and the lock; Python decides which bytes are
//! written.

use rustix::io::{Errno, Result as System};

use crate::files::append_journal::{Disk, Journal, State, Target, Write};

const GATHERED: usize = 1 << 20; // small neighbours are written together, up to this many bytes

/// What to do with a journal whose file was copied. The file may also be a later one with the same bytes, so only a caller who found it unreadable restores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    Remove,
    Keep,
    Restore,
}

/// Appends to a shard and, if `head` is not 0, then overwrites its first bytes; that comes last. There is no journal yet. After an error nothing was changed,
/// or the journal remains, which `restore` needs. NOTSUP: others may not notice that the first bytes change, and nothing was changed.
pub(crate) fn append(disk: &mut impl Disk, writes: &[Write<'_>], head: u64, durable: bool) -> System<()> {
    if head > 0 && !disk.stamp_exactly()? {
        return Err(Errno::NOTSUP);
    }
    let journal = Journal::of(disk, writes, head)?;
    let noted = note(disk, &journal, durable);
    let done = noted.and_then(|()| change(disk, writes, durable)).and_then(|()| disk.remove_journal());
    if let Err(error) = done {
        let _ = finish_or_undo(disk, true, Copies::Remove); // if this fails, the next process tries it again
        return Err(error);
    }
    if durable { disk.sync(Target::Folder) } else { Ok(()) }
}

/// Overwrites bytes of a shard. NOTSUP: readers may not notice it, and no byte was changed.
pub(crate) fn overwrite(disk: &mut impl Disk, writes: &[Write<'_>], durable: bool) -> System<()> {
    // before the write: a reader that reads meanwhile finds another version afterwards
    if !disk.stamp_exactly()? {
        return Err(Errno::NOTSUP);
    }
    change(disk, writes, durable)
}

fn note(disk: &mut impl Disk, journal: &Journal, durable: bool) -> System<()> {
    disk.create_journal()?;
    disk.write(Target::Journal, 0, &journal.to_bytes())?;
    if durable {
        disk.sync(Target::Journal)?;
        disk.sync(Target::Folder)?;
    }
    Ok(())
}

fn change(disk: &mut impl Disk, writes: &[Write<'_>], durable: bool) -> System<()> {
    let mut rest = writes;
    while let Some(&(at, first)) = rest.first() {
        let mut end = at + first.len() as u64;
        let mut count = 1;
        while let Some(&(next, bytes)) = rest.get(count)
            && next == end
            && (end - at) as usize + bytes.len() <= GATHERED
        {
            end += bytes.len() as u64;
            count += 1;
        }
        if count == 1 {
            disk.write(Target::Shard, at, first)?;
        } else {
            let gathered: Vec<&[u8]> = rest[..count].iter().map(|&(_, bytes)| bytes).collect();
            disk.write(Target::Shard, at, &gathered.concat())?;
        }
        rest = &rest[count..];
    }
    disk.stamp()?;
    if durable { disk.sync(Target::Shard) } else { disk.flush() }
}

/// The state of an append.
pub(crate) fn append_state(disk: &impl Disk) -> System<State> {
    disk.read_journal()?.as_deref().and_then(Journal::parse).map_or(Ok(State::Nothing), |journal| journal.append_state(disk))
}

/// Undoes an unfinished append; returns the state it was in. This may be killed at any time, and repeated.
pub(crate) fn restore(disk: &mut impl Disk, copies: Copies) -> System<State> {
    finish_or_undo(disk, false, copies)
}

/// As restore. undo: also undoes a finished append.
fn finish_or_undo(disk: &mut impl Disk, undo: bool, copies: Copies) -> System<State> {
    let Some(bytes) = disk.read_journal()? else { return Ok(State::Nothing) };
    let journal = Journal::parse(&bytes);
    let left = journal.as_ref().map_or(Ok(State::Nothing), |journal| journal.append_state(disk))?;
    let left = match (left, copies) {
        (State::Copied, Copies::Keep) => return Ok(State::Copied),
        (State::Copied, Copies::Remove) => State::Nothing,
        (State::Copied, Copies::Restore) => State::Torn,
        (left, _) => left,
    };
    let Some(journal) = journal.filter(|_| left != State::Nothing) else { return disk.remove_journal().map(|()| State::Nothing) };
    if left == State::Torn || undo {
        disk.write(Target::Shard, 0, &journal.head)?;
        disk.cut(journal.size)?;
    }
    disk.stamp()?;
    disk.sync(Target::Shard)?; // the journal must not be removed before
    disk.remove_journal()?;
    disk.sync(Target::Folder)?;
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::append_journal::Identity;

    /// An operation that may not be on the medium yet.
    #[derive(Clone, Debug)]
    enum Pending {
        Shard(u64, Vec<u8>),
        Cut(u64),
        Journal(Vec<u8>),
    }

    /// A disk in memory that fails, or loses its power, at one operation.
    #[derive(Clone, Default)]
    struct Simulated {
        inode: u64,
        shard: Vec<u8>,
        journal: Option<Vec<u8>>,
        stamps: u64,
        /// The state on the medium: the shard, the journal's bytes, whether the journal has its name there.
        safe: (Vec<u8>, Vec<u8>, bool),
        pending: Vec<Pending>,
        operations: usize,
        fails_at: Option<usize>,
        /// After the failure every operation fails: a kill.
        dead: bool,
        killed: bool,
        /// The write that fails still writes this many bytes.
        torn: usize,
    }

    impl Simulated {
        fn of(shard: &[u8]) -> Simulated {
            Simulated { shard: shard.to_vec(), safe: (shard.to_vec(), Vec::new(), false), ..Default::default() }
        }

        /// Ok, or the fault.
        fn step(&mut self) -> System<()> {
            self.operations += 1;
            if self.killed || self.fails_at == Some(self.operations) {
                self.killed = self.dead;
                return Err(Errno::IO);
            }
            Ok(())
        }

        fn put(shard: &mut Vec<u8>, at: u64, bytes: &[u8]) {
            let end = at as usize + bytes.len();
            if shard.len() < end {
                shard.resize(end, 0);
            }
            shard[at as usize..end].copy_from_slice(bytes);
        }

        /// The state after a power cut. Of the operations that were not synced, those in `done` were done.
        fn after_power_cut(&self, done: u64, name: bool) -> Simulated {
            let (mut shard, mut journal, named) = self.safe.clone();
            for (number, pending) in self.pending.iter().enumerate() {
                if done >> number & 1 == 0 {
                    continue;
                }
                match pending {
                    Pending::Shard(at, bytes) => Simulated::put(&mut shard, *at, bytes),
                    Pending::Cut(size) => shard.resize(*size as usize, 0),
                    Pending::Journal(bytes) => journal.clone_from(bytes),
                }
            }
            let there = if self.journal.is_some() == named { named } else { name };
            Simulated { safe: (shard.clone(), journal.clone(), there), shard, journal: there.then_some(journal), ..Default::default() }
        }
    }

    impl Disk for Simulated {
        fn identity(&self) -> System<Identity> {
            Ok(Identity { inode: self.inode, birth_time: 8 })
        }

        fn size(&self) -> System<u64> {
            Ok(self.shard.len() as u64)
        }

        fn read(&self, at: u64, length: u64) -> System<Vec<u8>> {
            self.shard.get(at as usize..(at + length) as usize).map(<[u8]>::to_vec).ok_or(Errno::IO)
        }

        fn read_journal(&self) -> System<Option<Vec<u8>>> {
            if self.killed { Err(Errno::IO) } else { Ok(self.journal.clone()) }
        }

        fn create_journal(&mut self) -> System<()> {
            self.step()?;
            self.journal = Some(Vec::new());
            Ok(())
        }

        fn remove_journal(&mut self) -> System<()> {
            self.step()?;
            self.journal = None;
            Ok(())
        }

        fn write(&mut self, target: Target, at: u64, bytes: &[u8]) -> System<()> {
            let done = self.step();
            let bytes = if done.is_ok() { bytes } else { &bytes[..self.torn.min(bytes.len())] };
            if done.is_ok() || !self.killed || self.operations == self.fails_at.unwrap_or(0) {
                match target {
                    Target::Journal => {
                        self.journal = Some(bytes.to_vec());
                        self.pending.push(Pending::Journal(bytes.to_vec()));
                    }
                    _ if bytes.is_empty() => {}
                    _ => {
                        Simulated::put(&mut self.shard, at, bytes);
                        self.pending.push(Pending::Shard(at, bytes.to_vec()));
                    }
                }
            }
            done
        }

        fn cut(&mut self, size: u64) -> System<()> {
            self.step()?;
            self.shard.truncate(size as usize);
            self.pending.push(Pending::Cut(size));
            Ok(())
        }

        fn stamp(&mut self) -> System<()> {
            self.step()?;
            self.stamps += 1;
            Ok(())
        }

        fn stamp_exactly(&mut self) -> System<bool> {
            self.stamp().map(|()| true)
        }

        fn flush(&mut self) -> System<()> {
            self.step()
        }

        fn sync(&mut self, target: Target) -> System<()> {
            self.step()?;
            match target {
                Target::Shard => {
                    self.safe.0.clone_from(&self.shard);
                    self.pending.retain(|pending| matches!(pending, Pending::Journal(_)));
                }
                Target::Journal => {
                    self.safe.1 = self.journal.clone().unwrap_or_default();
                    self.pending.retain(|pending| !matches!(pending, Pending::Journal(_)));
                }
                Target::Folder => self.safe.2 = self.journal.is_some(),
            }
            Ok(())
        }
    }

    type Case = (Vec<u8>, Vec<(u64, Vec<u8>)>, u64, Vec<u8>);

    /// Both locations of an index: (the shard before, the new bytes, the head that is overwritten, the shard after).
    fn cases() -> Vec<Case> {
        let old: Vec<u8> = (0..200).collect();
        let behind = [(200, vec![1; 30]), (230, vec![2; 5]), (235, vec![3; 16])];
        let end = [&old[..], &[1; 30], &[2; 5], &[3; 16]].concat();
        let start = [&[9; 20], &old[20..], &[1; 30], &[2; 5]].concat();
        let in_front = [(200, vec![1; 30]), (230, vec![2; 5]), (0, vec![9; 20])];
        vec![(old.clone(), behind.to_vec(), 0, end), (old, in_front.to_vec(), 20, start)]
    }

    fn writes(owned: &[(u64, Vec<u8>)]) -> Vec<Write<'_>> {
        owned.iter().map(|(at, bytes)| (*at, &bytes[..])).collect()
    }

    #[test]
    fn an_append_is_done_and_leaves_no_journal() {
        for (old, owned, head, new) in cases() {
            for durable in [false, true] {
                let mut disk = Simulated::of(&old);
                append(&mut disk, &writes(&owned), head, durable).unwrap();
                assert_eq!((&disk.shard, &disk.journal, disk.stamps), (&new, &None, 1 + u64::from(head > 0)));
                assert!(!durable || (disk.safe.0 == new && !disk.safe.2));
            }
        }
    }

    #[test]
    fn an_operation_that_fails_is_undone() {
        for (old, owned, head, new) in cases() {
            for (durable, torn) in [(false, 0), (false, 3), (true, 3)] {
                for fails_at in 1.. {
                    let mut disk = Simulated { fails_at: Some(fails_at), torn, ..Simulated::of(&old) };
                    let done = append(&mut disk, &writes(&owned), head, durable);
                    if disk.operations < fails_at {
                        break;
                    }
                    assert!(done.is_err());
                    assert_eq!(disk.journal, None, "{fails_at}");
                    let expected = if disk.shard == new { &new } else { &old }; // only the last sync of the folder comes after the append
                    assert!(&disk.shard == expected && (disk.shard == old || durable), "{fails_at}");
                }
            }
        }
    }

    #[test]
    fn a_kill_anywhere_is_restored_also_when_the_restoration_is_killed() {
        for (old, owned, head, new) in cases() {
            for torn in [0, 1, 3, 100] {
                for fails_at in 1.. {
                    let mut disk = Simulated { fails_at: Some(fails_at), dead: true, torn, ..Simulated::of(&old) };
                    let done = append(&mut disk, &writes(&owned), head, false);
                    if disk.operations < fails_at {
                        assert!(done.is_ok());
                        break;
                    }
                    for again_at in 1.. {
                        let mut next = Simulated { operations: 0, fails_at: Some(again_at), killed: false, ..disk.clone() };
                        let _ = restore(&mut next, Copies::Keep);
                        let whole = next.operations < again_at;
                        let mut last = Simulated { operations: 0, fails_at: None, killed: false, ..next };
                        restore(&mut last, Copies::Keep).unwrap();
                        let expected = if disk.shard == new { &new } else { &old }; // readers may have seen the new one
                        assert_eq!((last.journal.is_none(), &last.shard == expected), (true, true), "{fails_at} {again_at}");
                        if whole {
                            break;
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_power_cut_anywhere_is_restored_where_it_is_durable() {
        for (old, owned, head, new) in cases() {
            for fails_at in 1.. {
                let mut disk = Simulated { fails_at: Some(fails_at), dead: true, torn: 3, ..Simulated::of(&old) };
                let done = append(&mut disk, &writes(&owned), head, true);
                for subset in 0..1u64 << disk.pending.len() {
                    for name in [false, true] {
                        let mut back = disk.after_power_cut(subset, name);
                        restore(&mut back, Copies::Keep).unwrap();
                        let fits = if done.is_ok() { back.shard == new } else { back.shard == old || back.shard == new };
                        assert!(fits, "{fails_at} {subset} {name}");
                    }
                }
                if disk.operations < fails_at {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_journal_of_another_file_is_only_removed() {
        let (old, _, _, _) = cases().remove(1);
        let journal = Journal::of(&Simulated::of(&old), &[(200, &[1; 30]), (0, &[9; 20])], 20).unwrap();
        let bytes = journal.to_bytes();
        assert_eq!(Journal::parse(&bytes), Some(journal));
        let other: Vec<u8> = (0..250).rev().collect();
        for shard in [other, old[..150].to_vec()] {
            let mut disk = Simulated { journal: Some(bytes.clone()), ..Simulated::of(&shard) };
            assert_eq!(restore(&mut disk, Copies::Keep), Ok(State::Nothing));
            assert_eq!((disk.journal, disk.shard), (None, shard));
        }
        for length in 0..bytes.len() {
            assert_eq!(Journal::parse(&bytes[..length]), None);
        }
    }

    #[test]
    fn a_copy_of_a_torn_shard_is_restored_on_request() {
        for (old, owned, head, new) in cases() {
            for fails_at in 2.. {
                let mut killed = Simulated { fails_at: Some(fails_at), dead: true, torn: 3, ..Simulated::of(&old) };
                let done = append(&mut killed, &writes(&owned), head, false);
                if done.is_ok() {
                    break;
                }
                let copy = Simulated { inode: 1, journal: killed.journal.clone(), ..Simulated::of(&killed.shard) };
                let whole = killed.journal.as_deref().and_then(Journal::parse).is_some() && killed.shard != new;
                for copies in [Copies::Keep, Copies::Remove, Copies::Restore] {
                    let mut disk = copy.clone();
                    let left = restore(&mut disk, copies).unwrap();
                    let expected = match copies {
                        _ if !whole => State::Nothing,
                        Copies::Keep => State::Copied,
                        Copies::Remove => State::Nothing,
                        Copies::Restore => State::Torn,
                    };
                    assert_eq!((left, disk.journal.is_some()), (expected, expected == State::Copied), "{fails_at} {copies:?}");
                    assert_eq!(&disk.shard, if expected == State::Torn { &old } else { &killed.shard });
                }
            }
        }
    }
}
