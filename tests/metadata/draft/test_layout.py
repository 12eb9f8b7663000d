"""Keys of the draft of 2022, and the results of listings of them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.metadata.draft.entry_point import Entry, JsonEncoding, new_entry
from frazil.metadata.draft.layout import DraftLayout, new_layout
from frazil.metadata.layout import Candidate
from frazil.metadata.model import ArrayMetadata, GroupMetadata

NEW, OLD = new_layout("", old=False), new_layout("", old=True)


@pytest.mark.rule("D67", "D68", "D69", "X1", "Z2")
@pytest.mark.parametrize(
    ("layout", "path", "array", "group", "data"),
    [
        (NEW, "", "meta/array.json", "meta/group.json", "data/"),
        (NEW, "foo/bar", "meta/foo/bar.array.json", "meta/foo/bar.group.json", "data/foo/bar/"),
        (OLD, "", "meta/root.array.json", "meta/root.group.json", "data/root/"),
        (OLD, "foo", "meta/root/foo.array.json", "meta/root/foo.group.json", "data/root/foo/"),
        (new_layout("x/y/", old=False), "a", "x/y/meta/a.array.json", "x/y/meta/a.group.json", "x/y/data/a/"),
    ],
)
def test_keys(layout: DraftLayout, path: str, array: str, group: str, data: str) -> None:
    assert layout.document_keys(path) == (array, group)
    assert layout.document_key(path, ArrayMetadata) == array
    assert layout.document_key(path, GroupMetadata) == group
    assert layout.data_prefix(path) == data
    assert pickle.loads(pickle.dumps(layout)) == layout


@pytest.mark.rule("D51", "D72", "X23")
@pytest.mark.parametrize("layout", [NEW, OLD, new_layout("deep/", old=True)], ids=["new", "old", "deep"])
def test_children(layout: DraftLayout) -> None:
    base = layout.documents_prefix("")
    keys = [base + name for name in ("array.json", "group.json", "b.array.json", "c.group.json", "x.array.array.json")]
    found = layout.children("", [*keys, base + ".zmetadata", base + "...array.json"], [base + "c/", base + "d/"])
    assert found == [
        Candidate("b", (base + "b.array.json",)),
        Candidate("c", (base + "c.group.json",), True),
        Candidate("d", (), True),
        Candidate("x.array", (base + "x.array.array.json",)),
    ]


@pytest.mark.rule("D73", "Z13")
@pytest.mark.parametrize("layout", [NEW, OLD], ids=["new", "old"])
def test_all_nodes_of_one_listing(layout: DraftLayout) -> None:
    base = layout.documents_prefix("")
    names = (
        "a/b/c.array.json",
        "a.group.json",
        "a-/x.group.json",
        "consolidated/.zmetadata",
        "z.array.json",
        "z/y.array.json",
    )
    found = layout.descendants("", sorted(base + name for name in names))
    assert [(candidate.path, bool(candidate.keys), candidate.group) for candidate in found] == [
        ("a", True, True),
        ("a/b", False, True),
        ("a/b/c", True, False),
        ("a-", False, True),
        ("a-/x", True, True),
        ("consolidated", False, True),
        ("z", True, False),
    ], "depth first, and nothing below an array"


@pytest.mark.rule("D2", "D72")
def test_an_array_wins_over_a_group_and_a_prefix() -> None:
    found = NEW.children("", ["meta/a.array.json", "meta/a.group.json"], ["meta/a/"])
    assert found == [Candidate("a", ("meta/a.array.json",))]


@pytest.mark.rule("D7")
@pytest.mark.parametrize("name", ["", ".", "...", "a b", "ä", "a/b"])
def test_names_that_no_node_has(name: str) -> None:
    with pytest.raises(InvalidInputError):
        NEW.check_name(name)


@pytest.mark.rule("D7", "D8")
@pytest.mark.parametrize("name", ["zarr.json", "__x", "c0", "root", "x.array", "x.group", "A", "-", "_", "a.b"])
def test_names_that_nodes_may_have(name: str) -> None:
    assert NEW.check_name(name) == OLD.check_name(name) == name


NAMES = st.sampled_from(
    ["a", "b", "a-", "x.array", "x.group", "group", "array", "root", "c0", "zarr.json", "a.array.json"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@st.composite
def any_layout(draw: st.DrawFn) -> DraftLayout:
    """In either dialect, anywhere in its store, with any suffix of documents."""
    old, suffix = draw(st.booleans()), draw(st.sampled_from([".json", "", ".bin", ".group", ".array.json", "group"]))
    return DraftLayout(
        draw(st.sampled_from(["", "in/here/"])), Entry(old, suffix, JsonEncoding(), (), new_entry(old=old))
    )


def level_of(keys: list[str], prefix: str) -> tuple[list[str], list[str]]:
    """The result of list_dir."""
    below = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
    prefixes = {prefix + rest.partition("/")[0] + "/" for rest in below if "/" in rest}
    return [prefix + rest for rest in below if "/" not in rest], sorted(prefixes)


@pytest.mark.rule("D51", "D67", "D68", "D70", "D72", "D73", "X15", "X22")
@given(any_layout(), st.dictionaries(PATHS, st.booleans(), max_size=6))
def test_listings_show_the_nodes_that_were_made(layout: DraftLayout, requested: dict[str, bool]) -> None:
    arrays = {path for path, is_array in requested.items() if is_array}
    nodes = {
        path: kind for path, kind in requested.items() if not any(path.startswith(f"{array}/") for array in arrays)
    }
    keys = sorted(
        layout.document_key(path, ArrayMetadata if is_array else GroupMetadata)
        for path, is_array in {**nodes, "": False}.items()
    )
    groups = {path[:at] for path in nodes for at in range(len(path)) if path[at] == "/"}
    expected = sorted({*nodes, *groups}, key=lambda path: path.split("/"))
    found = layout.descendants("", [key for key in keys if key.startswith(layout.documents_prefix(""))])
    assert [candidate.path for candidate in found] == expected
    for candidate in found:
        assert candidate.group == (not nodes.get(candidate.path, False))
        if candidate.path in nodes:
            assert candidate.keys
            assert candidate.keys[0] in keys
        else:
            assert candidate.keys == ()
    for group in ["", *(path for path in expected if not nodes.get(path, False))]:
        level = layout.children(group, *level_of(keys, layout.documents_prefix(group)))
        depth = group.count("/") + (group != "")
        below = [other for other in found if other.path.startswith(f"{group}/" if group else "")]
        assert level == [candidate for candidate in below if candidate.path.count("/") == depth]
