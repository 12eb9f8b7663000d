"""frazil.rechunk: rewrites an array with other chunks, shards or codecs. Checks source and destination, writes in order, and resumes interrupted runs
(docs/design/029-rechunk.md)."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from threading import Event
from typing import TypeAlias

from frazil.api.destinations import check_destination
from frazil.api.nodes import create_array
from frazil.api.session import Session
from frazil.array.arguments import check_flag, checked_progress
from frazil.array.array import Array, with_limit
from frazil.array.creation.array_metadata import Lengths
from frazil.array.hierarchy.hidden_nodes import refuse_hidden
from frazil.array.hierarchy.node_changes import already_there, check_above, create_groups, drop_copies
from frazil.array.hierarchy.nodes import NodeLocation, find_nodes
from frazil.array.hierarchy.root import for_creation
from frazil.base.record import Record
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, ReadOnlyError, StoreError
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.paths import ancestors
from frazil.metadata.v3.documents import emit_node
from frazil.operations.array_source import open_source
from frazil.operations.convert.missing_values import masking
from frazil.operations.copy.journal import (
    JOURNAL_NAME,
    Journal,
    empty_destination,
    erase_journal,
    forget_journal,
    parse_journal,
    put_journal,
    require_only_journal,
)
from frazil.operations.rechunk.report import Rechunked
from frazil.operations.shards.shard_index import grid_extents
from frazil.operations.slabs import SlabPlan, element_nbytes, plan_slabs, read_slabs
from frazil.runtime import Runtime
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.location_overlap import address_of, check_no_overlap, origin_of, shown
from frazil.stores.locations import Location, resolve
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import ABSENT, Changed, Version, pieces_of

SAME = "same"
_PROCESS = secrets.token_hex(8)
_PAGE = 1000  # keys of the source in one listing
_MORE_READS = 1.1  # with more reads than this factor, two slabs at once are no gain
_LEAST = 2**23  # bytes of a rechunk whose source is read by requests; their client holds more than that in any case
Extents: TypeAlias = "Lengths | str"


def rechunk(
    source: Location | Array,
    destination: Location | Session,
    *,
    chunks: Extents = SAME,
    shards: Extents | None = SAME,
    codecs: object = SAME,
    path: str = "",
    to: str = "",
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Callable[[int], object] | None = None,
    runtime: Runtime | None = None,
) -> Rechunked:
    """Writes a copy of an array with other chunks, shards or codecs. Elements, fill value, attributes and dimension names are kept. The new array is final Zarr
    v3.

    source       an Array, or the location of one
    path         path of the node at the source
    destination  an empty location, or that of an interrupted run with the same arguments, which is resumed. Or a writable Session, or its store: commit it
                 afterwards
    to           path of the new node at the destination
    chunks       elements along each dimension, "auto", or "same" as in the source
    shards       elements along each dimension, "auto", None for none, or "same" as in the source
    codecs       as in create_array, or "same" as for the inner chunks of the source
    overwrite    empties the destination first
    dry_run      writes nothing, and reports the planned rechunk
    progress     called with the bytes of elements written since the last call
    runtime      bytes_in_flight: bytes in memory, at least those of one new shard, and 8 MiB if the source is read by requests; None: that of the Array, or
                 the default
    The document is written last: before that, the new array does not exist for readers. No process should write to the source during the run; if the source was
    changed after an interruption, all of it is read again. Raises NotFoundError, AlreadyExistsError, InvalidInputError (also if source and destination are the
    same location, or one is inside the other), ReadOnlyError, StoreError, DataError."""
    report = checked_progress(progress)
    check_flag(dry_run, "dry_run")
    array = open_source(source, path, runtime)
    task = prepare_rechunk(array, destination, chunks=chunks, shards=shards, codecs=codecs, to=to, overwrite=overwrite)
    return task.preview() if dry_run else task.run(report)


def prepare_rechunk(
    array: Array,
    destination: Location | Session,
    *,
    chunks: Extents = SAME,
    shards: Extents | None = SAME,
    codecs: object = SAME,
    to: str = "",
    overwrite: bool = False,
    named: tuple[str | None, str | None] = (None, None),
) -> RechunkTask:
    """All checks before writing. named: names of the two locations for messages; other arguments and errors as in `rechunk`."""
    check_flag(overwrite, "overwrite")
    location = destination.store if isinstance(destination, Session) else destination
    limits = array._location.runtime.checked()
    store, root = resolve(
        location, to, requests_in_flight=limits.requests_in_flight, bytes_in_flight=limits.bytes_in_flight
    )
    _check_no_overlap(array, store, root)
    can = store.capabilities
    if not can.writable:
        raise ReadOnlyError(f"{store} can only be read", hint="open it for writing, or choose another destination")
    if not can.listable or not can.erasable:
        raise StoreError(
            f"{store} cannot list or remove keys, which the journal of a rechunk needs",
            hint="choose another destination, and copy the array from there with frazil.copy",
        )
    metadata = _new_metadata(array, chunks, shards, codecs)
    origin = named[0] or _source_digest(array)
    names = named[0] or shown(array.store, array.path and f"{array.path}/"), named[1] or shown(store, root)
    plan, journal, version, replaces = (
        _plan(array, metadata),
        Journal(_with_documents(origin, array, metadata)),
        ABSENT,
        False,
    )
    if isinstance(store, NodeStore):
        if not store.is_empty(root) and not overwrite:
            raise already_there(store, root)
        return RechunkTask(array, location, to, store, root, metadata, plan, None, ABSENT, names, overwrite)
    found = store.get_versioned(root + JOURNAL_NAME)
    noted = None if found is None else parse_journal(found[0])
    own = noted if noted is not None and noted.origin == journal.origin else None
    is_empty = store.is_empty(root)
    again = own is not None and not own.emptying
    if own is None and not is_empty and not overwrite:
        raise already_there(store, root)
    replaces = not is_empty and not again
    check_destination(
        location, store, root, overwrite=replaces and own is None, may_be_repository=is_empty or own is not None
    )
    _check_location(store, root)
    held_by_source = _digest(array)
    if again and own is not None:
        done = 0
        if own.source == held_by_source:
            plan, done = _of_state(own.state, plan)
        journal = journal._replace(state=_state(plan, done))
    version = ABSENT if found is None or found[1] is None else found[1]
    journal = journal._replace(run=secrets.token_hex(8), source=held_by_source)
    return RechunkTask(array, location, to, store, root, metadata, plan, journal, version, names, replaces)


class RechunkTask(Record):
    """A checked rechunk, ready to run.

    location, to  the destination as given by the user;  store, root: the same, resolved
    metadata  of the new array;  journal: at the destination during the run; None in a session, where unfinished arrays are invisible
    held      the version of the existing journal, ABSENT for none;  replaces: the destination is emptied first"""

    array: Array
    location: Location
    to: str
    store: Store
    root: str
    metadata: ArrayMetadata
    plan: SlabPlan
    journal: Journal | None
    held: Version
    names: tuple[str, str]
    replaces: bool

    def preview(self) -> Rechunked:
        """The planned rechunk."""
        return self._report(0.0, dry_run=True)

    def run(self, report: Callable[[int], object], ended: Event | None = None) -> Rechunked:
        """Runs the rechunk. report is called, by this thread, with the bytes of elements written since the last call. May be interrupted anywhere, and run
        again. ended: set when an interrupt or error ends the reading of the array before its end."""
        begun = time.monotonic()
        if self.journal is None:
            target = create_array(
                self.location,
                path=self.to,
                overwrite=self.replaces,
                **_arguments(self.metadata, self.array),  # type: ignore[arg-type]
            )
            self._write(target, report, None, None, ended)
            return self._report(time.monotonic() - begun)
        store, root, journal, journal_version = self.store, self.root, self.journal, self.held
        if self.replaces:
            version = put_journal(store, root, journal._replace(emptying=True), journal_version)
            journal_version = version if version is not None else journal_version
            empty_destination(store, root)
        version = put_journal(store, root, journal, journal_version)
        try:
            if not journal.state:
                require_only_journal(store, root)
            self._write(Array(self._node_location(), self.metadata, documented=False), report, journal, version, ended)
            self._finish()
        except FrazilError:
            forget_journal(store, root, journal)
            raise
        erase_journal(store, root, journal)
        return self._report(time.monotonic() - begun)

    def _node_location(self) -> NodeLocation:
        node_location = self.array._location
        return NodeLocation(
            self.store, self.root[:-1] if self.root else "", node_location.registry, node_location.runtime
        )

    def _write(
        self,
        target: Array,
        report: Callable[[int], object],
        journal: Journal | None,
        version: Version | None,
        ended: Event | None,
    ) -> None:
        """Writes slab by slab. Half of the bytes is for the slab, or for two slabs if the next is read while one is written. One eighth each is for reads and
        writes in flight: clients of remote stores hold up to twice as much, and release memory with a delay."""
        eighth = _memory(self.array) // 8
        if journal is None:
            target = Array(target._location._replace(runtime=_runtime_within(target, eighth)), target.metadata)
        else:
            target = Array(
                target._location._replace(runtime=_runtime_within(target, eighth)), self.metadata, documented=False
            )
        done = _slabs_done(journal)
        prefetch = self.plan.slab_count - done > 1 and 2 * self.plan.nbytes <= 4 * eighth
        for slab in read_slabs(with_limit(self.array, eighth), self.plan, done, prefetch=prefetch, ended=ended):
            target[slab.box] = slab.values
            if journal is not None and slab.last:
                journal = journal._replace(state=_state(self.plan, slab.number + 1))
                version = put_journal(self.store, self.root, journal, version)
            report(slab.values.nbytes)

    def _finish(self) -> None:
        """Writes missing groups above, then the document, which makes the array visible."""
        node_location = self._node_location()
        nodes = {node_location.path: self.metadata}
        above = sorted(ancestors(node_location.path))
        existing = find_nodes(node_location, above) if above else {}
        check_above(nodes, existing)
        drop_copies(node_location, existing)
        create_groups(node_location, [path for path in above if path not in existing], nodes)
        key = node_location.layout.document_key(node_location.path, ArrayMetadata)
        expect = ABSENT if self.store.capabilities.expects else None
        document = node_location.layout.emit(self.metadata)
        answer = self.store.put_many([key], pieces_of([document]), [expect])[0]
        if isinstance(answer, Changed) and self.store.get(key) != document:
            raise AlreadyExistsError(
                "another process has created a node there", key=key, path=node_location.path or "/"
            )

    def _report(self, seconds: float, *, dry_run: bool = False) -> Rechunked:
        array = self.array
        created = Array(self._node_location()._replace(nodes=None), self.metadata, documented=False)
        return Rechunked(
            *self.names,
            array.shape,
            created.chunks,
            created.shards,
            array.nbytes,
            self.plan.slab_count,
            _slabs_done(self.journal),
            self.plan.nbytes,
            self.plan.reads(array.chunks),
            seconds,
            dry_run,
        )


def _memory(array: Array) -> int:
    """Bytes for slabs, reads and writes. With less, chunks would be requested very often, and one after the other."""
    limit = array._location.runtime.checked().bytes_in_flight
    return limit if array._storage.direct else max(limit, _LEAST)


def _runtime_within(array: Array, nbytes: int) -> Runtime:
    return array._location.runtime._replace(bytes_in_flight=max(1, nbytes))


# --- refused locations -----------------------------------------------------------------------------------------------------------------


def _check_no_overlap(array: Array, store: Store, root: str) -> None:
    check_no_overlap(
        address_of(*_source_location(array)),
        address_of(store, root),
        "an array cannot be rechunked in place: choose another destination",
    )


def _source_location(array: Array) -> tuple[Store, str]:
    """The prefix below which the array is."""
    # of a hierarchy of the drafts, whose nodes have no folder of their own
    root = getattr(array._location.layout, "root", None)
    prefix = f"{array.path}/" if array.path else ""
    return array.store, prefix if root is None else root


def _check_location(store: Store, root: str) -> None:
    """Refuses a location in a hierarchy of another dialect, or below an array."""
    path = root[:-1] if root else ""
    node_location, _ = for_creation(NodeLocation(store), path, None, overwrite=False)
    if node_location.layout.zarr_format != 3:
        raise InvalidInputError(
            "the destination is in a hierarchy of another dialect, and the new array is final Zarr v3",
            path=path or "/",
            hint="choose a location beside it",
        )
    above = sorted(ancestors(path))
    if above:
        existing = find_nodes(node_location, above)
        check_above([path], existing)
        refuse_hidden(store, node_location.layout, set(above) - existing.keys())


# --- metadata and plan -----------------------------------------------------------------------------------------------------------------


def _new_metadata(array: Array, chunks: Extents, shards: Extents | None, codecs: object) -> ArrayMetadata:
    """The metadata of the new array. Raises MetadataError, which names the argument."""
    created = create_array(
        MemoryStore(),
        shape=array.shape,
        dtype=array.metadata.data_type,
        chunks=array.chunks if _is_same(chunks) else chunks,
        shards=array.shards if _is_same(shards) else shards,
        codecs=list(array.codecs) if _is_same(codecs) else codecs,
        fill_value=array.metadata.fill_value,
        attributes=masking(array.metadata, 3).attributes,
        dimension_names=array.dimension_names,
        registry=array._location.registry,
        zarr_format=3,
    )
    return created.metadata


def _is_same(value: object) -> bool:
    return isinstance(value, str) and value == SAME


def _arguments(metadata: ArrayMetadata, array: Array) -> dict[str, object]:
    """Arguments of create_array for an array with this metadata in a session."""
    planned = Array(NodeLocation(MemoryStore(), "", array._location.registry), metadata, documented=False)
    return {
        "shape": metadata.shape,
        "dtype": metadata.data_type,
        "chunks": planned.chunks,
        "shards": planned.shards,
        "codecs": list(planned.codecs),
        "fill_value": metadata.fill_value,
        "attributes": metadata.attributes,
        "dimension_names": metadata.dimension_names,
        "registry": array._location.registry,
    }


def _plan(array: Array, metadata: ArrayMetadata) -> SlabPlan:
    """The slab plan that writes each new shard whole, and once. Two slabs fit into half of the bytes, if such slabs read chunks about as few times as larger
    ones.

    A source chunk that is decoded whole may be larger than this half: then slabs may be as large."""
    planned = Array(NodeLocation(MemoryStore(), "", array._location.registry), metadata, documented=False)
    inner, half = array._compiled.chain.inner_chunk, _memory(array) // 2
    if inner.stage is not None or inner.bound > inner.nbytes:  # not stored as plain elements, of which parts are read
        half = max(half, inner.nbytes)
    arguments = array.shape, element_nbytes(array), grid_extents(planned), array.chunks
    whole_budget, two = (plan_slabs(*arguments, nbytes, array.shards) for nbytes in (half, half // 2))
    return (
        two
        if two.nbytes <= half // 2 and two.reads(array.chunks) <= _MORE_READS * whole_budget.reads(array.chunks)
        else whole_budget
    )


# --- the journal --------------------------------------------------------------------------------------------------------------------------


def _source_digest(array: Array) -> str:
    """The source as a text that is the same in another process."""
    nodes = array._location.nodes
    if nodes is not None:
        return f"{nodes.version!r} {array.path}"
    prefix = f"{array.path}/" if array.path else ""
    kind, _ = address_of(array.store, prefix)
    if isinstance(kind, str):
        return origin_of(array.store, prefix)
    if isinstance(kind, int):
        return f"{secrets.token_hex(16)} {prefix}"  # another store may get this address later
    return f"{kind!r} {prefix} in process {_PROCESS}"  # memory with the same name differs in another process


def _with_documents(origin: str, array: Array, metadata: ArrayMetadata) -> str:
    """The origin with a digest of the source's layout and of the new metadata, which is equal for equal arguments."""
    identity = repr((array.shape, array.metadata.data_type.label, array.chunks, array.shards)).encode() + emit_node(
        metadata
    )
    return f"rechunk {hashlib.sha256(identity).hexdigest()[:32]} of {origin}"


def _digest(array: Array) -> str:
    """A digest of the source's keys with sizes and versions, from one listing. "" for a source without listing, for one without a name, whose runs are never
    resumed, and for a snapshot, which never changes."""
    store, prefix = _source_location(array)
    if (
        array._location.nodes is not None
        or not store.capabilities.listable
        or isinstance(address_of(store, prefix)[0], int)
    ):
        return ""
    digest, after = hashlib.sha256(), ""
    while True:
        page = store.list_page(prefix, after, details=True, limit=_PAGE)
        for key, size, version in zip(page.keys, page.sizes, page.versions, strict=True):  # type: ignore[arg-type] # details
            digest.update(repr((key, int(size), version)).encode())
        if page.next is None:
            return digest.hexdigest()[:32]
        after = page.next


def _state(plan: SlabPlan, done: int) -> dict[str, Json]:
    return {"slabs": done, "axis": plan.axis, "column": list(plan.column), "nbytes": plan.nbytes}


def _slabs_done(journal: Journal | None) -> int:
    done = 0 if journal is None else journal.state.get("slabs", 0)
    return done if isinstance(done, int) else 0


def _of_state(state: object, plan: SlabPlan) -> tuple[SlabPlan, int]:
    """The plan of an interrupted run, and the number of its written slabs; the plan of the present run if none is written."""
    if isinstance(state, dict):
        done, axis, column, nbytes = (state.get(name) for name in ("slabs", "axis", "column", "nbytes"))
        if isinstance(done, int) and isinstance(axis, int) and isinstance(column, list) and isinstance(nbytes, int):
            lengths = tuple(length for length in column if isinstance(length, int) and length > 0)
            if done > 0 and len(lengths) == len(plan.shape) and 0 <= axis < max(1, len(plan.shape)):
                return plan._replace(axis=axis, column=lengths, nbytes=nbytes), done
    return plan, 0
