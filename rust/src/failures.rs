//! Errors in the data, as rows for Python: (row, code, text), one for each object that failed, with its lowest row. An object is a file, a buffer, or a chunk
//! that is encoded. So there are never more rows than objects in the call, and no object hides another.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use rustix::io::Errno;

/// The blob of a missing row.
pub const MISSING: i64 = i64::MIN;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i64)]
pub enum Code {
    /// The object is missing: no failure, but reported by calls that return the result of each object.
    Missing = 0,
    Stale = 1,
    Range = 2,
    Decode = 3,
    Checksum = 4,
    Size = 5,
    Io = 6,
    Encode = 7,
    /// The index of a shard is invalid, and its checksum does not match.
    Index = 8,
    IndexChecksum = 9,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: Code,
    pub text: String,
}

impl Fault {
    #[cold]
    pub fn new(code: Code, text: impl Into<String>) -> Fault {
        Fault { code, text: text.into() }
    }

    /// On network file systems another machine may replace or remove an open file (ESTALE): that is no failure, but another version.
    #[cold]
    pub fn io(error: Errno) -> Fault {
        if error == Errno::STALE {
            return Fault::new(Code::Stale, "another machine has replaced or removed the open file");
        }
        let number = error.raw_os_error();
        Fault::new(Code::Io, format!("{number} {}", std::io::Error::from_raw_os_error(number)))
    }
}

pub type Outcome<T = ()> = Result<T, Fault>;

/// Failures in the form for Python: (row, code, text).
pub type FailureRows = Vec<(usize, i64, String)>;

/// Collects failures from many threads: the first one of each object.
#[derive(Default)]
pub struct Failures(Mutex<BTreeMap<i64, (usize, Fault)>>);

impl Failures {
    /// `object`: a blob, if there are blobs.
    #[cold]
    pub fn add(&self, object: i64, row: usize, fault: Fault) {
        let mut first = self.first();
        if first.get(&object).is_none_or(|known| row < known.0) {
            first.insert(object, (row, fault));
        }
    }

    /// Marks an object as stale, whatever other error it has.
    #[cold]
    pub fn set_stale(&self, object: i64, row: usize, fault: Fault) {
        self.first().insert(object, (row, fault));
    }

    fn first(&self) -> MutexGuard<'_, BTreeMap<i64, (usize, Fault)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// For each object that is missing or failed: its first row, and the fault.
    pub fn into_objects(self) -> BTreeMap<i64, (usize, Fault)> {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// In order of row.
    pub fn into_rows(self) -> FailureRows {
        let first = self.into_objects().into_values().filter(|(_, fault)| fault.code != Code::Missing);
        let mut rows: Vec<_> = first.map(|(row, fault)| (row, fault.code as i64, fault.text)).collect();
        rows.sort_unstable();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_first_of_each_object_in_order_of_row() {
        let failures = Failures::default();
        for row in (0..400).rev() {
            failures.add(99 - row as i64 % 100, row, Fault::new(Code::Size, format!("{row}")));
        }
        failures.set_stale(95, 4, Fault::new(Code::Stale, "stale"));
        let rows = failures.into_rows();
        assert_eq!(rows.len(), 100);
        for (at, row) in rows.into_iter().enumerate() {
            let expected = if at == 4 { (4, Code::Stale as i64, "stale".to_owned()) } else { (at, Code::Size as i64, format!("{at}")) };
            assert_eq!(row, expected);
        }
    }

    #[test]
    fn a_system_error_begins_with_its_number() {
        assert!(Fault::io(Errno::NOENT).text.starts_with("2 "));
    }
}
