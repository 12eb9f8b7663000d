//! Elements as Python objects: one str or bytes for each, for NumPy's object arrays.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::columns::{Bytes, BytesMut, wrong};
use crate::elements::heap::{Heap, VIEW, View, views};
use crate::memory::{Growing, Segment};

/// The elements of views, as str if they are text, else as bytes.
#[pyfunction]
pub fn elements_to_objects<'py>(
    py: Python<'py>,
    heap: &Bound<'py, PyAny>,
    all: &Bound<'py, PyAny>,
    text: bool,
) -> PyResult<Bound<'py, PyList>> {
    let (held, all) = (Bytes::all(heap, "heap")?, Bytes::new(all, "views")?);
    let heap = Heap::new(&held);
    let list = PyList::empty(py);
    for view in views(all.as_slice())?.iter().map(View::read) {
        let element = heap.element(view).map_err(|fault| wrong(fault.text))?;
        if text {
            let text = std::str::from_utf8(element).map_err(|error| wrong(format!("an element is not UTF-8: {error}")))?;
            list.append(PyString::new(py, text))?;
        } else {
            list.append(PyBytes::new(py, element))?;
        }
    }
    Ok(list)
}

/// Objects as elements of buffer `buffer`: str if they are text, else bytes. Raises TypeError for others.
#[pyfunction]
pub fn elements_of_objects(
    objects: &Bound<'_, PyList>,
    text: bool,
    fill: &Bound<'_, PyAny>,
    buffer: u32,
    all: &Bound<'_, PyAny>,
) -> PyResult<Segment> {
    let fill = Bytes::new(fill, "fill")?;
    let mut all = BytesMut::new(all, "views")?;
    let bytes = all.as_slice();
    if Some(bytes.len()) != objects.len().checked_mul(VIEW) {
        return Err(wrong("views: not 16 bytes for each object"));
    }
    let mut made = Growing::default();
    for (object, into) in objects.iter().zip(bytes.as_chunks_mut::<VIEW>().0) {
        let encoded;
        let element = if text {
            encoded = object.cast::<PyString>().map_err(|_| other(&object, "str"))?.encode_utf8()?;
            encoded.as_bytes()
        } else {
            object.cast::<PyBytes>().map_err(|_| other(&object, "bytes"))?.as_bytes()
        };
        if u32::try_from(element.len()).is_err() {
            return Err(PyValueError::new_err("an element has 4 GiB or more"));
        }
        View::of(element, fill.as_slice(), made.len(), buffer).write(into);
        made.append(element).map_err(|fault| wrong(fault.text))?;
    }
    Ok(Segment::new(made))
}

#[cold]
fn other(object: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let name = object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("an element is {name}; it must be {expected}"))
}
