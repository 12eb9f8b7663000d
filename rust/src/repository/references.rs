//! Chunk references in columns, and their order. Their form in a file is in manifest.rs.
//!
//! Columns are contiguous items of fixed width, in the machine's byte order.

use std::cmp::Ordering;
use std::fmt::Display;

use crate::repository::base32::ID_BYTES;

pub const INLINE: u8 = 0;
pub const NATIVE: u8 = 1;
pub const VIRTUAL: u8 = 2;

/// The number of columns, including the flags.
pub const COLUMNS: usize = 12;

/// The columns of the contract, in its order.
#[derive(Default)]
pub struct References {
    pub flags: Vec<u8>,
    pub nodes: Vec<u8>,           // u32
    pub starts: Vec<u8>,          // i64, the number of rows plus 1
    pub coordinates: Vec<u8>,     // i64
    pub kinds: Vec<u8>,           // u8
    pub ids: Vec<u8>,             // ID_BYTES
    pub offsets: Vec<u8>,         // i64
    pub lengths: Vec<u8>,         // i64
    pub inline: Vec<u8>,          // bytes
    pub locations: Vec<u8>,       // i32
    pub location_text: Vec<u8>,   // bytes
    pub location_starts: Vec<u8>, // i64, the number of locations plus 1
}

impl References {
    pub fn into_columns(self) -> [Vec<u8>; COLUMNS] {
        [
            self.flags,
            self.nodes,
            self.starts,
            self.coordinates,
            self.kinds,
            self.ids,
            self.offsets,
            self.lengths,
            self.inline,
            self.locations,
            self.location_text,
            self.location_starts,
        ]
    }

    /// Allocates room for this many rows; false if there is none.
    pub fn reserve(&mut self, rows: usize) -> bool {
        let columns = [
            (&mut self.nodes, 4),
            (&mut self.starts, 8),
            (&mut self.kinds, 1),
            (&mut self.ids, ID_BYTES),
            (&mut self.offsets, 8),
            (&mut self.lengths, 8),
            (&mut self.locations, 4),
        ];
        columns.into_iter().all(|(column, width)| column.try_reserve_exact((rows + 1).saturating_mul(width)).is_ok())
    }

    fn extend(&mut self, part: &Columns<'_>) {
        let (coordinates, inline) = ((self.coordinates.len() / 8) as i64, self.inline.len() as i64);
        let (locations, text) = ((self.location_starts.len() / 8 - 1) as i32, self.location_text.len() as i64);
        let number = |item: [u8; 8]| i64::from_ne_bytes(item);
        self.nodes.extend_from_slice(part.keys.nodes.as_flattened());
        put_all(&mut self.starts, &part.keys.starts[1..], |start| (number(start) + coordinates).to_ne_bytes());
        self.coordinates.extend_from_slice(part.keys.coordinates.as_flattened());
        self.kinds.extend_from_slice(part.kinds.as_flattened());
        self.ids.extend_from_slice(part.ids.as_flattened());
        for (&[kind], &offset) in part.kinds.iter().zip(part.offsets) {
            let shift = if kind == INLINE { inline } else { 0 };
            self.offsets.extend_from_slice(&number(offset).wrapping_add(shift).to_ne_bytes());
        }
        self.lengths.extend_from_slice(part.lengths.as_flattened());
        self.inline.extend_from_slice(part.inline);
        put_all(&mut self.locations, part.locations, |item| match i32::from_ne_bytes(item) {
            ..0 => (-1i32).to_ne_bytes(),
            location => location.wrapping_add(locations).to_ne_bytes(),
        });
        self.location_text.extend_from_slice(part.location_text);
        put_all(&mut self.location_starts, &part.location_starts[1..], |start| (number(start) + text).to_ne_bytes());
    }

    pub fn keys(&self) -> Keys<'_> {
        Keys { nodes: items(&self.nodes), starts: items(&self.starts), coordinates: items(&self.coordinates) }
    }

    /// Only these rows, in this order; the inline bytes and the locations are not changed.
    pub fn pick(&mut self, rows: &[u32]) {
        let mut coordinates = Vec::with_capacity(self.coordinates.len());
        let mut starts = Vec::with_capacity((rows.len() + 1) * 8);
        starts.extend_from_slice(&0i64.to_ne_bytes());
        for &row in rows {
            coordinates.extend_from_slice(self.keys().indices(row as usize).as_flattened());
            starts.extend_from_slice(&(coordinates.len() as i64 / 8).to_ne_bytes());
        }
        (self.coordinates, self.starts) = (coordinates, starts);
        self.nodes = picked::<4>(&self.nodes, rows);
        self.kinds = picked::<1>(&self.kinds, rows);
        self.ids = picked::<ID_BYTES>(&self.ids, rows);
        self.offsets = picked::<8>(&self.offsets, rows);
        self.lengths = picked::<8>(&self.lengths, rows);
        self.locations = picked::<4>(&self.locations, rows);
    }
}

fn put_all<const W: usize>(column: &mut Vec<u8>, items: &[[u8; W]], change: impl Fn([u8; W]) -> [u8; W]) {
    items.iter().for_each(|&item| column.extend_from_slice(&change(item)));
}

fn picked<const W: usize>(column: &[u8], rows: &[u32]) -> Vec<u8> {
    let items = items::<W>(column);
    rows.iter().flat_map(|&row| items[row as usize]).collect()
}

pub fn items<const W: usize>(column: &[u8]) -> &[[u8; W]] {
    column.as_chunks::<W>().0
}

/// The sort key of rows: node, then coordinates, where (0,) comes before (0, 0).
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    nodes: &'a [[u8; 4]],
    starts: &'a [[u8; 8]],
    coordinates: &'a [[u8; 8]],
}

impl<'a> Keys<'a> {
    /// Columns of the caller; the Err names the error in them.
    pub fn new(nodes: &'a [u8], starts: &'a [u8], coordinates: &'a [u8]) -> Result<Keys<'a>, String> {
        let nodes = column::<4>("nodes", nodes, nodes.len() / 4)?;
        let coordinates = column::<8>("coordinates", coordinates, coordinates.len() / 8)?;
        let starts = column::<8>("starts", starts, nodes.len() + 1)?;
        check_starts("starts", starts, coordinates.len())?;
        if nodes.len() > u32::MAX as usize {
            return Err(format!("{} references are too many", nodes.len()));
        }
        Ok(Keys { nodes, starts, coordinates })
    }

    pub fn rows(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, row: usize) -> u32 {
        u32::from_ne_bytes(self.nodes[row])
    }

    pub fn indices(&self, row: usize) -> &'a [[u8; 8]] {
        &self.coordinates[span(self.starts, row)]
    }

    fn compare(&self, one: usize, other: usize) -> Ordering {
        let numbers = |row| self.indices(row).iter().map(|&index| i64::from_ne_bytes(index));
        self.node(one).cmp(&self.node(other)).then_with(|| numbers(one).cmp(numbers(other)))
    }

    /// The start of the key as one number, which compares faster than the key; keys that differ only in the rest have equal prefixes.
    fn prefix(&self, row: usize) -> u128 {
        let index = |index: &[u8; 8]| i64::from_ne_bytes(*index).clamp(0, i64::from(u32::MAX)) as u128;
        let indices = self.indices(row);
        (0..3).fold(u128::from(self.node(row)), |key, i| key << 32 | indices.get(i).map_or(0, index))
    }

    fn compare_rows(&self, one: &(u128, u32), other: &(u128, u32)) -> Ordering {
        one.0.cmp(&other.0).then_with(|| self.compare(one.1 as usize, other.1 as usize))
    }

    /// Whether all rows are in order, and distinct.
    fn is_ordered(&self) -> bool {
        (1..self.rows()).all(|row| self.compare(row - 1, row) == Ordering::Less)
    }

    /// The rows in order, the last of equal ones; None if they are so already.
    pub fn order(&self) -> Option<Vec<u32>> {
        if self.is_ordered() {
            return None;
        }
        let mut rows: Vec<(u128, u32)> = (0..self.rows() as u32).map(|row| (self.prefix(row as usize), row)).collect();
        rows.sort_unstable_by(|one, other| self.compare_rows(one, other).then(other.1.cmp(&one.1))); // the last of equal ones comes first
        rows.dedup_by(|one, other| self.compare_rows(one, other) == Ordering::Equal);
        let rows = rows.into_iter().map(|(_, row)| row).collect();
        Some(rows)
    }
}

/// The columns of references, of checked lengths.
pub struct Columns<'a> {
    pub keys: Keys<'a>,
    pub kinds: &'a [[u8; 1]],
    pub ids: &'a [[u8; ID_BYTES]],
    pub offsets: &'a [[u8; 8]],
    pub lengths: &'a [[u8; 8]],
    pub inline: &'a [u8],
    pub locations: &'a [[u8; 4]],
    pub location_text: &'a [u8],
    pub location_starts: &'a [[u8; 8]],
}

impl<'a> Columns<'a> {
    /// Columns of the caller, without flags; the Err names the error in them.
    pub fn new(columns: [&'a [u8]; COLUMNS - 1]) -> Result<Columns<'a>, String> {
        let [nodes, starts, coordinates, kinds, ids, offsets, lengths, inline, locations, location_text, location_starts] = columns;
        let keys = Keys::new(nodes, starts, coordinates)?;
        let rows = keys.rows();
        let location_starts = column::<8>("location_starts", location_starts, location_starts.len() / 8)?;
        check_starts("location_starts", location_starts, location_text.len())?;
        Ok(Columns {
            keys,
            kinds: column("kinds", kinds, rows)?,
            ids: column("ids", ids, rows)?,
            offsets: column("offsets", offsets, rows)?,
            lengths: column("lengths", lengths, rows)?,
            inline,
            locations: column("locations", locations, rows)?,
            location_text,
            location_starts,
        })
    }
}

/// The references of several manifests in order, the last of those with equal keys; None for one manifest in which they are so already. The Err names the error
/// in the columns.
pub fn join(parts: &[Columns<'_>]) -> Result<Option<References>, String> {
    if let [part] = parts
        && part.keys.is_ordered()
    {
        return Ok(None);
    }
    let first = 0i64.to_ne_bytes().to_vec();
    let mut joined = References { starts: first.clone(), location_starts: first, ..References::default() };
    for part in parts {
        check_whole("starts", part.keys.starts, part.keys.coordinates.len())?;
        check_whole("location_starts", part.location_starts, part.location_text.len())?;
        joined.extend(part);
    }
    if joined.nodes.len() / 4 > u32::MAX as usize {
        return Err(format!("{} references are too many", joined.nodes.len() / 4));
    }
    if let Some(rows) = joined.keys().order() {
        joined.pick(&rows);
    }
    Ok(Some(joined))
}

/// Checks that spans, which follow each other, leave nothing out.
fn check_whole(name: &str, starts: &[[u8; 8]], len: usize) -> Result<(), String> {
    let ends = starts.first().zip(starts.last()).map(|(&first, &last)| (i64::from_ne_bytes(first), i64::from_ne_bytes(last)));
    if ends == Some((0, len as i64)) { Ok(()) } else { Err(format!("{name}: do not go from 0 to {len}")) }
}

pub fn column<'a, const W: usize>(name: &str, bytes: &'a [u8], rows: usize) -> Result<&'a [[u8; W]], String> {
    match bytes.as_chunks::<W>() {
        (items, []) if items.len() == rows => Ok(items),
        _ => Err(format!("{name}: expected {rows} items of {W} bytes, got {} bytes", bytes.len())),
    }
}

/// Checks that spans follow each other within `len`.
pub fn check_starts(name: &str, starts: &[[u8; 8]], len: impl TryInto<i64> + Display + Copy) -> Result<(), String> {
    let most = len.try_into().unwrap_or(i64::MAX);
    let numbers = starts.iter().map(|&start| i64::from_ne_bytes(start));
    let (first, last) = (numbers.clone().next(), numbers.clone().next_back());
    if numbers.is_sorted() && first.is_some_and(|first| first >= 0) && last.is_some_and(|last| last <= most) {
        return Ok(());
    }
    Err(format!("{name}: does not go upward within 0..={len}"))
}

/// For starts that passed `check_starts`.
pub fn span(starts: &[[u8; 8]], row: usize) -> std::ops::Range<usize> {
    i64::from_ne_bytes(starts[row]) as usize..i64::from_ne_bytes(starts[row + 1]) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const W: usize>(items: &[[u8; W]]) -> Vec<u8> {
        items.concat()
    }

    fn ordered(rows: &[(u32, &[i64])]) -> Option<Vec<u32>> {
        let nodes = bytes(&rows.iter().map(|row| row.0.to_ne_bytes()).collect::<Vec<_>>());
        let mut starts = vec![0i64.to_ne_bytes()];
        let mut coordinates = Vec::new();
        for row in rows {
            coordinates.extend(row.1.iter().map(|index| index.to_ne_bytes()));
            starts.push((coordinates.len() as i64).to_ne_bytes());
        }
        Keys::new(&nodes, &bytes(&starts), &bytes(&coordinates)).unwrap().order()
    }

    #[test]
    fn order_is_by_node_then_indices() {
        assert_eq!(ordered(&[]), None);
        assert_eq!(ordered(&[(1, &[0]), (1, &[0, 0]), (1, &[0, 300]), (1, &[1]), (2, &[])]), None);
        assert_eq!(ordered(&[(2, &[]), (1, &[300]), (1, &[2])]), Some(vec![2, 1, 0]));
    }

    #[test]
    fn of_equal_rows_the_last_stays() {
        assert_eq!(ordered(&[(1, &[0]), (1, &[0])]), Some(vec![1]));
        assert_eq!(ordered(&[(1, &[0, 0, 0, 1]), (1, &[0, 0, 0]), (1, &[0, 0, 0, 1]), (1, &[0])]), Some(vec![3, 1, 2]));
        assert_eq!(ordered(&[(1, &[1 << 40]), (1, &[1 << 33]), (1, &[-1]), (1, &[])]), Some(vec![3, 2, 1, 0]));
        assert_eq!(ordered(&[(1, &[1]), (1, &[0]), (1, &[1]), (1, &[0]), (1, &[0])]), Some(vec![4, 2]));
    }

    #[test]
    fn bad_columns_are_refused() {
        let starts = |numbers: &[i64]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<u8>>();
        assert!(Keys::new(&[0; 4], &starts(&[0, 1]), &[0; 8]).is_ok());
        for bad in [&[0, 2][..], &[-1, 1], &[1, 0], &[5, 5], &[0], &[0, 1, 1], &[]] {
            assert!(Keys::new(&[0; 4], &starts(bad), &[0; 8]).is_err(), "{bad:?}");
        }
        assert!(Keys::new(&[0; 3], &starts(&[0]), &[]).is_err());
        assert!(Keys::new(&[0; 4], &starts(&[0, 0]), &[0; 7]).is_err());
    }
}
