"""Notebook output: escaped titles and tables of arrays, groups, repositories and histories; and name completion at a prompt."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.array.interface.html_table import MOST_ROWS, table
from frazil.errors import StoreError
from frazil.testing import CountingStore

BAD = '<script>alert("&")</script>\n'


class Reader(HTMLParser):
    """Open tags, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.cells.append(data)


def shown(value: Any) -> list[str]:
    """The text that a notebook shows of a value, cell by cell."""
    reader = Reader(value._repr_html_())
    assert reader.tags <= {"div", "strong", "table", "tbody", "tr", "th", "td"}
    return reader.cells


@given(st.text(), st.lists(st.tuples(st.text(), st.text())))
def test_all_text_is_escaped(title: str, rows: list[tuple[str, str]]) -> None:
    reader = Reader(table(title, rows))
    assert reader.tags <= {"div", "strong", "table", "tbody", "tr", "th", "td"}
    assert Reader(table("t", [("", title)])).cells[1:] == ([shown_text(title)] if shown_text(title).strip() else [])


def shown_text(text: str) -> str:
    escaped = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
    return escaped if len(escaped) <= 500 else escaped[:500] + "…"


def test_arrays() -> None:
    store = CountingStore(frazil.stores.MemoryStore())
    array = frazil.create_array(
        store,
        path="a/t",
        shape=(30, 40),
        dtype="<f4",
        chunks=(5, 5),
        shards=(10, 10),
        attributes={"note": BAD},
        dimension_names=("y", None),
    )
    store.clear()
    cells = shown(array)
    assert store.count() == 0, "what is stored is not looked for"
    assert cells[:1] == ["frazil.Array /a/t"]
    pairs = dict(zip(cells[1::2], cells[2::2], strict=True))
    assert pairs["shape"] == "30 x 40"
    assert pairs["chunks"] == "5 x 5"
    assert pairs["dimensions"] == "y, -"
    assert pairs["attribute note"] == BAD.replace("\n", "\\n")
    assert "stored" not in pairs
    assert "stored" in shown(array.info)


def test_groups() -> None:
    group = frazil.create_group("memory://notebook", attributes={BAD: 1}, overwrite=True)
    group.create_array("t", shape=(3, 4), dtype="i2")
    group.create_group(BAD.strip().replace("/", ""))
    cells = shown(group)
    assert cells[0] == "frazil.Group /"
    assert "3 x 4 int16" in cells
    assert f"{BAD.strip().replace('/', '')}/" in cells
    assert group._ipython_key_completions_() == sorted(group)
    assert group["t"].attrs._ipython_key_completions_() == []
    assert group.attrs._ipython_key_completions_() == [BAD]
    for i in range(MOST_ROWS):
        group.create_group(f"g{i}")
    assert shown(group)[-1] == "and 2 more"


class Unlisted(frazil.stores.WrappedStore):
    def list_page(self, *args: Any, **kwargs: Any) -> Any:
        raise StoreError("no listing today")


def test_a_group_that_cannot_be_listed() -> None:
    store = frazil.stores.MemoryStore()
    frazil.create_group(store)
    group = frazil.open_group(Unlisted(store))
    assert "cannot be listed: no listing today" in shown(group)


def test_repositories_and_histories(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo")
    for message in ("one", BAD):
        with repo.transaction("main", message=message) as root:
            root.create_array(message[:3].strip("<"), data=np.arange(3))
    repo.create_tag("v1", "main")
    cells = shown(repo)
    assert cells[1:] == ["branch main", repo.lookup("main"), "tag v1", repo.lookup("v1")]
    history = repo.history()
    newest = next(history)
    assert newest.id in shown(history), "it is shown from its beginning"
    assert BAD.replace("\n", "\\n") in shown(history)
    assert repr(history).splitlines()[0] == repr(newest), "in a terminal, too"
    assert len(list(history)) == 2
    session = repo.readonly_session("main")
    assert list(session) == session._ipython_key_completions_() == ["one", "sc"]
    assert session["one"][2] == 2
    assert "one" in session
    assert "two" not in session
