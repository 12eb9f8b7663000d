"""Runs a conversion. The order keeps the hierarchy readable wherever the run stops: new chunks, new documents, the new zarr.json, and then, in place, the
removal of the old keys. A journal marks a running conversion. plan.py plans the conversion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Protocol

import numpy as np

from frazil.base.record import Record
from frazil.codecs.registry import Registry
from frazil.errors import AlreadyExistsError, ConflictError
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.operations.convert.chunk_move import Moved, Route, check_chunks, check_folders, move_chunks
from frazil.operations.convert.hierarchy_keys import ENTRY_NAME, Claims, Hierarchy
from frazil.operations.convert.journal import Journal
from frazil.operations.convert.key_sweep import Sweep
from frazil.operations.convert.plan import ArrayPlan, Plan
from frazil.operations.convert.report import Conversion, ConvertedArray
from frazil.runtime import Runtime
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.location_overlap import shown
from frazil.stores.store import Store
from frazil.stores.values import ABSENT, ANY, Changed, pieces_of

_BATCH = 1024  # small objects written or erased in one call

_NOTHING = Moved(0, 0)

Report = Callable[[int], object]


class Conversions(Protocol):
    """A conversion with a preview, which writes nothing."""

    def preview(self) -> Conversion: ...

    def run(self, report: Report) -> Conversion: ...


class Task(Record):
    """A conversion. again: an interrupted run left its journal, and the chunks that it had moved; replace: the destination is emptied first."""

    plan: Plan
    store: Store
    to_store: Store
    journal: Journal
    registry: Registry
    runtime: Runtime
    again: bool
    replace: bool = False

    @property
    def in_place(self) -> bool:
        return self.journal.origin == ""

    def preview(self) -> Conversion:
        """The planned conversion. Raises the errors of `run` that can be known before: see _check."""
        straight = not self.in_place or 3 in self.journal[:2]  # otherwise a part of a Chain, without checks
        if straight and self.in_place and not self.again:
            _check_free(self.store, self.plan)
        sweep, route = self._sweep(), self._route(lambda _: None)
        moved: dict[str, Moved] = {}
        for chunks in sweep:
            if straight:
                check_chunks(route, self.plan.arrays[chunks.path], chunks)
            existing = Moved.of(chunks.sizes_in(self.store))
            moved[chunks.path] = moved.get(chunks.path, _NOTHING).plus(existing)
        return self._conversion(moved, sweep.stray_count, 0, dry_run=True)

    def run(self, report: Report) -> Conversion:
        """Runs the conversion. It may be interrupted anywhere, and run again; in a session of a repository everything becomes visible with the commit."""
        if isinstance(self.to_store, NodeStore):
            return self._run_in_session(report)
        plan, to_store = self.plan, self.to_store
        self._check()
        if self.again:
            to_store.put(plan.target.journal_key, self.journal.emit())  # nodes may have been added or removed
            self._prune()
        else:
            self._begin()
        moved, strays = self._move(report)
        plan = plan.with_whole([path for path, array in plan.arrays.items() if _is_whole(array, moved.get(path))])
        # the document that determines the dialect is written last; for Zarr v2, zarr.json is removed when all else is written
        last = "" if self._leaves_entry else plan.target.entry_key
        self._put([document for document in plan.documents if document[0] != last])
        self._switch(*plan.documents[-1])
        removed = remove_nodes(self.store, plan.source, plan.nodes, self._made()) if self.in_place else 0
        if to_store.capabilities.erasable:
            to_store.erase(plan.target.journal_key)
        return self._conversion(moved, strays, removed, dry_run=False)

    def _run_in_session(self, report: Report) -> Conversion:
        """Documents are written first, as a chunk needs its array in a session."""
        if self.replace:
            self.to_store.erase_prefix(self.plan.target.root)
        self._put(self.plan.documents)
        moved, strays = self._move(report)
        return self._conversion(moved, strays, 0, dry_run=False)

    def _move(self, report: Report) -> tuple[dict[str, Moved], int]:
        """Moves all chunks. Returns the moved objects of each array, and the number of keys that belong to no node."""
        route, sweep = self._route(report), self._sweep()
        moved: dict[str, Moved] = {}
        for chunks in sweep:
            done = (
                Moved.of(chunks.sizes_in(self.store))
                if self._stay(chunks.path)
                else move_chunks(route, self.plan.arrays[chunks.path], chunks)
            )
            moved[chunks.path] = moved.get(chunks.path, _NOTHING).plus(done)
        return moved, sweep.stray_count

    def _put(self, documents: Sequence[tuple[str, bytes]]) -> None:
        for first in range(0, len(documents), _BATCH):
            part = documents[first : first + _BATCH]
            self.to_store.put_many([key for key, _ in part], pieces_of([value for _, value in part]), [ANY] * len(part))

    def _route(self, report: Report) -> Route:
        return Route(
            self.store,
            self.plan.source,
            self.to_store,
            self.plan.target,
            self.registry,
            self.runtime,
            self.in_place,
            self.again,
            report,
        )

    def _check(self) -> None:
        """Raises errors that would stop the run in its middle, if existing data is at risk: for damaged indexes, and for conflicting keys."""
        if self.in_place and not self.again:
            _check_free(self.store, self.plan)
        if not self.in_place and not (
            self.replace and "shard index" in {array.way for array in self.plan.arrays.values()}
        ):
            return
        route = self._route(lambda _: None)
        for chunks in self._sweep():
            check_chunks(route, self.plan.arrays[chunks.path], chunks)

    def _made(self) -> Claims:
        return Claims(self.plan.target, self.plan.made)

    def _sweep(self) -> Sweep:
        return Sweep(self.store, self.plan.source, self.plan.nodes, self._made() if self.in_place else None)

    def _begin(self) -> None:
        """Empties the destination if `replace` is set, and writes the journal."""
        plan, to_store = self.plan, self.to_store
        if self.replace:
            to_store.erase_prefix(plan.target.root)
        if to_store.capabilities.erasable:
            expect = ABSENT if to_store.capabilities.conditional else ANY
            if isinstance(to_store.put(plan.target.journal_key, self.journal.emit(), expect), Changed):
                raise _changed(plan.target.journal_key)

    def _prune(self) -> None:
        """Removes chunks of the interrupted run whose source no longer exists; at another location also its other keys."""
        plan, lost = self.plan, list[str]()
        source, others = plan.source, Claims(plan.source, plan.nodes) if self.in_place else None
        sweep = Sweep(self.to_store, plan.target, plan.made, others, None if self.in_place else lost.append)
        for chunks in sweep:
            array, prefix = plan.arrays[chunks.path].source, source.data_prefix(chunks.path)
            keys = array.chunk_key_encoding.encode_all(chunks.coords, prefix)
            missing = self.store.sizes(keys) < 0
            if (also := getattr(array.chunk_key_encoding, "also", None)) and not array.ndim:
                missing &= self.store.sizes([prefix + also]) < 0
            lost += [chunks.keys[i] for i in np.flatnonzero(missing).tolist()]
        if self.in_place and not self._is_source():
            raise _changed(self._switch_key)  # another run has removed the sources: only these chunks are left
        _erase(self.to_store, lost)

    def _switch(self, key: str, value: bytes) -> None:
        """Writes the new zarr.json, in one step, if the old one has not changed."""
        if not self.in_place:
            self.to_store.put(key, value)
            return
        if not self._is_source():
            raise _changed(self._switch_key)
        if self._leaves_entry:
            self.store.erase(self._switch_key)
            return
        expected = self._source_entry
        self.store.update(key, lambda old: value if old == expected else None)
        if self.store.get(key) != value:
            raise _changed(key)

    @property
    def _switch_key(self) -> str:
        """In place: the document that determines the dialect of the hierarchy. Without it, the hierarchy is of Zarr v2."""
        return self.plan.source.root + ENTRY_NAME

    @property
    def _source_entry(self) -> bytes | None:
        """In place: this document before the conversion."""
        old = self.plan.source.layout.zarr_format == 2
        return None if old else self.journal.documents[ENTRY_NAME].encode("latin-1")

    @property
    def _leaves_entry(self) -> bool:
        """Whether the conversion ends with the removal of this document."""
        return self.in_place and self.plan.target.layout.zarr_format == 2

    def _is_source(self) -> bool:
        """In place: whether the hierarchy still has the old dialect."""
        return self.store.get(self._switch_key) == self._source_entry

    def _stay(self, path: str) -> bool:
        """Whether chunks of an array keep their keys, as for Zarr v2."""
        array = self.plan.arrays[path]
        if not self.in_place or array.way != "bytes":
            return False
        prefixes = self.plan.source.data_prefix(path), self.plan.target.data_prefix(path)
        return prefixes[0] == prefixes[1] and array.source.chunk_key_encoding == array.target.chunk_key_encoding

    def _conversion(self, moved: Mapping[str, Moved], strays: int, removed: int, *, dry_run: bool) -> Conversion:
        plan = self.plan
        arrays = [
            ConvertedArray(path, array.way, *moved.get(path, _NOTHING)[:3])
            for path, array in sorted(plan.arrays.items())
        ]
        return Conversion(
            shown(self.store, plan.source.root),
            shown(self.to_store, plan.target.root),
            plan.source.layout.zarr_format,
            plan.target.layout.zarr_format,
            in_place=self.in_place,
            dry_run=dry_run,
            groups=len(plan.nodes) - len(plan.arrays),
            documents=len(plan.documents),
            arrays=tuple(arrays),
            left_behind=strays,
            removed=removed,
        )


class DialectRemoval(Record):
    """The removal of the nodes of one dialect, for a conversion in place that was interrupted after the new zarr.json, or that is undone before it. removed:
    the hierarchy to remove; kept, kept_nodes: the other one, which zarr.json determines. Without a journal nothing is done."""

    store: Store
    journal: Journal | None
    removed: Hierarchy
    removed_nodes: Mapping[str, Metadata]
    kept: Hierarchy
    kept_nodes: Mapping[str, Metadata]

    def preview(self) -> Conversion:
        """The planned removal; the keys to remove are not counted."""
        return self._conversion(0, dry_run=True)

    def run(self, report: Report) -> Conversion:
        if self.journal is None:
            return self._conversion(0, dry_run=False)
        removed = remove_nodes(self.store, self.removed, self.removed_nodes, Claims(self.kept, self.kept_nodes))
        self.store.erase(self.kept.journal_key)
        return self._conversion(removed, dry_run=False)

    def _conversion(self, removed: int, *, dry_run: bool) -> Conversion:
        nodes = self.kept_nodes
        arrays = sum(isinstance(node, ArrayMetadata) for node in nodes.values())
        location, now = shown(self.store, self.kept.root), self.kept.layout.zarr_format
        before = now
        if self.journal is not None:
            before = self.journal.source_format if now == self.journal.target_format else self.journal.target_format
        return Conversion(
            location, location, before, now, True, dry_run, len(nodes) - arrays, 0, (), left_behind=0, removed=removed
        )


class Chain(Record):
    """Two consecutive conversions in place. whole: the direct conversion, only for the preview; then: makes the second when the first is done."""

    whole: Conversions
    first: Conversions
    then: Callable[[], Conversions]

    def preview(self) -> Conversion:
        self.first.preview()  # for its errors
        return self.whole.preview()

    def run(self, report: Report) -> Conversion:
        first = self.first.run(report)
        last = self.then().run(lambda _: None)
        return last._replace(source_format=first.source_format, removed=first.removed + last.removed)


def remove_nodes(store: Store, hierarchy: Hierarchy, nodes: Mapping[str, Metadata], others: Claims) -> int:
    """Removes the documents of a hierarchy except zarr.json, its chunks, and folders that become empty; returns the number of keys. Chunks that also belong to
    the other hierarchy stay.

    Documents are removed first, so that no program finds a node of the old dialect and writes to it."""
    documents = [key for path, node in nodes.items() for key in _documents(hierarchy, path, node)]
    documents = [key for key in documents if key != hierarchy.root + ENTRY_NAME and not others.is_document(key)]
    documents = [key for key, size in zip(documents, store.sizes(documents).tolist(), strict=True) if size >= 0]
    _erase(store, documents)
    count, tops = len(documents), _tops(documents, hierarchy.root)
    for chunks in Sweep(store, hierarchy, nodes, others):
        unclaimed = [key for key in chunks.keys if others.chunk(key) is None]
        _erase(store, unclaimed)
        count += len(unclaimed)
        tops.update(_tops(unclaimed, hierarchy.root))
    layout = hierarchy.layout
    inner = {layout.documents_prefix(hierarchy.at("")), hierarchy.data_prefix("")} - {hierarchy.root}
    for prefix in [*sorted(tops), *sorted(inner)]:
        if store.is_empty(prefix):
            store.erase_prefix(prefix)
    return count


def _is_whole(array: ArrayPlan, moved: Moved | None) -> bool:
    """Whether the destination has all chunks of an array."""
    stored = _NOTHING if moved is None else moved
    return stored.objects - stored.empty == prod(array.target.grid_shape)


def _documents(hierarchy: Hierarchy, path: str, node: Metadata) -> Iterator[str]:
    """The keys of a node's own documents, and of copies of other documents that it may have."""
    if not getattr(node, "implicit", False):
        at, layout = hierarchy.at(path), hierarchy.layout
        yield hierarchy.document_key(path, node)
        yield from filter(None, (layout.attributes_key(at), layout.copies_key(at)))


def _tops(keys: Sequence[str], root: str) -> set[str]:
    """The prefixes directly below the root that contain the keys."""
    inner = (key[len(root) :] for key in keys)
    return {f"{root}{key[: key.index('/') + 1]}" for key in inner if "/" in key}


def _erase(store: Store, keys: Sequence[str]) -> None:
    for first in range(0, len(keys), _BATCH):
        store.erase_values(keys[first : first + _BATCH])


def _changed(key: str) -> ConflictError:
    return ConflictError(
        f"{key.rpartition('/')[2]} was changed while the hierarchy was converted",
        key=key,
        hint="find out what changed it, perhaps another conversion; then convert again",
    )


def _check_free(store: Store, plan: Plan) -> None:
    """Raises AlreadyExistsError for existing keys that conflict with the new dialect: an equal key, such as a chunk that a removed array left behind, a file in
    place of a folder, or a folder in place of a document."""
    claims, strays = Claims(plan.target, plan.made), list[str]()
    for _ in Sweep(store, plan.source, plan.nodes, None, strays.append):
        pass
    found = [key for key in strays if claims.meets(key)]
    if found:
        raise AlreadyExistsError(
            f"{len(found)} keys that belong to no node are where the new dialect would write",
            key=found[0],
            hint="remove these keys, or convert to another location",
        )
    check_folders(store, [key for key, _ in plan.documents])
