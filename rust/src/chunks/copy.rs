//! Copies of strided boxes in memory, with byte swapping. box_copies.rs decides which boxes are copied.

use std::ptr;

/// Bytes of a cache line, approximately.
const LINE: usize = 64;

/// The copied elements, of `size` bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Plain {
        size: usize,
    },
    /// The whole element is `size / width` values, each of which is reversed.
    Swapped {
        size: usize,
        width: usize,
    },
    /// (offset, width, count) within the element: values that are reversed.
    Fields {
        size: usize,
        swaps: Vec<(usize, usize, usize)>,
    },
}

impl Item {
    pub fn size(&self) -> usize {
        match self {
            Item::Plain { size } | Item::Swapped { size, .. } | Item::Fields { size, .. } => *size,
        }
    }

    /// Copies one element.
    ///
    /// # Safety
    /// `from` may be read and `to` written for `size` bytes, and they do not overlap.
    pub unsafe fn copy(&self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            ptr::copy_nonoverlapping(from, to, self.size());
            self.swap(to);
        }
    }

    /// Reverses the values of an element in place.
    ///
    /// # Safety
    /// `at` may be read and written for `size` bytes.
    unsafe fn swap(&self, at: *mut u8) {
        let reverse = |offset: usize, width: usize, count: usize| {
            for i in 0..count {
                // SAFETY: offset + width * count is at most `size` (checked when the program was created).
                unsafe { std::slice::from_raw_parts_mut(at.add(offset + i * width), width) }.reverse();
            }
        };
        match self {
            Item::Plain { .. } => {}
            Item::Swapped { size, width } => reverse(0, *width, size / width),
            Item::Fields { swaps, .. } => swaps.iter().for_each(|&(offset, width, count)| reverse(offset, width, count)),
        }
    }
}

/// One loop: its count, and its step at each end, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    pub count: usize,
    pub from: isize,
    pub to: isize,
}

/// The innermost loop.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Row {
    /// Bytes that are contiguous at both ends.
    Bytes(usize),
    /// One value at `from`, repeated, to contiguous addresses.
    Repeat(usize),
    Items(Axis),
    Swaps(Axis),
    Fields(Axis),
}

/// A box, its loops merged where both ends allow it and ordered so that writes ascend.
#[derive(Debug)]
pub struct Copier {
    axes: Vec<Axis>,
    /// A loop in which reads are closer together than in the rows: both are done in tiles.
    across: Option<Axis>,
    row: Row,
    width: usize,
}

impl Default for Copier {
    fn default() -> Copier {
        Copier { axes: Vec::new(), across: None, row: Row::Bytes(0), width: 1 }
    }
}

impl Copier {
    /// Plans the copy of the product of `axes`. No `to` is 0 where count > 1.
    pub fn plan(&mut self, axes: impl Iterator<Item = Axis>, item: &Item) {
        self.axes.clear();
        self.axes.extend(axes.filter(|axis| axis.count != 1));
        self.width = item.size();
        if let Item::Swapped { size, width } = *item {
            self.width = width;
            if size > width {
                self.axes.push(Axis { count: size / width, from: width as isize, to: width as isize });
            }
        }
        self.axes.sort_by_key(|axis| std::cmp::Reverse((axis.to.unsigned_abs(), axis.from.unsigned_abs())));
        let mut kept = 0;
        for i in 0..self.axes.len() {
            let inner = self.axes[i];
            if kept > 0 {
                let outer = &mut self.axes[kept - 1];
                let count = inner.count as isize;
                if outer.from == inner.from.wrapping_mul(count) && outer.to == inner.to.wrapping_mul(count) {
                    *outer = Axis { count: outer.count * inner.count, ..inner };
                    continue;
                }
            }
            self.axes[kept] = inner;
            kept += 1;
        }
        self.axes.truncate(kept);
        self.row = self.innermost(item);
        self.across = match self.row {
            Row::Items(row) | Row::Swaps(row) | Row::Fields(row) => self.take_across(row),
            _ => None,
        };
    }

    /// Removes a loop whose neighbours share a cache line at `from`, if neighbours in a row do not (a transpose).
    fn take_across(&mut self, row: Axis) -> Option<Axis> {
        let near = |axis: &Axis| axis.from != 0 && axis.from.unsigned_abs() < LINE.min(row.from.unsigned_abs());
        let found = self.axes.iter().position(near).filter(|_| row.from.unsigned_abs() >= LINE)?;
        Some(self.axes.remove(found))
    }

    fn innermost(&mut self, item: &Item) -> Row {
        let width = self.width as isize;
        let axis = self.axes.pop().unwrap_or(Axis { count: 1, from: width, to: width });
        match item {
            Item::Plain { .. } if axis.from == width && axis.to == width => Row::Bytes(axis.count * self.width),
            Item::Plain { .. } if axis.from == 0 && axis.to == width => Row::Repeat(axis.count),
            Item::Plain { .. } => Row::Items(axis),
            Item::Swapped { .. } => Row::Swaps(axis),
            Item::Fields { .. } => Row::Fields(axis),
        }
    }

    /// The length of the copy if it is only bytes that are contiguous at both ends.
    pub fn one_row(&self) -> Option<usize> {
        match self.row {
            Row::Bytes(len) if self.axes.is_empty() => Some(len),
            _ => None,
        }
    }

    /// Copies the box whose first element is at `from` to `to`.
    ///
    /// # Safety
    /// Every address that the planned axes reach from `from` may be read, and from `to` written, for the size of the item; the two
    /// do not overlap; `item` is the one of the plan.
    pub unsafe fn run(&self, item: &Item, from: *const u8, to: *mut u8) {
        macro_rules! rows {
            ($row:expr, $($argument:expr),*) => {
                // SAFETY: the caller's promise: `each` and the rows visit only the addresses of the planned axes.
                each(&self.axes, from, to, &|from, to| unsafe { $row($($argument,)* from, to) })
            };
        }
        macro_rules! items {
            ($row:expr, $axis:expr, $argument:expr) => {
                // SAFETY: as above: tiles are parts of two of the loops.
                each(&self.axes, from, to, &|from, to| unsafe {
                    let rows = |axis, from, to| $row(axis, $argument, from, to);
                    tiles(self.across, $axis, self.width, from, to, &rows);
                })
            };
        }
        match (self.row, self.width) {
            // SAFETY: the caller's promise, passed on.
            (Row::Bytes(len), _) => unsafe { self.bytes(len, from, to) },
            (Row::Repeat(count), 1) => rows!(repeat::<u8>, count),
            (Row::Repeat(count), 2) => rows!(repeat::<u16>, count),
            (Row::Repeat(count), 4) => rows!(repeat::<u32>, count),
            (Row::Repeat(count), 8) => rows!(repeat::<u64>, count),
            (Row::Repeat(count), 16) => rows!(repeat::<u128>, count),
            (Row::Repeat(count), width) => rows!(elements, Axis { count, from: 0, to: width as isize }, item),
            (Row::Items(axis), 1) => items!(strided::<u8>, axis, |value| value),
            (Row::Items(axis), 2) => items!(strided::<u16>, axis, |value| value),
            (Row::Items(axis), 4) => items!(strided::<u32>, axis, |value| value),
            (Row::Items(axis), 8) => items!(strided::<u64>, axis, |value| value),
            (Row::Items(axis), 16) => items!(strided::<u128>, axis, |value| value),
            (Row::Swaps(axis), 2) => items!(strided::<u16>, axis, u16::swap_bytes),
            (Row::Swaps(axis), 4) => items!(strided::<u32>, axis, u32::swap_bytes),
            (Row::Swaps(axis), 8) => items!(strided::<u64>, axis, u64::swap_bytes),
            (Row::Swaps(axis), 16) => items!(strided::<u128>, axis, u128::swap_bytes),
            (Row::Swaps(axis), width) => items!(elements, axis, &Item::Swapped { size: width, width }),
            (Row::Items(axis) | Row::Fields(axis), _) => items!(elements, axis, item),
        }
    }

    /// Rows of bytes; those of common short lengths by copies of fixed size, which are much cheaper than a call of memcpy.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn bytes(&self, len: usize, from: *const u8, to: *mut u8) {
        macro_rules! fixed {
            ($($len:literal)*) => {
                match len {
                    // SAFETY: the caller's promise: each row is `len` bytes at both ends.
                    $($len => each(&self.axes, from, to, &|from, to| unsafe {
                        ptr::copy_nonoverlapping(from.cast::<[u8; $len]>(), to.cast::<[u8; $len]>(), 1)
                    }),)*
                    // SAFETY: as above.
                    _ => each(&self.axes, from, to, &|from, to| unsafe { ptr::copy_nonoverlapping(from, to, len) }),
                }
            };
        }
        fixed!(1 2 4 8 12 16 24 32 48 64 96 128 192 256)
    }
}

/// Calls `row` at each step of the outer loops.
#[inline(always)]
fn each(axes: &[Axis], from: *const u8, to: *mut u8, row: &impl Fn(*const u8, *mut u8)) {
    match axes {
        [] => row(from, to),
        [axis] => along(axis, from, to, row),
        [outer, inner] => along(outer, from, to, &|from, to| along(inner, from, to, row)),
        _ => deep(axes, from, to, row),
    }
}

fn deep(axes: &[Axis], from: *const u8, to: *mut u8, row: &impl Fn(*const u8, *mut u8)) {
    along(&axes[0], from, to, &|from, to| each(&axes[1..], from, to, row));
}

#[inline(always)]
fn along(axis: &Axis, from: *const u8, to: *mut u8, row: &impl Fn(*const u8, *mut u8)) {
    let (mut from, mut to) = (from, to);
    for _ in 0..axis.count {
        row(from, to);
        (from, to) = (from.wrapping_offset(axis.from), to.wrapping_offset(axis.to));
    }
}

/// Calls `row` for the rows of a loop, or for parts of them, tile by tile, so that cache lines are used completely while they are cached.
#[inline(always)]
fn tiles(across: Option<Axis>, row: Axis, width: usize, from: *const u8, to: *mut u8, each_row: &impl Fn(Axis, *const u8, *mut u8)) {
    let Some(across) = across else { return each_row(row, from, to) };
    let side = (LINE / width).clamp(4, 16);
    for i in (0..across.count).step_by(side) {
        let strip = Axis { count: side.min(across.count - i), ..across };
        for j in (0..row.count).step_by(side) {
            let part = Axis { count: side.min(row.count - j), ..row };
            let from = from.wrapping_offset(across.from * i as isize + row.from * j as isize);
            let to = to.wrapping_offset(across.to * i as isize + row.to * j as isize);
            along(&strip, from, to, &|from, to| each_row(part, from, to));
        }
    }
}

/// # Safety
/// Every step of the axis is a readable T at `from` and a writable one at `to`; alignment does not matter.
#[inline(always)]
unsafe fn strided<T: Copy>(axis: Axis, change: impl Fn(T) -> T, from: *const u8, to: *mut u8) {
    let step = |from: *const u8, to: *mut u8| {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<T>().write_unaligned(change(from.cast::<T>().read_unaligned())) }
    };
    let size = size_of::<T>() as isize;
    match axis {
        // Constants for common sizes, so that the compiler can use wide instructions.
        Axis { count, from: a, to: b } if a == size && b == size => along(&Axis { count, from: size, to: size }, from, to, &step),
        Axis { count, from: a, to: b } if a == size => along(&Axis { count, from: size, to: b }, from, to, &step),
        Axis { count, from: a, to: b } if b == size => along(&Axis { count, from: a, to: size }, from, to, &step),
        axis => along(&axis, from, to, &step),
    }
}

/// # Safety
/// A readable T at `from`, and `count` writable ones from `to` on.
#[inline(always)]
unsafe fn repeat<T: Copy>(count: usize, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    let value = unsafe { from.cast::<T>().read_unaligned() };
    let to = to.cast::<T>();
    for i in 0..count {
        // SAFETY: as above.
        unsafe { to.add(i).write_unaligned(value) };
    }
}

/// # Safety
/// Every step of the axis may be read at `from` and written at `to` for the size of the item.
unsafe fn elements(axis: Axis, item: &Item, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    along(&axis, from, to, &|from, to| unsafe { item.copy(from, to) });
}

/// Fills `bytes`, a whole number of items, with `item`.
pub fn fill(bytes: &mut [u8], item: &[u8]) {
    if item.iter().all(|byte| *byte == item[0]) {
        return bytes.fill(item[0]);
    }
    let mut done = item.len().min(bytes.len());
    bytes[..done].copy_from_slice(&item[..done]);
    while done < bytes.len() {
        let next = done.min(bytes.len() - done);
        bytes.copy_within(..next, done);
        done += next;
    }
}

/// Whether `bytes`, a whole number of items, is only `item`, repeated.
pub fn is_all(bytes: &[u8], item: &[u8]) -> bool {
    bytes.strip_prefix(item).is_some_and(|rest| rest == &bytes[..rest.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(axes: &[Axis], mut visit: impl FnMut(isize, isize)) {
        let total: usize = axes.iter().map(|axis| axis.count).product();
        for mut number in 0..total {
            let (mut from, mut to) = (0, 0);
            for axis in axes.iter().rev() {
                let at = (number % axis.count) as isize;
                number /= axis.count;
                (from, to) = (from + at * axis.from, to + at * axis.to);
            }
            visit(from, to);
        }
    }

    #[test]
    fn copies_what_a_slow_loop_copies() {
        let items = [
            Item::Plain { size: 1 },
            Item::Plain { size: 2 },
            Item::Plain { size: 3 },
            Item::Plain { size: 16 },
            Item::Swapped { size: 2, width: 2 },
            Item::Swapped { size: 16, width: 8 },
            Item::Swapped { size: 6, width: 3 },
            Item::Fields { size: 7, swaps: vec![(1, 2, 1), (3, 2, 2)] },
        ];
        let source: Vec<u8> = (0..40_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for item in &items {
            let s = item.size() as isize;
            let boxes = [
                vec![],
                vec![(5, s, s)],
                vec![(4, 6 * s, 5 * s), (5, s, s)],
                vec![(3, 20 * s, 20 * s), (4, 5 * s, 5 * s), (5, s, s)],
                vec![(3, s, 20 * s), (4, 3 * s, 5 * s), (5, 12 * s, s)],
                vec![(3, 0, 20 * s), (20, 0, s)],
                vec![(2, 60 * s, 120 * s), (3, -7 * s, 40 * s), (2, 2 * s, -20 * s), (5, s, 2 * s)],
                vec![(2, 3000, 3000), (37, s, 12 * s), (12, 40 * s, s)],
                vec![(0, s, s), (5, s, s)],
            ];
            for axes in boxes {
                let axes: Vec<Axis> = axes.iter().map(|&(count, from, to)| Axis { count, from, to }).collect();
                let (mut found, mut expected) = (vec![0u8; 40_000], vec![0u8; 40_000]);
                let (a, b) = (20_000isize, 20_000isize);
                // SAFETY: the boxes above stay within 12,000 bytes of these addresses, on either side.
                addresses(&axes, |from, to| unsafe {
                    item.copy(source.as_ptr().offset(a + from), expected.as_mut_ptr().offset(b + to));
                });
                let mut copier = Copier::default();
                copier.plan(axes.iter().copied(), item);
                // SAFETY: as above.
                unsafe { copier.run(item, source.as_ptr().offset(a), found.as_mut_ptr().offset(b)) };
                assert!(found == expected, "{item:?} {axes:?} {copier:?}");
            }
        }
    }

    #[test]
    fn whole_boxes_become_one_row() {
        let mut copier = Copier::default();
        let axes = [(4, 40, 40), (1, 7, 9), (5, 8, 8), (4, 2, 2)].map(|(count, from, to)| Axis { count, from, to });
        copier.plan(axes.into_iter(), &Item::Plain { size: 2 });
        assert_eq!(copier.one_row(), Some(160));
        copier.plan(axes.into_iter(), &Item::Swapped { size: 2, width: 2 });
        assert_eq!(copier.one_row(), None);
    }

    #[test]
    fn fill_and_is_all_agree() {
        for item in [&[0u8, 0][..], &[1, 2, 3], &[255], &[0, 0, 128, 63]] {
            let mut bytes = vec![9; item.len() * 37];
            fill(&mut bytes, item);
            assert!(is_all(&bytes, item));
            for at in [0, bytes.len() / 2, bytes.len() - 1] {
                bytes[at] ^= 1;
                assert!(!is_all(&bytes, item));
                bytes[at] ^= 1;
            }
        }
    }
}
