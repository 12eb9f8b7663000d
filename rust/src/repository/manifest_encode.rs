//! Writes manifests from columns: the shortest forms, in the order of nodes and indices. manifest.rs reads them.

use std::fmt::Display;
use std::str;

use crate::repository::base32;
use crate::repository::manifest::{VERSION, check_flags};
use crate::repository::msgpack::{LONGEST, Reader, put_array, put_binary, put_map, put_natural, put_text};
use crate::repository::references::{COLUMNS, Columns, INLINE, NATIVE, VIRTUAL, span};

/// The bytes of a common reference, approximately.
const COMMON: usize = 48;

/// The file; the Err names the error in the columns.
pub fn encode(columns: [&[u8]; COLUMNS]) -> Result<Vec<u8>, String> {
    let [flags, columns @ ..] = columns;
    let columns = Columns::new(columns)?;
    let mut reader = Reader::new(flags);
    if let Err(found) = check_flags(&mut reader) {
        return Err(format!("flags: {} at byte {}", found.text, found.at));
    }
    if reader.left() > 0 {
        return Err(format!("flags: {} bytes follow the map", reader.left()));
    }
    let order = columns.keys.order();
    let count = order.as_ref().map_or(columns.keys.rows(), Vec::len);
    let mut out = Vec::with_capacity(flags.len() + COMMON.saturating_mul(count + 1).saturating_add(columns.inline.len()));
    put_array(&mut out, 3);
    put_natural(&mut out, VERSION);
    out.extend_from_slice(flags);
    put_map(&mut out, count);
    match order {
        None => (0..columns.keys.rows()).try_for_each(|row| columns.put(&mut out, row))?,
        Some(order) => order.into_iter().try_for_each(|row| columns.put(&mut out, row as usize))?,
    }
    Ok(out)
}

/// A number that may be negative, and then is out of range.
fn natural(column: &[[u8; 8]], row: usize, name: &str) -> Result<u64, String> {
    let number = i64::from_ne_bytes(column[row]);
    u64::try_from(number).map_err(|_| bad(name, row, number))
}

#[cold]
fn bad(name: &str, row: usize, value: impl Display) -> String {
    format!("{name}[{row}]: {value} does not fit")
}

impl Columns<'_> {
    fn put(&self, out: &mut Vec<u8>, row: usize) -> Result<(), String> {
        put_array(out, 2);
        put_natural(out, u64::from(self.keys.node(row)));
        let indices = self.keys.indices(row);
        if indices.len() as u64 > LONGEST {
            return Err(bad("starts", row, indices.len()));
        }
        put_array(out, indices.len());
        for &index in indices {
            let index = i64::from_ne_bytes(index);
            put_natural(out, u32::try_from(index).map_err(|_| bad("coordinates", row, index))?.into());
        }
        self.put_payload(out, row)
    }

    fn put_payload(&self, out: &mut Vec<u8>, row: usize) -> Result<(), String> {
        let (offset, length) = (natural(self.offsets, row, "offsets")?, natural(self.lengths, row, "lengths")?);
        let end = offset + length; // two numbers below 2^63
        if end > i64::MAX as u64 {
            return Err(bad("lengths", row, length));
        }
        put_map(out, 1);
        match self.kinds[row] {
            [INLINE] => {
                let bytes = usize::try_from(offset).ok().zip(usize::try_from(end).ok()).and_then(|(from, to)| self.inline.get(from..to));
                let bytes = bytes.filter(|bytes| bytes.len() as u64 <= LONGEST).ok_or_else(|| bad("lengths", row, length))?;
                put_text(out, b"Inline");
                put_binary(out, bytes);
                return Ok(());
            }
            [NATIVE] => {
                put_text(out, b"Ref");
                put_array(out, 3);
                put_text(out, &base32::encode(&self.ids[row]));
            }
            [VIRTUAL] => {
                put_text(out, b"Virtual");
                put_array(out, 3);
                put_map(out, 1);
                put_text(out, b"Absolute");
                put_text(out, self.location(row)?);
            }
            [other] => return Err(bad("kinds", row, other)),
        }
        put_natural(out, offset);
        put_natural(out, length);
        Ok(())
    }

    fn location(&self, row: usize) -> Result<&[u8], String> {
        let number = i32::from_ne_bytes(self.locations[row]);
        let index = usize::try_from(number).ok().filter(|&index| index + 1 < self.location_starts.len());
        let text = index.map(|index| &self.location_text[span(self.location_starts, index)]);
        let text = text.filter(|text| text.len() as u64 <= LONGEST && str::from_utf8(text).is_ok());
        text.ok_or_else(|| bad("locations", row, number))
    }
}
