"""Numbers, extents and tables of reports."""

from __future__ import annotations

from frazil.base.reports import columns, counted, extents_text, human


def test_numbers() -> None:
    assert [human(0), human(1023), human(1536), human(2**60)] == ["0 B", "1023 B", "1.5 KiB", "1024.0 PiB"]
    assert [counted(0, "key"), counted(1, "key"), counted(1000, "key")] == ["0 keys", "1 key", "1,000 keys"]


def test_extents() -> None:
    assert [extents_text((3, 4)), extents_text(())] == ["3 x 4", "()"]


def test_columns_are_flush_right_and_names_stay_on_one_line() -> None:
    assert columns([("bytes", "path"), ("1", "a\nb"), ("1,000,000", "c")]) == [
        "    bytes  path",
        "        1  a\\nb",
        "1,000,000  c",
    ]
