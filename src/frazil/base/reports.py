"""The text of reports: numbers, extents and tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.errors import one_line


def human(nbytes: float) -> str:
    """A number of bytes in a readable unit."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if nbytes < 1024 or unit == "PiB":
            break
        nbytes /= 1024
    return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"


def counted(number: int, noun: str) -> str:
    """A number of things, as in "1,000 keys"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def extents_text(extents: Sequence[int]) -> str:
    return " x ".join(map(str, extents)) or "()"


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines. All columns but the last, which has names and messages of users, are flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), one_line(row[-1])])
        for row in rows
    ]
