//! `indent_json`: JSON text in one line, as Python's json module makes it quickly, to the same text over several lines, which that module makes slowly.
//!
//! Only white space is added. What the text means is not known here.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::Bytes;

/// Calls `add` with the parts of the indented text, in their order; a line break is followed by this many spaces.
fn indented(text: &[u8], indent: usize, add: &mut impl FnMut(&[u8], usize)) {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(&byte) = text.get(at) {
        let end = at
            + match byte {
                b'"' => string_length(&text[at..]),
                b'{' | b'[' if matches!(text.get(at + 1), Some(b'}' | b']')) => 2,
                b'{' | b'[' | b'}' | b']' | b',' => 1,
                _ => text[at..].iter().position(|byte| b"\"{}[],".contains(byte)).unwrap_or(text.len() - at),
            };
        let part = &text[at..end];
        at = end;
        match part {
            b"{" | b"[" => {
                depth += 1;
                add(part, 0);
                add(b"\n", depth * indent);
            }
            b"}" | b"]" => {
                depth = depth.saturating_sub(1);
                add(b"\n", depth * indent);
                add(part, 0);
            }
            b"," => {
                add(part, 0);
                add(b"\n", depth * indent);
            }
            _ => add(part, 0),
        }
    }
}

/// The length of a string with its quotes; up to the end of the text if it has none.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match text.get(at..).and_then(|rest| rest.iter().position(|byte| b"\"\\".contains(byte))) {
            None => return text.len(),
            Some(found) if text[at + found] == b'"' => return at + found + 1,
            Some(found) => at += found + 2,
        }
    }
}

#[pyfunction]
pub fn indent_json<'py>(py: Python<'py>, text: &Bound<'py, PyAny>, indent: usize) -> PyResult<Bound<'py, PyBytes>> {
    let text = Bytes::new(text, "text")?;
    let text = text.as_slice();
    let mut size = 0usize;
    indented(text, indent, &mut |part, spaces| size = size.saturating_add(part.len()).saturating_add(spaces));
    PyBytes::new_with(py, size, |room| {
        let mut at = 0;
        indented(text, indent, &mut |part, spaces| {
            room[at..at + part.len()].copy_from_slice(part);
            at += part.len() + spaces;
            room[at - spaces..at].fill(b' ');
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_is_added() {
        for (text, expected) in [
            (
                r#"{"a": [1,{"b": ",]\\"}],"c": {},"d": []}"#,
                "{\n \"a\": [\n  1,\n  {\n   \"b\": \",]\\\\\"\n  }\n ],\n \"c\": {},\n \"d\": []\n}",
            ),
            ("1.5", "1.5"),
            (r#""\"{""#, r#""\"{""#),
            (r#"["\"#, "[\n \"\\"),
            ("]]", "\n]\n]"),
        ] {
            let mut made = String::new();
            indented(text.as_bytes(), 1, &mut |part, spaces| {
                made.push_str(std::str::from_utf8(part).unwrap());
                made.push_str(&" ".repeat(spaces));
            });
            assert_eq!(made, expected);
        }
    }
}
