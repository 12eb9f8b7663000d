"""Conversions into a session of a repository: hierarchies of Zarr v2 and of other chunk keys become final Zarr v3 there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.cli.main import main
from frazil.errors import AlreadyExistsError, InvalidInputError, ReadOnlyError

NUMBERS, TEXT = np.arange(24.0).reshape(4, 6) + 1, ["a", "bb", "ccc"]


def old(location: Path) -> frazil.Group:
    root = frazil.create_group(location, zarr_format=2, attributes={"title": "old"})
    root.create_array("t", data=NUMBERS, chunks=(2, 3), dimension_names=["y", "x"], attributes={"units": "K"})
    root.create_array("below/text", data=np.array(TEXT), dtype="string")
    root.create_array("below/turned", data=NUMBERS.astype(">i2"), chunks=(1, 6), order="F", compressors={"id": "zlib"})
    root.create_array("below/one", shape=(), dtype="u1", fill_value=7)[...] = 9
    frazil.consolidate_metadata(location)
    return root


def check(root: frazil.Group) -> None:
    assert root.attrs.asdict() == {"title": "old"}
    t = root["t"]
    assert isinstance(t, frazil.Array)
    assert (t.dimension_names, t.attrs["units"], t.metadata.zarr_format) == (("y", "x"), "K", 3)
    np.testing.assert_array_equal(t[...], NUMBERS)
    assert root["below/text"][...].tolist() == TEXT  # type: ignore[union-attr]
    np.testing.assert_array_equal(root["below/turned"][...], NUMBERS)  # type: ignore[index]
    assert root["below/one"][...] == 9  # type: ignore[index]


def test_into_a_session(tmp_path: Path) -> None:
    old(tmp_path / "old.zarr")
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    session = repo.writable_session("main")
    would = frazil.convert(tmp_path / "old.zarr", session.store, dry_run=True)
    assert not session.has_changes
    done = frazil.convert(tmp_path / "old.zarr", session.store)
    assert done._replace(dry_run=True) == would
    assert {array.way for array in done.arrays} == {"bytes"}
    assert repo.readonly_session().root.attrs.asdict() == {}, "nothing is seen before the commit"
    session.commit("convert")
    check(repo.readonly_session().root)
    assert repo.verify().ok
    with pytest.raises(AlreadyExistsError, match="already"):
        frazil.convert(tmp_path / "old.zarr", repo.writable_session("main").store)
    session = repo.writable_session("main")
    session.root.create_group("other")
    frazil.convert(tmp_path / "old.zarr", session.store, overwrite=True)
    session.commit("again")
    check(repo.readonly_session().root)
    assert "other" not in repo.readonly_session().root
    with pytest.raises(ReadOnlyError):
        frazil.convert(tmp_path / "old.zarr", repo.readonly_session().store, overwrite=True)


def test_from_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, repository = tmp_path / "old.zarr", tmp_path / "sea.repo"
    old(source)
    repo = frazil.Repository.create(repository, durable=False)
    assert main(["convert", str(source), f"{repository}@main/a/b", "--dry-run"]) == 0
    assert f"to {repository}@main/a/b" in capfd.readouterr().out
    assert main(["convert", str(source), f"{repository}@main/a/b", "-m", "the old data", "--json"]) == 0
    output = json.loads(capfd.readouterr().out)
    newest = next(iter(repo.history()))
    assert (output["snapshot"], newest.message) == (newest.id, "the old data")
    check(repo.readonly_session().root["a/b"])  # type: ignore[arg-type]
    assert main(["convert", f"{source}/t", f"{repository}@main/t"]) == 0
    assert "committed as" in capfd.readouterr().out
    np.testing.assert_array_equal(repo.readonly_session().root["t"][...], NUMBERS)  # type: ignore[index]
    for arguments, problem in (
        ([f"{repository}@main/a/b"], "already"),
        ([f"{repository}@main/c", "--to", "2"], "only final Zarr v3"),
        ([f"{repository}@nothing/c"], "nothing"),
    ):
        assert main(["convert", str(source), *arguments]) == 1
        assert problem in capfd.readouterr().err
    assert main(["convert", str(source), str(tmp_path / "new.zarr"), "-m", "no"]) == 2
    assert next(iter(repo.history())).message == f"Convert {source}/t"


def test_chunk_keys_of_zarr_v3_are_left_out(tmp_path: Path) -> None:
    """A repository has no key encoding; the bytes of the chunks stay."""
    root = frazil.create_group(tmp_path / "sea.zarr")
    root.create_array(
        "t", data=NUMBERS, chunks=(2, 3), shards=(4, 6), chunk_key_encoding={"name": "v2", "separator": "/"}
    )
    session = frazil.Repository.create(tmp_path / "sea.repo", durable=False).writable_session("main")
    with pytest.raises(InvalidInputError, match="chunk key") as caught:
        frazil.copy(tmp_path / "sea.zarr", session.store)
    assert "frazil convert" in f"{caught.value}"
    session = frazil.Repository.open(tmp_path / "sea.repo").writable_session("main")
    frazil.convert(tmp_path / "sea.zarr", session.store)
    t = session.root["t"]
    assert isinstance(t, frazil.Array)
    assert t.shards == (4, 6)
    np.testing.assert_array_equal(t[...], NUMBERS)


def test_metadata_that_a_repository_cannot_hold_is_refused_first(tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path / "old.zarr", zarr_format=2)
    root.create_array("a", data=NUMBERS)
    root.create_array("b", data=np.zeros(3, [("x", "f4"), ("y", "i2")]))
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False, compatible="alpha-library")
    session = repo.writable_session("main")
    for dry_run in (True, False):
        with pytest.raises(InvalidInputError, match="cannot hold the data type"):
            frazil.convert(tmp_path / "old.zarr", session.store, dry_run=dry_run)
    assert not session.has_changes


def test_copies_of_zarr_v2_name_the_command(tmp_path: Path) -> None:
    old(tmp_path / "old.zarr")
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    session = repo.writable_session("main")
    for call in (
        lambda: frazil.copy(tmp_path / "old.zarr", session.store),
        lambda: frazil.create_group(session.store, path="x", zarr_format=2),
        lambda: frazil.create_array(session.store, path="x", shape=3, dtype="i4", zarr_format=2),
    ):
        with pytest.raises(InvalidInputError, match="holds Zarr v3") as caught:
            call()
        assert "frazil convert" in f"{caught.value}"
