//! What the data got wrong, as rows for Python: (unit, code, text). At most `KEPT` of them, those of the lowest units.

use std::collections::BinaryHeap;
use std::sync::Mutex;

use pyo3::prelude::*;
use rustix::io::Errno;

/// The blob of a row that is not there.
pub const MISSING: i64 = i64::MIN;

const KEPT: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i64)]
pub enum Code {
    Stale = 1,
    Range = 2,
    Decode = 3,
    Checksum = 4,
    Size = 5,
    Io = 6,
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

    #[cold]
    pub fn io(error: Errno) -> Fault {
        let number = error.raw_os_error();
        Fault::new(Code::Io, format!("{number} {}", std::io::Error::from_raw_os_error(number)))
    }
}

pub type Outcome<T = ()> = Result<T, Fault>;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Row(usize, Code, String);

/// Collects failures from many threads.
#[derive(Default)]
pub struct Failures(Mutex<BinaryHeap<Row>>);

impl Failures {
    #[cold]
    pub fn add(&self, unit: usize, fault: Fault) {
        let mut rows = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        rows.push(Row(unit, fault.code, fault.text));
        if rows.len() > KEPT {
            rows.pop();
        }
    }

    /// Forgets the failures of the units for which `gone` holds.
    pub fn drop_units(&self, gone: impl Fn(usize) -> bool) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).retain(|row| !gone(row.0));
    }

    pub fn into_rows(self) -> Vec<(usize, i64, String)> {
        let rows = self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        rows.into_sorted_vec().into_iter().map(|row| (row.0, row.1 as i64, row.2)).collect()
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("MISSING", MISSING)?;
    for (name, code) in [
        ("FAILED_STALE", Code::Stale),
        ("FAILED_RANGE", Code::Range),
        ("FAILED_DECODE", Code::Decode),
        ("FAILED_CHECKSUM", Code::Checksum),
        ("FAILED_SIZE", Code::Size),
        ("FAILED_IO", Code::Io),
    ] {
        module.add(name, code as i64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_lowest_units_in_order() {
        let failures = Failures::default();
        for unit in (0..40).rev() {
            failures.add(unit, Fault::new(Code::Size, "x"));
        }
        failures.drop_units(|unit| unit % 2 == 1);
        let units: Vec<usize> = failures.into_rows().into_iter().map(|row| row.0).collect();
        assert_eq!(units, [0, 2, 4, 6, 8, 10, 12, 14]);
    }

    #[test]
    fn a_system_error_begins_with_its_number() {
        assert!(Fault::io(Errno::NOENT).text.starts_with("2 "));
    }
}
