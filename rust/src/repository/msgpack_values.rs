//! Python values as MessagePack, in the shortest forms. It reads nothing, and does not know what the values mean: formats/msgpack.py makes values of bytes.

use std::collections::TryReserveError;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple, PyType};

use crate::repository::msgpack::{LONGEST, put_array, put_binary, put_integer, put_map, put_natural, put_text};

/// Why nothing is written: an exception, or a value that cannot be written, and the reason.
enum Stop<'py> {
    Raised(PyErr),
    Refused(&'static str, Bound<'py, PyAny>),
}

impl From<PyErr> for Stop<'_> {
    fn from(error: PyErr) -> Self {
        Stop::Raised(error)
    }
}

type Put<'py, T> = Result<T, Stop<'py>>;

/// What follows the head of an array or a map, one after the other.
enum Child<'py> {
    Name(Bound<'py, PyAny>),
    Value(Bound<'py, PyAny>),
}

type Children<'py> = Vec<Child<'py>>;

/// The most bytes of the head of a value, and of a number.
const HEAD: usize = 9;

struct Writer<'a, 'py> {
    out: Vec<u8>,
    packed: &'a Bound<'py, PyType>,
    /// The most levels of arrays and maps.
    depth: usize,
}

impl<'py> Writer<'_, 'py> {
    /// Without recursion, as a thread may have little stack.
    fn put_all(&mut self, value: &Bound<'py, PyAny>) -> Put<'py, ()> {
        let mut open = vec![vec![Child::Value(value.clone())].into_iter()];
        while let Some(children) = open.last_mut() {
            match children.next() {
                None => _ = open.pop(),
                Some(Child::Name(name)) => match name.cast::<PyString>() {
                    Ok(name) => self.put_text(name)?,
                    Err(_) => return Err(Stop::Refused("name", name)),
                },
                Some(Child::Value(value)) => {
                    if let Some(children) = self.put(&value, open.len() - 1)? {
                        open.push(children.into_iter());
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes a value, or the head of an array or a map, whose children it returns. level: the number of arrays and maps around it
    fn put(&mut self, value: &Bound<'py, PyAny>, level: usize) -> Put<'py, Option<Children<'py>>> {
        self.reserve(HEAD)?;
        if let Ok(text) = value.cast::<PyString>() {
            self.put_text(text)?;
        } else if let Ok(values) = value.cast::<PyTuple>() {
            self.enter(value, values.len(), level, put_array)?;
            return children(values.len(), values.iter().map(|child| [Child::Value(child)])).map(Some);
        } else if let Ok(values) = value.cast::<PyList>() {
            self.enter(value, values.len(), level, put_array)?;
            return children(values.len(), values.iter().map(|child| [Child::Value(child)])).map(Some);
        } else if value.is_none() {
            self.out.push(0xc0);
        } else if let Ok(truth) = value.cast::<PyBool>() {
            self.out.push(0xc2 + u8::from(truth.is_true()));
        } else if value.is_instance_of::<PyInt>() {
            match (value.extract::<i64>(), value.extract::<u64>()) {
                (Ok(number), _) => put_integer(&mut self.out, number),
                (_, Ok(number)) => put_natural(&mut self.out, number),
                _ => return Err(Stop::Refused("number", value.clone())),
            }
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            self.reserve(bytes.len())?;
            if value.is_instance(self.packed)? {
                self.out.extend_from_slice(bytes);
            } else {
                check_length(value, bytes.len())?;
                put_binary(&mut self.out, bytes);
            }
        } else if let Ok(number) = value.cast::<PyFloat>() {
            self.out.push(0xcb);
            self.out.extend_from_slice(&number.value().to_be_bytes());
        } else if let Ok(members) = value.cast_exact::<PyDict>() {
            self.enter(value, members.len(), level, put_map)?;
            return children(2 * members.len(), members.iter().map(|(name, child)| [Child::Name(name), Child::Value(child)])).map(Some);
        } else if let Ok(members) = value.cast::<PyMapping>() {
            let members = members.items()?;
            self.enter(value, members.len(), level, put_map)?;
            let mut found = children(2 * members.len(), std::iter::empty::<[_; 0]>())?;
            for member in members {
                let (name, child) = member.extract()?;
                found.extend([Child::Name(name), Child::Value(child)]);
            }
            return Ok(Some(found));
        } else {
            return Err(Stop::Refused("type", value.clone()));
        }
        Ok(None)
    }

    fn put_text(&mut self, text: &Bound<'py, PyString>) -> Put<'py, ()> {
        let Ok(bytes) = text.to_str() else { return Err(Stop::Refused("text", text.clone().into_any())) };
        check_length(text.as_any(), bytes.len())?;
        self.reserve(HEAD + bytes.len())?;
        put_text(&mut self.out, bytes.as_bytes());
        Ok(())
    }

    /// Writes the head of an array or a map.
    fn enter(&mut self, value: &Bound<'py, PyAny>, count: usize, level: usize, head: fn(&mut Vec<u8>, usize)) -> Put<'py, ()> {
        if level >= self.depth {
            return Err(Stop::Refused("depth", value.clone()));
        }
        check_length(value, count)?;
        head(&mut self.out, count);
        Ok(())
    }

    /// Room for more bytes.
    fn reserve(&mut self, bytes: usize) -> Put<'py, ()> {
        self.out.try_reserve(bytes).map_err(no_memory)
    }
}

fn children<'py, const N: usize>(count: usize, found: impl Iterator<Item = [Child<'py>; N]>) -> Put<'py, Children<'py>> {
    let mut children = Vec::new();
    children.try_reserve_exact(count).map_err(no_memory)?;
    children.extend(found.flatten());
    Ok(children)
}

fn no_memory<'py>(_: TryReserveError) -> Stop<'py> {
    Stop::Raised(PyMemoryError::new_err(()))
}

fn check_length<'py>(value: &Bound<'py, PyAny>, length: usize) -> Put<'py, ()> {
    if length as u64 <= LONGEST { Ok(()) } else { Err(Stop::Refused("length", value.clone())) }
}

#[pyfunction]
pub fn pack_value<'py>(
    py: Python<'py>,
    value: &Bound<'py, PyAny>,
    packed: &Bound<'py, PyType>,
    depth: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let mut writer = Writer { out: Vec::new(), packed, depth };
    match writer.put_all(value) {
        Ok(()) => {
            let copy = |bytes: &mut [u8]| {
                bytes.copy_from_slice(&writer.out);
                Ok(())
            };
            PyBytes::new_with(py, writer.out.len(), copy).map(Bound::into_any)
        }
        Err(Stop::Refused(reason, value)) => (reason, value).into_bound_py_any(py),
        Err(Stop::Raised(error)) => Err(error),
    }
}
