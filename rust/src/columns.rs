//! Views on Python buffers: int64 columns, bytes, strided arrays. The meaning of the values is not known here.
//!
//! Each view holds the exporter's `Py_buffer` until it is dropped, so the memory stays in place while a view lives. The engine promises that no
//! other thread writes into that memory during a call, as for every NumPy function that releases the GIL.

use std::ffi::CStr;
use std::ops::Deref;
use std::slice;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

/// A wrong argument: an error of the caller.
#[cold]
pub fn wrong(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}

/// Memory that a Python object lends. Boxed, as exporters may point into the struct itself. Not Send: dropping it needs the GIL.
struct PyBuffer(Box<ffi::Py_buffer>);

impl PyBuffer {
    fn take(object: &Bound<'_, PyAny>, name: &str, flags: i32) -> PyResult<PyBuffer> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: `object` is a live object, the GIL is held (Bound), and `view` is a zeroed Py_buffer that does not move.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            let error = PyErr::fetch(object.py());
            return Err(wrong(format!("{name}: {error}")));
        }
        Ok(PyBuffer(view))
    }

    fn dimensions(&self) -> usize {
        self.0.ndim.max(0) as usize
    }

    fn shape(&self) -> &[isize] {
        if self.0.shape.is_null() || self.0.ndim <= 0 {
            return &[];
        }
        // SAFETY: the buffer protocol: a shape that is not null has `ndim` entries and lives as long as the view.
        unsafe { slice::from_raw_parts(self.0.shape, self.dimensions()) }
    }

    fn strides(&self) -> Option<&[isize]> {
        if self.0.strides.is_null() || self.0.ndim <= 0 {
            return None;
        }
        // SAFETY: as for the shape.
        Some(unsafe { slice::from_raw_parts(self.0.strides, self.dimensions()) })
    }

    fn len(&self) -> usize {
        self.0.len.max(0) as usize
    }

    fn is_int64(&self) -> bool {
        if self.0.itemsize != 8 || self.0.format.is_null() {
            return false;
        }
        // SAFETY: the buffer protocol: a format that is not null is a C string that lives as long as the view.
        let format = unsafe { CStr::from_ptr(self.0.format) }.to_bytes();
        let native: &[u8] = if cfg!(target_endian = "little") { b"@=<" } else { b"@=>!" };
        let code = match format {
            [mark, rest @ ..] if native.contains(mark) => rest,
            all => all,
        };
        code == b"q" || code == b"l" || code == b"n"
    }
}

impl Drop for PyBuffer {
    fn drop(&mut self) {
        // SAFETY: filled by PyObject_GetBuffer, released once; PyBuffer is not Send, so this thread still holds the GIL.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) }
    }
}

/// A readable int64[n, width] in C order.
pub struct Table {
    buffer: PyBuffer,
    rows: usize,
    width: usize,
}

impl Table {
    /// int64[n, width], or stacked ones, int64[..., n, width]; with `width` 1 also int64[n].
    pub fn new(object: &Bound<'_, PyAny>, name: &str, width: usize) -> PyResult<Self> {
        Table::with_flags(object, name, width, ffi::PyBUF_ND | ffi::PyBUF_FORMAT)
    }

    fn with_flags(object: &Bound<'_, PyAny>, name: &str, width: usize, flags: i32) -> PyResult<Self> {
        let buffer = PyBuffer::take(object, name, flags)?;
        let rows = match *buffer.shape() {
            [rows] if width == 1 => rows,
            [first, ref stacked @ .., columns] if columns == width as isize => {
                stacked.iter().fold(first, |rows, more| rows.wrapping_mul(*more))
            }
            _ => return Err(wrong(format!("{name}: expected int64[n, {width}], got shape {:?}", buffer.shape()))),
        };
        let rows = rows.max(0) as usize;
        if !buffer.is_int64() {
            return Err(wrong(format!("{name}: expected int64 in the machine's byte order")));
        }
        if !buffer.0.buf.cast::<i64>().is_aligned() {
            return Err(wrong(format!("{name}: not aligned")));
        }
        if rows.checked_mul(width).and_then(|items| items.checked_mul(8)) != Some(buffer.len()) {
            return Err(wrong(format!("{name}: its length is not that of its shape")));
        }
        Ok(Table { buffer, rows, width })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn values(&self) -> &[i64] {
        if self.rows * self.width == 0 {
            return &[];
        }
        // SAFETY: `with_flags` checked C order (PyBUF_ND without strides), type, alignment and length; the view is held by self.
        unsafe { slice::from_raw_parts(self.buffer.0.buf.cast::<i64>(), self.rows * self.width) }
    }
}

/// A readable int64[n, W].
pub struct Column<const W: usize>(Table);

impl<const W: usize> Column<W> {
    pub fn new(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        Ok(Column(Table::new(object, name, W)?))
    }

    /// Of exactly `rows` rows.
    pub fn of(object: &Bound<'_, PyAny>, name: &str, rows: usize) -> PyResult<Self> {
        let column = Column::new(object, name)?;
        expect_rows(name, column.0.rows, rows)?;
        Ok(column)
    }
}

impl<const W: usize> Deref for Column<W> {
    type Target = [[i64; W]];

    fn deref(&self) -> &[[i64; W]] {
        self.0.values().as_chunks::<W>().0
    }
}

/// A writable int64[n, W] that the caller allocated.
pub struct ColumnMut<const W: usize>(Table);

impl<const W: usize> ColumnMut<W> {
    /// Of exactly `rows` rows.
    pub fn of(object: &Bound<'_, PyAny>, name: &str, rows: usize) -> PyResult<Self> {
        let table = Table::with_flags(object, name, W, ffi::PyBUF_ND | ffi::PyBUF_FORMAT | ffi::PyBUF_WRITABLE)?;
        expect_rows(name, table.rows, rows)?;
        Ok(ColumnMut(table))
    }

    pub fn rows(&mut self) -> &mut [[i64; W]] {
        if self.0.rows == 0 {
            return &mut [];
        }
        // SAFETY: as in Table::values, and the exporter declared the memory writable; `&mut self` makes this our only view.
        let all = unsafe { slice::from_raw_parts_mut(self.0.buffer.0.buf.cast::<i64>(), self.0.rows * W) };
        all.as_chunks_mut::<W>().0
    }

    /// The same memory, as bytes for several threads to write.
    pub fn room(&mut self) -> Room {
        Room { start: self.0.buffer.0.buf.cast::<u8>(), len: self.0.rows * W * 8 }
    }
}

fn expect_rows(name: &str, found: usize, expected: usize) -> PyResult<()> {
    if found == expected {
        return Ok(());
    }
    Err(wrong(format!("{name}: expected {expected} rows, got {found}")))
}

/// Readable, contiguous bytes.
pub struct Bytes(PyBuffer);

impl Bytes {
    pub fn new(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        Ok(Bytes(PyBuffer::take(object, name, ffi::PyBUF_SIMPLE)?))
    }

    /// Each of a sequence.
    pub fn all(objects: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<Self>> {
        objects.try_iter()?.map(|object| Bytes::new(&object?, name)).collect()
    }

    pub fn as_slice(&self) -> &[u8] {
        if self.0.len() == 0 {
            return &[];
        }
        // SAFETY: PyBUF_SIMPLE: there are `len` bytes at `buf`; the view is held by self.
        unsafe { slice::from_raw_parts(self.0.0.buf.cast::<u8>(), self.0.len()) }
    }
}

/// Writable, contiguous bytes.
pub struct BytesMut(PyBuffer);

impl BytesMut {
    pub fn new(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        Ok(BytesMut(PyBuffer::take(object, name, ffi::PyBUF_SIMPLE | ffi::PyBUF_WRITABLE)?))
    }

    pub fn as_slice(&mut self) -> &mut [u8] {
        // SAFETY: the view is held by self, and `&mut self` makes this our only use of it; the caller lends the memory, and gives no part of it twice.
        unsafe { self.room().part(0, self.0.len()) }.unwrap_or_default()
    }

    /// The same memory, for several threads to write.
    pub fn room(&mut self) -> Room {
        Room { start: self.0.0.buf.cast::<u8>(), len: self.0.len() }
    }
}

/// Memory that several threads write, each its own part. Can be copied; every writer must prove that its part is inside.
#[derive(Clone, Copy)]
pub struct Room {
    start: *mut u8,
    len: usize,
}

// SAFETY: a Room is a pointer and a length; the functions that turn it into references or write through it carry the proof.
unsafe impl Send for Room {}
// SAFETY: as above.
unsafe impl Sync for Room {}

impl Room {
    #[cfg(test)]
    pub fn of(memory: &mut [i64]) -> Room {
        Room { start: memory.as_mut_ptr().cast::<u8>(), len: memory.len() * 8 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The bytes [from, from + len), or None if they are not inside.
    ///
    /// # Safety
    /// The buffer is still held, and no other thread reads or writes those bytes while the slice lives.
    pub unsafe fn part<'a>(&self, from: usize, len: usize) -> Option<&'a mut [u8]> {
        if from.checked_add(len)? > self.len {
            return None;
        }
        if len == 0 {
            return Some(&mut []);
        }
        // SAFETY: the range is inside, and the caller guarantees the rest.
        Some(unsafe { slice::from_raw_parts_mut(self.start.add(from), len) })
    }
}

/// A strided array whose memory is held.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub room: Room,
    pub shape: &'a [usize],
    pub strides: &'a [isize],
}

/// A strided array of any number of dimensions: the address of element 0, and extents and strides (in bytes) of each dimension.
pub struct Strided {
    buffer: PyBuffer,
    pub shape: Vec<usize>,
    pub strides: Vec<isize>,
}

impl Strided {
    pub fn readable(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        Strided::new(PyBuffer::take(object, name, ffi::PyBUF_STRIDES)?, name)
    }

    /// Writable; no two elements along one dimension at the same address.
    pub fn writable(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let array = Strided::new(PyBuffer::take(object, name, ffi::PyBUF_STRIDES | ffi::PyBUF_WRITABLE)?, name)?;
        if array.shape.iter().zip(&array.strides).any(|(&extent, &stride)| extent > 1 && stride == 0) {
            return Err(wrong(format!("{name}: elements lie on top of each other")));
        }
        Ok(array)
    }

    fn new(buffer: PyBuffer, name: &str) -> PyResult<Self> {
        if buffer.dimensions() != buffer.shape().len() || !buffer.0.suboffsets.is_null() {
            return Err(wrong(format!("{name}: not a strided array")));
        }
        let shape: Vec<usize> = buffer.shape().iter().map(|&extent| extent.max(0) as usize).collect();
        let strides = match buffer.strides() {
            Some(strides) => strides.to_vec(),
            None => c_strides(&shape, buffer.0.itemsize),
        };
        Ok(Strided { buffer, shape, strides })
    }

    pub fn itemsize(&self) -> usize {
        self.buffer.0.itemsize.max(0) as usize
    }

    /// The part that threads share, while it is held.
    pub fn view(&self) -> View<'_> {
        View { room: self.room(), shape: &self.shape, strides: &self.strides }
    }

    /// From the address of the element with all-zero indices. Every element within the shape is in the memory of the buffer (the buffer protocol), also
    /// before this address, if strides are negative.
    pub fn room(&self) -> Room {
        Room { start: self.buffer.0.buf.cast::<u8>(), len: self.buffer.len() }
    }
}

/// Strides of a C-contiguous array. Shapes of callers describe existing memory, so the products fit; otherwise they wrap around.
pub fn c_strides(shape: &[usize], itemsize: isize) -> Vec<isize> {
    let mut strides = vec![itemsize; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].wrapping_mul(shape[i] as isize);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_of_c_order() {
        assert_eq!(c_strides(&[2, 3, 4], 2), [24, 8, 2]);
        assert_eq!(c_strides(&[], 2), [0isize; 0]);
    }

    #[test]
    fn parts_stay_inside() {
        let mut bytes = [1u8, 2, 3, 4];
        let room = Room { start: bytes.as_mut_ptr(), len: 4 };
        // SAFETY: `bytes` lives and only one part is held at a time.
        unsafe {
            assert_eq!(room.part(1, 2).unwrap(), [2, 3]);
            assert!(room.part(3, 2).is_none());
            assert!(room.part(usize::MAX, 2).is_none());
            assert!(room.part(4, 0).unwrap().is_empty());
        }
    }
}
