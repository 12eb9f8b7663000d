//! One batch of chunks of an array on a local disk: files are opened and compared with their version, indexes read and checked, inner chunks found, decoded and
//! scattered. What a selection contains is in selection.rs, the walk through one shard in shard_walk.rs, the arguments from Python in read_shards.rs.

use std::sync::Mutex;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use crate::chunks::selection::Selection;
use crate::chunks::shard_index::{Entry, ShardIndex};
use crate::chunks::shard_walk::{Bytes as Source, Extent, find_chunks};
use crate::columns::Room;
use crate::failures::{Code, Fault, MISSING};
use crate::fetch::Watch;
use crate::files::beneath::retry;
use crate::sources::{Files, Opened, Sources, State, Version};
use crate::threads::{Lease, Threads};

/// Files that are open at once, and shards that are worth a thread.
const OPEN: usize = 256;
const WORTH_A_THREAD: usize = 8;

/// The status of a shard after the call: the first number of its row in `states`.
#[derive(Clone, Copy, PartialEq)]
pub enum ShardStatus {
    /// Read, by the given index, or by its own, which then is in `fresh`.
    Known = 0,
    Fresh = 1,
    Missing = 2,
    /// Its index was that of another version, or it was replaced while it was read.
    Stale = 3,
    Failed = 4,
}

/// The place of the chunks of the array.
#[derive(Clone, Copy)]
pub enum Location<'a> {
    /// In files beneath a root, named by their coordinates.
    Named { root: BorrowedFd<'a>, lead: &'a str, separator: &'a str },
    /// (blob, base, length) of each shard.
    Listed { files: Option<&'a Files>, rows: &'a [[i64; 3]] },
}

/// Remembered tables, and the versions of their shards; None: they are always valid.
pub type Tables<'a> = (&'a [Entry], Option<&'a [[i64; 3]]>);

/// The data of one call.
pub struct Call<'a> {
    pub selection: &'a dyn Selection,
    pub levels: &'a [&'a ShardIndex],
    pub location: Location<'a>,
    pub buffers: &'a [&'a [u8]],
    pub remembered: Vec<Tables<'a>>,
    pub slots: Option<&'a [[i64; 2]]>,
    /// For each shard its table in `fresh`; None if one is remembered.
    pub fresh_tables: Vec<Option<usize>>,
    pub fresh: Room,
    pub threads: &'a Threads,
}

/// A shard that was looked up.
struct Shard {
    opened: Option<Opened>,
    status: ShardStatus,
    /// For each inner chunk its bytes in the object.
    rows: Vec<[i64; 3]>,
    fault: Option<ShardFault>,
}

/// The inner chunk at fault (None: the shard itself), and its fault.
type ShardFault = (Option<usize>, Fault);

/// shard, code, text, coordinates of the inner chunk (of the shard, if the shard is at fault)
pub type ShardFailures = Vec<(usize, i64, String, Vec<i64>)>;
pub type Answer = (ShardFailures, (usize, usize, usize));

impl Call<'_> {
    fn name(&self, shard: usize) -> String {
        match self.location {
            Location::Named { lead, separator, .. } => {
                let coordinates: Vec<String> = self.selection.coordinates(shard).iter().map(i64::to_string).collect();
                format!("{lead}{}", coordinates.join(separator))
            }
            Location::Listed { .. } => String::new(),
        }
    }

    /// The open file of a shard; None if it is missing.
    fn open(&self, shard: usize) -> Result<Option<Opened>, Errno> {
        let opened = match self.location {
            Location::Named { root, .. } => Opened::open(root, &self.name(shard)),
            Location::Listed { files: Some(files), rows } => files.open(rows[shard][0] as usize),
            Location::Listed { .. } => return Ok(None),
        };
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn row(&self, shard: usize) -> [i64; 3] {
        match self.location {
            Location::Named { .. } => [0, 0, -1],
            Location::Listed { rows, .. } => rows[shard],
        }
    }

    /// Opens a shard and finds its inner chunks; `number` is its number among the files of the window.
    fn look_up(&self, shard: usize, number: usize, scratch: &mut Lease) -> Shard {
        let mut opened = None;
        let (status, mut rows, fault) = match self.rows_of(shard, number, scratch, &mut opened) {
            Ok((status, rows)) => (status, rows, None),
            Err(fault) => (ShardStatus::Failed, Vec::new(), Some(fault)),
        };
        if rows.is_empty() {
            rows = vec![[MISSING, 0, 0]; self.selection.inner_chunks(shard)];
        }
        Shard { opened, status, rows, fault }
    }

    /// The rows of a shard's inner chunks; none if it is missing or stale.
    fn rows_of(
        &self,
        shard: usize,
        number: usize,
        scratch: &mut Lease,
        opened: &mut Option<Opened>,
    ) -> Result<(ShardStatus, Vec<[i64; 3]>), ShardFault> {
        let [blob, base, length] = self.row(shard);
        if blob >= 0 {
            *opened = self.open(shard).map_err(|error| (None, Fault::io(error)))?;
        }
        let (blob, bytes) = match opened {
            Some(opened) => (number as i64, Source::File(opened)),
            None if blob >= 0 || blob == MISSING => return Ok((ShardStatus::Missing, Vec::new())),
            None => (blob, Source::Buffer(self.buffers[(-1 - blob) as usize])),
        };
        let extent = Extent::new(bytes, base, length).map_err(|fault| (None, fault))?;
        let (status, entries) = self.find(shard, &extent, scratch)?;
        let row = |&[start, length]: &Entry| if start < 0 { [MISSING, 0, 0] } else { [blob, extent.base as i64 + start, length] };
        Ok((status, entries.iter().map(row).collect()))
    }

    fn find(&self, shard: usize, extent: &Extent<'_>, scratch: &mut Lease) -> Result<(ShardStatus, Vec<Entry>), ShardFault> {
        let total = self.levels[0].total;
        let version = match extent.bytes {
            Source::File(opened) => Some(opened.version),
            Source::Buffer(_) => None,
        };
        let (table, status) = match self.fresh_tables[shard] {
            None => {
                let [block, row] = self.slots.map_or([0, 0], |slots| slots[shard]).map(|slot| slot as usize);
                let (tables, versions) = &self.remembered[block];
                let expected =
                    versions.map(|versions| Version { inode: versions[row][0], size: versions[row][1], changed: versions[row][2] });
                if expected.is_some() && expected != version {
                    return Ok((ShardStatus::Stale, Vec::new()));
                }
                (&tables[row * total..(row + 1) * total], ShardStatus::Known)
            }
            Some(slot) => {
                // SAFETY: `fresh` is lent for the call; the tables of two shards do not overlap, and one thread looks a shard up.
                let bytes = unsafe { self.fresh.part(slot * total * 16, total * 16) }.unwrap_or_default();
                // SAFETY: ColumnMut checked the alignment of int64, and any bytes are an int64.
                let (_, table, _) = unsafe { bytes.align_to_mut::<Entry>() };
                let read = extent.read_index(self.levels[0], 0, extent.size, &mut scratch.read, table);
                read.map_err(|fault| (None, fault))?;
                (&*table, ShardStatus::Fresh)
            }
        };
        let numbers = |level| self.selection.numbers(shard, level);
        let found = find_chunks(extent, self.levels, table, numbers, &mut scratch.read);
        Ok((status, found.map_err(|(inner_chunk, fault)| (Some(inner_chunk), fault))?))
    }

    /// Shards from `low` on, as many as may be open at once. Returns how many were done.
    fn window(&self, low: usize, states: &mut [[i64; 4]], failures: &mut ShardFailures) -> Result<usize, String> {
        let high = self.selection.shards().min(low + OPEN);
        let slots: Vec<Mutex<Option<Shard>>> = (low..high).map(|_| Mutex::new(None)).collect();
        let most = if high - low < WORTH_A_THREAD { 1 } else { usize::MAX };
        self.threads.run_jobs(
            slots.len(),
            most,
            || Lease::take(0),
            |scratch, job| {
                let found = self.look_up(low + job, job, scratch);
                if let Ok(mut slot) = slots[job].lock() {
                    *slot = Some(found);
                }
            },
        );
        if self.threads.ended() {
            return Ok(high - low);
        }
        let shards = slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let mut shards: Vec<Shard> = shards.collect();
        // If the process may not open that many files, the rest waits for the next window, and the first one until others close theirs.
        let lacks = |shard: &Shard| shard.fault.as_ref().is_some_and(|(_, fault)| lacks_files(fault));
        let most = shards.iter().position(lacks).map_or(shards.len(), |first| first.max(1));
        shards.truncate(most);
        self.decode(low, shards, states, failures)?;
        Ok(most)
    }

    fn decode(&self, low: usize, mut shards: Vec<Shard>, states: &mut [[i64; 4]], failures: &mut ShardFailures) -> Result<(), String> {
        let count = shards.len();
        let (mut rows, mut ends, mut files, mut versions) = (Vec::new(), Vec::with_capacity(count), Vec::with_capacity(count), Vec::new());
        for shard in &mut shards {
            rows.append(&mut shard.rows);
            ends.push(rows.len());
            versions.push(shard.opened.as_ref().map(|opened| opened.version));
            files.push(shard.opened.take().map_or(State::Refused(Errno::NOENT), State::Open));
        }
        let files = Files::kept(files);
        let sources = Sources { files: Some(&files), buffers: self.buffers.to_vec() };
        let watch = Watch::new(versions.clone());
        let faults = self.selection.decode(low..low + count, &sources, &rows, Some(&watch), self.threads)?.into_objects();
        for (object, (inner_chunk, fault)) in faults {
            let number = usize::try_from(object).unwrap_or_else(|_| ends.partition_point(|&end| end <= inner_chunk));
            let first = if number == 0 { 0 } else { ends[number - 1] };
            if shards[number].fault.is_none() {
                shards[number].fault = Some((Some(inner_chunk - first), fault));
            }
        }
        for (number, shard) in shards.into_iter().enumerate() {
            let mut status = shard.status;
            if let Some((inner_chunk, fault)) = shard.fault {
                status = ShardStatus::Stale;
                // An error in a shard that was replaced meanwhile is not a new error.
                if fault.code != Code::Stale && !self.was_replaced(low + number, versions[number]) {
                    status = ShardStatus::Failed;
                    let at = inner_chunk.map_or_else(
                        || self.selection.coordinates(low + number),
                        |inner_chunk| self.selection.chunk(low + number, inner_chunk),
                    );
                    failures.push((low + number, fault.code as i64, fault.text, at));
                }
            }
            let version = versions[number].unwrap_or(Version { inode: 0, size: 0, changed: 0 });
            states[low + number] = [status as i64, version.inode, version.size, version.changed];
        }
        Ok(())
    }

    fn was_replaced(&self, shard: usize, version: Option<Version>) -> bool {
        let Some(version) = version else { return false };
        match self.open(shard) {
            Ok(opened) => opened.is_none_or(|opened| opened.version != version),
            Err(_) => false,
        }
    }

    /// Chunks without inner chunks: the thread that reads a file opens it.
    fn whole_chunks(&self, states: &mut [[i64; 4]], failures: &mut ShardFailures) -> Result<(), String> {
        let count = self.selection.shards();
        let made;
        let (files, rows) = match self.location {
            Location::Named { root, .. } => {
                made = match retry(|| Files::beneath(root, (0..count).map(|chunk| self.name(chunk)).collect())) {
                    Ok(files) => files,
                    Err(error) => {
                        let fault = Fault::io(error);
                        states.iter_mut().for_each(|state| state[0] = ShardStatus::Failed as i64);
                        failures.push((0, fault.code as i64, fault.text, self.selection.chunk(0, 0)));
                        return Ok(());
                    }
                };
                (Some(&made), (0..count as i64).map(|chunk| [chunk, 0, -1]).collect())
            }
            Location::Listed { files, rows } => (files, rows.to_vec()),
        };
        let sources = Sources { files, buffers: self.buffers.to_vec() };
        let faults = self.selection.decode(0..count, &sources, &rows, None, self.threads)?.into_objects();
        for (state, row) in states.iter_mut().zip(&rows) {
            let status = match faults.get(&row[0]).map(|(_, fault)| fault.code) {
                Some(Code::Missing) => ShardStatus::Missing,
                Some(Code::Stale) => ShardStatus::Stale,
                _ if row[0] == MISSING => ShardStatus::Missing,
                _ => ShardStatus::Known,
            };
            state[0] = status as i64;
        }
        for (inner_chunk, fault) in faults.into_values().filter(|(_, fault)| !matches!(fault.code, Code::Missing | Code::Stale)) {
            states[inner_chunk][0] = ShardStatus::Failed as i64;
            failures.push((inner_chunk, fault.code as i64, fault.text, self.selection.chunk(inner_chunk, 0)));
        }
        failures.sort_unstable();
        Ok(())
    }

    /// states: the status of each shard, and its version.
    pub fn run(&self, states: &mut [[i64; 4]]) -> Result<Answer, String> {
        let mut failures = Vec::new();
        if self.levels.is_empty() {
            self.whole_chunks(states, &mut failures)?;
        } else {
            let mut low = 0;
            while low < self.selection.shards() && !self.threads.ended() {
                low += self.window(low, states, &mut failures)?;
            }
        }
        let count = |status: ShardStatus| states.iter().filter(|state| state[0] == status as i64).count();
        Ok((failures, (count(ShardStatus::Fresh), count(ShardStatus::Missing), count(ShardStatus::Stale))))
    }
}

fn lacks_files(fault: &Fault) -> bool {
    fault.code == Code::Io && [Errno::MFILE, Errno::NFILE].iter().any(|error| fault.text == Fault::io(*error).text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    use rustix::fd::AsFd;

    use super::*;
    use crate::failures::{Failures, Outcome};
    use crate::fetch::{Sink, fetch};
    use crate::threads::Worker;

    /// Shards "0", "1", ... of one inner chunk each, which are rewritten while they are open.
    struct Rewritten {
        folder: PathBuf,
        shards: usize,
    }

    struct Nothing;

    impl Sink for Nothing {
        type Local = ();

        fn local(&self) {}

        fn weight(&self, _inner_chunk: usize) -> usize {
            1
        }

        fn is_slow(&self) -> bool {
            false
        }

        fn take(&self, (): &mut (), _worker: &mut Worker, _inner_chunk: usize, _bytes: &[u8], _start: usize) -> Outcome {
            Ok(())
        }
    }

    impl Selection for Rewritten {
        fn shards(&self) -> usize {
            self.shards
        }

        fn coordinates(&self, shard: usize) -> Vec<i64> {
            vec![shard as i64]
        }

        fn inner_chunks(&self, _shard: usize) -> usize {
            1
        }

        fn numbers(&self, _shard: usize, _level: usize) -> Vec<i64> {
            vec![0]
        }

        fn chunk(&self, shard: usize, _inner_chunk: usize) -> Vec<i64> {
            vec![shard as i64]
        }

        fn decode(
            &self,
            shards: std::ops::Range<usize>,
            sources: &Sources<'_>,
            rows: &[[i64; 3]],
            watch: Option<&Watch>,
            threads: &Threads,
        ) -> Result<Failures, String> {
            for shard in shards.filter(|shard| shard % 3 == 1 && shard % 5 != 0) {
                let file = fs::OpenOptions::new().append(true).open(self.folder.join(shard.to_string())).unwrap();
                file.write_at(b"more", 0).unwrap();
            }
            Ok(fetch(sources, rows, watch, threads, &Nothing))
        }
    }

    #[test]
    fn shards_that_change_while_they_are_read_are_stale() {
        let folder = std::env::temp_dir().join(format!("frazil-read-shards-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let level = ShardIndex::plain(vec![1]);
        let shards = 2 * OPEN + 10; // several windows
        let value = [&[7u8; 4][..], &0u64.to_ne_bytes(), &4u64.to_ne_bytes()].concat();
        (0..shards).filter(|shard| shard % 5 != 0).for_each(|shard| fs::write(folder.join(shard.to_string()), &value).unwrap());
        fs::write(folder.join("2"), &value[..15]).unwrap();
        let root = fs::File::open(&folder).unwrap();
        let selection = Rewritten { folder: folder.clone(), shards };
        let mut memory = vec![0i64; 2 * shards];
        let call = Call {
            selection: &selection,
            levels: &[&level],
            location: Location::Named { root: root.as_fd(), lead: "", separator: "/" },
            buffers: &[],
            remembered: Vec::new(),
            slots: None,
            fresh_tables: (0..shards).map(Some).collect(),
            fresh: Room::of(&mut memory),
            threads: &Threads::new(2),
        };
        let mut states = vec![[9; 4]; shards];
        let (failures, _) = call.run(&mut states).unwrap();
        fs::remove_dir_all(folder).unwrap();
        for (shard, state) in states.iter().enumerate() {
            let expected = match shard {
                2 => ShardStatus::Failed,
                _ if shard % 5 == 0 => ShardStatus::Missing,
                _ if shard % 3 == 1 => ShardStatus::Stale,
                _ => ShardStatus::Fresh,
            };
            assert_eq!(state[0], expected as i64, "{shard}");
        }
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].0, failures[0].1), (2, Code::Index as i64));
    }
}
