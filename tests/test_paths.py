"""The ways from brackets to the kernel and from `list` to a server stay short: the number of modules that a call enters, and a reader of the code must
follow."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import frazil
from frazil.stores import ObjectStore

SOURCES = str(Path(frazil.__file__).parent)


def modules_of(call: Callable[[], object]) -> set[str]:
    """Files of frazil in which a function is called, in this thread or one that starts meanwhile."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCES):
            found.add(frame.f_code.co_filename.removeprefix(SOURCES))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


@pytest.fixture
def array(tmp_path: Path) -> frazil.Array:
    array = frazil.create_array(tmp_path / "a", shape=(64, 64), dtype="i4", chunks=(8, 8), shards=(32, 32))
    array[...] = np.arange(4096, dtype="i4").reshape(64, 64)
    array = frazil.open_array(tmp_path / "a")
    _ = array[:40, :40]  # shard indexes are cached, and modules imported
    return array


def test_from_brackets_to_the_kernel(array: frazil.Array) -> None:
    assert len(modules_of(lambda: array[:40, :40])) <= 22  # 25 before whole tasks were passed to the kernel
    assert len(modules_of(lambda: array.vindex[[1, 2], [3, 40]])) <= 20  # 24


def test_from_list_to_the_disk_and_to_a_server(array: frazil.Array) -> None:
    array.store.list()  # whether the disk folds case is cached
    assert len(modules_of(array.store.list)) <= 4
    store = ObjectStore(pytest.importorskip("obstore.store").MemoryStore())
    store.set("a", b"1")
    store.list()
    assert len(modules_of(store.list)) <= 4
