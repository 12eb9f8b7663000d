"""The rows of the comparison, as data. worker.py has what each task does and times; data.py has the values of arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Shape = tuple[int, ...]
Box = tuple[slice, ...]
PLAIN, FLOOR, REPOSITORY = "plain", "floor", "repository"  # the kinds of engine


@dataclass(frozen=True)
class Spec:
    """One array: its layout and its values. With shards, chunks are the inner chunks. No codecs: raw bytes."""

    values: str
    shape: Shape
    dtype: str
    chunks: Shape
    shards: Shape | None = None
    codecs: (
        tuple[dict[str, Any], ...] | None
    ) = ()  # bytes-to-bytes codecs, as in a Zarr v3 document; None: the engine's default

    @property
    def whole(self) -> Box:
        return tuple(slice(0, n) for n in self.shape)


@dataclass(frozen=True)
class Row:
    name: str
    task: str
    spec: Spec
    tags: tuple[str, ...]  # the tags that --rows selects by, besides the task
    kinds: tuple[str, ...] = (PLAIN,)
    box: Box = ()  # read: the selection
    size: Shape = ()  # random: the extent of each read
    count: int = 0  # random reads, openings, appends or commits in one measurement
    start: int = 0  # commits, references or arrays that exist before it
    fresh: bool = False  # measure in a new process each time
    own: bool = False  # frazil alone: the peers would need hours, or all of the memory


def zstd(level: int) -> tuple[dict[str, Any], ...]:
    return ({"name": "zstd", "configuration": {"level": level, "checksum": False}},)


def cubes(n: int, shard: int, inners: Shape, count: int) -> list[Row]:
    """Row 1: a cube at three inner chunk sizes; the middle one in repositories too."""
    rows = []
    for inner in inners:
        spec = Spec("smooth", (n,) * 3, "uint16", (inner,) * 3, (shard,) * 3, zstd(0))
        middle = inner == inners[1]
        repository = (REPOSITORY,) if middle else ()
        tags, name = ("3d", *(("repo",) if middle else ())), f"{n}^3 inner {inner}^3:"
        every, no_floor = (PLAIN, FLOOR, *repository), (PLAIN, *repository)
        all_, one = spec.whole[0], slice(n // 5, n // 5 + 1)
        rows += [
            Row(f"{name} write all", "write", spec, tags, every),
            Row(f"{name} open", "open", spec, tags, no_floor),
            Row(f"{name} read all", "read", spec, tags, every, box=spec.whole),
            Row(f"{name} random inner chunks", "random", spec, tags, every, size=spec.chunks, count=count),
            Row(f"{name} random points", "random", spec, tags, no_floor, size=(1, 1, 1), count=count),
            Row(f"{name} z-plane", "read", spec, tags, no_floor, box=(one, all_, all_)),
            Row(f"{name} x-plane", "read", spec, tags, no_floor, box=(all_, all_, one)),
        ]
        if middle:
            rows += [
                Row(f"{name} {count * 300} points at once", "points", spec, ("3d", "fancy"), count=count * 300),
                Row(f"{name} {count // 3} rows at once", "lines", spec, ("3d", "fancy"), count=count // 3),
                Row(f"{name} open {count} arrays of one document", "open_many", spec, ("3d", "open"), count=count),
                Row(f"{name} write all, own default codec", "write", replace(spec, codecs=None), ("3d", "default")),
            ]
    return rows


def sheets(n: int, shard: int, side: int) -> list[Row]:
    """Rows 2 and 4: very small inner chunks, raw and compressed; the same sheet without shards."""
    rows = []
    at = slice(n // 4 - 21, n // 4 - 21 + side)  # across a shard's edge, aligned to no chunk
    for label, codecs in (("raw", ()), ("zstd 1", zstd(1))):
        spec = Spec("smooth", (n, n), "uint16", (16, 16), (shard, shard), codecs)
        name = f"{n}^2 inner 16^2 {label}:"
        rows += [
            Row(f"{name} write all", "write", spec, ("2d",), (PLAIN, FLOOR)),
            Row(f"{name} read all", "read", spec, ("2d",), (PLAIN, FLOOR), box=spec.whole),
            Row(f"{name} read {side}^2", "read", spec, ("2d",), box=(at, at)),
        ]
    spec = Spec("smooth", (n, n), "uint16", (64, 64), None, zstd(1))
    name = f"{n}^2 unsharded 64^2 zstd 1:"
    rows.append(Row(f"{name} write all", "write", spec, ("unsharded",), (PLAIN, FLOOR)))
    rows.append(Row(f"{name} read all", "read", spec, ("unsharded",), (PLAIN, FLOOR), box=spec.whole))
    raw = replace(spec, codecs=())
    rows.append(Row(f"{n}^2 unsharded 64^2 raw: one element", "element", raw, ("unsharded",), count=5 * side))
    return rows


def costs(n: int, shard: int, grid: int) -> list[Row]:
    """Rows 3, 5 and 6: a one-element write, peak memory, import time."""
    mib = n * n * 2 >> 20
    one = Spec("smooth", (n, n), "uint16", (256, 256), (n, n), zstd(1))
    many = Spec("smooth", (n, n), "uint16", (64, 64), (shard, shard), zstd(1))
    none = Spec("none", (), "uint8", ())
    empty = Spec("none", (grid, grid), "uint8", (1, 1), (grid // 10, grid // 10))
    return [
        Row(f"one element into a {mib} MiB shard", "poke", one, ()),
        Row(f"one element into a {mib} MiB shard, appended", "poke_append", one, ("poke",), own=True),
        Row(f"read {mib} MiB: peak memory", "memory", many, (), box=many.whole, fresh=True),
        Row(f"plan {grid}^2 inner chunks, none stored", "plan", empty, (), box=empty.whole, fresh=True, own=True),
        Row("import", "import_time", none, ("import",), (PLAIN, REPOSITORY)),
    ]


def climate(times: int, shard: int) -> list[Row]:
    """Row 7: ERA-Interim u, v, z as float64, tiled in time; every shard has partial chunks at its edge (241 = 3 x 61 + 58)."""
    blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 8, "blocksize": 0}
    spec = Spec(
        "era",
        (times, 3, 241, 480),
        "float64",
        (1, 1, 61, 120),
        (shard, 3, 244, 480),
        ({"name": "blosc", "configuration": blosc},),
    )
    series = (slice(0, times), slice(1, 2), slice(100, 101), slice(200, 201))
    one_map = (slice(5, 6), slice(1, 2), slice(0, 241), slice(0, 480))
    return [
        Row("ERA float64 blosc: write all", "write", spec, ("era",)),
        Row("ERA float64, own default codec: write all", "write", replace(spec, codecs=None), ("era", "default")),
        Row("ERA float64 blosc: read all", "read", spec, ("era",), box=spec.whole),
        Row("ERA float64 blosc: one point in time", "read", spec, ("era",), box=series),
        Row("ERA float64 blosc: one map", "read", spec, ("era",), box=one_map),
    ]


def series(steps: int, shard: int) -> list[Row]:
    """Row 11: a time series, written as it arrives: one step of four fields at a time."""
    spec = Spec("fields", (steps, 4, 90, 180), "float32", (1, 1, 90, 180), (shard, 4, 90, 180), zstd(0))
    name = f"4-D float32 series: {steps} appends of a step"
    return [
        Row(name, "series", spec, ("append",), count=steps),
        Row(f"{name}, shards rewritten", "series_rewrite", spec, ("append",), count=steps),
    ]


def repositories(tiny: int, small: int, commits: int, history: int, refs: int, arrays: int, appends: int) -> list[Row]:
    """Row 8: the cost of a transaction. (The cube in a repository is among cubes().)"""
    rows = []
    for chunks, values in ((tiny, 16), (small, 128)):
        spec = Spec("random", (chunks * values,), "float64", (values,))
        name = f"repo {chunks} chunks of {values * 8} B:"
        rows.append(Row(f"{name} write + commit", "write", spec, ("repo",), (REPOSITORY,)))
        rows.append(Row(f"{name} read all", "read", spec, ("repo",), (REPOSITORY,), box=spec.whole))
    point = Spec("none", (100,), "float64", (10,))
    virtual = Spec("none", (refs + 1000,), "float64", (1,))
    line = Spec("none", (0, 1000), "float64", (1, 1000))
    node = Spec("none", (10, 10), "float32", (5, 5))
    rows += [
        Row(f"repo {commits} small commits", "commits", point, ("repo",), (REPOSITORY,), count=commits),
        Row(
            f"repo {commits} small commits after {history}",
            "commits",
            point,
            ("repo",),
            (REPOSITORY,),
            count=commits,
            start=history,
        ),
        Row(f"repo 1 reference onto {refs}, commit", "reference", virtual, ("repo",), (REPOSITORY,), start=refs),
        Row(f"repo open + list {arrays} arrays", "list", node, ("repo",), (REPOSITORY,), start=arrays),
        Row(f"repo {appends} x append a row, commit", "append", line, ("repo",), (REPOSITORY,), count=appends),
    ]
    return rows


def requests() -> list[Row]:
    """Row 9: requests to an object store: a column over 2 shards, 8 inner chunks in each."""
    spec = Spec("smooth", (512, 512), "uint16", (32, 32), (256, 256), zstd(1))
    return [Row("HTTP requests", "http", spec, (), box=(slice(0, 512), slice(0, 32)))]


def drafts(n: int, shard: int, inner: int) -> list[Row]:
    """Row 10: the draft of 2022. Frazil alone: its peers do not read it."""
    spec = Spec("smooth", (n // 2,) * 3, "uint16", (inner,) * 3, (shard,) * 3, zstd(0))
    raw = Spec("smooth", (n, n, n // 2), "uint16", (inner,) * 3, (shard,) * 3, ())
    megabytes = n * n * n // 2 * 2 // 10**6
    return [
        Row(f"{n // 2}^3 inner {inner}^3: read all, draft", "read_draft", spec, ("draft",), box=spec.whole, own=True),
        Row(f"convert {megabytes} MB of shards", "convert", raw, ("draft",), own=True),
    ]


def every_row(quick: bool) -> list[Row]:
    if quick:
        return [
            *cubes(128, 64, (64, 32, 16), 30),
            *sheets(512, 256, 128),
            *costs(1024, 512, 1000),
            *climate(12, 6),
            *series(20, 8),
            *repositories(2_000, 500, 10, 50, 20_000, 300, 20),
            *requests(),
            *drafts(128, 32, 16),
        ]
    return [
        *cubes(512, 256, (64, 32, 16), 300),
        *sheets(4096, 1024, 512),
        *costs(8192, 1024, 10_000),
        *climate(72, 12),
        *series(500, 100),
        *repositories(100_000, 20_000, 50, 1000, 1_000_000, 10_000, 200),
        *requests(),
        *drafts(1024, 256, 32),
    ]
