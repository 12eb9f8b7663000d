"""A title and a small table in HTML, for notebooks. All text is escaped; there are no scripts. html.py and api/ give the content of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from frazil.errors import one_line

MOST_ROWS: Final = 50  # members of a group, commits of a history
_LONGEST: Final = 500  # characters of a cell, such as an attribute
_SHORT: Final = 30  # characters that stay on one line, such as the id and time of a commit
_BREAK: Final = "overflow-wrap: anywhere"  # a long word is broken, so that no table is wider than the page


def table(title: str, rows: Iterable[Sequence[str]], more: int | None = 0) -> str:
    """A table of text. The first cell of a row is its name; more: rows that are left out, None where their number is not known."""
    lines = [f'<div><strong style="{_BREAK}">{_escaped(title)}</strong><table><tbody>']
    for name, *cells in rows:
        lines.append(f"<tr>{_cell('th', name)}{''.join(_cell('td', cell) for cell in cells)}</tr>")
    lines.append("</tbody></table>")
    if more != 0:
        lines.append(f"<div>and {'more' if more is None else f'{more} more'}</div>")
    return "\n".join([*lines, "</div>"])


def _cell(tag: str, text: str) -> str:
    wrap = "white-space: nowrap" if len(text) <= _SHORT else _BREAK
    return f'<{tag} style="text-align: left; vertical-align: top; {wrap}">{_escaped(text)}</{tag}>'


def _escaped(text: str) -> str:
    shown = one_line(text)
    return escape(shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…")
