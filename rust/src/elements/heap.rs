//! The heap of a read or write: buffers, and views of 16 bytes that give the place of an element's bytes in them.

use pyo3::prelude::*;

use crate::columns::{Bytes, BytesMut, wrong};
use crate::failures::{Code, Fault, Outcome};
use crate::memory::{Growing, Segment};

/// Bytes of a view: offset (u64), length (u32), buffer (u32), in the machine's byte order.
pub const VIEW: usize = 16;

/// The place of an element's bytes. Buffer 0 has those of the fill value. An empty element is all zero, and an element that equals the fill value is
/// (0, its length, 0): so the comparison of a chunk with the fill value compares views.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct View {
    pub offset: u64,
    pub length: u32,
    pub buffer: u32,
}

impl View {
    pub fn read(bytes: &[u8; VIEW]) -> View {
        let [offset, rest] = [bytes[..8].first_chunk::<8>(), bytes[8..].first_chunk::<8>()].map(|half| half.copied().unwrap_or_default());
        let ([length, buffer], _) = rest.as_chunks::<4>() else { return View::default() };
        View { offset: u64::from_ne_bytes(offset), length: u32::from_ne_bytes(*length), buffer: u32::from_ne_bytes(*buffer) }
    }

    pub fn write(self, into: &mut [u8; VIEW]) {
        into[..8].copy_from_slice(&self.offset.to_ne_bytes());
        into[8..12].copy_from_slice(&self.length.to_ne_bytes());
        into[12..].copy_from_slice(&self.buffer.to_ne_bytes());
    }

    /// The view of an element in a buffer.
    pub fn of(element: &[u8], fill: &[u8], offset: usize, buffer: u32) -> View {
        if element == fill {
            return View { offset: 0, length: fill.len() as u32, buffer: 0 };
        }
        if element.is_empty() {
            return View::default();
        }
        View { offset: offset as u64, length: element.len() as u32, buffer }
    }
}

/// Buffers that are held elsewhere.
pub struct Heap<'a> {
    buffers: Vec<&'a [u8]>,
}

impl<'a> Heap<'a> {
    pub fn new(buffers: &'a [Bytes]) -> Heap<'a> {
        Heap { buffers: buffers.iter().map(Bytes::as_slice).collect() }
    }

    #[cfg(test)]
    pub fn of(buffers: Vec<&'a [u8]>) -> Heap<'a> {
        Heap { buffers }
    }

    /// The bytes of an element; a failure if the view is not inside its buffer.
    pub fn element(&self, view: View) -> Outcome<&'a [u8]> {
        let bytes = self.buffers.get(view.buffer as usize).and_then(|buffer| {
            let start = usize::try_from(view.offset).ok()?;
            buffer.get(start..start.checked_add(view.length as usize)?)
        });
        bytes.ok_or_else(|| Fault::new(Code::Size, "a view reaches outside its heap"))
    }
}

/// Views of a Python buffer of whole views.
pub fn views(bytes: &[u8]) -> PyResult<&[[u8; VIEW]]> {
    match bytes.as_chunks::<VIEW>() {
        (views, []) => Ok(views),
        _ => Err(wrong("views: not a multiple of 16 bytes")),
    }
}

/// Whether elements are UTF-8: one after the other they are `block`, and begin at `start` in buffer `number`. Checked together, as that is many times as fast.
pub fn is_text(block: &[u8], views: &[[u8; VIEW]], start: usize, number: u32) -> bool {
    let begins = |text: &str, view: View| view.buffer != number || text.is_char_boundary((view.offset as usize).saturating_sub(start));
    block.is_ascii() || std::str::from_utf8(block).is_ok_and(|text| views.iter().map(View::read).all(|view| begins(text, view)))
}

/// Copies elements one after the other into a buffer that becomes number `buffer` of a heap; `views` is changed to point there.
#[pyfunction]
pub fn compact_elements(heap: &Bound<'_, PyAny>, all: &Bound<'_, PyAny>, buffer: u32) -> PyResult<Segment> {
    let held = Bytes::all(heap, "heap")?;
    let heap = Heap::new(&held);
    let mut all = BytesMut::new(all, "views")?;
    let (views, []) = all.as_slice().as_chunks_mut::<VIEW>() else { return Err(wrong("views: not a multiple of 16 bytes")) };
    let mut made = Growing::default();
    for bytes in views {
        let mut view = View::read(bytes);
        if view.buffer == 0 {
            continue;
        }
        let element = heap.element(view).map_err(|fault| wrong(fault.text))?;
        (view.offset, view.buffer) = (made.len() as u64, buffer);
        made.append(element).map_err(|fault| wrong(fault.text))?;
        view.write(bytes);
    }
    Ok(Segment::new(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_read_as_it_was_written() {
        let view = View { offset: 1 << 40, length: 7, buffer: 3 };
        let mut bytes = [0; VIEW];
        view.write(&mut bytes);
        assert_eq!(View::read(&bytes), view);
    }

    #[test]
    fn a_view_that_reaches_outside_is_a_failure() {
        let heap = Heap::of(vec![b"", b"abc"]);
        assert_eq!(heap.element(View { offset: 1, length: 2, buffer: 1 }).unwrap(), b"bc");
        for view in [
            View { offset: 1, length: 3, buffer: 1 },
            View { offset: u64::MAX, length: 1, buffer: 1 },
            View { offset: 0, length: 0, buffer: 2 },
        ] {
            assert_eq!(heap.element(view).unwrap_err().code, Code::Size);
        }
    }

    #[test]
    fn equal_elements_of_the_fill_value_have_one_view() {
        assert_eq!(View::of(b"ab", b"ab", 9, 4), View { offset: 0, length: 2, buffer: 0 });
        assert_eq!(View::of(b"", b"ab", 9, 4), View::default());
        assert_eq!(View::of(b"", b"", 9, 4), View::default());
        assert_eq!(View::of(b"b", b"", 9, 4), View { offset: 9, length: 1, buffer: 4 });
    }
}
