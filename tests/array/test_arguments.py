"""Arguments of any type in every public call: a wrong one raises an error of ours that names it, never one of Python's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.errors import FrazilError, InvalidInputError
from frazil.stores import MemoryStore

WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.lists(st.one_of(st.none(), st.integers(-2, 3), st.text(max_size=2)), max_size=3),
    st.dictionaries(st.one_of(st.text(max_size=2), st.integers()), st.integers(), max_size=2),
    st.sampled_from([(), object(), np.zeros(2), np.zeros((2, 2)), len, frozenset("a")]),
)
DIALECTS = st.sampled_from([3, "draft", "draft-2021"])
CALLS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (frazil.create_array, {"shape": (4,), "dtype": "i4", "path": "new"}),
    (frazil.create_group, {"path": "new"}),
    (frazil.open_array, {"path": "a"}),
    (frazil.open_array, {"path": "new", "mode": "a", "shape": 3, "dtype": "i4"}),
    (frazil.open_group, {}),
    (frazil.open, {}),
]
OF_GROUPS: dict[str, dict[str, Any]] = {
    "create_array": {"path": "new", "shape": (4,), "dtype": "i4"},
    "create_arrays": {"arrays": {"new": {"shape": 3, "dtype": "i4"}}},
    "create_group": {"path": "new"},
    "require_group": {"path": "new"},
    "require_array": {"path": "new", "shape": (4,), "dtype": "i4"},
    "remove": {"path": "a"},
    "members": {},
    "tree": {},
    "through": {"transformers": ()},
}


def hierarchy(zarr_format: Any = 3) -> MemoryStore:
    store = MemoryStore()
    frazil.create_group(store, zarr_format=zarr_format)
    frazil.create_array(store, path="a", shape=(4, 4), dtype="i4", chunks=(2, 2))
    return store


def ours(act: Callable[[], object]) -> None:
    try:
        with np.errstate(all="ignore"):  # NumPy warns of numbers that do not fit
            act()
    except FrazilError as error:
        assert error.message  # noqa: PT017


@pytest.mark.parametrize(("call", "arguments"), CALLS, ids=lambda value: getattr(value, "__name__", ""))
@given(data=st.data(), zarr_format=DIALECTS)
def test_functions(call: Callable[..., Any], arguments: dict[str, Any], data: st.DataObject, zarr_format: Any) -> None:
    names = [name for name in list(inspect.signature(call).parameters)[1:] if name != "arguments"]
    changed = {**arguments, data.draw(st.sampled_from(names)): data.draw(WRONG)}
    ours(lambda: call(hierarchy(zarr_format), **changed))


@pytest.mark.parametrize("name", OF_GROUPS)
@pytest.mark.filterwarnings("ignore:Data type alias 'a' was deprecated")  # of NumPy
@given(data=st.data(), zarr_format=DIALECTS)
def test_methods_of_groups(name: str, data: st.DataObject, zarr_format: Any) -> None:
    method = getattr(frazil.open_group(hierarchy(zarr_format), "r+"), name)
    names = [known for known in inspect.signature(method).parameters if known != "arguments"]
    changed = {**OF_GROUPS[name], data.draw(st.sampled_from(names)): data.draw(WRONG)}
    ours(lambda: list(method(**changed)) if name == "members" else method(**changed))


@settings(max_examples=200, deadline=None)
@given(WRONG, WRONG)
def test_arrays_and_attributes(wrong: Any, other: Any) -> None:
    array = frazil.open_array(hierarchy(), "r+", path="a")
    for act in (
        lambda: array.resize(wrong),
        lambda: array.append(wrong, other),
        lambda: array.append(np.zeros((1, 4)), wrong),
        lambda: array.read(wrong, out=other),
        lambda: array.read(out=wrong),
        lambda: array.through(wrong),
        lambda: array.attrs.put(wrong),
        lambda: array.attrs.update(wrong),
        lambda: array.attrs.__setitem__(wrong, other),
        lambda: array.attrs.__delitem__(wrong),
        lambda: array.attrs.get(wrong),
        lambda: wrong in array.attrs,
    ):
        ours(act)


@given(data=st.data())
def test_conversions(data: st.DataObject) -> None:
    names = ("zarr_format", "dry_run", "overwrite", "recode", "progress", "registry", "runtime")
    changed: dict[str, Any] = {"zarr_format": "draft", data.draw(st.sampled_from(names)): data.draw(WRONG)}
    ours(lambda: frazil.convert(hierarchy(), **changed))


@pytest.mark.parametrize("wrong", [None, 1, 0, "yes", [], np.zeros(2)], ids=repr)
def test_flags_are_true_or_false(wrong: Any) -> None:
    group = frazil.create_group(hierarchy("draft"), path="g")
    for name, act in (
        ("overwrite", lambda: group.create_array("x", shape=1, dtype="u1", overwrite=wrong)),
        ("explicit_groups", lambda: group.create_array("x", shape=1, dtype="u1", explicit_groups=wrong)),
        ("explicit_groups", lambda: group.create_group("x", explicit_groups=wrong)),
        ("explicit_groups", lambda: frazil.create_array(MemoryStore(), shape=1, dtype="u1", explicit_groups=wrong)),
        ("keep_parent", lambda: group.remove("x", keep_parent=wrong)),
    ):
        with pytest.raises(InvalidInputError, match=name):
            act()
    assert list(group) == []


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("mode", lambda store: frazil.open_array(store, [])),
        ("storage_transformers", lambda store: frazil.open_array(store, path="a", storage_transformers=None)),
        ("storage_transformers", lambda store: frazil.create_array(store, shape=1, dtype="u1", storage_transformers=5)),
        ("entry_point", lambda store: frazil.create_group(store, path="g", entry_point=5, zarr_format="draft")),
        ("zarr_format", lambda store: frazil.create_group(store, path="g", zarr_format=np.zeros(2))),
        ("max_depth", lambda store: list(frazil.open_group(store).members("x"))),
        ("max_depth", lambda store: frazil.open_group(store).tree(-1)),
        ("arrays", lambda store: frazil.open_group(store, "r+").create_arrays(None)),
        ("nonsense", lambda store: frazil.open_group(store, "r+").require_array("x", shape=1, dtype="u1", nonsense=1)),
        ("registry", lambda store: frazil.convert(store, zarr_format="draft", registry=None)),
        ("runtime", lambda store: frazil.convert(store, zarr_format="draft", runtime=None)),
        ("progress", lambda store: frazil.convert(store, zarr_format="draft", progress=5)),
    ],
)
def test_errors_name_the_wrong_argument(name: str, act: Callable[[MemoryStore], object]) -> None:
    with pytest.raises(InvalidInputError, match=name):
        act(hierarchy())
