"""Conversions with unexpected input: a source that was changed after an interruption, damage, and obstacles."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.operations.hierarchies import content, fill

import frazil
from frazil.codecs import Bytes, Zstd
from frazil.errors import AlreadyExistsError, ChecksumError, ConversionError, FrazilError, InvalidInputError
from frazil.stores import LocalStore, MemoryStore, Store

VALUES = np.arange(8, dtype="i4")


class Stopped(Exception):
    """Changed by the user."""


def interrupt(source: Store, destination: Store, after: int, **options: object) -> None:
    calls = 0

    def progress(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == after:
            raise Stopped

    with pytest.raises(Stopped):
        frazil.convert(source, destination, progress=progress, **options)  # type: ignore[arg-type]


def two_arrays(store: Store, zarr_format: int | str, **options: object) -> frazil.Array:
    root = frazil.create_group(store, zarr_format=zarr_format)
    root.create_array("b", data=VALUES, chunks=2, **options)  # type: ignore[arg-type]
    return root.create_array("a", data=VALUES, chunks=2, **options)  # type: ignore[arg-type]


def stores(tmp_path: Path, kind: str) -> tuple[Store, Store]:
    if kind == "memory":
        return MemoryStore(), MemoryStore()
    return LocalStore(tmp_path / "source"), LocalStore(tmp_path / "destination")


@pytest.mark.parametrize("kind", ["local", "memory"])
@pytest.mark.parametrize("way", ["bytes", "shard index", "recoded"])
def test_chunks_changed_after_an_interruption_are_copied_again(way: str, kind: str, tmp_path: Path) -> None:
    source, destination = stores(tmp_path, kind)
    options: dict[str, object] = {"codecs": [Bytes("little")]}
    if way == "shard index":
        options["shards"] = 4
    if way == "recoded":
        options["codecs"] = [Bytes("little"), Zstd(1)]
    array = two_arrays(source, 3, **options)
    to: dict[str, object] = {"zarr_format": "draft", "recode": way == "recoded"}
    interrupt(source, destination, 3 if way == "recoded" else 1, **to)
    assert any(key.startswith("data/a") for key in destination.list())
    array[...] = VALUES + 100
    done = frazil.convert(source, destination, **to)  # type: ignore[arg-type]
    assert {converted.way for converted in done.arrays} == {way}
    assert (frazil.open_array(destination, path="a")[...] == VALUES + 100).all()
    assert (frazil.open_array(destination, path="b")[...] == VALUES).all()


@pytest.mark.parametrize("recode", [False, True])
def test_moved_chunks_are_not_moved_again(recode: bool, tmp_path: Path) -> None:
    source, destination = stores(tmp_path, "local")
    two_arrays(source, 3, codecs=[Bytes("little"), Zstd(1)] if recode else [Bytes("little")])
    interrupt(source, destination, 3 if recode else 1, zarr_format="draft", recode=recode)
    later = [path for path in (tmp_path / "destination" / "data").rglob("*") if path.is_file()]
    for path in later:
        os.utime(path, ns=(path.stat().st_mtime_ns + 10**10,) * 2)
    done = frazil.convert(source, destination, zarr_format="draft", recode=recode)
    assert sum(array.found for array in done.arrays) == len(later) == (3 if recode else 4)
    for name in "ab":
        assert (frazil.open_array(destination, path=name)[...] == VALUES).all()


# --- damage --------------------------------------------------------------------------------------------------------------------------


def damaged(store: Store, *, nested: bool = False) -> Store:
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    configuration = {"chunk_shape": [1], "codecs": [little], "index_codecs": [little, {"name": "crc32c"}]}
    inner = [{"name": "sharding_indexed", "configuration": configuration}]
    root = frazil.create_group(store)
    root.create_array("ok", data=VALUES, chunks=2, codecs=[Bytes("little")])
    codecs = inner if nested else [Bytes("little")]
    root.create_array("sharded", data=VALUES, chunks=2, shards=4, codecs=codecs)  # type: ignore[arg-type]
    if nested:  # in the index of its first inner shard
        store.update("sharded/c/1", lambda old: (old or b"")[:27] + b"xxxx" + (old or b"")[31:])
    else:
        store.update("sharded/c/1", lambda old: (old or b"")[:-1] + bytes([(old or b"")[-1] ^ 1]))
    return store


@pytest.mark.parametrize("nested", [False, True])
def test_a_damaged_index_stops_a_conversion_in_place_before_it_begins(nested: bool, tmp_path: Path) -> None:
    for store in (LocalStore(tmp_path / "x"), MemoryStore()):
        before = content(damaged(store, nested=nested))
        for dry_run in (True, False):
            with pytest.raises(ChecksumError) as caught:
                frazil.convert(store, zarr_format="draft", dry_run=dry_run)
            assert caught.value.key == "sharded/c/1"
            assert content(store) == before


def test_a_damaged_index_stops_it_before_the_destination_is_removed(tmp_path: Path) -> None:
    source, destination = damaged(LocalStore(tmp_path / "x")), fill(LocalStore(tmp_path / "y"))
    before = content(destination)
    for dry_run in (True, False):
        with pytest.raises(ChecksumError):
            frazil.convert(source, destination, zarr_format="draft", overwrite=True, dry_run=dry_run)
        assert content(destination) == before


# --- obstacles -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "blocking",
    ["a", "a/c", "a/c/0/x", "a/zarr.json/x", "a/c/1/", "a/zarr.json/", "g", "g/x/c/0", "__frazil_convert.json/x"],
)
def test_files_where_folders_are_needed_and_the_other_way_round(blocking: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "x")
    root = frazil.create_group(store, zarr_format="draft")
    root.create_array("a", data=VALUES, chunks=2)
    root.create_array("g/x", data=np.ones((2, 2)), chunks=(1, 1))
    path = tmp_path / "x" / blocking
    if blocking.endswith("/"):
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    before = content(store)
    for dry_run in (True, False):
        with pytest.raises(AlreadyExistsError) as caught:
            frazil.convert(store, dry_run=dry_run)
        assert (caught.value.key or "").startswith(blocking.rstrip("/"))
        assert content(store) == before
    assert path.exists()
    path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "x" / "a").mkdir(exist_ok=True)
    (tmp_path / "x" / "a" / "notes.txt").write_text("in nobody's way")
    for folder in ("a/c/0", "a/zarr.json", "__frazil_convert.json"):
        if (tmp_path / "x" / folder).is_dir():
            (tmp_path / "x" / folder).rmdir()
    assert frazil.convert(store).left_behind == 1
    assert (frazil.open_array(store, path="a")[...] == VALUES).all()


# --- names and members without meaning ------------------------------------------------------------------------------------------------


def test_opaque_bytes_have_the_name_that_programs_of_the_dialect_read() -> None:
    for name in ("r24", {"name": "raw_bytes", "configuration": {"length_bytes": 3}}):
        store, data = MemoryStore(), np.array([b"abc", b"def"], "V3")
        frazil.create_array(store, shape=2, dtype=name, codecs=[Bytes()], fill_value=np.void(b"xyz"))[...] = data
        for target, label in (("draft", "r24"), (3, "raw_bytes"), ("draft-2021", "r24"), (3, "raw_bytes")):
            frazil.convert(store, zarr_format=target)
            array = frazil.open_array(store)
            assert array.metadata.data_type.name == label
            assert array[...].tobytes() == data.tobytes()
            assert array.metadata.fill_value.data == b"xyz"
        copy = MemoryStore()
        frazil.create_array(store, path="", shape=2, dtype=name, codecs=[Bytes()], overwrite=True)
        frazil.convert(store, copy)
        assert content(copy) == content(store), "a copy keeps its name"


@pytest.mark.parametrize("target", ["draft", "draft-2021"])
def test_codecs_and_names_without_effect_are_dropped(target: str) -> None:
    store, to = MemoryStore(), MemoryStore()
    idle = {"name": "transpose", "configuration": {"order": [0]}}
    options = {"data": VALUES, "chunks": 2, "dimension_names": [None]}
    codecs = [idle, {"name": "bytes", "configuration": {"endian": "little"}}]
    frazil.create_array(store, path="plain", codecs=codecs, **options)  # type: ignore[arg-type]
    frazil.create_array(store, path="sharded", shards=4, codecs=codecs, **options)  # type: ignore[arg-type]
    done = frazil.convert(store, to, zarr_format=target)
    assert [array.way for array in done.arrays] == ["bytes", "shard index"]
    for path in ("plain", "sharded"):
        assert (frazil.open_array(to, path=path)[...] == VALUES).all()
    frazil.convert(to)
    assert frazil.open_array(to, path="plain").metadata.dimension_names is None


def test_progress_must_be_a_function() -> None:
    store, to = fill(MemoryStore()), MemoryStore()
    with pytest.raises(InvalidInputError, match="progress"):
        frazil.convert(store, to, progress=5)  # type: ignore[arg-type]
    assert to.list() == []


def test_a_refusal_in_place_names_the_dialects_and_the_way_between() -> None:
    store = MemoryStore()
    frazil.create_array(store, path="meta/x", data=VALUES, zarr_format="draft-2021")
    with pytest.raises(ConversionError, match="cannot be converted in place, for 1 reason;") as caught:
        frazil.convert(store, zarr_format="draft")
    assert isinstance(caught.value, FrazilError)
    assert "through final Zarr v3" in (caught.value.hint or "")
    assert "cannot express" not in str(caught.value)
