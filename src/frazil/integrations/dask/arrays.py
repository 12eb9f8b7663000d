"""Arrays as dask arrays, and dask arrays written by any of its schedulers, into a repository as one commit. Public as `frazil.dask`.

The alignment of chunks with shards is in layout.py, the work of tasks in tasks.py. dask is imported on first use."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.api.forked import fork_for_many, is_of, session_of
from frazil.api.repository import Repository
from frazil.api.session import Session, checked_commit
from frazil.array.array import Array
from frazil.base.optional_package import load_package
from frazil.base.record import Record
from frazil.errors import InvalidInputError, ReadOnlyError
from frazil.integrations.dask.layout import Box, aligned_chunks, box_of, check_no_overlap, is_aligned, reading_chunks
from frazil.integrations.dask.tasks import Shared, block_target, check_values, end, end_in_worker, forked, write_block
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.repository.merge.fork_columns import join
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.local.local_store import LocalStore

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed

    from frazil.repository.merge.solvers import Solver


Region: TypeAlias = "tuple[slice, ...] | None"

_JOINED: Final = 32  # results of tasks that one task joins
_END: Final = 60.0  # seconds until workers that do not answer are not waited for any more


def from_array(
    array: Array, chunks: object = "auto", *, name: str | bool | None = None, **options: object
) -> DaskArray:
    """The array as a dask array, read when it is computed.

    chunks   of dask: "auto": several whole shards (or chunks, if there are none) up to dask's `array.chunk-size`, or an even part of one that is larger; or any
             chunks that dask takes. Other chunks are read correctly too, but several tasks then read from the same shard
    name     and options: as for dask.array.from_array
    Raises InvalidInputError, also if dask is missing."""
    da, _ = _dask()
    if not isinstance(array, Array):
        raise InvalidInputError(
            f"{type(array).__name__} is not a frazil.Array", hint="dask.array.from_array takes others"
        )
    if isinstance(chunks, str) and chunks == "auto":
        limit: int = import_module("dask.utils").parse_bytes(import_module("dask").config.get("array.chunk-size"))
        chunks = reading_chunks(array.shape, array.shards or array.chunks, array.chunks, array.dtype.itemsize, limit)
    return da.from_array(array, chunks, name=name, **options)


def store(
    arrays: DaskArray | Sequence[DaskArray],
    targets: Array | str | Sequence[Array | str],
    *,
    into: Repository | Session | None = None,
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, object] | None = None,
    rebase: Solver | str | None = "disjoint",
    regions: Region | Sequence[Region] = None,
    rechunk: bool = True,
    compute: bool = True,
    **options: object,
) -> str | Delayed | None:
    """Writes dask arrays, on any scheduler of dask. Into a repository it is one transaction: nothing is visible before everything is written.

    arrays   one dask array, or several;  targets: for each an Array opened for writing, or with `into` the path of one
    into     the repository or session of the targets. A repository: everything is committed to `branch` at the end, with `message`, `metadata` and `rebase` as
             for Session.commit; the id of the snapshot is returned. A session, or targets that are arrays of one: the session has the changes then, for its
             owner to commit.
             None: targets in plain stores, where each shard is visible as soon as it is written
    regions  tuples of slices: the region of each array in its target; None: the whole target
    rechunk  whether dask rechunks chunks that are not aligned with shards of the target (chunks, if it has none); if not, they are an error
    compute  False: returns a Delayed instead of computing; with targets in a session, its result is a fork, for session.merge. Not with a repository
    options  for dask's compute: scheduler=, retries=, ...
    No two tasks write the same shard, not even at the edges of regions. A repeated task does no harm. If the computation fails, its error is raised, and
    repository and session are as before.
    Raises InvalidInputError, SelectionError for shapes and regions that do not fit, ReadOnlyError, NotFoundError, and the errors of Session.merge and
    commit."""
    _dask()
    if not isinstance(into, Repository | Session | None):
        raise InvalidInputError(f"into is {into!r}; it must be a Repository or a Session")
    if isinstance(into, Repository):
        if not isinstance(message, str):
            raise InvalidInputError(
                f"the message is {message!r}; a commit to a repository needs one", hint='message="what and why"'
            )
        checked_commit(message, metadata)
        if not compute:
            raise InvalidInputError(
                "compute=False cannot be combined with a commit",
                hint="give a session instead of the repository, merge what the Delayed computes, and commit",
            )
    elif message is not None or metadata is not None:
        raise InvalidInputError(
            "message has no meaning: into is not a repository",
            hint="give the message to session.commit, or give a repository as into",
        )
    session = into.writable_session(branch) if isinstance(into, Repository) else into
    goals, session = _resolved(targets, session)
    pieces = _pieces(_as_list(arrays), goals, _region_list(regions, goals), rechunk=rechunk)
    shared = Shared(f"frazil-store-{os.urandom(8).hex()}", None if session is None else fork_for_many(session))
    delayed = _build(pieces, shared)
    if not compute:
        return delayed
    try:
        (fork,) = import_module("dask").compute(delayed, **options)
    except BaseException as error:
        if session is None:
            _end(shared.name, options.get("scheduler"), error)
        raise
    if session is None:
        for array in goals:
            array.refresh()
        return None
    session.merge(fork)
    if not isinstance(into, Repository):
        return None
    assert message is not None
    if not session.has_changes:
        return session.snapshot_id
    return session.commit(message, metadata=metadata, rebase=rebase)


# --- arguments ------------------------------------------------------------------------------------------------------------------------


def _dask() -> tuple[ModuleType, ModuleType]:
    """dask.array and dask.highlevelgraph. Raises InvalidInputError where they are not installed."""
    return load_package("dask.array", "frazil.dask needs", "dask"), import_module("dask.highlevelgraph")


class Piece(Record):
    """One array to write, with its chunks as they will be written, and its place in the target."""

    source: DaskArray
    target: Array
    box: Box


def _as_list(arrays: DaskArray | Sequence[DaskArray]) -> list[DaskArray]:
    kind = _dask()[0].Array
    found = list(arrays) if isinstance(arrays, list | tuple) else [arrays]
    for array in found:
        if not isinstance(array, kind):
            raise InvalidInputError(
                f"{type(array).__name__} is not a dask array",
                hint="dask.array.asarray(x) makes one; or write target[...] = x",
            )
        if any(extent != extent for extents in array.chunks for extent in extents):  # NaN  # noqa: PLR0124
            raise InvalidInputError("an array has chunks of unknown extents", hint="x.compute_chunk_sizes()")
    return found


def _resolved(
    targets: Array | str | Sequence[Array | str], session: Session | None
) -> tuple[list[Array], Session | None]:
    """The arrays to write, and their common session; None: they are in plain stores."""
    every = list(targets) if isinstance(targets, list | tuple) else [targets]
    found: list[Array] = []
    for target in every:
        array = session.open(target) if session is not None and isinstance(target, str) else target
        if not isinstance(array, Array):
            raise InvalidInputError(
                f"the target is {target!r}; it must be an Array", hint="or the path of one, where `into` is given"
            )
        if array.read_only:
            raise ReadOnlyError(
                f"{array!r} was opened for reading",
                path=array.path or "/",
                hint='open it with mode="r+", or from a writable session',
            )
        found.append(array)
    if session is None and found:
        session = session_of(found[0])
    if any(session_of(array) is not None if session is None else not is_of(session, array) for array in found):
        raise InvalidInputError(
            "the targets are not all in one session, or all in plain stores", hint="store them one after the other"
        )
    return found, session


def _region_list(regions: Region | Sequence[Region], goals: Sequence[Array]) -> list[object]:
    alone = isinstance(regions, tuple) and all(isinstance(part, slice) for part in regions)
    if regions is None or isinstance(regions, slice) or alone:
        return [regions] * len(goals)
    if not isinstance(regions, list | tuple) or len(regions) != len(goals):
        raise InvalidInputError(
            f"regions is {regions!r}; it must be a tuple of slices for each of {len(goals)} targets"
        )
    return list(regions)


def _identity(array: Array) -> object:
    """A value that is equal for two handles of one array, as far as this can be determined."""
    store = array.store
    if isinstance(store, LocalStore):
        return os.path.normpath(f"{os.path.realpath(store.path)}/{array.path}")
    if isinstance(store, NodeStore):
        return array.path
    # of an object store, of one in memory, of an archive
    name = getattr(store, "url", None) or getattr(store, "name", None) or getattr(store, "path", None)
    return (type(store), f"{name}/{array.path}".rstrip("/")) if isinstance(name, str) else (id(store), array.path)


def _write_unit(array: Array) -> tuple[int, ...]:
    """Extents of the unit of writing: a shard, or a chunk if there are none."""
    grid = array.metadata.chunk_grid
    if not isinstance(grid, RegularGrid):
        raise InvalidInputError(
            "dask cannot write into an array with chunks of several shapes", path=array.path or "/", hint="assign to it"
        )
    return grid.chunk_shape


def _pieces(
    sources: Sequence[DaskArray], targets: Sequence[Array], regions: Sequence[object], *, rechunk: bool
) -> list[Piece]:
    """The sources, rechunked so that each write chunk belongs to one block. Raises InvalidInputError, SelectionError."""
    if len(sources) != len(targets):
        raise InvalidInputError(f"there are {len(sources)} arrays, but {len(targets)} targets")
    pieces: list[Piece] = []
    for source, target, region in zip(sources, targets, regions, strict=True):
        check_values(source._meta, target.path)
        box = box_of(region, source.shape, target.shape, _write_unit(target), target.path or "/")
        if not is_aligned(source.chunks, box):
            if not rechunk:
                raise InvalidInputError(
                    f"chunks of dask are not aligned with the {'shards' if target.shards else 'chunks'} of the target, of shape {box.write_chunk}",
                    path=target.path or "/",
                    hint=f"x.rechunk({aligned_chunks(source.chunks, box)}), or rechunk=True",
                )
            source = source.rechunk(aligned_chunks(source.chunks, box))
        pieces.append(Piece(source, target, box))
    same: dict[object, list[tuple[int, Box]]] = {}
    for number, piece in enumerate(pieces):
        same.setdefault(_identity(piece.target), []).append((number, piece.box))
    for boxes in same.values():
        check_no_overlap(boxes, repr(targets[boxes[0][0]]))
    return pieces


# --- as tasks --------------------------------------------------------------------------------------------------------------------------


def _build(pieces: Sequence[Piece], shared: Shared) -> Delayed:
    """One Delayed for all: a task for each block, and a tree that joins their results."""
    da, graphs = _dask()
    dask, delayed, name = import_module("dask"), import_module("dask.delayed"), shared.name
    common = dask.delayed(shared, name=f"{name}-shared", traverse=False)
    written: list[DaskArray] = []
    for number, (source, target, box) in enumerate(pieces):
        goal = block_target(target, box, source.chunks, plain=shared.fork is None)
        delayed_goal = dask.delayed(goal, name=f"{name}-goal-{number}", traverse=False)
        written.append(_write(da, source, common, delayed_goal, f"{name}-{number}"))
    keys = [key for blocks in written for key in dask.core.flatten(blocks.__dask_keys__())]
    graph = graphs.HighLevelGraph.merge(common.dask, *(blocks.dask for blocks in written))
    # one graph for all arrays: if they were optimised one by one, a block that several of them need would be computed for each
    tasks: dict[object, object] = dict(da.Array.__dask_optimize__(graph, [*keys, common.key]))
    level = 0
    while len(keys) > _JOINED:
        groups = [keys[at : at + _JOINED] for at in range(0, len(keys), _JOINED)]
        keys = [(f"{name}-joined", level, at) for at in range(len(groups))]
        tasks |= {key: (join, group) for key, group in zip(keys, groups, strict=True)}
        level += 1
    last = f"{name}-all"
    tasks[last] = (forked, common.key, keys)
    graph = graphs.HighLevelGraph.from_collections(last, tasks)
    return delayed.Delayed(last, graph)


def _write(da: ModuleType, source: DaskArray, shared: Delayed, goal: Delayed, name: str) -> DaskArray:
    return da.map_blocks(
        write_block,
        source,
        shared,
        goal,
        name=name,
        dtype=object,
        meta=np.empty((0,) * source.ndim, object),
        chunks=tuple([(1,) * len(extents) for extents in source.chunks]),
    )


def _end(name: str, scheduler: object, error: BaseException) -> None:
    """Ends a failed call for plain stores in this process, and in the workers of a cluster that answer. The error says if some do not."""
    end(name)
    client = getattr(import_module("dask.base").get_scheduler(scheduler=scheduler), "__self__", None)
    run = getattr(client, "run", None)
    if run is not None:
        ended = False
        with suppress(Exception):  # the error of the computation is raised
            ended = not any(run(end_in_worker, name, on_error="return", callback_timeout=_END).values())
        if not ended:
            error.add_note(
                "Not all workers answered, and they may still write into the targets: restart them (client.restart()) before you store again."
            )
