"""A title and a small table in HTML, for notebooks. All text is escaped; there are no scripts. html.py and api/ decide what is in the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from frazil.errors import one_line

__all__ = ["MOST_ROWS", "table"]

MOST_ROWS: Final = 50  # members of a group, commits of a history
_LONGEST: Final = 500  # characters of a cell, such as an attribute
_LEFT: Final = ' style="text-align: left; vertical-align: top"'


def table(title: str, rows: Iterable[Sequence[str]], more: int | None = 0) -> str:
    """A table of text. The first cell of a row is its name; more: rows that are left out, None where their number is not known."""
    lines = [f"<div><strong>{_escaped(title)}</strong><table><tbody>"]
    for name, *cells in rows:
        shown = "".join(f"<td{_LEFT}>{_escaped(cell)}</td>" for cell in cells)
        lines.append(f"<tr><th{_LEFT}>{_escaped(name)}</th>{shown}</tr>")
    lines.append("</tbody></table>")
    if more != 0:
        lines.append(f"<div>and {'more' if more is None else f'{more} more'}</div>")
    return "\n".join([*lines, "</div>"])


def _escaped(text: str) -> str:
    shown = one_line(text)
    return escape(shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…")
