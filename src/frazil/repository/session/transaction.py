"""The nodes of a session: a snapshot with the changes on top of it as NodeStorage (stores/array_storage/node_storage.py, the port).

commit/ commits it; merge/ rebases it on a branch that moved, and merges forks. api/ has what users see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from frazil.base.arrays import Octets
from frazil.errors import AlreadyExistsError, ConflictError, FrazilError, InvalidInputError, NotFoundError
from frazil.formats.ids import encode_id
from frazil.formats.nodes import Node, NodeSnapshot, StoredMetadata
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.repository.manifests.coordinates import grid_of, sorted_coordinates, within
from frazil.repository.session.array_chunks import ArrayChunks
from frazil.repository.session.attributes import same_attributes
from frazil.repository.session.change_set import ChangeSet, NodeChange, above
from frazil.repository.session.changed_references import Rows, removed_rows
from frazil.repository.session.read_log import ReadLog
from frazil.repository.session.session_state import Options, SessionState
from frazil.repository.session.written_files import own_files
from frazil.stores.array_storage.chunk_storage import ChunkStorage
from frazil.stores.array_storage.node_storage import NodeStorage

__all__ = ["Options", "Transaction"]


class Transaction(SessionState):
    """NodeStorage of a session. Safe to use from many threads."""

    @property
    def version(self) -> tuple[object, int]:
        with self.lock:
            changed = not self.changes.is_empty
            begun = self.files.store, self.files.prefix, encode_id(self.base_id), self.options.virtual.elsewhere
            return begun, self.state if changed else 0

    # --- nodes: reading --------------------------------------------------------------------------------------------------------------

    def find(self, path: str) -> Metadata | FrazilError | None:
        with self.lock:
            if self.reads is not None:
                self.reads.nodes |= {"/" + path, self.changes.base_path("/" + path)}
        return self._found("/" + path)

    def _found(self, path: str) -> Metadata | FrazilError | None:
        with self.lock:
            nodes, document = self.changes.base, self.changes.document(path)
            node = self.changes.get(path) if document is None else None
        if document is not None:
            return self.documents.at(nodes, path, document)
        return None if node is None else self.documents.of(node)

    def exists(self, path: str) -> bool:
        with self.lock:
            if self.reads is not None:
                self.reads.nodes |= {"/" + path, self.changes.base_path("/" + path)}
            return self.changes.has("/" + path)

    def children(self, path: str) -> list[str]:
        with self.lock:
            if self.reads is not None:
                self.reads.listed |= {"/" + path, self.changes.base_path("/" + path)}
            return [at[1:] for at in self.changes.children("/" + path)]

    def below(self, path: str, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
        absolute = "/" + path
        deepest = None if max_depth is None else (0 if path == "" else absolute.count("/")) + max_depth + 1
        with self.lock:
            every = [
                at
                for at in self.changes.at_and_below(absolute)
                if at != absolute and (deepest is None or at.count("/") <= deepest)
            ]
            if self.reads is not None:
                self.reads.deep |= {absolute, self.changes.base_path(absolute)}
        for at in every:
            found = self._found(at)
            if found is not None:
                yield at[1:], found

    # --- nodes: changing -------------------------------------------------------------------------------------------------------------

    def change(self, path: str, change: Callable[[Metadata], Metadata]) -> Metadata:
        absolute = "/" + path
        with self.lock:
            self.require_writable()
            self.state += 1
            if not path and not self.changes.has(absolute):
                self.changes.add(NodeSnapshot(0, absolute))
            node = self.changes.get(absolute)
            if node is None:
                raise NotFoundError("the node is gone", path=absolute, hint="it was removed")
            old = self._readable(node)
            new = change(old)
            same = same_attributes(self.files, new.attributes, old.attributes)  # in Python 1, 1.0 and True are equal
            if same and new == old:
                return new
            touched = self.changes.touch(absolute)
            is_resized = same and isinstance(new, ArrayMetadata) and new.differs_in_shape_alone(old)
            before, changed = touched.node, self._changed_node(touched.node, new, resized=is_resized)
            if before.array is not None and changed.array is not None:
                was, now = before.array.metadata, changed.array.metadata
                if len(was.shape) != len(now.shape):
                    raise InvalidInputError(
                        f"an array of {len(was.shape)} dimensions cannot become one of {len(now.shape)}",
                        path=absolute,
                        hint="remove the array, and create another one",
                    )
                touched.shrunk |= any(after < ago for after, ago in zip(now.shape, was.shape, strict=True))
                if touched.shrunk or self.rules.foreign:
                    self._drop_beyond(touched, was, now)
                changed = changed._replace(array=changed.array._replace(manifests=before.array.manifests))
            touched.node = changed._replace(id=before.id, attributes=before.attributes if same else changed.attributes)
            return new if is_resized else self._readable(touched.node)

    def _changed_node(self, node: NodeSnapshot, new: Metadata, *, resized: bool) -> NodeSnapshot:
        """A node with other metadata. resized: whether only the shape differs. Raises as _as_node."""
        if resized and isinstance(new, ArrayMetadata):
            return self.files.resized_node(node, new.shape)
        return self._as_node(node.path, new, node)

    def _readable(self, node: Node) -> Metadata:
        """The metadata of a node. Raises its error if it cannot be read."""
        found = self.documents.of(node)
        if isinstance(found, FrazilError):
            raise found
        return found

    def _drop_beyond(self, touched: NodeChange, old: StoredMetadata, new: StoredMetadata) -> None:
        """Removes references outside of the old grid that a larger grid would show again: left by a change of the shape that did not remove chunks, here or by
        other programs."""
        if all(after <= before for before, after in zip(old.shape, new.shape, strict=True)):
            return
        stored = self.base_references(touched.base)
        coordinates = np.zeros((0, len(old.shape)), np.int64) if stored is None else stored.coordinates()
        if touched.references is not None:
            coordinates = np.concatenate((coordinates, touched.references.columns.coordinates))
        outside = coordinates[~within(coordinates, grid_of(old)) & within(coordinates, grid_of(new))]
        if len(outside):
            touched.changed_references().set(removed_rows(sorted_coordinates(outside)))

    def _as_node(self, path: str, metadata: Metadata, old: NodeSnapshot | None = None) -> NodeSnapshot:
        """A node with this metadata. Raises InvalidInputError for what the format cannot hold, and if the old node is of another kind."""
        if old is not None and isinstance(metadata, ArrayMetadata) != (old.array is not None):
            raise InvalidInputError("another kind of node is there", path=path, hint="remove it first")
        return self.files.node(path, metadata, self.rules, old)

    def create(self, nodes: Mapping[str, Metadata], *, overwrite: bool) -> None:
        with self.lock:
            self.require_writable()
            self.state += 1
            created = {f"/{path}": self._as_node(f"/{path}", metadata) for path, metadata in nodes.items()}
            groups = self._prepare(created, overwrite=overwrite)
            for path, node in {**groups, **created}.items():
                if self.changes.has(path):
                    self._remove(path)
                self.changes.add(node)

    def _prepare(self, created: Mapping[str, NodeSnapshot], *, overwrite: bool) -> dict[str, NodeSnapshot]:
        """The missing groups above new nodes. Raises AlreadyExistsError, InvalidInputError as `create`."""
        groups = self._groups_above(created)
        for path in created:
            if not overwrite and self.changes.has(path):
                raise AlreadyExistsError(
                    f"something already exists in {self}",
                    path=path,
                    hint="choose another path, or replace it with overwrite=True",
                )
        return groups

    def _groups_above(self, created: Mapping[str, NodeSnapshot]) -> dict[str, NodeSnapshot]:
        """The missing groups above new nodes. Raises InvalidInputError if an array is above one."""
        groups: dict[str, NodeSnapshot] = {}
        for path in created:
            for at in above(path):
                exists = at in created or self.changes.has(at)
                if exists and (created[at].array is not None if at in created else self.changes.is_array(at)):
                    raise InvalidInputError(
                        f"an array is at {at}, and arrays have no children", path=path, hint="choose a path beside it"
                    )
                if not exists:
                    groups[at] = NodeSnapshot(0, at, {})
        return groups

    def check(self, path: str, metadata: Metadata) -> None:
        self._as_node(f"/{path}", metadata)

    def remove(self, path: str) -> None:
        with self.lock:
            self.require_writable()
            if not self.changes.at_and_below("/" + path):
                raise NotFoundError("there is nothing to remove", path="/" + path)
            self._remove("/" + path)

    def _remove(self, path: str) -> None:
        self.state += 1
        for change in self.changes.remove(path):
            self.written.superseded(own_files([change]))

    @contextmanager
    def new_array(self, path: str, metadata: ArrayMetadata, *, overwrite: bool) -> Iterator[NodeStorage]:
        absolute = "/" + path
        with self.lock:
            self.require_writable()
            created = {absolute: self._as_node(absolute, metadata)}
            self._prepare(created, overwrite=overwrite)
            aside = self.fork(ChangeSet(self.base.nodes, self.changes.keys))
            change = aside.changes.add(created[absolute])
            tip, began = self.tip, (self.discards, self._group_above(absolute))
        complete = replaces = False
        try:
            yield aside
            with self.lock:
                self.require_writable()
                self._check_above(absolute, *began)
                groups = self._prepare(created, overwrite=overwrite)
                self.make_room(aside.changes.pending.nbytes)
                for group in groups.values():
                    self.changes.add(group)
                self.changes.take_bytes(change, aside.changes)
                self.include_age(aside)
                # a collection may have held the branch before a commit of this session
                self.needs_check |= self.tip is not tip
                replaces = self.changes.has(absolute)
                complete = True
                self._put(change, replaces=replaces)
        except BaseException:
            if complete:
                self._put(change, replaces=replaces)  # what an interrupt left undone
            else:
                aside.discard()
            raise
        aside.written.sweep()

    def _group_above(self, path: str) -> tuple[str, int] | None:
        """The nearest group above a path that exists, and its key."""
        for group in reversed(above(path)):
            if (key := self.changes.key_at(group)) is not None:
                return group, key
        return None

    def _check_above(self, path: str, discards: int, group: tuple[str, int] | None) -> None:
        """Refuses a new array that the session has discarded since then, or whose group is gone from its path. Raises ConflictError."""
        reason = None
        if self.discards != discards:
            reason = "the session was discarded"
        elif group is not None and self.changes.path_of(group[1]) != group[0]:
            reason = f"the group {group[0]} was renamed or removed"
        if reason is not None:
            raise ConflictError(f"{reason} while the new array was filled", path=path, hint="create the array again")

    def _put(self, change: NodeChange, *, replaces: bool) -> None:
        """Gives a new node its path. replaces: in place of the nodes at and below it"""
        path = change.node.path
        with self.lock:
            self.state += 1
            if self.changes.key_at(path) != change.key:
                replaced = self.changes.remove(path) if replaces else []
                self.changes.put(change)
                self.written.superseded(own_files(replaced))

    def move(self, path: str, to: str) -> None:
        source, target = "/" + path, "/" + to
        with self.lock:
            self.require_writable()
            self.state += 1
            if not path or target == source or target.startswith(source + "/"):
                raise InvalidInputError(f"{source} cannot be moved to {target}", path=source)
            if not self.changes.has(source):
                raise NotFoundError("there is nothing to move", path=source)
            if self.changes.at_and_below(target):
                raise AlreadyExistsError("something already exists", path=target, hint="choose another path")
            groups = self._groups_above({target: NodeSnapshot(0, target)})
            for group in groups.values():
                self.changes.add(group)
            self.changes.move(source, target)

    # --- chunks ------------------------------------------------------------------------------------------------------------------------

    def chunks(self, path: str, metadata: ArrayMetadata) -> ArrayChunks:
        absolute = "/" + path
        with self.lock:
            key = self.changes.key_at(absolute)
            if key is None or not self.changes.is_array(absolute):
                raise NotFoundError("the array is gone", path=absolute, hint="it was removed")
            return ArrayChunks(self, key, len(metadata.shape))

    def node_key(self, path: str) -> int | None:
        with self.lock:
            return self.changes.key_at("/" + path) if path else None

    def node_path(self, key: int) -> str | None:
        with self.lock:
            path = self.changes.path_of(key)
        return None if path is None else path[1:]

    def array_path(self, path: str, chunks: ChunkStorage) -> str:
        with self.lock:
            return self.path_of(chunks.key)[1:] if isinstance(chunks, ArrayChunks) else path

    def lengths(self, path: str, chunks: ChunkStorage) -> tuple[int, ...] | None:
        change = self.changes.nodes.get(chunks.key) if isinstance(chunks, ArrayChunks) else None
        return None if change is None or change.node.array is None else tuple(change.node.array.metadata.shape)

    def grid_of(self, path: str) -> tuple[int, ...]:
        """Chunks along each dimension of the array at an absolute path. Raises NotFoundError."""
        with self.lock:
            node = self.changes.get(path)
        if not isinstance(node, NodeSnapshot) or node.array is None:
            raise NotFoundError("there is no array", path=path)
        return grid_of(node.array.metadata)

    def set_rows(self, path: str, rows: Rows) -> None:
        """Sets references of the array at an absolute path to data outside of this session."""
        with self.lock:
            self.changes.touch(path).changed_references().set(rows)
            self.state += 1

    def frozen(self) -> Transaction:
        """A read-only copy of the present session; later changes do not appear in it."""
        with self.lock:
            state = self.base_id, self.base, None, self.extensions, self.options, self.documents, self.changes.copy()
            return Transaction(self.files, *state)

    def fork(self, changes: ChangeSet) -> Transaction:
        """A session for a worker, on the same snapshot. changes: its own"""
        state = self.base_id, self.base, None, self.extensions, self.options, self.documents
        return Transaction(self.files, *state, changes=changes, forked=True, branches=self.branches)

    def own_files(self) -> Octets:
        """The chunk files that only this session refers to: uint8[n, 12]."""
        return np.concatenate([own_files(self.changes), *self.changes.packs])

    def discard(self) -> None:
        """Discards all changes, and removes the chunk files written for them, except those of a commit that may have happened."""
        with self.lock:
            self.whole_changes.wait()
            self.require_writable()
            self.discards += 1
            own_ids = self.own_files()
            self.begin(self.base_id, self.base, self.changes.discarded())
            self.written.superseded(own_ids)
            self.written.sweep()
            self.written.forget()
            self.forget_reads()
            self.restart_age()

    def end(self) -> None:
        """Makes the session read-only. Uncommitted changes are discarded, unless a commit of them may have happened."""
        with self.lock:
            self.whole_changes.wait()
            if not self.read_only and not self.written.intents and not self.changes.is_empty:
                self.discard()
            self.ended = True

    def __reduce__(self) -> tuple[object, ...]:
        if self.tip is not None and not self.forked:
            raise InvalidInputError(
                "a writable session cannot be pickled, as only one process can commit it",
                hint="send session.fork() to workers, and merge what they return",
            )
        with self.lock:
            self.whole_changes.wait()
            self.changes.leave_files()  # the copy refers to them, too
        state = self.base_id, self.base, self.tip, self.extensions, self.options, None
        changes = self.changes if self.forked else None
        others = self.reads, self.needs_check, self.files.store.identity
        return Transaction, (self.files, *state, changes, self.forked), others

    def __setstate__(self, others: tuple[ReadLog | None, bool, str | None]) -> None:
        """A store in memory has another identity in another process, and as a copy: then the session that merges the fork may not have its chunk files."""
        self.reads, needs_check, identity = others
        self.needs_check = needs_check or identity != self.files.store.identity
