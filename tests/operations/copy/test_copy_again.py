"""Resumed copies, and concurrent copies to one place: objects that are not proven to be copies are copied again, and one of two runs succeeds."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil import Runtime
from frazil.errors import AlreadyExistsError, StoreError
from frazil.operations.copy.copy import prepare_copy
from frazil.operations.copy.journal import JOURNAL_NAME
from frazil.stores import Capabilities, Fetched, LocalStore, MemoryStore, Store, WrappedStore
from frazil.stores.values import Columns
from frazil.testing import Fault, FaultPlan, FaultyStore


def content(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


class Digesting(WrappedStore):
    """A store whose versions are digests, like the ETags of S3."""

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(direct=False, conditional=False, guarded=False)

    def fetch(self, names: Sequence[str], spans: Columns, **options: Any) -> Fetched:
        found = self.inner.fetch(names, spans, **options)
        values = [self.inner.get(name) for name in names]
        versions = [None if value is None else hashlib.md5(value).hexdigest().encode() for value in values]
        return found._replace(versions=versions)


@pytest.mark.parametrize("kinds", list(itertools.product(["memory", "folder", "objects"], repeat=2)), ids="-".join)
def test_a_change_of_the_same_size_is_found_after_an_interruption(kinds: tuple[str, str], tmp_path: Path) -> None:
    """The source changes between the two runs, and keeps its size; nothing else reveals it."""
    makers = {
        "memory": lambda name: MemoryStore(),
        "folder": lambda name: LocalStore(tmp_path / name),
        "objects": lambda name: Digesting(MemoryStore()),
    }
    source, target = (makers[kind](name) for kind, name in zip(kinds, ("source", "target"), strict=True))
    for at in range(4):
        source.set(f"c/{at}", b"old value")
    source.set("zarr.json", b"{}")
    with pytest.raises(StoreError, match="injected"):
        frazil.copy(
            source, FaultyStore(target, FaultPlan([Fault("put_many", 3)])), runtime=Runtime(requests_in_flight=1)
        )
    if JOURNAL_NAME not in target.list():
        pytest.skip("nothing was copied")
    for at in range(4):
        source.set(f"c/{at}", b"new value")
    frazil.copy(source, target)
    assert content(target) == content(source)


# --- two copies to one place --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "folder"])
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("overwrite", [True, False])
def test_of_two_copies_to_one_place_one_succeeds(kind: str, same: bool, overwrite: bool, tmp_path: Path) -> None:
    """Both check the destination before either writes: then each is run, one within the other."""
    target = MemoryStore() if kind == "memory" else LocalStore(tmp_path / "target")
    if overwrite:
        target.set("old/c/0", b"old")
    first = {"zarr.json": b"{}", "c/0": b"first", "c/only": b"of the first"}
    second = first if same else {"zarr.json": b"{}", "c/0": b"second"}
    tasks = [prepare_copy(source, target, overwrite=overwrite) for source in (first, second)]
    tasks[0].run(lambda nbytes: None)
    if not overwrite:  # otherwise the second one replaces the objects of the first one
        with pytest.raises(AlreadyExistsError, match="another process writes"):
            tasks[1].run(lambda nbytes: None)
    assert content(target) == first
    again = prepare_copy(first, target, overwrite=True), prepare_copy(second, target, overwrite=True)
    errors: list[AlreadyExistsError] = []

    def within(nbytes: int) -> None:
        if not errors:
            with pytest.raises(AlreadyExistsError) as caught:
                again[1].run(lambda nbytes: None)
            errors.append(caught.value)

    again[0].run(within)
    assert errors and content(target) == first


def test_of_two_runs_that_go_on_with_one_copy_one_succeeds() -> None:
    source = {"zarr.json": b"{}", "c/0": b"zero", "c/1": b"one"}
    target = MemoryStore()
    target.set(JOURNAL_NAME, prepare_copy(source, MemoryStore()).journal.emit())
    tasks = [prepare_copy(source, target) for _ in range(2)]
    tasks[0].run(lambda nbytes: None)
    with pytest.raises(AlreadyExistsError, match="another process writes"):
        tasks[1].run(lambda nbytes: None)
    assert content(target) == source


def test_keys_that_appear_at_the_destination_are_kept() -> None:
    target = MemoryStore()
    task = prepare_copy({"zarr.json": b"{}"}, target)
    target.set("c/0", b"somebody's")
    with pytest.raises(AlreadyExistsError, match="another process writes"):
        task.run(lambda nbytes: None)
    assert content(target) == {"c/0": b"somebody's"}
