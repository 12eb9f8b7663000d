//! `decode_elements`: chunks of vlen-utf8, vlen-bytes and vlen-array decoded to views and buffers.
//!
//! The bytes of such a chunk: the number of elements, then for each element its length and its bytes; numbers are u32, little-endian.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::chunks::chain::{ALL, Chain, Size, check_size};
use crate::columns::{Bytes, BytesMut, ColumnMut, Room, wrong};
use crate::elements::heap::{VIEW, View, is_text};
use crate::failures::{Code, FailureRows, Fault, Outcome};
use crate::fetch::{Rows, Sink};
use crate::memory::{Growing, Segment};
use crate::sources::Files;
use crate::threads::Worker;

/// Decoded bytes of an element if its size is unknown: only for the division of work.
const USUAL: usize = 32;

/// The properties of the chunks of a call.
pub struct Layout<'a> {
    /// Elements of a chunk.
    pub count: usize,
    /// Whether elements are UTF-8.
    pub text: bool,
    pub fill: &'a [u8],
}

impl Layout<'_> {
    /// Appends the elements of a decoded chunk to `out`, which is buffer `number` of the heap, and writes their views.
    pub fn parse(&self, chunk: &[u8], out: &mut Growing, number: u32, views: &mut [[u8; VIEW]]) -> Outcome {
        let start = out.len();
        let done = self.split(chunk, out, number, views);
        if done.is_err() {
            out.cut(start);
        }
        done
    }

    fn split(&self, chunk: &[u8], out: &mut Growing, number: u32, views: &mut [[u8; VIEW]]) -> Outcome {
        let (count, mut rest) =
            number_of(chunk).ok_or_else(|| bad(format!("has {} bytes, too few for a number of elements", chunk.len())))?;
        if count != self.count {
            return Err(bad(format!("has {count} elements where {} are expected", self.count)));
        }
        let Some(most) = rest.len().checked_sub(4 * self.count) else {
            return Err(bad(format!("has {} bytes, too few for {count} elements", chunk.len())));
        };
        let start = out.len();
        let text = out.tail(most)?; // the lengths take the rest of the chunk, so that all elements fit
        let mut at = 0;
        for (i, bytes) in views.iter_mut().enumerate() {
            let element = number_of(rest).and_then(|(length, tail)| tail.split_at_checked(length));
            let Some((element, tail)) = element else {
                return Err(bad(format!("ends within its element {i}")));
            };
            rest = tail;
            let Some(into) = text.get_mut(at..at + element.len()) else {
                return Err(bad(format!("ends within its element {i}")));
            };
            into.copy_from_slice(element);
            View::of(element, self.fill, start + at, number).write(bytes);
            at += element.len();
        }
        if !rest.is_empty() {
            return Err(bad(format!("has {} bytes behind the last element", rest.len())));
        }
        let text = &text[..at];
        if self.text && !is_text(text, views, start, number) {
            return Err(bad("has an element that is not UTF-8".to_owned()));
        }
        out.advance(at);
        Ok(())
    }
}

fn number_of(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number) as usize, rest))
}

#[cold]
fn bad(text: String) -> Fault {
    Fault::new(Code::Decode, format!("vlen: a chunk {text}"))
}

/// Chunks that are decoded to views. Each buffer is filled by one thread at a time.
struct Elements<'a> {
    chain: &'a Chain,
    layout: Layout<'a>,
    sizes: Vec<Size>,
    views: Room,
    present: Vec<AtomicBool>,
    idle: Mutex<Vec<(u32, Growing)>>,
    first: u32,
    next: AtomicU32,
}

impl Elements<'_> {
    fn buffer(&self) -> (u32, Growing) {
        let idle = self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
        idle.unwrap_or_else(|| (self.first + self.next.fetch_add(1, Ordering::Relaxed), Growing::default()))
    }
}

impl Sink for Elements<'_> {
    type Local = ();

    fn local(&self) {}

    fn weight(&self, _inner_chunk: usize) -> usize {
        self.layout.count.saturating_mul(USUAL)
    }

    fn check_length(&self, _inner_chunk: usize, length: u64) -> Outcome {
        self.sizes.last().map_or(Ok(()), |&size| check_size(length as usize, size))
    }

    fn take(&self, (): &mut (), worker: &mut Worker, inner_chunk: usize, bytes: &[u8], _start: usize) -> Outcome {
        let chunk = self.chain.view(&mut worker.tools, bytes, &self.sizes, ALL)?;
        let size = self.layout.count * VIEW;
        // SAFETY: `views` is lent for the call; each inner chunk has its own part, and is taken once.
        let views = unsafe { self.views.part(inner_chunk * size, size) }.unwrap_or_default().as_chunks_mut::<VIEW>().0;
        let (number, mut buffer) = self.buffer();
        let done = self.layout.parse(chunk, &mut buffer, number, views);
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((number, buffer));
        self.present[inner_chunk].store(done.is_ok(), Ordering::Relaxed);
        done
    }
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's columns
pub fn decode_elements(
    py: Python<'_>,
    codecs: &Bound<'_, PyAny>,
    layout: (usize, bool, Bound<'_, PyAny>),
    files: Option<&Bound<'_, Files>>,
    buffers: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
    limit: usize,
    first: u32,
    views: &Bound<'_, PyAny>,
    lengths: &Bound<'_, PyAny>,
    threads: isize,
) -> PyResult<(Vec<Segment>, FailureRows)> {
    let chain = Chain::parse(codecs)?;
    let (count, text, fill) = layout;
    let fill = Bytes::new(&fill, "fill")?;
    let rows = Rows::new(files, buffers, rows)?;
    let mut lengths = ColumnMut::<1>::of(lengths, "lengths", rows.len())?;
    let mut views = BytesMut::new(views, "views")?;
    if rows.len().checked_mul(count).and_then(|all| all.checked_mul(VIEW)) != Some(views.room().len()) {
        return Err(wrong(format!("views: not 16 bytes for each of {} x {count} elements", rows.len())));
    }
    let elements = Elements {
        sizes: chain.sizes(Size::AtMost(limit)),
        chain: &chain,
        layout: Layout { count, text, fill: fill.as_slice() },
        views: views.room(),
        present: rows.iter().map(|_| AtomicBool::new(false)).collect(),
        idle: Mutex::new(Vec::new()),
        first,
        next: AtomicU32::new(0),
    };
    let failures = rows.fetch(py, None, threads, &elements)?;
    for (present, length) in elements.present.iter().zip(lengths.rows()) {
        *length = [if present.load(Ordering::Relaxed) { (count * VIEW) as i64 } else { -1 }];
    }
    let mut made = elements.idle.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    made.sort_unstable_by_key(|(number, _)| *number);
    Ok((made.into_iter().map(|(_, buffer)| Segment::new(buffer)).collect(), failures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::heap::Heap;

    fn parsed(chunk: &[u8], count: usize) -> Outcome<(Growing, Vec<[u8; VIEW]>)> {
        let (mut out, mut views) = (Growing::default(), vec![[0; VIEW]; count]);
        Layout { count, text: true, fill: b"xx" }.parse(chunk, &mut out, 1, &mut views)?;
        Ok((out, views))
    }

    #[test]
    fn elements_are_found_again() {
        let (out, views) = parsed(b"\x03\0\0\0\x02\0\0\0ab\0\0\0\0\x02\0\0\0xx", 3).unwrap();
        let heap = Heap::of(vec![b"xx", out.bytes()]);
        let elements: Vec<&[u8]> = views.iter().map(|view| heap.element(View::read(view)).unwrap()).collect();
        assert_eq!(elements, [&b"ab"[..], b"", b"xx"]);
        assert_eq!(View::read(&views[2]).buffer, 0);
    }

    #[test]
    fn what_makes_no_sense_is_a_failure() {
        let chunks: [&[u8]; 7] = [
            b"",
            b"\x01\0\0",
            b"\x02\0\0\0\0\0\0\0\0\0\0\0",
            b"\x01\0\0\0",
            b"\x01\0\0\0\x02\0\0\0a",
            b"\x01\0\0\0\xff\xff\xff\xffa",
            b"\x01\0\0\0\x01\0\0\0ab",
        ];
        for chunk in chunks.into_iter().chain([&b"\x01\0\0\0\x01\0\0\0\xc3"[..]]) {
            assert_eq!(parsed(chunk, 1).err().unwrap().code, Code::Decode);
        }
        let halves = b"\x02\0\0\0\x01\0\0\0\xc3\x01\0\0\0\xa9"; // of one character
        assert_eq!(parsed(halves, 2).err().unwrap().code, Code::Decode);
    }
}
