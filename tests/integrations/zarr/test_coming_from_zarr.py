"""Every row of docs/coming-from-zarr.md, with both libraries."""

from __future__ import annotations

import ast
import json
import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from tests.integrations.versions import OLD_ZARR

import frazil
from frazil.errors import InvalidInputError, SelectionError

PAGE = (Path(__file__).parents[3] / "docs" / "coming-from-zarr.md").read_text()
ROWS = re.findall(r"^\| `(.+?)` \| (.*?) ?\|$", PAGE, re.MULTILINE)
NOTHING = object()
HAS_RICH = find_spec("rich") is not None or not OLD_ZARR  # with which zarr-python 3.0 draws trees


def results(library: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The values of the rows; NOTHING for statements, the error if zarr-python refuses as documented."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"zarr": library, "np": np, "numcodecs": numcodecs, "x": np.arange(16.0).reshape(4, 4)}
    found: list[Any] = []
    for code, difference in ROWS:
        if library is zarr and ".tree()" in code and not HAS_RICH:
            found.append(NOTHING)
            continue
        try:
            if isinstance(ast.parse(code).body[0], ast.Expr):
                found.append(eval(code, names))
            else:
                exec(code, names)
                found.append(NOTHING)
        except Exception as error:
            if library is not zarr or "zarr-python refuses" not in difference:
                raise AssertionError(f"{library.__name__}: {code}: {type(error).__name__}: {error}") from error
            found.append(error)
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(ROWS) > 50
    theirs = results(zarr, tmp_path / "zarr", monkeypatch)
    ours = results(frazil, tmp_path / "frazil", monkeypatch)
    for (code, difference), their, our in zip(ROWS, theirs, ours, strict=True):
        if (
            difference
            or isinstance(our, frazil.Array | frazil.Group)
            or code.startswith(("a.append", "a.resize", "zarr.save"))
        ):
            continue
        if isinstance(their, np.ndarray):
            assert np.array_equal(np.asarray(our), their), code
            assert np.asarray(our).dtype == their.dtype, code
        else:
            assert our == their, code


@pytest.mark.skipif(OLD_ZARR, reason="zarr-python 3.0 has no times in Zarr v3")
def test_times_without_a_fill_value_are_nat_in_both(tmp_path: Path) -> None:
    for zarr_format in (2, 3):
        path = tmp_path / f"{zarr_format}.zarr"
        frazil.create_array(path, shape=(2,), dtype="M8[s]", zarr_format=zarr_format, fill_value=None)
        for library in (frazil, zarr):
            assert np.isnat(library.open_array(path, mode="r")[...]).all()


def test_values_of_a_dict_are_bytes() -> None:
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    frazil.create_array(store=ours, data=np.arange(3))
    zarr.create_array(store=theirs, data=np.arange(3))
    assert {type(value) for value in ours.values()} == {bytes} and ours.keys() == theirs.keys()
    assert json.loads(ours["zarr.json"])["shape"] == json.loads(theirs["zarr.json"].to_bytes())["shape"] == [3]


def test_statements_of_the_user_guide_that_do_not_run() -> None:
    """Those that the page names, and what it names instead."""
    assert {"to_bytes", "CacheStore", "GroupMetadata", "enable_gpu", "create_group(store=None)"} <= set(
        re.findall(r"to_bytes|CacheStore|GroupMetadata|enable_gpu|create_group\(store=None\)", PAGE)
    )
    with pytest.raises(InvalidInputError, match="memory of the CPU"):
        frazil.config.enable_gpu()
    with pytest.raises(InvalidInputError, match="no location is given"):
        frazil.create_group(store=None)
    with pytest.raises(AttributeError, match="CachingStore"):
        frazil.experimental  # type: ignore[attr-defined]
    created = dict(frazil.create_hierarchy(store={}, nodes={"a/b": {}}))
    assert isinstance(created["a/b"], frazil.Group)
    assert frazil.stores.CachingStore(frazil.stores.MemoryStore(), 2**20).list() == []


def test_arrays_without_dimensions_have_no_rows() -> None:
    ours, theirs = (library.create_array({}, shape=(), dtype="f8") for library in (frazil, zarr))
    assert list(theirs) == [] and theirs.append(1) == ()
    for call in (lambda: list(ours), lambda: ours.append(1), lambda: len(ours)):
        with pytest.raises(SelectionError):
            call()


def test_members_are_an_iterator() -> None:
    ours, theirs = (library.group() for library in (frazil, zarr))
    for group in (ours, theirs):
        group.create_array("x", shape=(3,), dtype="i4")
    assert [name for name, _ in tuple(ours.members())] == [name for name, _ in theirs.members()]
    assert iter(ours.members()) is not None and isinstance(theirs.members(), tuple)


@pytest.mark.skipif(OLD_ZARR, reason="zarr-python 3.0 has neither structs nor raw bytes in Zarr v3")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("dtype", "name", "since"), [([("a", "i4"), ("b", "f8")], "struct", (3, 2)), ("V4", "r32", (99,))]
)
def test_structs_and_raw_bytes(tmp_path: Path, dtype: Any, name: str, since: tuple[int, ...]) -> None:
    values = np.zeros(2, dtype)
    values[0] = (1, 2.5) if values.dtype.names else np.void(b"abcd")
    for zarr_format in (2, 3):
        for library in (frazil, zarr):
            library.create_array(tmp_path / f"{library.__name__}{zarr_format}", data=values, zarr_format=zarr_format)
        assert np.array_equal(frazil.open_array(tmp_path / f"zarr{zarr_format}")[...], values)
    assert np.array_equal(zarr.open_array(tmp_path / "frazil2")[...], values)
    document = json.loads((tmp_path / "frazil3" / "zarr.json").read_text())
    assert document["data_type"] == name or document["data_type"]["name"] == name
    if tuple(int(part) for part in zarr.__version__.split(".")[:2]) >= since:
        assert np.array_equal(zarr.open_array(tmp_path / "frazil3")[...], values)
    else:
        with pytest.raises(ValueError, match="data type"):
            zarr.open_array(tmp_path / "frazil3")
