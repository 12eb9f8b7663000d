"""Import mode "copy": the arrays of a file written again, slab by slab, with chunks, shards and codecs of our choice.

The same call continues an interrupted copy into a plain store: a journal at the destination shows that an import is under way, the journal of a rechunk shows
the progress of an array, and the document of an array, which is written last, shows that it is complete. In a session unfinished arrays are not visible to
others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from threading import Event
from typing import Final

from frazil.api.destinations import check_destination
from frazil.api.nodes import open_group, open_node
from frazil.api.session import Session
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.base.record import Record
from frazil.errors import AlreadyExistsError, FrazilError, NotFoundError
from frazil.integrations.files.imports.layout import ArrayLayout
from frazil.metadata.json_text import Json
from frazil.metadata.paths import joined
from frazil.operations.copy.journal import (
    JOURNAL_NAME,
    Journal,
    erase_journal,
    forget_journal,
    parse_journal,
    put_journal,
)
from frazil.operations.rechunk.rechunk import RechunkTask, prepare_rechunk
from frazil.runtime import Runtime
from frazil.stores.locations import Location, resolve
from frazil.stores.store import Store
from frazil.stores.values import ABSENT, Version

Report = Callable[[int], object]


class ArrayCopy(Record):
    """An array, the path of its copy below the group of the import, and the layout of the copy."""

    array: Array
    path: str
    layout: ArrayLayout


def copy_arrays(
    destination: Session | Location,
    group: str,
    groups: dict[str, dict[str, Json]],
    copies: Sequence[ArrayCopy],
    origin: tuple[str, str],
    report: Report,
    spool: Callable[[str], object],
    ended: Event,
    runtime: Runtime,
) -> None:
    """Writes the arrays below the group at a path, and the groups with their attributes.

    origin  describes the source: the same for the same file in the same state, and when that file last changed. With another time it may have other values, or
            another name or other permissions alone: what an interrupted copy has written is removed
    spool   is called with the path of an array whose chunks will be read more than once
    ended   is set when no more is read, also by Ctrl-C
    Raises AlreadyExistsError if another node has the path of an array, ConflictError, InvalidInputError, DataError, StoreError."""
    if isinstance(destination, Session):
        tasks = [_prepared(copy, destination, group, origin[0]) for copy in copies]
        make_groups(destination.root, group, groups)
        for copy, task in zip(copies, tasks, strict=True):
            _run(copy, task, report, spool, ended)
        return
    limits = runtime.checked()
    store, root = resolve(  # once for all arrays, because the store of a folder is an open file
        destination, group, requests_in_flight=limits.requests_in_flight, bytes_in_flight=limits.bytes_in_flight
    )
    journal = Journal(f"import {_digest(copies)} of {origin[0]}", source=origin[1])
    found = store.get_versioned(root + JOURNAL_NAME)
    noted = None if found is None else _same(parse_journal(found[0]), journal, store, root)
    again = noted is not None
    if noted is None:
        check_destination(destination, store, root)
    elif noted.source != journal.source:
        for copy in copies:
            store.erase_prefix(f"{joined(root, copy.path)}/")
    remaining = [copy for copy in copies if not (again and _is_complete(store, joined(root, copy.path)))]
    tasks = [_prepared(copy, store, root, origin[0]) for copy in remaining]
    version: Version = ABSENT if found is None or found[1] is None else found[1]
    put_journal(store, root, journal, version)
    try:
        make_groups(open_group(destination, "a"), group, groups)
        left = {copy.path for copy in remaining}
        for copy in copies:
            if copy.path not in left:
                report(copy.array.nbytes)
        for copy, task in zip(remaining, tasks, strict=True):
            _run(copy, task, report, spool, ended)
    except FrazilError:
        forget_journal(store, root, journal)
        raise
    erase_journal(store, root, journal)


def _run(copy: ArrayCopy, task: RechunkTask, report: Report, spool: Callable[[str], object], ended: Event) -> None:
    if task.plan.reads(copy.array.chunks) > 1:
        spool(copy.path)
    task.run(report, ended)


def make_groups(root: Group, path: str, groups: dict[str, dict[str, Json]]) -> None:
    """Creates the groups of a file, with their attributes, below the group at a path. Raises AlreadyExistsError if an array has the path of one."""
    target = root.require_group(path)
    for name, attributes in groups.items():
        group = target.require_group(name)
        if attributes:
            group.attrs.update(attributes)


def _prepared(copy: ArrayCopy, destination: Session | Location, group: str, origin: str) -> RechunkTask:
    layout = copy.layout
    return prepare_rechunk(
        copy.array,
        destination,
        chunks=layout.chunks,
        shards=layout.shards,
        codecs=layout.codecs,
        to=joined(group, copy.path),
        named=(f"{origin} {copy.path}", None),
    )


def _digest(copies: Sequence[ArrayCopy]) -> str:
    """A digest of the planned writes, so that a run with other arguments does not continue this one."""
    planned: Final = repr([(copy.path, copy.array.shape, *copy.layout[:3]) for copy in copies])
    return hashlib.sha256(planned.encode()).hexdigest()[:32]


def _same(found: Journal | None, journal: Journal, store: Store, root: str) -> Journal:
    """The journal of an interrupted copy that this one continues. Raises AlreadyExistsError for another one."""
    if found is not None and found.origin == journal.origin:
        return found
    raise AlreadyExistsError(
        f"another copy, or an import of another or a changed file or with other options, is running in {store}",
        path=root or "/",
        hint="run it again to finish it, or remove what it has written",
    )


def _is_complete(store: Store, path: str) -> bool:
    """Whether an array is complete. Its document is written after all its elements."""
    try:
        return isinstance(open_node(store, path=path), Array)
    except NotFoundError:
        return False
