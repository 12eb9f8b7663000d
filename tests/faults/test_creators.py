"""Many processes that create one hierarchy at once: each node is created once, nothing is lost, and there is nothing below an array."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.concurrent_calls import in_processes, in_threads

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.stores import MemoryStore

SMALL = {"shape": (4,), "dtype": "i4", "chunks": (2,)}


@pytest.fixture(params=["memory", "local"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local":
        yield str(tmp_path / "root")
    else:
        name = str(uuid.uuid4())
        yield f"memory://{name}"
        MemoryStore(name).erase_prefix("")


Dialect = int | str
DIALECTS = pytest.mark.parametrize("dialect", [3, "draft", "draft-2021"])


def build(location: str, builder: int, dialect: Dialect) -> None:
    """All builders create the same hierarchy, each in another order and by other means."""
    for turn in range(12):
        number = (turn * 5 + builder) % 12
        path = f"level{number % 3}/part{number}"
        if (turn + builder) % 3 == 0:
            frazil.open_array(location, "a", path=f"{path}/x", zarr_format=dialect, **SMALL)[builder % 4] = 1
        elif (turn + builder) % 3 == 1:
            frazil.open_group(location, "a", zarr_format=dialect).require_array(f"{path}/x", **SMALL)[builder % 4] = 1
        else:
            root = frazil.open_group(location, "a", path=path, zarr_format=dialect)
            try:
                root.create_array("x", **SMALL)[builder % 4] = 1
            except AlreadyExistsError:
                root["x"][builder % 4] = 1


def check_built(location: str, dialect: Dialect) -> None:
    found = dict(frazil.open_group(location).members(None))
    assert len(found) == 3 + 12 + 12
    assert {node.metadata.zarr_format for node in found.values()} == {dialect}
    for number in range(12):
        assert found[f"level{number % 3}/part{number}/x"][...].tolist() == [1, 1, 1, 1]


@DIALECTS
def test_builders_in_threads(location: str, dialect: Dialect) -> None:
    in_threads(12, lambda builder: build(location, builder, dialect))
    check_built(location, dialect)


@DIALECTS
def test_builders_in_processes(tmp_path: Path, dialect: Dialect) -> None:
    in_processes(8, lambda builder: build(str(tmp_path / "root"), builder, dialect))
    check_built(str(tmp_path / "root"), dialect)


def test_exactly_one_of_many_creators_succeeds(location: str) -> None:
    won: list[int] = []

    def create(creator: int) -> None:
        for turn in range(10):
            try:
                if creator % 2:
                    frazil.create_array(location, path=f"at/{turn}", **SMALL, attributes={"by": creator})
                else:
                    frazil.create_group(location, path=f"at/{turn}", attributes={"by": creator})
                won.append(creator + 100 * turn)
            except AlreadyExistsError:
                pass

    in_threads(8, create)
    nodes = {int(name): node.attrs["by"] for name, node in frazil.open_group(location, path="at").items()}
    assert sorted(won) == [nodes[turn] + 100 * turn for turn in range(10)], "the one who was told so, and nobody else"


def test_nodes_below_a_concurrent_array_are_refused(location: str) -> None:
    """One creates an array, another a node below it, at the same time: one of them is refused."""

    def create(creator: int) -> None:
        for turn in range(20):
            try:
                frazil.create_array(location, path=f"{turn}/x" if creator % 2 else f"{turn}", **SMALL)
            except (AlreadyExistsError, InvalidInputError):
                pass

    in_threads(6, create)
    root = frazil.open_group(location)
    for turn in range(20):
        node = root[str(turn)]
        assert (f"{turn}/x" in root) == isinstance(node, frazil.Group)
