//! Changing a shard in place so that a kill at any moment leaves one that can be restored: the steps and the journal, over a small trait of operations.
//!
//! docs/design/044-shards-in-place.md gives the steps. append_files.rs is the disk and takes the lock; Python decides what is written.

use rustix::io::{Errno, Result as System};

const MAGIC: &[u8; 8] = b"FRZAPPND";
const SAMPLE: u64 = 64;
const GATHERED: usize = 1 << 20; // small neighbours are written together, up to so much

/// What is written to, or synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Shard,
    Journal,
    Folder,
}

/// What tells one file from another that has its inode later: inode, and time of birth where the system has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub inode: u64,
    pub birth_time: u64,
}

/// One shard and its journal on a disk, under the lock of the shard.
pub(crate) trait Disk {
    fn identity(&self) -> System<Identity>;
    fn size(&self) -> System<u64>;
    /// Bytes of the shard, all of which are there.
    fn read(&self, at: u64, length: u64) -> System<Vec<u8>>;
    /// None: there is none.
    fn read_journal(&self) -> System<Option<Vec<u8>>>;
    /// Fails where there is one.
    fn create_journal(&mut self) -> System<()>;
    fn remove_journal(&mut self) -> System<()>;
    fn write(&mut self, target: Target, at: u64, bytes: &[u8]) -> System<()>;
    /// Cuts the shard.
    fn cut(&mut self, size: u64) -> System<()>;
    /// Gives the shard a time of change that it never had.
    fn stamp(&mut self) -> System<()>;
    fn sync(&mut self, target: Target) -> System<()>;
}

/// Bytes, and where they go.
pub(crate) type Write<'a> = (u64, &'a [u8]);

/// What an append leaves behind the old end and at the start of a shard when all is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Finished {
    size: u64, // the new one; 0: not known
    tail: u32, // crc32c of the bytes behind the old end
    head: u32, // crc32c of the first bytes
}

impl Finished {
    fn of(writes: &[Write<'_>], size: u64) -> Finished {
        let mut finished = Finished { size, tail: 0, head: 0 };
        for &(at, bytes) in writes {
            if at == finished.size {
                finished.tail = crc32c::crc32c_append(finished.tail, bytes);
                finished.size += bytes.len() as u64;
            } else if at == 0 {
                finished.head = crc32c::crc32c(bytes);
            } else {
                return Finished { size: 0, ..finished };
            }
        }
        finished
    }
}

/// What came of an append that had a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Nothing,
    /// All of it was written: readers may have seen it, and it stays.
    Finished,
    /// It was killed before. Now it is undone.
    Torn,
}

/// What is needed to undo an append, and to see whether it was finished.
#[derive(Debug, PartialEq, Eq)]
struct Journal {
    identity: Identity,
    size: u64,
    finished: Finished,
    /// The first bytes of the shard, where they are overwritten.
    head: Vec<u8>,
    /// The last bytes before `size`.
    sample: Vec<u8>,
}

impl Journal {
    fn of(disk: &impl Disk, writes: &[Write<'_>], head: u64) -> System<Journal> {
        let size = disk.size()?;
        if head > size {
            return Err(Errno::INVAL);
        }
        let sample = SAMPLE.min(size - head);
        let (identity, finished) = (disk.identity()?, Finished::of(writes, size));
        Ok(Journal { identity, size, finished, head: disk.read(0, head)?, sample: disk.read(size - sample, sample)? })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let (Identity { inode, birth_time }, Finished { size, tail, head }) = (self.identity, self.finished);
        let lengths = [self.head.len() as u64, self.sample.len() as u64];
        let numbers = [inode, birth_time, self.size, lengths[0], lengths[1], size, u64::from(tail), u64::from(head)];
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(&self.head);
        bytes.extend(&self.sample);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// None where it was not written to its end.
    fn parse(bytes: &[u8]) -> Option<Journal> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (numbers, texts) = body.strip_prefix(MAGIC)?.split_at_checked(64)?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let number = |at: usize| u64::from_le_bytes(numbers[at]);
        let (head, sample) = texts.split_at_checked(usize::try_from(number(3)).ok()?)?;
        if sample.len() as u64 != number(4) {
            return None;
        }
        let identity = Identity { inode: number(0), birth_time: number(1) };
        let finished = Finished { size: number(5), tail: u32::try_from(number(6)).ok()?, head: u32::try_from(number(7)).ok()? };
        Some(Journal { identity, size: number(2), finished, head: head.to_vec(), sample: sample.to_vec() })
    }

    /// Whether it is of the file that is there.
    fn fits(&self, disk: &impl Disk) -> System<bool> {
        if self.identity != disk.identity()? || disk.size()? < self.size {
            return Ok(false);
        }
        let length = self.sample.len() as u64;
        Ok(disk.read(self.size - length, length)? == self.sample)
    }

    /// What is left of the append that it is of.
    fn append_state(&self, disk: &impl Disk) -> System<State> {
        let Finished { size, tail, head } = self.finished;
        if !self.fits(disk)? {
            return Ok(State::Nothing);
        }
        let finished = size >= self.size
            && disk.size()? >= size
            && crc32c::crc32c(&disk.read(self.size, size - self.size)?) == tail
            && (self.head.is_empty() || crc32c::crc32c(&disk.read(0, self.head.len() as u64)?) == head);
        Ok(if finished { State::Finished } else { State::Torn })
    }
}

/// Writes behind the end of a shard and, where `head` says so, over its first bytes, which comes last. There is no journal. An error says that nothing was changed, or that the
/// journal is left which `restore` needs.
pub(crate) fn append(disk: &mut impl Disk, writes: &[Write<'_>], head: u64, durable: bool) -> System<()> {
    let journal = Journal::of(disk, writes, head)?;
    let noted = note(disk, &journal, durable);
    let done = noted.and_then(|()| change(disk, writes, durable)).and_then(|()| disk.remove_journal());
    if let Err(error) = done {
        let _ = finish_or_undo(disk, true); // what fails here is tried again by whoever comes next
        return Err(error);
    }
    if durable { disk.sync(Target::Folder) } else { Ok(()) }
}

/// Overwrites bytes of a shard.
pub(crate) fn overwrite(disk: &mut impl Disk, writes: &[Write<'_>], durable: bool) -> System<()> {
    disk.stamp()?; // before: a reader that reads meanwhile finds another version afterwards
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
    if durable { disk.sync(Target::Shard) } else { Ok(()) }
}

/// What is left of an append.
pub(crate) fn append_state(disk: &impl Disk) -> System<State> {
    disk.read_journal()?.as_deref().and_then(Journal::parse).map_or(Ok(State::Nothing), |journal| journal.append_state(disk))
}

/// Undoes an append that was not finished; what was left of it. Whatever is done here may be killed and done again.
pub(crate) fn restore(disk: &mut impl Disk) -> System<State> {
    finish_or_undo(disk, false)
}

/// As restore. undo: also an append that was finished.
fn finish_or_undo(disk: &mut impl Disk, undo: bool) -> System<State> {
    let Some(bytes) = disk.read_journal()? else { return Ok(State::Nothing) };
    let journal = Journal::parse(&bytes);
    let left = journal.as_ref().map_or(Ok(State::Nothing), |journal| journal.append_state(disk))?;
    let Some(journal) = journal.filter(|_| left != State::Nothing) else { return disk.remove_journal().map(|()| State::Nothing) };
    if left == State::Torn || undo {
        disk.write(Target::Shard, 0, &journal.head)?;
        disk.cut(journal.size)?;
    }
    disk.stamp()?;
    disk.sync(Target::Shard)?; // the journal must not be gone before
    disk.remove_journal()?;
    disk.sync(Target::Folder)?;
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operation that the medium may not have done yet.
    #[derive(Clone, Debug)]
    enum Pending {
        Shard(u64, Vec<u8>),
        Cut(u64),
        Journal(Vec<u8>),
    }

    /// A disk in memory that fails, or whose power goes, at one operation.
    #[derive(Clone, Default)]
    struct Simulated {
        shard: Vec<u8>,
        journal: Option<Vec<u8>>,
        stamps: u64,
        /// What is on the medium: the shard, the journal's bytes, whether it has its name there.
        safe: (Vec<u8>, Vec<u8>, bool),
        pending: Vec<Pending>,
        operations: usize,
        fails_at: Option<usize>,
        /// After the failure everything fails: a kill.
        dead: bool,
        killed: bool,
        /// Of the write that fails so many bytes are written.
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

        /// What is there after the power came back, if those of the operations that were not synced were done that `done` says.
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
            Ok(Identity { inode: 7, birth_time: 8 })
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

    /// Both locations of an index: (the shard before, what is written, the head that is overwritten, the shard after).
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
                assert_eq!((&disk.shard, &disk.journal, disk.stamps), (&new, &None, 1));
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
                        let _ = restore(&mut next);
                        let whole = next.operations < again_at;
                        let mut last = Simulated { operations: 0, fails_at: None, killed: false, ..next };
                        restore(&mut last).unwrap();
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
                        restore(&mut back).unwrap();
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
            assert_eq!(restore(&mut disk), Ok(State::Nothing));
            assert_eq!((disk.journal, disk.shard), (None, shard));
        }
        for length in 0..bytes.len() {
            assert_eq!(Journal::parse(&bytes[..length]), None);
        }
    }
}
