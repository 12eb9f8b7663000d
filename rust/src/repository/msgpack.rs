//! MessagePack, value by value: a reader that never reaches outside its bytes, and a writer of the shortest forms.
//!
//! Nothing here allocates as much as a header claims, and nothing recurses. The callers know the meaning of the values.

/// The error in the bytes, and its offset.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    pub at: usize,
    pub text: String,
}

pub type Read<T = ()> = Result<T, Broken>;

#[cold]
pub fn broken<T>(at: usize, text: impl Into<String>) -> Read<T> {
    Err(Broken { at, text: text.into() })
}

/// The first bytes of a value: whole numbers, or for other types the number of following bytes or values.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Head {
    Natural(u64),
    Negative,
    Text(usize),
    Binary(usize),
    Array(usize),
    Map(usize),
    Other(usize), // nil, booleans, floats, extensions
}

impl Head {
    fn name(self) -> &'static str {
        match self {
            Head::Natural(_) => "an integer",
            Head::Negative => "a negative integer",
            Head::Text(_) => "a string",
            Head::Binary(_) => "binary data",
            Head::Array(_) => "an array",
            Head::Map(_) => "a map",
            Head::Other(_) => "a value of another type",
        }
    }
}

#[derive(Clone)]
pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8]) -> Reader<'a> {
        Reader { data, at: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn left(&self) -> usize {
        self.data.len() - self.at
    }

    /// Continues at an earlier offset.
    pub fn go(&mut self, at: usize) {
        self.at = at.min(self.data.len());
    }

    #[inline]
    fn bytes(&mut self, len: usize) -> Read<&'a [u8]> {
        match self.data[self.at..].split_at_checked(len) {
            Some((bytes, _)) => {
                self.at += len;
                Ok(bytes)
            }
            None => broken(self.at, format!("{len} more bytes are expected, {} are left", self.left())),
        }
    }

    /// A number of 1 << `power` bytes.
    #[inline]
    fn number(&mut self, power: u8) -> Read<u64> {
        let bytes = self.bytes(1 << power)?;
        Ok(match *bytes {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
            _ => bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)),
        })
    }

    /// Skips the next byte if it is one of these: the short forms, which most heads have, are read without `head`.
    #[inline]
    fn short(&mut self, first: u8, last: u8) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        (first..=last).contains(&byte).then(|| {
            self.at += 1;
            byte - first
        })
    }

    /// As `number`; a length that exceeds all memory fails when its bytes are requested.
    fn length(&mut self, power: u8) -> Read<usize> {
        Ok(usize::try_from(self.number(power)?).unwrap_or(usize::MAX))
    }

    #[inline]
    fn head(&mut self) -> Read<Head> {
        let at = self.at;
        let marker = self.bytes(1)?[0];
        Ok(match marker {
            0..=0x7f => Head::Natural(u64::from(marker)),
            0x80..=0x8f => Head::Map(usize::from(marker & 15)),
            0x90..=0x9f => Head::Array(usize::from(marker & 15)),
            0xa0..=0xbf => Head::Text(usize::from(marker & 31)),
            0xc0 | 0xc2 | 0xc3 => Head::Other(0),
            0xc1 => return broken(at, "0xc1 begins no value"),
            0xc4..=0xc6 => Head::Binary(self.length(marker - 0xc4)?),
            0xc7..=0xc9 => Head::Other(self.length(marker - 0xc7)?.saturating_add(1)),
            0xca => Head::Other(4),
            0xcb => Head::Other(8),
            0xcc..=0xcf => Head::Natural(self.number(marker - 0xcc)?),
            0xd0..=0xd3 => match (self.number(marker - 0xd0)?, 8u32 << (marker - 0xd0)) {
                (number, bits) if number >> (bits - 1) == 0 => Head::Natural(number),
                _ => Head::Negative,
            },
            0xd4..=0xd8 => Head::Other((1 << (marker - 0xd4)) + 1),
            0xd9..=0xdb => Head::Text(self.length(marker - 0xd9)?),
            0xdc | 0xdd => Head::Array(self.length(marker - 0xdc + 1)?),
            0xde | 0xdf => Head::Map(self.length(marker - 0xde + 1)?),
            0xe0..=0xff => Head::Negative,
        })
    }

    #[inline]
    pub fn natural(&mut self, most: u64, what: &str) -> Read<u64> {
        if most > 0x7f
            && let Some(number) = self.short(0, 0x7f)
        {
            return Ok(u64::from(number));
        }
        let at = self.at;
        match self.head()? {
            Head::Natural(number) if number <= most => Ok(number),
            Head::Natural(number) => broken(at, format!("{what} is {number}, and may be {most} at most")),
            other => broken(at, format!("{what} is expected to be an integer from 0 on, not {}", other.name())),
        }
    }

    #[inline]
    pub fn text(&mut self, what: &str) -> Read<&'a [u8]> {
        if let Some(len) = self.short(0xa0, 0xbf) {
            return self.bytes(usize::from(len));
        }
        let at = self.at;
        match self.head()? {
            Head::Text(len) => self.bytes(len),
            other => broken(at, format!("{what} is expected to be a string, not {}", other.name())),
        }
    }

    pub fn binary(&mut self, what: &str) -> Read<&'a [u8]> {
        let at = self.at;
        match self.head()? {
            Head::Binary(len) => self.bytes(len),
            other => broken(at, format!("{what} is expected to be binary data, not {}", other.name())),
        }
    }

    /// The number of following values; the rest is long enough for them, at one byte each.
    #[inline]
    pub fn array(&mut self, what: &str) -> Read<usize> {
        let at = self.at;
        match self.head()? {
            Head::Array(count) if count <= self.left() => Ok(count),
            Head::Array(count) => broken(at, format!("{what} claims {count} values where {} bytes are left", self.left())),
            other => broken(at, format!("{what} is expected to be an array, not {}", other.name())),
        }
    }

    /// The number of following pairs; the rest is long enough for them, at two bytes each.
    #[inline]
    pub fn map(&mut self, what: &str) -> Read<usize> {
        let at = self.at;
        match self.head()? {
            Head::Map(count) if count <= self.left() / 2 => Ok(count),
            Head::Map(count) => broken(at, format!("{what} claims {count} entries where {} bytes are left", self.left())),
            other => broken(at, format!("{what} is expected to be a map, not {}", other.name())),
        }
    }

    /// The name of the variant in a map of one entry; its value follows.
    #[inline]
    pub fn variant(&mut self, what: &str) -> Read<&'a [u8]> {
        let at = self.at;
        match self.map(what)? {
            1 => self.text(what),
            count => broken(at, format!("{what} is expected to be a map of one entry, not of {count}")),
        }
    }

    /// The fields of a struct, by number and in order: an array of them all, or a map by name in any order, whose other entries are skipped.
    #[inline]
    pub fn fields<const N: usize>(&mut self, what: &str, names: [&str; N], mut read: impl FnMut(&mut Reader<'a>, usize) -> Read) -> Read {
        let at = self.at;
        match self.head()? {
            Head::Array(count) if count == N => (0..N).try_for_each(|field| read(self, field)),
            Head::Array(count) => broken(at, format!("{what} has {count} fields, {N} are expected")),
            Head::Map(count) => {
                let offsets = self.named(count, what, names)?;
                let end = self.at;
                for (field, offset) in offsets.into_iter().enumerate() {
                    self.go(offset);
                    read(self, field)?;
                }
                self.go(end);
                Ok(())
            }
            other => broken(at, format!("{what} is expected to be an array or a map, not {}", other.name())),
        }
    }

    fn named<const N: usize>(&mut self, count: usize, what: &str, names: [&str; N]) -> Read<[usize; N]> {
        let mut offsets = [None; N];
        let start = self.at;
        for _ in 0..count {
            let at = self.at;
            let name = self.text("the name of a field")?;
            if let Some(field) = names.iter().position(|known| known.as_bytes() == name)
                && offsets[field].replace(self.at).is_some()
            {
                return broken(at, format!("{what} has its field {} twice", names[field]));
            }
            self.skip()?;
        }
        let mut found = [0; N];
        for ((offset, found), name) in offsets.into_iter().zip(&mut found).zip(names) {
            let Some(offset) = offset else { return broken(start, format!("{what} has no field {name}")) };
            *found = offset;
        }
        Ok(found)
    }

    /// Skips one value of any type.
    pub fn skip(&mut self) -> Read {
        let mut pending = 1usize;
        while pending > 0 {
            let at = self.at;
            let inside = match self.head()? {
                Head::Natural(_) | Head::Negative => 0,
                Head::Text(len) | Head::Binary(len) | Head::Other(len) => {
                    self.bytes(len)?;
                    0
                }
                Head::Array(count) => count,
                Head::Map(count) => count.saturating_mul(2),
            };
            pending = (pending - 1).saturating_add(inside);
            if pending > self.left() {
                return broken(at, format!("{pending} more values are expected where {} bytes are left", self.left()));
            }
        }
        Ok(())
    }
}

/// A marker and the number of a value, in the narrowest of the widths (1 << power bytes) of `markers`.
fn put(out: &mut Vec<u8>, markers: &[(u8, u8)], number: u64) {
    for &(marker, power) in markers {
        let width = 1usize << power;
        if width == 8 || number >> (8 * width) == 0 {
            out.push(marker);
            out.extend_from_slice(&number.to_be_bytes()[8 - width..]);
            return;
        }
    }
}

#[inline]
pub fn put_natural(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x7f => out.push(number as u8),
        _ => put(out, &[(0xcc, 0), (0xcd, 1), (0xce, 2), (0xcf, 3)], number),
    }
}

pub fn put_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        0.. => put_natural(out, number as u64),
        -32..0 => out.push(number as u8),
        -0x80..0 => out.extend_from_slice(&[0xd0, number as u8]),
        -0x8000..0 => put(out, &[(0xd1, 1)], number as u64 & 0xffff),
        -0x8000_0000..0 => put(out, &[(0xd2, 2)], number as u64 & 0xffff_ffff),
        _ => put(out, &[(0xd3, 3)], number as u64),
    }
}

/// The most bytes of a string or binary data, values of an array, entries of a map.
pub const LONGEST: u64 = u32::MAX as u64;

#[inline]
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        len @ 0..=31 => out.push(0xa0 | len as u8),
        len => put(out, &[(0xd9, 0), (0xda, 1), (0xdb, 2)], len as u64),
    }
    out.extend_from_slice(text);
}

#[inline]
pub fn put_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, &[(0xc4, 0), (0xc5, 1), (0xc6, 2)], bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[inline]
pub fn put_array(out: &mut Vec<u8>, count: usize) {
    match count {
        0..=15 => out.push(0x90 | count as u8),
        _ => put(out, &[(0xdc, 1), (0xdd, 2)], count as u64),
    }
}

#[inline]
pub fn put_map(out: &mut Vec<u8>, count: usize) {
    match count {
        0..=15 => out.push(0x80 | count as u8),
        _ => put(out, &[(0xde, 1), (0xdf, 2)], count as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shortest_and_come_back() {
        for (number, len) in [(0, 1), (127, 1), (128, 2), (255, 2), (256, 3), (65535, 3), (65536, 5), (u32::MAX as u64, 5), (u64::MAX, 9)] {
            let mut out = Vec::new();
            put_natural(&mut out, number);
            assert_eq!(out.len(), len);
            assert_eq!(Reader::new(&out).natural(u64::MAX, "x"), Ok(number));
        }
        assert_eq!(Reader::new(&[0xd1, 0, 5]).natural(9, "x"), Ok(5));
        for bytes in [&[0xd0, 0xff][..], &[0xff], &[6], &[0xcc], &[0xca, 0, 0, 0, 0], &[]] {
            assert!(Reader::new(bytes).natural(5, "x").is_err());
        }
    }

    #[test]
    fn lengths_come_back() {
        for len in [0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536] {
            let (bytes, mut out) = (vec![7; len], Vec::new());
            put_text(&mut out, &bytes);
            put_binary(&mut out, &bytes);
            put_array(&mut out, len);
            out.extend_from_slice(&bytes);
            put_map(&mut out, len);
            out.extend(bytes.iter().chain(&bytes));
            let mut reader = Reader::new(&out);
            assert_eq!(reader.text("x"), Ok(&bytes[..]));
            assert_eq!(reader.binary("x"), Ok(&bytes[..]));
            let before = reader.clone();
            assert_eq!(reader.array("x"), Ok(len));
            reader.go(reader.at() + len);
            assert_eq!(reader.map("x"), Ok(len));
            reader = before;
            assert_eq!((reader.skip(), reader.skip()), (Ok(()), Ok(())));
            assert_eq!(reader.left(), 0);
        }
    }

    #[test]
    fn lies_are_found() {
        let claims = [&[0xdd, 255, 255, 255, 255, 0][..], &[0xdf, 0, 0, 0, 9, 1, 2], &[0xc6, 0, 0, 0, 3, 1], &[0xdb, 255, 255, 255, 255]];
        for bytes in claims.into_iter().chain([&[0xc1][..], &[0xc9, 255, 255, 255, 255, 0], &[0xd8, 0], &[0x91], &[0x81, 1]]) {
            assert!(Reader::new(bytes).skip().is_err(), "{bytes:?}");
        }
        assert!(Reader::new(&vec![0x91; 1 << 20]).skip().is_err());
        let nested: Vec<u8> = std::iter::repeat_n(0x91, 1 << 20).chain([0xc0]).collect();
        assert_eq!(Reader::new(&nested).skip(), Ok(()));
    }

    #[test]
    fn structs_are_arrays_or_maps() {
        let read = |bytes: &[u8]| {
            let mut seen = Vec::new();
            let mut reader = Reader::new(bytes);
            let outcome = reader.fields("x", ["a", "b"], |reader, field| {
                seen.push((field, reader.natural(9, "field")?));
                Ok(())
            });
            outcome.map(|()| (seen, reader.left()))
        };
        let both = Ok((vec![(0, 1), (1, 2)], 0));
        assert_eq!(read(&[0x92, 1, 2]), both);
        assert_eq!(read(b"\x83\xa1b\x02\xa1z\x91\xc0\xa1a\x01"), both);
        for bytes in
            [&b"\x91\x01"[..], b"\x93\x01\x02\x03", b"\x81\xa1a\x01", b"\x83\xa1a\x01\xa1b\x02\xa1a\x01", b"\x82\x00\x01\x01\x02", b"\xc0"]
        {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
