//! Python values as MessagePack, in the shortest forms.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple, PyType};

use crate::repository::msgpack::{LONGEST, put_array, put_binary, put_integer, put_map, put_natural, put_text};

/// Why nothing is written: an exception of the caller's objects, or a value that cannot be written, and the reason.
enum Stop<'py> {
    Raised(PyErr),
    Refused(&'static str, Bound<'py, PyAny>),
}

impl From<PyErr> for Stop<'_> {
    fn from(error: PyErr) -> Self {
        Stop::Raised(error)
    }
}

struct Writer<'a, 'py> {
    out: Vec<u8>,
    packed: &'a Bound<'py, PyType>,
}

impl<'py> Writer<'_, 'py> {
    fn put(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> Result<(), Stop<'py>> {
        if let Ok(text) = value.cast::<PyString>() {
            return self.put_text(text);
        }
        if let Ok(values) = value.cast::<PyTuple>() {
            let depth = self.enter(value, values.len(), depth, put_array)?;
            return values.iter().try_for_each(|child| self.put(&child, depth));
        }
        if let Ok(values) = value.cast::<PyList>() {
            return self.put(&values.to_tuple().into_any(), depth);
        }
        if value.is_none() {
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
            if value.is_instance(self.packed)? {
                self.out.extend_from_slice(bytes.as_bytes());
            } else {
                self.check_length(value, bytes.as_bytes().len())?;
                put_binary(&mut self.out, bytes.as_bytes());
            }
        } else if let Ok(number) = value.cast::<PyFloat>() {
            self.out.push(0xcb);
            self.out.extend_from_slice(&number.value().to_be_bytes());
        } else if let Ok(members) = value.cast::<PyDict>() {
            return self.put_members(value, &members.items(), depth);
        } else if let Ok(members) = value.cast::<PyMapping>() {
            return self.put_members(value, &members.items()?, depth);
        } else {
            return Err(Stop::Refused("type", value.clone()));
        }
        Ok(())
    }

    fn put_members(&mut self, value: &Bound<'py, PyAny>, members: &Bound<'py, PyList>, depth: usize) -> Result<(), Stop<'py>> {
        let depth = self.enter(value, members.len(), depth, put_map)?;
        for member in members {
            let (name, child) = member.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
            match name.cast::<PyString>() {
                Ok(name) => self.put_text(name)?,
                Err(_) => return Err(Stop::Refused("name", name)),
            }
            self.put(&child, depth)?;
        }
        Ok(())
    }

    fn put_text(&mut self, text: &Bound<'py, PyString>) -> Result<(), Stop<'py>> {
        let Ok(bytes) = text.to_str() else { return Err(Stop::Refused("text", text.clone().into_any())) };
        self.check_length(text.as_any(), bytes.len())?;
        put_text(&mut self.out, bytes.as_bytes());
        Ok(())
    }

    /// Writes the head of an array or a map, and returns how many levels may follow below it.
    fn enter(&mut self, value: &Bound<'py, PyAny>, count: usize, depth: usize, head: fn(&mut Vec<u8>, usize)) -> Result<usize, Stop<'py>> {
        let Some(below) = depth.checked_sub(1) else { return Err(Stop::Refused("depth", value.clone())) };
        self.check_length(value, count)?;
        head(&mut self.out, count);
        Ok(below)
    }

    fn check_length(&self, value: &Bound<'py, PyAny>, length: usize) -> Result<(), Stop<'py>> {
        if length as u64 <= LONGEST { Ok(()) } else { Err(Stop::Refused("length", value.clone())) }
    }
}

#[pyfunction]
pub fn pack_value<'py>(
    py: Python<'py>,
    value: &Bound<'py, PyAny>,
    packed: &Bound<'py, PyType>,
    depth: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let mut writer = Writer { out: Vec::new(), packed };
    match writer.put(value, depth) {
        Ok(()) => Ok(PyBytes::new(py, &writer.out).into_any()),
        Err(Stop::Refused(reason, value)) => (reason, value).into_bound_py_any(py),
        Err(Stop::Raised(error)) => Err(error),
    }
}
