"""Attributes of arrays and groups in plain stores, except for the tests in test_array.py and test_group.py."""

from __future__ import annotations

from typing import Any

import pytest

import frazil
from frazil.errors import InvalidInputError, MetadataError, NotFoundError
from frazil.metadata.json_text import DEPTH_LIMIT
from frazil.stores import MemoryStore


@pytest.mark.parametrize(("before", "after"), [(1, True), (0, False), (1, 1.0), ([1, {"a": 0}], [True, {"a": False}])])
def test_a_value_that_python_calls_equal_is_still_another(before: object, after: object) -> None:
    store = MemoryStore()
    group = frazil.create_group(store, attributes={"a": before})
    group.attrs["a"] = after
    kept = frazil.open_group(store).attrs["a"]
    assert repr(kept) == repr(after)


def test_the_same_value_is_not_written_again() -> None:
    store = MemoryStore()
    group = frazil.create_group(store, attributes={"a": 1})
    before = store.get_versioned("zarr.json")
    group.attrs["a"] = 1
    assert store.get_versioned("zarr.json") == before


@pytest.mark.parametrize("create", [frazil.create_array, frazil.create_group])
def test_many_attributes(create: Any) -> None:
    """More than are parsed again after they were written."""
    store, arguments = MemoryStore(), {"shape": 2, "dtype": "i4"} if create is frazil.create_array else {}
    attributes = {f"{at}": [at, at / 7, {"a": None, "b": True}, f"text {at}"][: at % 5] for at in range(1500)}
    node = create(store, attributes=attributes, **arguments)
    assert node.attrs.asdict() == attributes
    assert repr(node.metadata) == repr(frazil.open(store).metadata)
    node.attrs.update({"0": 1.0, "new": (2, 3)})
    changed = {**attributes, "0": 1.0, "new": [2, 3]}
    assert repr(node.attrs.asdict()) == repr(changed)
    assert repr(node.metadata) == repr(frazil.open(store).metadata)
    assert frazil.open(store).attrs.asdict() == changed


NESTED = {"x": [1, {"y": [2]}], "z": {"a": {"b": [3]}}, "n": 1, "t": "text"}


def owners() -> list[tuple[str, frazil.Array | frazil.Group]]:
    found: list[tuple[str, frazil.Array | frazil.Group]] = []
    for zarr_format in (3, "draft"):
        group = frazil.create_group(MemoryStore(), attributes=NESTED, zarr_format=zarr_format)
        found += [(f"group {zarr_format}", group)]
        found += [(f"array {zarr_format}", group.create_array("a", shape=2, dtype="i4", attributes=NESTED))]
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="x") as root:
        root.attrs.put(NESTED)
        root.create_array("a", shape=2, dtype="i4", attributes=NESTED)
    session = repo.writable_session()
    session.root.attrs["new"] = []
    del session.root.attrs["new"]
    found += [("session", session.root), ("array of a session", session.open("a"))]
    found += [("committed", repo.readonly_session().root)]
    return found


@pytest.mark.parametrize("name", [name for name, _ in owners()])
def test_returned_attributes_are_copies(name: str) -> None:
    node = dict(owners())[name]
    attrs: Any = node.attrs
    attrs["x"].append(2)
    attrs["x"][1]["y"].append(2)
    attrs.get("x").append(2)
    attrs["z"]["a"]["b"].append(2)
    attrs["z"]["a"]["c"] = 2
    for item in attrs.items():
        if isinstance(item[1], list):
            item[1].append(2)
    for value in attrs.values():
        if isinstance(value, dict):
            value.clear()
    everything = attrs.asdict()
    everything["x"][1]["y"].append(2)
    everything["z"]["a"] = 2
    everything.clear()
    dict(attrs)["x"].append(2)
    {**attrs}["x"].append(2)
    if isinstance(node, frazil.Array):
        attributes: Any = node.info.attributes
        attributes["x"].append(2)
    assert attrs.asdict() == NESTED == dict(attrs)
    assert repr(attrs) == f"Attributes({NESTED!r})"


def test_assigned_attributes_are_copied() -> None:
    given: Any = {"x": [1]}
    group = frazil.create_group(MemoryStore(), attributes=given)
    given["x"].append(2)
    values = [1, [2]]
    group.attrs["y"] = values
    group.attrs.update(z=values)
    values[1].append(3)  # type: ignore[union-attr]
    taken: Any = group.attrs.setdefault("w", values)
    taken.append(4)
    assert group.attrs.asdict() == {"x": [1], "y": [1, [2]], "z": [1, [2]], "w": [1, [2, 3]]}
    popped: Any = group.attrs.pop("x")
    popped.append(1)
    assert "x" not in group.attrs


@pytest.mark.parametrize(
    "value",
    [10**5000, [-(10**5000)], {"a": {"b": 10**5000}}, {10**5000: 1}, {"a": [{10**5000}]}],
    ids=["number", "in a list", "in objects", "as a name", "in a set"],
)
def test_numbers_of_too_many_digits_are_refused(value: object) -> None:
    groups = [frazil.create_group(MemoryStore()), frazil.Repository.create(MemoryStore()).writable_session().root]
    for group in groups:
        array = group.create_array("a", shape=2, dtype="i4")
        for node in (group, array):
            with pytest.raises(InvalidInputError):
                node.attrs["x"] = value
            with pytest.raises(InvalidInputError):
                node.attrs.update(x=value)
            assert node.attrs.asdict() == {}
        for create in (group.create_group, lambda name, **more: group.create_array(name, shape=2, dtype="i4", **more)):  # noqa: B023
            with pytest.raises(InvalidInputError):
                create("b", attributes={"x": value})
        assert "b" not in group
        with pytest.raises(NotFoundError):
            group.attrs[10**5000]  # type: ignore[index]
        with pytest.raises(InvalidInputError):
            group.attrs[10**5000] = 1  # type: ignore[index]


@pytest.mark.parametrize("create", [frazil.create_array, frazil.create_group])
@pytest.mark.parametrize("many", [0, 2000])
def test_attributes_that_nest_too_deep_are_refused(create: Any, many: int) -> None:
    """A document cannot be read with them."""
    store, arguments = MemoryStore(), {"shape": 2, "dtype": "i4"} if create is frazil.create_array else {}
    nested: Any = 1
    for _ in range(DEPTH_LIMIT - 2):
        nested = [nested]
    node = create(store, attributes={"a": nested, **{f"{at}": at for at in range(many)}}, **arguments)
    with pytest.raises(MetadataError, match="nest"):
        node.attrs["b"] = [nested]
    with pytest.raises(MetadataError, match="nest"):
        create(store, path="other", attributes={"a": [nested], **{f"{at}": at for at in range(many)}}, **arguments)
    assert frazil.open(store).attrs["a"] == nested
