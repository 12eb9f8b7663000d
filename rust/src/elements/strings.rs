//! Elements in NumPy's StringDType, through NumPy's C functions for packed strings: without a Python object for each element.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Mutex;
use std::thread;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::columns::{Bytes, BytesMut, wrong};
use crate::elements::heap::{Heap, VIEW, View, is_text, views};
use crate::failures::{Code, Fault, Outcome};
use crate::memory::{Growing, Segment};
use crate::threads::detached;

/// Bytes of a packed string in an array (on machines of 64 bits), and the type number of StringDType.
const PACKED: usize = 16;
const VSTRING: i64 = 2056;
/// Fewer strings are not worth a thread.
const WORTH_A_THREAD: usize = 16 << 10;

#[repr(C)]
struct StaticString {
    size: usize,
    bytes: *const c_char,
}

type Load = unsafe extern "C" fn(*mut c_void, *const c_void, *mut StaticString) -> c_int;
type Pack = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_char, usize) -> c_int;
type PackNull = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Acquire = unsafe extern "C" fn(*const c_void) -> *mut c_void;
type Release = unsafe extern "C" fn(*mut c_void);

/// NumPy's functions for packed strings.
#[derive(Clone, Copy)]
struct Functions {
    load: Load,
    pack: Pack,
    pack_null: PackNull,
    acquire: Acquire,
    release: Release,
}

impl Functions {
    fn of(py: Python<'_>) -> PyResult<Functions> {
        let capsule = py.import("numpy._core._multiarray_umath")?.getattr("_ARRAY_API")?;
        // SAFETY: a live object; an object that is not a capsule without a name gives null and an exception.
        let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), ptr::null()) }.cast::<*const c_void>();
        if table.is_null() {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: the table of NumPy's C API, which it never frees. Its entry 211 has been PyArray_GetNDArrayCFeatureVersion since NumPy 1.4.
        let version = unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn() -> c_uint>(*table.add(211))() };
        if version < 0x12 {
            return Err(wrong(format!("numpy: its C API has version {version:#x}; packed strings begin with 0x12")));
        }
        // SAFETY: from version 0x12 (NumPy 2.0) on, these entries of the table are functions with these signatures (numpy/__multiarray_api.h),
        // and entries of a table are never moved within NumPy 2.
        unsafe {
            Ok(Functions {
                load: std::mem::transmute::<*const c_void, Load>(*table.add(313)),
                pack: std::mem::transmute::<*const c_void, Pack>(*table.add(314)),
                pack_null: std::mem::transmute::<*const c_void, PackNull>(*table.add(315)),
                acquire: std::mem::transmute::<*const c_void, Acquire>(*table.add(316)),
                release: std::mem::transmute::<*const c_void, Release>(*table.add(318)),
            })
        }
    }
}

/// An array of StringDType in C order, and the number of its elements.
struct Packed {
    functions: Functions,
    descriptor: NonNull<c_void>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: pointers to an array and its dtype that the caller of the kernel function holds for the call.
unsafe impl Send for Packed {}
// SAFETY: functions that take `&Packed` on several threads only load strings, while one thread holds the allocator: NumPy's load reads the array and the
// allocator's memory, and changes neither.
unsafe impl Sync for Packed {}

/// The allocator of an array, held while threads load its strings.
struct Allocator(*mut c_void);

// SAFETY: as for Packed.
unsafe impl Sync for Allocator {}

/// Strings that become one buffer of the heap. valid: as in `Packed::copy`.
struct Part<'a> {
    start: usize,
    number: u32,
    fill: &'a [u8],
    views: &'a mut [[u8; VIEW]],
    valid: Option<&'a mut [u8]>,
}

impl Packed {
    fn new(array: &Bound<'_, PyAny>, writable: bool) -> PyResult<Packed> {
        let py = array.py();
        let functions = Functions::of(py)?;
        let descriptor = array.getattr("dtype")?;
        let flags = array.getattr("flags")?;
        let sound = array.is_instance(&py.import("numpy")?.getattr("ndarray")?)?
            && descriptor.getattr("num")?.extract::<i64>()? == VSTRING
            && descriptor.getattr("itemsize")?.extract::<usize>()? == PACKED
            && flags.getattr("c_contiguous")?.extract::<bool>()?
            && flags.getattr("aligned")?.extract::<bool>()?
            && (!writable || flags.getattr("writeable")?.extract::<bool>()?);
        if !sound {
            return Err(wrong("strings: not a StringDType array in C order that can be used"));
        }
        let (start, _): (usize, bool) = array.getattr("__array_interface__")?.get_item("data")?.extract()?;
        let len = array.getattr("size")?.extract()?;
        // The array holds its dtype, and the caller the array.
        match (NonNull::new(descriptor.as_ptr().cast()), NonNull::new(start as *mut u8)) {
            (Some(descriptor), Some(start)) => Ok(Packed { functions, descriptor, start, len }),
            _ => Err(wrong("strings: the array has no memory")),
        }
    }

    /// Runs `work` with the allocator of the array, which no other thread uses meanwhile.
    fn with_allocator<T>(&self, work: impl FnOnce(*mut c_void) -> T) -> T {
        // SAFETY: a live StringDType (checked in `new`). The lock is released below; `work` returns or unwinds through `Held`.
        let allocator = unsafe { (self.functions.acquire)(self.descriptor.as_ptr()) };
        struct Held(Release, *mut c_void);
        impl Drop for Held {
            fn drop(&mut self) {
                // SAFETY: acquired once, released once.
                unsafe { (self.0)(self.1) }
            }
        }
        let held = Held(self.functions.release, allocator);
        work(held.1)
    }

    fn address(&self, i: usize) -> *mut c_void {
        debug_assert!(i < self.len);
        // SAFETY: i is below `len`: the array is in C order, its elements have 16 bytes.
        unsafe { self.start.as_ptr().add(i * PACKED).cast() }
    }

    fn fill(&self, heap: &Heap<'_>, views: &[[u8; VIEW]], valid: Option<&[u8]>) -> Outcome {
        self.with_allocator(|allocator| {
            for (i, view) in views.iter().enumerate().take(self.len) {
                let done = if valid.is_some_and(|valid| valid.get(i) == Some(&0)) {
                    // SAFETY: the address of element i of an array of this allocator, which is held.
                    unsafe { (self.functions.pack_null)(allocator, self.address(i)) }
                } else {
                    let element = heap.element(View::read(view))?;
                    // SAFETY: as above; the bytes live as long as the heap is held, and are copied.
                    unsafe { (self.functions.pack)(allocator, self.address(i), element.as_ptr().cast(), element.len()) }
                };
                if done < 0 {
                    return Err(Fault::new(Code::Io, "12 no memory for a string"));
                }
            }
            Ok(())
        })
    }

    /// Copies the strings into buffers of the heap, one for each part. `valid`, if given, is set to 0 for missing strings; without it a missing string is a
    /// failure.
    fn copy(&self, fill: &[u8], first: u32, views: &mut [[u8; VIEW]], valid: Option<&mut [u8]>, threads: usize) -> Outcome<Vec<Growing>> {
        let most = if self.len < WORTH_A_THREAD { self.len } else { self.len.div_ceil(threads.max(1)) }.max(1);
        let mut flags = valid.map(|valid| valid.chunks_mut(most));
        let parts: Vec<_> = views
            .chunks_mut(most)
            .enumerate()
            .map(|(number, views)| {
                let valid = flags.as_mut().and_then(Iterator::next);
                Mutex::new((Part { start: number * most, number: first + number as u32, fill, views, valid }, Ok(Growing::default())))
            })
            .collect();
        self.with_allocator(|allocator| {
            let held = Allocator(allocator);
            let run = |part: &Mutex<(Part<'_>, Outcome<Growing>)>| {
                // Each part has one thread: the lock is never contended.
                if let Ok(mut part) = part.lock() {
                    let (part, made) = &mut *part;
                    *made = self.copy_part(&held, part);
                }
            };
            // Not `Threads::run_jobs`: that asks Python for signals, and a thread that waits for the allocator may hold the GIL.
            thread::scope(|scope| {
                let (mine, others) = parts.split_at(parts.len().min(1));
                let left = others.iter().filter(|part| thread::Builder::new().spawn_scoped(scope, || run(part)).is_err());
                let left: Vec<_> = left.collect();
                mine.iter().chain(left).for_each(run);
            });
        });
        parts.into_iter().map(|part| part.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).1).collect()
    }

    fn copy_part(&self, allocator: &Allocator, part: &mut Part<'_>) -> Outcome<Growing> {
        let elements = part.start..part.start + part.views.len().min(self.len.saturating_sub(part.start));
        // SAFETY: i is below `len`, and the allocator is that of the array, which is held: no other thread changes the strings.
        let string = |i| unsafe { self.string(allocator.0, i) };
        let size = elements.clone().map(|i| string(i).1.len()).sum();
        let mut made = Growing::with_room(size)?;
        let text = made.tail(size)?;
        let mut at = 0;
        for (i, into) in elements.clone().zip(part.views.iter_mut()) {
            let (state, element) = string(i);
            if let Some(valid) = part.valid.as_deref_mut().and_then(|valid| valid.get_mut(i - part.start)) {
                *valid = u8::from(state == 0);
            } else if state == 1 {
                return Err(Fault::new(Code::Encode, format!("element {i} is missing")));
            }
            if state < 0 || element.len() > u32::MAX as usize {
                return Err(Fault::new(Code::Encode, format!("element {i} cannot be read, or has 4 GiB or more")));
            }
            text[at..at + element.len()].copy_from_slice(element);
            View::of(element, part.fill, at, part.number).write(into);
            at += element.len();
        }
        // NumPy turns bytes and code points into strings without a check.
        if !is_text(&text[..at], part.views, 0, part.number) {
            let i = elements.into_iter().find(|&i| std::str::from_utf8(string(i).1).is_err()).unwrap_or(part.start);
            return Err(Fault::new(Code::Encode, format!("element {i} is not UTF-8")));
        }
        made.advance(at);
        Ok(made)
    }

    /// NumPy's state of element i (0: present, 1: missing, -1: unreadable), and its bytes.
    ///
    /// # Safety
    /// The allocator is that of the array and is held while the bytes are used.
    unsafe fn string(&self, allocator: *mut c_void, i: usize) -> (c_int, &[u8]) {
        let mut string = StaticString { size: 0, bytes: ptr::null() };
        // SAFETY: the address of element i of an array of this allocator.
        let state = unsafe { (self.functions.load)(allocator, self.address(i), &raw mut string) };
        if state != 0 || string.bytes.is_null() || string.size == 0 {
            return (state, &[]);
        }
        // SAFETY: NumPy's bytes of element i, which no other thread changes while the allocator is held.
        (state, unsafe { slice::from_raw_parts(string.bytes.cast::<u8>(), string.size) })
    }
}

/// Packs elements into an array of StringDType, in C order. valid: 0 for each missing one.
#[pyfunction]
pub fn elements_to_strings(
    py: Python<'_>,
    heap: &Bound<'_, PyAny>,
    all: &Bound<'_, PyAny>,
    valid: Option<&Bound<'_, PyAny>>,
    strings: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (held, all) = (Bytes::all(heap, "heap")?, Bytes::new(all, "views")?);
    let valid = valid.map(|valid| Bytes::new(valid, "valid")).transpose()?;
    let (heap, views) = (Heap::new(&held), views(all.as_slice())?);
    let valid = valid.as_ref().map(Bytes::as_slice);
    let packed = Packed::new(strings, true)?;
    if views.len() != packed.len || valid.is_some_and(|valid| valid.len() != packed.len) {
        return Err(wrong(format!("strings: {} elements for {} strings", views.len(), packed.len)));
    }
    // NumPy's lock of the strings is taken: never with the GIL
    detached(py, usize::MAX, move || {
        let packed = packed;
        packed.fill(&heap, views, valid)
    })?
    .map_err(|fault| wrong(fault.text))
}

/// The strings of an array of StringDType in C order as elements of buffers from `first` on, at most one for each thread. valid: set to 0 for each missing one,
/// else to 1.
#[pyfunction]
pub fn elements_of_strings(
    py: Python<'_>,
    strings: &Bound<'_, PyAny>,
    fill: &Bound<'_, PyAny>,
    first: u32,
    all: &Bound<'_, PyAny>,
    valid: Option<&Bound<'_, PyAny>>,
    threads: isize,
) -> PyResult<Vec<Segment>> {
    let fill = Bytes::new(fill, "fill")?;
    let mut all = BytesMut::new(all, "views")?;
    let mut valid = valid.map(|valid| BytesMut::new(valid, "valid")).transpose()?;
    let packed = Packed::new(strings, false)?;
    let (views, flags) = (all.as_slice(), valid.as_mut().map(BytesMut::as_slice));
    if Some(views.len()) != packed.len.checked_mul(VIEW) || flags.as_ref().is_some_and(|flags| flags.len() != packed.len) {
        return Err(wrong("views: not 16 bytes for each string"));
    }
    let fill = fill.as_slice();
    let made = detached(py, usize::MAX, move || {
        let packed = packed;
        packed.copy(fill, first, views.as_chunks_mut::<VIEW>().0, flags, threads.max(1) as usize)
    })?;
    Ok(made.map_err(|fault| wrong(fault.text))?.into_iter().map(Segment::new).collect())
}
