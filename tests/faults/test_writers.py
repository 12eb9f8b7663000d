"""Many writers of one array at once, in threads and processes, tensorstore among them: no writer's data is lost, and all finish."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import expect_line, finish, in_processes, in_threads, running

import frazil
from frazil.codecs import Bytes, Gzip, ShardingIndexed, Zstd

THREADS, PROCESSES = 16, 8
SIDE = 32
LAYOUTS: dict[str, dict[str, object]] = {
    "chunk": {"chunks": (SIDE, SIDE)},
    "shard": {"chunks": (4, 4), "shards": (SIDE, SIDE)},
    "raw": {"chunks": (4, 4), "shards": (SIDE, SIDE), "codecs": [], "index_location": "start"},
    "nested": {
        "chunks": (SIDE, SIDE),
        "codecs": [ShardingIndexed((16, 16), [ShardingIndexed((4, 4), [Bytes(), Zstd(1)])])],
    },
    "around": {"chunks": (SIDE, SIDE), "codecs": [ShardingIndexed((4, 4), [Bytes()]), Gzip(1)]},
}


@pytest.fixture(params=["memory", "local"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local":
        yield str(tmp_path / "a")
    else:
        name = f"memory://{uuid.uuid4()}"
        yield name
        frazil.stores.MemoryStore(name.removeprefix("memory://")).erase_prefix("")


def create(location: object, layout: str, **more: object) -> frazil.Array:
    arguments = {"shape": (SIDE, SIDE), "dtype": "i4", "fill_value": -1, **LAYOUTS[layout], **more}
    return frazil.create_array(location, **arguments)  # type: ignore[arg-type]


# --- one object, many writers ----------------------------------------------------------------------------------------------------------


def inner_chunks(writer: int, writers: int) -> list[tuple[slice, ...]]:
    """Inner chunks of 4 x 4, distributed."""
    corners = [(4 * row, 4 * column) for row in range(SIDE // 4) for column in range(SIDE // 4)]
    return [(slice(row, row + 4), slice(column, column + 4)) for row, column in corners[writer::writers]]


def elements(writer: int, writers: int) -> list[tuple[slice, ...]]:
    """Every writer has elements of every inner chunk."""
    return [(slice(row, None, 8), slice(writer % 2, None, 2)) for row in range(writer // 2, 8, max(writers // 2, 1))]


def write_share(array: frazil.Array, places: list[tuple[slice, ...]], writer: int, rounds: int) -> None:
    for turn in range(rounds):
        for number, place in enumerate(places):
            array[place] = 1000 * writer + 10 * turn + number % 10


def expected(share: Callable[[int, int], list[tuple[slice, ...]]], writers: int, rounds: int) -> np.ndarray:
    values = np.full((SIDE, SIDE), -1, "i4")
    for writer in range(writers):
        for number, place in enumerate(share(writer, writers)):
            assert (values[place] == -1).all(), "shares are disjoint"
            values[place] = 1000 * writer + 10 * (rounds - 1) + number % 10
    assert (values >= 0).all()
    return values


@pytest.mark.parametrize("share", [inner_chunks, elements])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_threads(location: str, layout: str, share: Callable[..., list[tuple[slice, ...]]]) -> None:
    """Of 16, 10 share a handle."""
    array = create(location, layout)

    def write(writer: int) -> None:
        mine = frazil.open_array(location, "r+") if writer < 6 else array
        write_share(mine, share(writer, THREADS), writer, 2)

    in_threads(THREADS, write)
    assert (frazil.open_array(location)[...] == expected(share, THREADS, 2)).all()


def _of_campaign(layout: str, share: object) -> tuple[pytest.MarkDecorator, ...]:
    return () if (share is elements) == (layout != "shard") else (pytest.mark.campaign,)


@pytest.mark.parametrize(
    ("layout", "share"),
    [
        pytest.param(layout, share, marks=_of_campaign(layout, share))
        for layout in ("chunk", "shard", "nested")
        for share in (inner_chunks, elements)
    ],
)
def test_processes(tmp_path: Path, layout: str, share: Callable[..., list[tuple[slice, ...]]]) -> None:
    create(tmp_path, layout)

    def write(writer: int) -> None:
        write_share(frazil.open_array(tmp_path, "r+"), share(writer, PROCESSES), writer, 2)

    in_processes(PROCESSES, write)
    assert (frazil.open_array(tmp_path)[...] == expected(share, PROCESSES, 2)).all()
    assert leftovers(tmp_path) == []


def leftovers(root: Path) -> list[str]:
    """Files of a store besides its keys."""
    keys = {*frazil.stores.LocalStore(root).list()}
    return sorted({str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} - keys)


TENSORSTORE = """
import json, sys
import tensorstore as ts
path, writer, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
places = [tuple(slice(*part) for part in place) for place in json.loads(sys.argv[4])]
array = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}, open=True).result()
print("open", flush=True)
sys.stdin.readline()
for turn in range(rounds):
    for number, place in enumerate(places):
        array[place] = 1000 * writer + 10 * turn + number % 10
"""


@pytest.mark.parametrize("share", [inner_chunks, elements])
@pytest.mark.parametrize("layout", ["chunk", "shard"])
def test_writes_beside_tensorstore_lose_no_element(
    tmp_path: Path, layout: str, share: Callable[..., list[tuple[slice, ...]]]
) -> None:
    pytest.importorskip("tensorstore")
    create(tmp_path, layout)
    writers, rounds = 4, 3
    with ExitStack() as stack:
        others = []
        for writer in (0, 1):
            places = str([[[p.start, p.stop, p.step] for p in place] for place in share(writer, writers)])
            places = places.replace("None", "null")
            others.append(stack.enter_context(running(TENSORSTORE, tmp_path, writer, rounds, places)))
        for other in others:
            expect_line(other.stdout, "open")
        for other in others:
            assert other.stdin is not None
            other.stdin.write("go\n")
            other.stdin.flush()

        def write(writer: int) -> None:
            write_share(frazil.open_array(tmp_path, "r+"), share(writer + 2, writers), writer + 2, rounds)

        in_processes(2, write)
        for other in others:
            finish(other)
    assert (frazil.open_array(tmp_path)[...] == expected(share, writers, rounds)).all()
    assert leftovers(tmp_path) == []


def test_a_slow_writer_among_quick_ones(tmp_path: Path) -> None:
    """Fast writers replace the shard again and again until the slow one, who writes nearly all of it, is done too."""
    side = 256
    array = create(tmp_path / "a", "shard", shape=(side, side), shards=(side, side))
    array[...] = 0

    def write(writer: int) -> None:
        mine = frazil.open_array(tmp_path / "a", "r+")
        if writer == 0:
            mine[4:] = 7
            (tmp_path / "done").touch()
        for turn in itertools.count(1) if writer else ():
            mine[writer, writer] = turn
            assert mine[writer, writer] == turn
            if (tmp_path / "done").exists():
                break

    in_processes(4, write)
    assert (array[4:] == 7).all()
    assert all(array[writer, writer] > 0 for writer in (1, 2, 3))


# --- erasing and resizing with concurrent writers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["chunk", "shard", "nested", "around"])
def test_erasing_beside_writing(location: str, layout: str) -> None:
    """Each thread sets its part to the fill value and back: the object is erased and created all the time."""
    array = create(
        location, layout, shape=(4, 64), chunks=(4, 64) if layout != "shard" else (4, 4), **shards_of(layout)
    )

    def write(writer: int) -> None:
        place = (slice(None), slice(4 * writer, 4 * writer + 4))
        for turn in range(6):
            array[place] = -1
            array[place] = 100 * writer + turn

    in_threads(THREADS, write)
    assert (array[...] == np.repeat(100 * np.arange(16) + 5, 4)).all()
    in_threads(THREADS, lambda writer: array.__setitem__((slice(None), slice(4 * writer, 4 * writer + 4)), -1))
    assert array.nbytes_stored() == 0, "the last to erase leaves nothing"


def shards_of(layout: str) -> dict[str, object]:
    if layout == "shard":
        return {"shards": (4, 64)}
    codecs = {
        "nested": [ShardingIndexed((4, 16), [ShardingIndexed((4, 4), [Bytes(), Zstd(1)])])],
        "around": [ShardingIndexed((4, 4), [Bytes()]), Gzip(1)],
    }
    return {"codecs": codecs[layout]} if layout in codecs else {}


@pytest.mark.parametrize("layout", ["chunk", "shard", "around"])
def test_resizing_beside_writing(location: str, layout: str) -> None:
    """Writes inside of both shapes stay, in the very chunks that shrinking cuts."""
    array = create(location, layout, shape=(SIDE - 3, SIDE))

    def write(writer: int) -> None:
        mine = frazil.open_array(location, "r+")
        for turn in range(6):
            if writer == 0:
                mine.resize((14, SIDE - 5) if turn % 2 == 0 else (SIDE, SIDE))
            else:
                mine[writer, : SIDE - 5] = 100 * writer + turn

    in_threads(14, write)
    found = array.refresh()[...]
    assert found.shape == (SIDE, SIDE)
    assert (found[1:14, : SIDE - 5] == (100 * np.arange(1, 14) + 5)[:, None]).all()
    assert (found[14:] == -1).all()


# --- appending -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["chunk", "shard", "nested"])
@pytest.mark.parametrize("axis", [0, 1])
def test_appends_of_threads(location: str, layout: str, axis: int) -> None:
    array = create(location, layout, shape=(0, 3) if axis == 0 else (3, 0))
    in_threads(8, lambda writer: append_rows(array, writer, axis))
    check_rows(array, 8, axis)
    assert array.shape == frazil.open_array(location).shape, "the handle knows the last shape, not one before"
    in_threads(8, lambda writer: append_rows(frazil.open_array(location, "r+"), 8 + writer, axis))
    check_rows(array.refresh(), 16, axis)


@pytest.mark.parametrize("layout", ["chunk", "shard"])
def test_appends_of_processes(tmp_path: Path, layout: str) -> None:
    array = create(tmp_path, layout, shape=(0, 3))
    in_processes(PROCESSES, lambda writer: append_rows(frazil.open_array(tmp_path, "r+"), writer, 0))
    check_rows(array.refresh(), PROCESSES, 0)


def append_rows(array: frazil.Array, writer: int, axis: int) -> None:
    for turn in range(6):
        count = turn % 3 + 1
        rows = np.repeat(100 * writer + 10 * turn + np.arange(count), 3).reshape(count, 3).astype("i4")
        array.append(rows if axis == 0 else rows.T, axis=axis)


def check_rows(array: frazil.Array, writers: int, axis: int) -> None:
    """Each row is there once, and whole."""
    rows = array[...] if axis == 0 else array[...].T
    assert (rows == rows[:, :1]).all()
    expected = [
        100 * writer + 10 * turn + n for writer in range(writers) for turn in range(6) for n in range(turn % 3 + 1)
    ]
    assert sorted(rows[:, 0].tolist()) == expected


def test_appends_along_both_axes_at_once(location: str) -> None:
    """Rows and columns that are whole when appended are incomplete after the other axis has grown."""
    array = create(location, "chunk", shape=(8, 8), chunks=(4, 4))
    array[...] = 0

    def grow(writer: int) -> None:
        mine = frazil.open_array(location, "r+")
        for turn in range(1, 13):
            try:
                mine.append(
                    np.full((1, mine.shape[1]) if writer else (mine.shape[0], 1), turn + 100 * writer), axis=1 - writer
                )
            except frazil.errors.SelectionError:  # the other axis has grown since
                mine.refresh()

    in_threads(2, grow)
    found = frazil.open_array(location)[...]
    assert (found[:8, :8] == 0).all()
    for row in found[8:, :8]:
        assert (row == row[0]).all()
        assert row[0] > 100
    for column in found[:8, 8:].T:
        assert (column == column[0]).all()
        assert 0 < column[0] < 100


# --- attributes ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "group"])
def test_attributes_of_threads(location: str, kind: str) -> None:
    node: frazil.Array | frazil.Group
    node = frazil.create_array(location, shape=3, dtype="i4") if kind == "array" else frazil.create_group(location)

    def change(writer: int) -> None:
        mine = node if writer % 2 else frazil.open(location, "r+")
        for turn in range(8):
            mine.attrs[f"{writer}"] = turn
            mine.attrs.update({f"{writer} {turn}": turn})
            if turn % 2:
                del mine.attrs[f"{writer} {turn}"]

    in_threads(THREADS, change)
    expected = {f"{writer}": 7 for writer in range(THREADS)}
    expected |= {f"{writer} {turn}": turn for writer in range(THREADS) for turn in range(0, 8, 2)}
    assert dict(frazil.open(location).attrs) == expected
    last = dict(node.attrs)
    node.attrs["once more"] = True
    assert dict(node.attrs) == {**expected, "once more": True}
    assert {*last} <= {*expected} | {f"{writer} {turn}" for writer in range(THREADS) for turn in range(8)}


def test_attributes_of_processes(tmp_path: Path) -> None:
    frazil.create_group(tmp_path)

    def change(writer: int) -> None:
        group = frazil.open_group(tmp_path, "r+")
        for turn in range(5):
            group.attrs[f"{writer} {turn}"] = turn

    in_processes(PROCESSES, change)
    assert len(frazil.open_group(tmp_path).attrs) == 5 * PROCESSES
