"""The size rules on made-up texts."""

from __future__ import annotations

from tests.rules.sizes import long_bodies, long_files, python_bodies, rust_bodies


def test_long_files() -> None:
    sources = {"a.py": "x = 1\n" * 500, "b.py": "x = 1\n" * 501, "c.rs": "//\n" * 501}
    assert [line.split(":")[0] for line in long_files(sources, {"c.rs": "a table"})] == ["b.py"]


def test_python_bodies_leave_the_docstring_out() -> None:
    text = 'def f(\n    a,\n):\n    """One.\n\n    Two."""\n    x = 1\n\n    return (\n        x\n    )\n\n\ndef g():\n    """Nothing else."""\n'
    assert dict(python_bodies(text)) == {"f": 5, "g": 0}


def test_long_bodies() -> None:
    def function(name: str, lines: int) -> str:
        return f"def {name}():\n" + "    x = 1\n" * lines

    sources = {"a.py": function("short", 60) + function("long", 61) + function("listed", 70)}
    (found,) = long_bodies(sources, {"a.py listed": "one table"})
    assert "long has 61" in found
    assert len(long_bodies({"b.rs": "fn long() {\n" + "    x();\n" * 61 + "}\n"}, {})) == 1


RUST = r"""
//! fn in_a_comment() {
/* fn in_another() { */
pub fn one<'a, const N: usize>(x: &'a [u8; 4], f: impl Fn(u8) -> u8) -> Result<(), [u8; N]>
where
    [u8; N]: Sized,
{
    let brace = '{';
    let text = "}} fn no() { \" }";
    let raw = r#"fn no() { " "#;
    let byte = b'\'';
    Ok(())
}

trait Reader {
    fn declared(&self, n: [u8; 3]) -> u8;
    fn empty(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn tested() {
        let y = 1;
    }
}

fn after_the_tests() {
    // a comment is a line as well
    go();
}
"""


def test_rust_bodies() -> None:
    assert dict(rust_bodies(RUST)) == {"one": 5, "empty": 0, "after_the_tests": 2}
