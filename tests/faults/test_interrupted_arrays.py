"""Reads and writes of arrays that are interrupted at any of their store operations: each chunk is whole, old or new, and no lock is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.stores.wrappers import WrappedStore

OPERATIONS = ("fetch", "put_many", "erase_many", "list_page")
LAYOUTS: dict[str, dict[str, object]] = {
    "chunks": {"chunks": (5, 5)},
    "shards": {"chunks": (5, 5), "shards": (10, 10)},
}
ACTS: dict[str, Callable[[frazil.Array], object]] = {
    "read": lambda array: array[...],
    "read a part": lambda array: array[3:17, 3:17],
    "read points": lambda array: array.vindex[[0, 7, 19], [0, 7, 19]],
    "write": lambda array: array.__setitem__(..., 2),
    "write a part": lambda array: array.__setitem__((slice(3, 17), slice(3, 17)), 2),
    "write points": lambda array: array.vindex.__setitem__(([0, 7, 19], [0, 7, 19]), 2),
    "write one": lambda array: array.__setitem__((0, 0), 2),
    "erase": lambda array: array.__setitem__(..., 0),
    "append": lambda array: array.append(np.full((5, 20), 2, "i4")),
    "shrink": lambda array: array.resize((7, 20)),
    "attributes": lambda array: array.attrs.update(a=1),
}


class Interrupted(WrappedStore):
    """Raises at its nth operation, before or after it is done; None: never."""

    __slots__ = ("after", "at", "calls", "error", "far")

    def __init__(self, inner: Store, *, far: bool) -> None:
        super().__init__(inner)
        self.at: int | None = None
        self.calls, self.after, self.error, self.far = 0, False, KeyboardInterrupt, far

    @property
    def capabilities(self):  # type: ignore[no-untyped-def]
        return self.inner.capabilities._replace(direct=self.inner.capabilities.direct and not self.far)


def interrupted(name: str) -> Callable[..., object]:
    def operation(self: Interrupted, *arguments: object, **named: object) -> object:
        self.calls += 1
        now = self.calls == self.at
        if now and not self.after:
            raise self.error("interrupted")
        done = getattr(self.inner, name)(*arguments, **named)
        if now:
            raise self.error("interrupted")
        return done

    return operation


for _name in OPERATIONS:
    setattr(Interrupted, _name, interrupted(_name))


KINDS: list[type[BaseException]] = [KeyboardInterrupt, SystemExit, MemoryError]


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("location", ["memory", "disk", "remote"])
def test_interrupts_at_every_store_operation_leave_whole_arrays(location: str, layout: str, tmp_path: Path) -> None:
    """One kind of interrupt at each operation, in turns; the campaign has all of them."""
    interrupt_everywhere(location, layout, KINDS, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("location", ["memory", "disk", "remote"])
def test_interrupts_of_every_kind_at_every_store_operation_leave_whole_arrays(
    location: str, layout: str, kind: type[BaseException], tmp_path: Path
) -> None:
    interrupt_everywhere(location, layout, [kind], tmp_path)


def interrupt_everywhere(location: str, layout: str, kinds: list[type[BaseException]], tmp_path: Path) -> None:
    for name, act in ACTS.items():
        moment, ended = 0, False
        while not ended:
            moment += 1
            for after in (False, True):
                error = kinds[(moment + after) % len(kinds)]
                inner: Store = LocalStore(tmp_path / f"{name}{moment}{after}") if location == "disk" else MemoryStore()
                frazil.create_array(inner, shape=(20, 20), dtype="i4", **LAYOUTS[layout])[...] = 1  # type: ignore[arg-type]
                store = Interrupted(inner, far=location == "remote")
                array = frazil.open_array(store, "r+")
                store.calls, store.at, store.after, store.error = 0, moment, after, error  # type: ignore[assignment]
                try:
                    act(array)
                    ended = True
                except error:
                    pass
                store.at = None
                found = frazil.open_array(inner)
                values = found[...]
                assert np.isin(values, (0, 1, 2)).all()
                assert values.shape in {(20, 20), (25, 20), (7, 20)}
                if name.startswith("read"):
                    assert (values == 1).all()
                assert [key for key in inner.list() if key.endswith((".__lock", ".part"))] == []
                if location == "disk":
                    left = [
                        path.name for path in (tmp_path / f"{name}{moment}{after}").rglob("*") if "__lock" in path.name
                    ]
                    assert left == []
                array.refresh()[...] = 5  # the same handle continues: no lock is held
                assert (frazil.open_array(inner)[...] == 5).all()
                if ended:
                    break
        assert moment > 1 or name == "attributes"
