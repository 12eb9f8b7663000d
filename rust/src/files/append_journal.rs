//! The journal of an append: its bytes, and the state of its file that follows from them; and the disk operations for appends and journals, as a small trait.

use rustix::io::{Errno, Result as System};

const MAGIC: &[u8; 8] = b"FRZAPPND";
const SAMPLE: u64 = 64;
const PIECE: u64 = 1 << 20; // bytes that are read at once

/// The target of a write or sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Shard,
    Journal,
    Folder,
}

/// Distinguishes a file from a later one with the same inode: inode, and time of birth if the system has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub inode: u64,
    pub birth_time: u64,
}

/// One shard and its journal on a disk, under the lock of the shard.
pub(crate) trait Disk {
    fn identity(&self) -> System<Identity>;
    fn size(&self) -> System<u64>;
    /// Bytes of the shard, all of which must exist.
    fn read(&self, at: u64, length: u64) -> System<Vec<u8>>;
    /// None: there is no journal.
    fn read_journal(&self) -> System<Option<Vec<u8>>>;
    /// Fails if there is one.
    fn create_journal(&mut self) -> System<()>;
    fn remove_journal(&mut self) -> System<()>;
    fn write(&mut self, target: Target, at: u64, bytes: &[u8]) -> System<()>;
    /// Truncates the shard.
    fn cut(&mut self, size: u64) -> System<()>;
    /// Gives the shard a version that it did not have before, as far as the disk keeps times of change.
    fn stamp(&mut self) -> System<()>;
    /// The same for disks that keep the exact time. False: this one does not, so a later write may leave the shard with a version that it had.
    fn stamp_exactly(&mut self) -> System<bool>;
    /// Learns of writes to the shard that failed later.
    fn flush(&mut self) -> System<()>;
    fn sync(&mut self, target: Target) -> System<()>;
}

/// An offset, and the bytes to write there.
pub(crate) type Write<'a> = (u64, &'a [u8]);

/// The bytes after the old end and at the start of a shard when an append is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Finished {
    size: u64, // the new one; 0: not known
    tail: u32, // crc32c of the bytes after the old end
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

/// The state of an append that had a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Nothing,
    /// It was written completely: readers may have seen it, and it stays.
    Finished,
    /// It was killed before that, and is undone now.
    Torn,
    /// It was killed before that, and the file was copied then, together with its journal. It is not changed.
    Copied,
}

/// crc32c of the bytes of a shard between two offsets, which are read piece by piece: an append may be larger than memory.
fn sum_of(disk: &impl Disk, mut at: u64, end: u64) -> System<u32> {
    let mut sum = 0;
    while at < end {
        let piece = disk.read(at, (end - at).min(PIECE))?;
        sum = crc32c::crc32c_append(sum, &piece);
        at += piece.len() as u64;
    }
    Ok(sum)
}

/// The data to undo an append, and to check whether it was finished.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    identity: Identity,
    pub size: u64,
    finished: Finished,
    /// The first bytes of the shard, if they are overwritten.
    pub head: Vec<u8>,
    /// The last bytes before `size`.
    sample: Vec<u8>,
}

impl Journal {
    pub fn of(disk: &impl Disk, writes: &[Write<'_>], head: u64) -> System<Journal> {
        let size = disk.size()?;
        if head > size {
            return Err(Errno::INVAL);
        }
        let sample = SAMPLE.min(size - head);
        let (identity, finished) = (disk.identity()?, Finished::of(writes, size));
        Ok(Journal { identity, size, finished, head: disk.read(0, head)?, sample: disk.read(size - sample, sample)? })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
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

    /// None if it was not written completely.
    pub fn parse(bytes: &[u8]) -> Option<Journal> {
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

    /// Whether the bytes are those of the journal's file.
    fn fits(&self, disk: &impl Disk) -> System<bool> {
        let length = self.sample.len() as u64;
        if disk.size()? < self.size || self.size < length {
            return Ok(false);
        }
        Ok(disk.read(self.size - length, length)? == self.sample)
    }

    /// The state of the journal's append.
    pub fn append_state(&self, disk: &impl Disk) -> System<State> {
        let Finished { size, tail, head } = self.finished;
        if !self.fits(disk)? {
            return Ok(State::Nothing);
        }
        let finished = size >= self.size
            && disk.size()? >= size
            && sum_of(disk, self.size, size)? == tail
            && (self.head.is_empty() || crc32c::crc32c(&disk.read(0, self.head.len() as u64)?) == head);
        let is_own = self.identity == disk.identity()?;
        Ok(match (finished, is_own) {
            (true, true) => State::Finished,
            (true, false) => State::Nothing,
            (false, true) => State::Torn,
            (false, false) => State::Copied,
        })
    }
}
