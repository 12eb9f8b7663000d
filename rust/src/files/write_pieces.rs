//! One new file made from pieces: buffers in memory and parts of other files. publish.rs gives it its name.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::copy_file_range;
use rustix::io::{Errno, Result as System, pwrite};

use crate::failures::{Code, Fault};
use crate::files::beneath::retry;
use crate::sources::{Blob, Handle, Opened, Sources, span};

const GATHERED: usize = 1 << 20; // small pieces are written together, about this many bytes at once
const SMALL: usize = 1 << 16; // larger pieces are written without gathering them
const COPIED: usize = 1 << 18; // from this size on the system copies from file to file
const PART: u64 = 1 << 26; // bytes of one system call: Ctrl-C takes effect between two calls

/// Why a value could not be written.
pub enum WriteError {
    System(Errno),
    Piece(Code),
}

impl From<Errno> for WriteError {
    fn from(error: Errno) -> WriteError {
        WriteError::System(error)
    }
}

impl From<Fault> for WriteError {
    fn from(fault: Fault) -> WriteError {
        WriteError::Piece(fault.code)
    }
}

/// Writes the rows one after the other into an empty file. `gathered` is scratch memory, kept from one value to the next.
pub fn write_pieces(file: BorrowedFd<'_>, sources: &Sources<'_>, rows: &[[i64; 3]], gathered: &mut Vec<u8>) -> Result<(), WriteError> {
    gathered.clear();
    let mut target = Target { file, at: 0, gathered };
    let mut last: Option<(usize, Handle<'_>)> = None;
    let mut rest = rows;
    while let Some((row, after)) = take_run(rest) {
        rest = after;
        match sources.blob(row[0]) {
            None | Some(Blob::Missing) => return Err(WriteError::Piece(Code::Range)),
            Some(Blob::Buffer(bytes)) => {
                let (start, length) = span(row[1], row[2], bytes.len() as u64)?;
                target.bytes(&bytes[start as usize..(start + length) as usize])?;
            }
            Some(Blob::File(files, number)) => {
                if last.as_ref().is_none_or(|(held, _)| *held != number) {
                    let handle = files.handle(number)?.ok_or_else(|| Fault::io(Errno::NOENT))?;
                    last = Some((number, handle));
                }
                if let Some((_, handle)) = &last {
                    let (start, length) = span(row[1], row[2], handle.version.size as u64)?;
                    target.part_of(handle, start, length)?;
                }
            }
        }
    }
    target.flush()
}

/// The first row, with the following ones that continue it in the same file.
fn take_run(rows: &[[i64; 3]]) -> Option<([i64; 3], &[[i64; 3]])> {
    let (&[blob, start, mut length], mut rest) = rows.split_first()?;
    if blob >= 0 && start >= 0 && length >= 0 {
        while let Some((&[next, from, more], after)) = rest.split_first()
            && next == blob
            && more >= 0
            && start.checked_add(length) == Some(from)
            && let Some(both) = length.checked_add(more)
        {
            (length, rest) = (both, after);
        }
    }
    Some(([blob, start, length], rest))
}

/// Lets the system copy as many bytes from file to file as it can, until `stop` after one of its calls (INTR); returns their number.
pub fn copy_range(
    from: BorrowedFd<'_>,
    start: u64,
    to: BorrowedFd<'_>,
    at: u64,
    length: u64,
    mut stop: impl FnMut() -> bool,
) -> System<u64> {
    let (mut read, mut written) = (start, at);
    while read < start + length {
        let left = (start + length - read).min(PART) as usize;
        match retry(|| copy_file_range(from, Some(&mut read), to, Some(&mut written), left)) {
            Ok(0) | Err(Errno::XDEV | Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM | Errno::BADF) => break,
            Ok(_) if stop() => return Err(Errno::INTR),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read - start)
}

/// Writes the bytes at an offset; returns the offset behind them.
pub fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8], mut at: u64) -> System<u64> {
    while !bytes.is_empty() {
        let count = retry(|| pwrite(file, bytes, at))?;
        if count == 0 {
            return Err(Errno::IO);
        }
        (at, bytes) = (at + count as u64, &bytes[count..]);
    }
    Ok(at)
}

struct Target<'a> {
    file: BorrowedFd<'a>,
    at: u64,
    gathered: &'a mut Vec<u8>,
}

impl Target<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if bytes.len() >= SMALL {
            self.flush()?;
            return self.write(bytes);
        }
        self.make_room(bytes.len())?;
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    fn part_of(&mut self, from: &Opened, mut start: u64, mut length: u64) -> Result<(), WriteError> {
        if length >= COPIED as u64 {
            self.flush()?;
            let copied = copy_range(from.file.as_fd(), start, self.file, self.at, length, || false)?;
            (start, length, self.at) = (start + copied, length - copied, self.at + copied);
        }
        while length > 0 {
            let part = length.min(GATHERED as u64) as usize;
            self.make_room(part)?;
            let held = self.gathered.len();
            self.gathered.resize(held + part, 0);
            from.read_at(start, &mut self.gathered[held..])?;
            (start, length) = (start + part as u64, length - part as u64);
        }
        Ok(())
    }

    fn make_room(&mut self, length: usize) -> Result<(), WriteError> {
        if self.gathered.len() + length > GATHERED {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let gathered = std::mem::take(self.gathered);
        let done = self.write(&gathered);
        *self.gathered = gathered;
        self.gathered.clear();
        done
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.at = write_all(self.file, bytes, self.at)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_folder::TestFolder;

    #[test]
    fn rows_that_go_on_become_one() {
        let rows = [[0, 5, 3], [0, 8, 2], [0, 11, 1], [1, 12, 1], [-1, 0, 4], [-1, 4, 4]];
        let (mut rest, mut runs) = (&rows[..], vec![]);
        while let Some((run, after)) = take_run(rest) {
            runs.push(run);
            rest = after;
        }
        assert_eq!(runs, [[0, 5, 5], [0, 11, 1], [1, 12, 1], [-1, 0, 4], [-1, 4, 4]]);
        assert_eq!(take_run(&[[0, i64::MAX, 1], [0, 0, 1]]).map(|run| run.0), Some([0, i64::MAX, 1]));
    }

    #[test]
    fn pieces_are_written_in_order() {
        let scratch_folder = TestFolder::new("pieces");
        let path = scratch_folder.0.join("file");
        let large: Vec<u8> = (0..GATHERED + SMALL).map(|i| (i % 251) as u8).collect();
        let sources = Sources { files: None, buffers: vec![&large, b"small"] };
        let rows = [[-2, 0, -1], [-1, 0, -1], [-2, -2, -1], [-1, 7, 100], [-2, 5, 0], [-1, 1, SMALL as i64 - 1]];
        let mut expected = b"small".to_vec();
        expected.extend(&large);
        expected.extend(b"ll");
        expected.extend(&large[7..107]);
        expected.extend(&large[1..SMALL]);
        let file = std::fs::File::create(&path).unwrap();
        let mut scratch = vec![];
        assert!(write_pieces(std::os::fd::AsFd::as_fd(&file), &sources, &rows, &mut scratch).is_ok());
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        for row in [[-2, 0, 6], [-3, 0, 0], [0, 0, 0], [i64::MIN, 0, 0]] {
            let done = write_pieces(std::os::fd::AsFd::as_fd(&file), &sources, &[row], &mut scratch);
            assert!(matches!(done, Err(WriteError::Piece(Code::Range))));
        }
    }
}
