//! Programs: how one chunk is decoded and encoded, checked and prepared once.

use pyo3::prelude::*;

use crate::chunks::chain::{Chain, Size, check_size};
use crate::chunks::copy::Item;
use crate::columns::{Strided, wrong};
use crate::failures::Outcome;

/// A frozen value, created by `program`.
#[pyclass(frozen, module = "frazil._kernel")]
pub struct Program {
    pub shape: Vec<usize>,
    pub itemsize: usize,
    /// Bytes between neighbours of a decoded chunk along each dimension of the array.
    pub strides: Vec<isize>,
    /// Bytes of a decoded chunk.
    pub size: usize,
    pub elements: usize,
    pub item: Item,
    pub chain: Chain,
    /// The size to which each codec decodes; see Chain::sizes.
    pub sizes: Vec<Size>,
    /// The fill value in memory, and in stored form.
    pub fill: Vec<u8>,
    pub stored_fill: Vec<u8>,
    /// Whether the stored order is that of the array.
    pub in_order: bool,
}

/// The selected elements of chunks, as columns: (index, entries, runs) of boxes, or (first, points).
#[derive(FromPyObject)]
pub enum Elements<'py> {
    Boxes(Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>),
    Points(Bound<'py, PyAny>, Bound<'py, PyAny>),
}

impl Program {
    /// Refuses an array whose items are not elements of the chunk.
    pub fn check_items(&self, array: Strided, name: &str) -> PyResult<Strided> {
        if array.itemsize() != self.itemsize {
            return Err(wrong(format!("{name}: its items have {} bytes, the program's {}", array.itemsize(), self.itemsize)));
        }
        Ok(array)
    }

    /// Checks the length of encoded bytes before they are read.
    pub fn check_length(&self, length: u64) -> Outcome {
        check_size(length as usize, self.sizes[self.sizes.len() - 1])
    }

    /// The offset in the chunk, in bytes, of an element, numbered in C order of the array's dimensions.
    pub fn offset(&self, position: usize) -> usize {
        if self.in_order {
            return position * self.itemsize;
        }
        let (mut rest, mut offset) = (position, 0);
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev() {
            offset += rest % extent * stride as usize;
            rest /= extent;
        }
        offset
    }
}

fn item(itemsize: usize, swaps: &[(usize, usize, usize)]) -> PyResult<Item> {
    for &(offset, width, count) in swaps {
        let end = width.checked_mul(count).and_then(|bytes| bytes.checked_add(offset));
        if width == 0 || end.is_none_or(|end| end > itemsize) {
            return Err(wrong(format!("swaps: ({offset}, {width}, {count}) reaches outside an element of {itemsize} bytes")));
        }
    }
    let swaps: Vec<_> = swaps.iter().copied().filter(|&(_, width, count)| width > 1 && count > 0).collect();
    Ok(match swaps[..] {
        [] => Item::Plain { size: itemsize },
        [(0, width, count)] if width * count == itemsize => Item::Swapped { size: itemsize, width },
        _ => Item::Fields { size: itemsize, swaps },
    })
}

fn natural(name: &str, value: i64) -> PyResult<usize> {
    usize::try_from(value).map_err(|_| wrong(format!("{name}: {value} is negative")))
}

fn naturals(name: &str, values: &[i64]) -> PyResult<Vec<usize>> {
    values.iter().map(|&value| natural(name, value)).collect()
}

#[pyfunction]
pub fn program(
    shape: Vec<i64>,
    itemsize: i64,
    order: Vec<i64>,
    swaps: Vec<(i64, i64, i64)>,
    codecs: &Bound<'_, PyAny>,
    fill: &[u8],
) -> PyResult<Program> {
    let shape = naturals("shape", &shape)?;
    let order = naturals("order", &order)?;
    let itemsize = natural("itemsize", itemsize)?;
    let swaps = swaps.iter().map(|&(a, b, c)| Ok((natural("swaps", a)?, natural("swaps", b)?, natural("swaps", c)?)));
    let swaps = swaps.collect::<PyResult<Vec<_>>>()?;
    if itemsize == 0 || shape.contains(&0) {
        return Err(wrong("shape, itemsize: must be above zero"));
    }
    let size = shape.iter().try_fold(itemsize, |size, &extent| size.checked_mul(extent)).filter(|&size| size <= 1 << 48);
    let size = size.ok_or_else(|| wrong("shape, itemsize: a chunk is too large"))?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..shape.len()) {
        return Err(wrong("order: not a permutation of the dimensions"));
    }
    if fill.len() != itemsize {
        return Err(wrong(format!("fill: expected {itemsize} bytes, got {}", fill.len())));
    }
    let mut strides = vec![0; shape.len()];
    let mut stride = itemsize as isize;
    for &dimension in order.iter().rev() {
        strides[dimension] = stride;
        stride *= shape[dimension] as isize;
    }
    let item = item(itemsize, &swaps)?;
    let mut stored_fill = vec![0; itemsize];
    // SAFETY: both are `itemsize` bytes, the size of the item.
    unsafe { item.copy(fill.as_ptr(), stored_fill.as_mut_ptr()) };
    let chain = Chain::parse(codecs)?;
    Ok(Program {
        in_order: order.iter().copied().eq(0..shape.len()),
        sizes: chain.sizes(Size::Exactly(size)),
        elements: size / itemsize,
        shape,
        itemsize,
        strides,
        size,
        item,
        chain,
        fill: fill.to_vec(),
        stored_fill,
    })
}
