//! Functions on bytes alone: rows copied unchanged, codecs without chunks, checksums, versions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::chunks::chain::{Chain, Decoded, Size, Target, check_size};
use crate::codecs::{blosc_version, crc32};
use crate::columns::{Bytes, BytesMut, Column, ColumnMut, Room, wrong};
use crate::failures::{Code, FailureRows, Failures, Fault, Outcome};
use crate::fetch::{Rows, Sink};
use crate::memory::{Growing, Segment, take};
use crate::sources::Files;
use crate::threads::{Lease, Worker, detached, on_threads};

/// Rows of at least this many bytes are read straight into the result.
const STRAIGHT: usize = 64 << 10;

/// Rows that are copied unchanged to out[offsets[i]..offsets[i + 1]].
struct Copies<'a> {
    offsets: &'a [[i64; 1]],
    out: Room,
}

impl<'a> Copies<'a> {
    fn new(offsets: &'a [[i64; 1]], out: Room, rows: usize) -> Result<Copies<'a>, String> {
        if offsets.len().checked_sub(1) != Some(rows) {
            return Err(format!("offsets: expected {} numbers, got {}", rows + 1, offsets.len()));
        }
        if offsets[0][0] < 0 || !offsets.is_sorted() || offsets[rows][0] > out.len() as i64 {
            return Err(format!("offsets: does not go upward within 0..={}", out.len()));
        }
        Ok(Copies { offsets, out })
    }

    fn length(&self, row: usize) -> usize {
        (self.offsets[row + 1][0] - self.offsets[row][0]) as usize
    }

    #[allow(clippy::mut_from_ref)] // each row has its own part
    fn part(&self, row: usize) -> Option<&mut [u8]> {
        // SAFETY: `out` is lent for the call; the parts of two rows do not overlap, as offsets ascend.
        unsafe { self.out.part(self.offsets[row][0] as usize, self.length(row)) }
    }
}

impl Sink for Copies<'_> {
    type Local = ();

    fn local(&self) {}

    fn weight(&self, row: usize) -> usize {
        self.length(row)
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn check_length(&self, row: usize, length: u64) -> Outcome {
        let expected = self.length(row);
        if length == expected as u64 {
            return Ok(());
        }
        Err(Fault::new(Code::Range, format!("the row has {length} bytes, its part of the result {expected}")))
    }

    fn straight(&self, (): &mut (), row: usize, length: usize) -> Option<&mut [u8]> {
        self.part(row).filter(|part| length >= STRAIGHT && part.len() == length)
    }

    fn missing(&self, (): &mut (), _worker: &mut Worker, row: usize) -> Outcome {
        self.check_length(row, 0)
    }

    fn take(&self, (): &mut (), _worker: &mut Worker, row: usize, bytes: &[u8], _start: usize) -> Outcome {
        match self.part(row) {
            Some(part) if part.len() == bytes.len() => part.copy_from_slice(bytes),
            _ => return self.check_length(row, bytes.len() as u64),
        }
        Ok(())
    }
}

#[pyfunction]
pub fn read_rows(
    py: Python<'_>,
    files: Option<&Bound<'_, Files>>,
    buffers: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    threads: isize,
) -> PyResult<FailureRows> {
    let rows = Rows::new(files, buffers, rows)?;
    let mut out = BytesMut::new(out, "out")?;
    let offsets = Column::<1>::new(offsets, "offsets")?;
    let copies = Copies::new(&offsets, out.room(), rows.len()).map_err(wrong)?;
    rows.fetch(py, None, threads, &copies)
}

/// The CRC-32 (of zip and gzip) of each row.
struct Crc32s(Vec<AtomicU32>);

impl Sink for Crc32s {
    type Local = ();

    fn local(&self) {}

    fn weight(&self, _row: usize) -> usize {
        STRAIGHT
    }

    fn take(&self, (): &mut (), _worker: &mut Worker, row: usize, bytes: &[u8], _start: usize) -> Outcome {
        self.0[row].store(crc32(bytes), Relaxed);
        Ok(())
    }
}

#[pyfunction]
pub fn crc32_rows(
    py: Python<'_>,
    files: Option<&Bound<'_, Files>>,
    buffers: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    checksums: &Bound<'_, PyAny>,
    threads: isize,
) -> PyResult<FailureRows> {
    let rows = Rows::new(files, buffers, rows)?;
    let mut checksums = ColumnMut::<1>::of(checksums, "checksums", rows.len())?;
    let found = Crc32s(rows.iter().map(|_| AtomicU32::new(0)).collect());
    let failures = rows.fetch(py, None, threads, &found)?;
    for (made, part) in found.0.into_iter().zip(checksums.rows()) {
        *part = [i64::from(made.into_inner())];
    }
    Ok(failures)
}

/// Rows decoded to separate segments.
struct Blobs<'a> {
    chain: &'a Chain,
    limits: &'a [[i64; 1]],
    made: Vec<Mutex<Option<Growing>>>,
}

impl Blobs<'_> {
    fn sizes(&self, row: usize) -> Vec<Size> {
        self.chain.sizes(Size::AtMost(usize::try_from(self.limits[row][0]).unwrap_or(0)))
    }
}

impl Sink for Blobs<'_> {
    type Local = ();

    fn local(&self) {}

    fn weight(&self, row: usize) -> usize {
        usize::try_from(self.limits[row][0]).unwrap_or(0)
    }

    fn is_slow(&self) -> bool {
        self.chain.is_slow()
    }

    fn check_length(&self, row: usize, length: u64) -> Outcome {
        self.sizes(row).last().map_or(Ok(()), |&size| check_size(length as usize, size))
    }

    fn take(&self, (): &mut (), worker: &mut Worker, row: usize, bytes: &[u8], _start: usize) -> Outcome {
        let mut memory = take(bytes.len())?;
        let sizes = self.sizes(row);
        let decoded = self.chain.decode(&mut worker.tools, bytes, &sizes, Target::Memory(&mut memory))?;
        let Decoded::Target(len) = decoded else { return Ok(()) };
        if let Ok(mut made) = self.made[row].lock() {
            *made = Some(Growing::of(memory, len));
        }
        Ok(())
    }
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's columns
pub fn decode_bytes(
    py: Python<'_>,
    codecs: &Bound<'_, PyAny>,
    files: Option<&Bound<'_, Files>>,
    buffers: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    limits: &Bound<'_, PyAny>,
    lengths: &Bound<'_, PyAny>,
    threads: isize,
) -> PyResult<(Vec<Segment>, FailureRows)> {
    let chain = Chain::parse(codecs)?;
    let rows = Rows::new(files, buffers, rows)?;
    let limits = Column::<1>::of(limits, "limits", rows.len())?;
    if limits.iter().any(|limit| limit[0] < 0) {
        return Err(wrong("limits: must not be negative"));
    }
    let mut lengths = ColumnMut::<1>::of(lengths, "lengths", rows.len())?;
    let blobs = Blobs { chain: &chain, limits: &limits, made: rows.iter().map(|_| Mutex::new(None)).collect() };
    let failures = rows.fetch(py, None, threads, &blobs)?;
    let mut segments = Vec::with_capacity(rows.len());
    for (made, length) in blobs.made.into_iter().zip(lengths.rows()) {
        let made = made.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        *length = [made.as_ref().map_or(-1, |bytes| bytes.len() as i64)];
        segments.push(Segment::new(made.unwrap_or_default()));
    }
    Ok((segments, failures))
}

#[pyfunction]
pub fn encode_bytes(py: Python<'_>, codecs: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>, threads: isize) -> PyResult<Vec<Segment>> {
    let chain = Chain::parse(codecs)?;
    let values = Bytes::all(values, "values")?;
    let values: Vec<&[u8]> = values.iter().map(Bytes::as_slice).collect();
    let made: Vec<Mutex<Growing>> = values.iter().map(|_| Mutex::new(Growing::default())).collect();
    let failures = Failures::default();
    let bytes: usize = values.iter().map(|value| value.len()).sum();
    let largest = values.iter().map(|value| value.len()).max().unwrap_or(0);
    let most = if bytes < 64 << 10 { 1 } else { usize::MAX };
    on_threads(py, chain.encoding_work(values.len(), bytes), threads, |threads| {
        threads.run_jobs(
            values.len(),
            most,
            || Lease::take(largest),
            |worker, row| {
                if let Ok(mut made) = made[row].lock()
                    && let Err(fault) = chain.encode(&mut worker.tools, values[row], &mut made, &|| threads.ended())
                {
                    failures.add(row as i64, row, fault);
                }
            },
        );
    })?;
    if let Some((row, _, text)) = failures.into_rows().first() {
        return Err(wrong(format!("values[{row}]: {text}")));
    }
    let segments = made.into_iter().map(|made| made.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()));
    Ok(segments.map(Segment::new).collect())
}

/// CRC-32C of data, continued from `value`.
#[pyfunction]
#[pyo3(name = "crc32c", signature = (data, value = 0))]
pub fn checksum(py: Python<'_>, data: &Bound<'_, PyAny>, value: u32) -> PyResult<u32> {
    let data = Bytes::new(data, "data")?;
    let data = data.as_slice();
    if data.len() < 64 << 10 {
        return Ok(crc32c::crc32c_append(value, data));
    }
    detached(py, data.len(), || crc32c::crc32c_append(value, data))
}

/// Versions of the kernel and of the codec libraries in it.
#[pyfunction]
pub fn kernel_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("kernel", env!("CARGO_PKG_VERSION"))?;
    info.set_item("zstd", zstd_safe::version_string())?;
    info.set_item("blosc", blosc_version())?;
    for package in ["libdeflate-sys", "lz4-sys", "libz-sys", "snap", "crc32c", "pyo3"] {
        info.set_item(package, locked_version(package).unwrap_or("unknown"))?;
    }
    Ok(info)
}

/// The version of a package with which this kernel is built.
fn locked_version(package: &str) -> Option<&'static str> {
    let mut lines = include_str!("../Cargo.lock").lines();
    lines.by_ref().find(|line| line.strip_prefix("name = \"").and_then(|rest| rest.strip_suffix('"')) == Some(package))?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        assert_eq!(locked_version("crc32c"), Some("0.6.9"));
        assert_eq!(locked_version("no-such-package"), None);
    }
}
