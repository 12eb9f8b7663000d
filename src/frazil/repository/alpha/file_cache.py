"""Reads, writes and caches the immutable files of one repository: snapshots, manifests and attribute files.

Their contents are in formats/; branches and tags are in branches.py. Chunk files are not read here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from frazil.errors import FormatError, InvalidInputError, NotFoundError, ReadOnlyError, StoreError
from frazil.formats.alpha.attributes import decode_attributes
from frazil.formats.alpha.manifests import decode_manifest
from frazil.formats.alpha.refs import REFS, attributes_key, branch_key, manifest_key, snapshot_key
from frazil.formats.alpha.snapshots import SnapshotFile, decode_snapshot, encode_and_index
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.manifests import Manifest, compact, nbytes_of
from frazil.formats.msgpack import RESTORE, Packed
from frazil.formats.snapshots import SnapshotInfo
from frazil.repository.alpha.file_digests import FileDigests
from frazil.repository.alpha.ref_files import read_reference
from frazil.repository.alpha.snapshot_flags import has_freedoms
from frazil.repository.format import MAIN, NewFiles
from frazil.repository.replaced_files import files_alone
from frazil.stores.caches import caching_store
from frazil.stores.caches.byte_cache import ByteCache, CacheSection
from frazil.stores.keys.names import check_prefix
from frazil.stores.store import Store
from frazil.stores.values import flat_buffer, pieces_of

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.formats.json_values import Json


OBJECTS: Final = "parts of a repository"
# a creator that was killed leaves snapshots/ and refs/branch.main/
_PARTS: Final = ("attributes/", "chunks/", "gc/", "manifests/")
UNCHANGING: Final = ("attributes/", "chunks/", "manifests/", "snapshots/")  # names of immutable files

FileBytes: TypeAlias = bytes | memoryview
Kept: TypeAlias = "SnapshotFile | Manifest | Buffer"

_SMALL: Final = 2**14  # largest manifest file that is cached as columns when it is written
_SHARE: Final = 8  # of the cache, snapshots that are read ahead may use one part in so many
_NODE: Final = 384  # bytes of memory for each node of a snapshot in addition to those in the file


class Files:
    """The snapshots, manifests and attribute files of a repository, in a store below a prefix ("", or ending in "/").

    cache_bytes  limit of the cached files, and of the cache of readers (`memory`); 0: no cache. The snapshot that was used last is always cached

    New files are not read back. Values that are returned, or were written, are shared and must not be changed.
    Safe to use from many threads, and after a fork; pickles with an empty cache. Raises InvalidInputError for an invalid prefix, and for a negative limit."""

    __slots__ = (
        "_digests",
        "_infos",
        "_kept",
        "_last",
        "_newest_size",
        "first",
        "keeps_library_out",
        "memory",
        "prefix",
        "store",
    )

    def __init__(
        self, store: Store, prefix: str = "", *, cache_bytes: int = 2**26, memory: ByteCache | None = None
    ) -> None:
        check_prefix(prefix)
        if not isinstance(cache_bytes, int) or isinstance(cache_bytes, bool) or cache_bytes < 0:
            raise InvalidInputError(f"the limit of a cache is {cache_bytes!r}; it must be a number of bytes, 0 or more")
        self.store: Final = store
        self.prefix: Final = prefix
        self.memory: Final = ByteCache(cache_bytes) if memory is None else memory
        self._kept: Final[CacheSection[Kept]] = CacheSection(self.memory, "file")
        self._last: tuple[str, SnapshotFile] | None = None
        self._newest_size = 1  # bytes in memory of the snapshot that was read or written last
        # whether the file of alpha_library.py exists; None: unknown
        self.keeps_library_out: bool | None = None
        self.first: ObjectId | None = None  # the first snapshot of the repository, if known (history.py)
        self._infos: dict[SnapshotInfo, Packed] = {}  # of ancestors, shared by their descendants
        self._digests: FileDigests | None = None  # compares the files that are read with their digests

    def __repr__(self) -> str:
        return f"Files({self.store!r}, {self.prefix!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (type(self), self.store, self.prefix, self.memory)

    def uncached(self) -> Self:
        """The same repository with an empty cache, read from the store below caches. Files with digests are compared with these."""
        files = type(self)(self.store.uncached, self.prefix)
        files._digests = FileDigests()  # of the same class
        return files

    def unsynced(self) -> Self:
        """The same repository, with the same cache, whose writes may return before they are on the medium."""
        store = self.store.unsynced()
        return self if store is self.store else type(self)(store, self.prefix, memory=self.memory)

    def chunk_store(self) -> Store:
        """The store for reading chunk files, which are immutable: if a read is a request, its ranges are cached; not by `uncached`, whose users read each chunk
        once."""
        if self._digests is None and self.memory.limit and not self.store.capabilities.direct:
            return caching_store.ChunkCache(self.store, self.memory)
        return self.store

    def key(self, name: str) -> str:
        """The key of a file in the store, from its name in the repository, such as "snapshots/WT2Z2GQ09G0RTAEQ3D70"."""
        return self.prefix + name

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def snapshot(self, file: ObjectId) -> SnapshotFile:
        """The snapshot in a file. The id in its metadata may differ if it is the first (the library of the alpha wrote it so).

        Raises NotFoundError if the file does not exist, FormatError if it is invalid or that of another snapshot, both with its key."""
        cached = self._cached_snapshot(snapshot_key(file))
        return self.read_snapshot(file) if cached is None else cached

    def is_changed(self, snapshot: ObjectId) -> bool:
        """As RepositoryFormat.is_changed."""
        return self._digests is not None and snapshot in self._digests.changed

    def read_snapshot(self, file: ObjectId) -> SnapshotFile:
        """As snapshot, but always read from the store."""
        name = snapshot_key(file)
        data = self._read([name])[0]
        snapshot = self._decoded_snapshot(file, data)
        self._keep_snapshot(name, snapshot, len(data))
        return snapshot

    def read_snapshots(self, files: Sequence[ObjectId]) -> list[SnapshotFile]:
        """Several snapshots, read from the store in one batch, and not cached. Raises as `snapshot`."""
        names = [snapshot_key(file) for file in files]
        return [self._decoded_snapshot(file, data) for file, data in zip(files, self._read(names), strict=True)]

    def read_ahead(self, files: Sequence[ObjectId]) -> int:
        """As RepositoryFormat.read_ahead."""
        files = files[: max(1, self.memory.limit // (_SHARE * self._newest_size))]
        missing = [file for file in files if self._cached_snapshot(snapshot_key(file)) is None]
        if len(missing) < 2:
            return len(files)
        names = [snapshot_key(file) for file in missing]
        with suppress(StoreError), files_alone():  # reading it alone raises that, and FormatError
            found = self.store.get_many([self.key(name) for name in names], largest=None)
            for file, name, data in zip(missing, names, found, strict=True):
                with suppress(FormatError):
                    if data is not None:
                        self._keep_snapshot(name, self._decoded_snapshot(file, data), len(data))
        return len(files)

    def _decoded_snapshot(self, file: ObjectId, data: bytes) -> SnapshotFile:
        """Raises FormatError for the content of another snapshot. Only the first snapshot of the alpha library has another id than its file, to which the first
        file of `main` points."""
        key = self.key(snapshot_key(file))
        snapshot = decode_snapshot(data, key)
        own = snapshot.metadata.id
        if own != file and (snapshot.total_parents or has_freedoms(snapshot) or not self._may_be_first(file)):
            raise FormatError(
                f"a snapshot file has the content of another snapshot: it says that its id is {encode_id(own)}",
                key=key,
                hint=RESTORE,
            )
        if self._digests is not None:
            self._digests.add(file, snapshot, data)
        return snapshot

    def _may_be_first(self, file: ObjectId) -> bool:
        """Whether a snapshot file may be the first of the repository; also if the first file of `main` cannot be read."""
        try:
            ref = None if file == self.first else read_reference(self.store, self.key(branch_key(MAIN, 0)))
        except FormatError:
            return True
        return ref is None or ref.snapshot in (None, file)

    def _cached_snapshot(self, name: str) -> SnapshotFile | None:
        last = self._last
        cached = last[1] if last is not None and last[0] == name else self._kept.get(name)
        if not isinstance(cached, SnapshotFile):
            return None
        if self.memory.limit:
            self._last = name, cached
        return cached

    def _keep_snapshot(self, name: str, snapshot: SnapshotFile, nbytes: int) -> None:
        if self.memory.limit:
            self._last = name, snapshot
        self._newest_size = nbytes + _NODE * len(snapshot.nodes)
        self._kept.put(name, snapshot, self._newest_size)

    def has_snapshot(self, file: ObjectId) -> bool:
        """Whether a snapshot file with this id exists: at most one request."""
        name = snapshot_key(file)
        with files_alone():
            return self._cached_snapshot(name) is not None or self.store.exists(self.key(name))

    def manifests(self, ids: Sequence[ObjectId]) -> list[Manifest]:
        """The manifests of these ids, in their order; those that are not cached are read in one batch. A manifest larger than `cache_bytes` is not
        cached: callers that need it again keep it.

        Raises NotFoundError if one does not exist, FormatError if one is invalid, with the key; callers add what refers to it."""
        names = [manifest_key(file) for file in ids]
        found: dict[str, Manifest] = {}
        missing: list[str] = []
        for name in dict.fromkeys(names):
            cached = self._kept.get(name)
            if cached is None or isinstance(cached, SnapshotFile):
                missing.append(name)
            else:
                found[name] = cached if isinstance(cached, Manifest) else self._decoded(name, cached)
        if missing:
            for name, data in zip(missing, self._read(missing), strict=True):
                found[name] = self._decoded(name, data)
        return [found[name] for name in names]

    def attributes(self, file: ObjectId, location: int) -> dict[str, Json]:
        """A copy of the attributes at one location of an attribute file. Raises NotFoundError and FormatError with its key."""
        name = attributes_key(file)
        data = self._kept.get(name)
        if data is None or isinstance(data, Manifest | SnapshotFile):
            data = self._read([name])[0]
            self._kept.put(name, data, len(data))
        return decode_attributes(bytes(flat_buffer(data)), location, self.key(name))

    def _decoded(self, name: str, data: Buffer) -> Manifest:
        manifest = decode_manifest(flat_buffer(data), self.key(name))
        self._kept.put(name, manifest, nbytes_of(manifest))
        return manifest

    def _read(self, names: Sequence[str]) -> list[bytes]:
        keys = [self.key(name) for name in names]
        values: list[bytes] = []
        with files_alone():
            found = self.store.get_many(keys, largest=None)
        for name, key, value in zip(names, keys, found, strict=True):
            if value is None:
                kind, _, _ = key.removeprefix(self.prefix).partition("/")
                raise NotFoundError(
                    f"there is no such file among the {kind} of the repository", key=key, hint=_HINTS[kind]
                )
            if self._digests is not None:
                self._digests.check(name, key, value)
            values.append(value)
        return values

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def encoded_snapshot(self, file: ObjectId, snapshot: SnapshotFile) -> tuple[str, bytes, SnapshotFile]:
        """A snapshot under a new id, which must also be in its metadata: the name and the bytes of its file, and the snapshot as reading the file would return
        it. Raises InvalidInputError for what the format cannot hold."""
        name = snapshot_key(file)
        return name, *encode_and_index(snapshot, self.key(name), self._infos)

    def write_new(self, new: NewFiles) -> None:
        """Writes new files that no branch names yet, in one call of the store. Raises StoreError: then some files may exist, and none is cached."""
        self._write({name: data for name, data, _ in new})
        self.keep(new)

    def keep(self, new: NewFiles) -> None:
        """Caches written files."""
        for name, data, content in new:
            nbytes = len(flat_buffer(data))
            if isinstance(content, SnapshotFile):
                self._keep_snapshot(name, content, nbytes)
                continue
            if isinstance(content, Manifest) and nbytes <= _SMALL:  # the next commit of the session reads it
                self._kept.put(name, compact(content), nbytes_of(content))
            else:
                self._kept.put(name, data, nbytes)

    def write_attributes(self, file: ObjectId, data: bytes) -> None:
        """Writes an attribute file under a new id. Raises StoreError."""
        name = attributes_key(file)
        self._write({name: data})
        self._kept.put(name, data, len(data))

    def present(self) -> str | None:
        """What a new repository would hide or remove, in words: OBJECTS of a repository, or a node; None: nothing, or the store cannot list."""
        if not self.store.capabilities.listable:
            return None
        keys, folders = self.store.list_dir(self.prefix)
        refs = self.store.list_names(self.key(REFS)) if self.key(REFS) in folders else []
        if not set(map(self.key, _PARTS)).isdisjoint(folders) or {*refs} - {"branch.main/"}:
            return OBJECTS
        documents = {self.key(name) for name in ("zarr.json", ".zarray", ".zgroup")}
        return None if documents.isdisjoint(keys) else "an array or group"

    def erase(self, names: Iterable[str]) -> None:
        """Removes files by their names in the repository. Files that cannot be removed stay and do no harm."""
        if self.store.capabilities.erasable:
            try:
                self.store.erase_values([self.key(name) for name in names])
            except StoreError:
                pass

    def _write(self, files: Mapping[str, Buffer]) -> None:
        names = [self.key(name) for name in files]
        if not self.store.capabilities.writable:
            raise ReadOnlyError(f"{self.store} can only be read", key=names[0], hint="open it for writing")
        self.store.put_own(names, pieces_of(list(files.values())))


_HINTS: Final = {
    "snapshots": "the id is one of another repository, the snapshot has expired, or it is lost: verify shows whether a branch or tag leads to it",
    "manifests": f"{RESTORE}, or go back to a snapshot that does not need it",
    "attributes": f"{RESTORE}, or go back to a snapshot that does not need it",
}


def _reopened(kind: type[Files], store: Store, prefix: str, memory: ByteCache) -> Files:
    return kind(store, prefix, memory=memory)
