"""The store on a local disk: a key is a file beneath a root folder. Values are read and published by the kernel, listings are made by folders.py.

How a value is published, and with which other writers that is safe, is described in docs/design/003-local-disk.md."""

from __future__ import annotations

import builtins
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from frazil import _kernel
from frazil.base.retry import FREE_FILES, when_files_are_free
from frazil.errors import InvalidInputError, ReadOnlyError, StoreError
from frazil.runtime import cores
from frazil.stores.keys.names import is_prefix
from frazil.stores.local import case_folding, folders, leftovers, new_files
from frazil.stores.local.folders import RootFolder
from frazil.stores.local.kernel_results import (
    answered,
    expected,
    file_version,
    has_suffix,
    is_recent,
    pack_version,
    unknown_sizes,
)
from frazil.stores.local.system_errors import (
    NOT_SYNCED,
    NOWHERE,
    REMOTE,
    folder_hint,
    not_synced,
    reason_of,
    refused,
    unreadable,
)
from frazil.stores.port import StorePort
from frazil.stores.store import Store
from frazil.stores.values import (
    ABSENT,
    CREATE_LAST,
    CREATE_ONLY,
    NO_KEYS,
    PAGE,
    UNKNOWN,
    Capabilities,
    Changed,
    Columns,
    CreateOnly,
    Fetched,
    NameColumn,
    Page,
    Pieces,
    Sources,
    Version,
    Versions,
    no_names,
    pieces_of,
)

if TYPE_CHECKING:
    from frazil._kernel import Buffer

T = TypeVar("T")
_CREATED_TOGETHER: Final = 16  # names that the kernel creates in one run
_LOCAL = Capabilities(direct=True, streams=True, erases_prefixes=True, local=True)


def _when_free(names: Sequence[str], call: Callable[[], T]) -> T:
    """call(); for one name repeated while files are lacking."""
    return call() if len(names) > 1 else when_files_are_free(call)


class LocalStore(Store):
    """Keys as files beneath a folder of a local disk.

    path       the root; created by the first write. A store on a missing folder has no keys
    sync       when a write returns, its values are on the medium, not only in the system's memory
    read_only  writes raise ReadOnlyError
    threads    that write many values at once; 0: one for each core that the process may use

    Readers see old values or new ones, whole, whatever happens. Writers exclude each other, and those of tensorstore, key by key. Links are not followed.
    Components of keys have at most 255 bytes (248 if they are written) and do not end in ".__lock". On disks that take "a" and "A" for one name
    (capabilities.case_sensitive), a key that differs from an existing one by case alone is refused. Safe in many threads and after a fork; pickles (by
    path)."""

    __slots__ = ("_can", "_folds", "_root", "path", "read_only", "sync", "threads")

    def __init__(
        self, path: str | os.PathLike[str], *, sync: bool = False, read_only: bool = False, threads: int = 0
    ) -> None:
        named = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
        if not named or not isinstance(named, str) or "\0" in named:
            raise InvalidInputError(f"not the path of a folder: {path!r}", hint="give a str or a pathlib.Path")
        self.path: Final = os.path.abspath(named)
        self.sync: Final = sync
        if not isinstance(threads, int) or threads < 0:
            raise InvalidInputError(f"threads is {threads!r}; it must be a whole number, 0 or more")
        self.read_only = read_only
        self.threads: Final = threads
        self._root: RootFolder | None = None
        self._folds: bool | None = None  # whether the disk folds case; None until it is certain
        self._can: Capabilities | None = None

    def __repr__(self) -> str:
        flags = [f", {name}=True" for name in ("sync", "read_only") if getattr(self, name)]
        return f"{type(self).__name__}({self.path!r}{''.join(flags)})"

    def __str__(self) -> str:
        return self.path

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), sync=self.sync, read_only=self.read_only, threads=self.threads), (self.path,)

    @property
    def identity(self) -> str | None:
        return f"file:{self.path}"

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do. case_sensitive is certain after the first write; before, it is derived from the existing names."""
        can = self._can
        if can is None:
            root = self._open()
            folds = self._folds if root is None else self._folds_case(root, certain=False)
            folds = case_folding.folds_by_path(self.path) if folds is None else folds
            may = not self.read_only
            can = _LOCAL._replace(writable=may, erasable=may, case_sensitive=not folds)
            if root is not None:
                self._can = can
        return can

    @property
    def direct(self) -> bool:
        return True

    def require(self, capability: str) -> None:
        if capability != "readable":  # it always is; other capabilities may depend on the disk
            super().require(capability)

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """As the port says. A version is (inode, size, time of change in ns), 24 bytes. Every object stays open as long as the answer is kept, except with
        `single_read`: then the kernel opens it when it is read."""
        if continue_from is not None and UNKNOWN not in continue_from.status:
            sources, _, versions, sizes, _, may_repeat, *_ = continue_from
            return answered(sources, versions, sizes, may_repeat, spans, expect)
        folders.check_names(names)
        if single_read and expect is None and not has_suffix(spans):
            root = self._current_root()
            if root is not None:
                try:
                    files = _kernel.open_files(root.fd, names, None)
                except OSError as error:
                    raise unreadable(error.errno or 0, key=names[0]) from error
                count = len(names)
                return Fetched(Sources(files, ()), [UNKNOWN] * count, [None] * count, unknown_sizes(count), spans)
        root = self._open()
        answer = _when_free(names, partial(self._opened, root, names, spans, expect))
        if root is not None and None in answer.versions and root.is_removed():
            return self._opened(self._current_root(), names, spans, expect)
        return answer

    def _opened(
        self, root: RootFolder | None, names: Sequence[str], spans: Columns, expect: Versions | None
    ) -> Fetched:
        """The files of names, held open."""
        if root is None:
            count = len(names)
            return answered(Sources(None, ()), [None] * count, unknown_sizes(count), None, spans, expect)
        stat = np.empty((len(names), 4), np.int64)
        files = _kernel.open_files(root.fd, names, stat)
        now = time.time_ns()
        versions: list[Version | None] = []
        may_repeat: list[bool] = []
        found_folders: list[int] = []
        for i, (code, inode, size, changed) in enumerate(stat.tolist()):
            if code == 0:
                versions.append(pack_version(inode, size, changed))
                may_repeat.append(is_recent(changed, now))
            elif code in NOWHERE:
                if code == errno.EISDIR:
                    found_folders.append(i)
                stat[i, 2] = -1
                versions.append(None)
                may_repeat.append(False)
            else:
                del files  # closed now, not when the error is forgotten
                raise unreadable(code, key=names[i])
        recent = may_repeat if True in may_repeat else None
        return answered(Sources(files, ()), versions, stat[:, 2], recent, spans, expect, found_folders)

    def unsynced(self) -> LocalStore:
        return LocalStore(self.path, read_only=self.read_only, threads=self.threads) if self.sync else self

    def sync_values(self, keys: Sequence[str]) -> list[str]:
        root = self._current_root() if keys else None
        return list(keys) if root is None else new_files.sync_files(root.fd, keys)

    def kernel_root(self) -> RootFolder | None:
        """As the port says; None without a folder, and where a subclass fetches in another way."""
        return self._current_root() if type(self).fetch is LocalStore.fetch else None

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        """As the port says. If one value fails, others of the call may have been published. Raises AlreadyExistsError on disks that fold case, for a
        key that differs from an existing one by case alone."""
        self._check_writable(names)
        if pieces.parts is not None:
            return [self._put_parts(names[0], pieces.parts)]
        return _when_free(names, partial(self._put, names, pieces, expect))

    def _put(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        conditions = [expected(version) for version in expect]
        root = self._open() or self._root_created()
        result = self._published(root, names, pieces, conditions)
        if errno.ENOENT in result[:, 0].tolist() and root.is_removed():  # nothing was written
            result = self._published(self._root_created(), names, pieces, conditions)
        answers: list[Version | Changed] = []
        for i, (code, inode, size, changed) in enumerate(result.tolist()):
            if code == 0:
                answers.append(pack_version(inode, size, changed))
            elif code == -1:
                answers.append(Changed(ABSENT if size < 0 else pack_version(inode, size, changed)))
            elif code == -2:
                raise StoreError(
                    "a piece of the new value cannot be read from its source; nothing was changed",
                    key=names[i],
                    hint="read the old value again and repeat the write",
                )
            elif code == NOT_SYNCED:
                raise not_synced(inode, names[i])
            else:
                done = False if isinstance(expect[i], CreateOnly) and code not in REMOTE else None
                raise refused("cannot be written", code, names[i], done=done)
        return answers

    def create_after(self, others: Mapping[str, Buffer], key: str, value: Buffer) -> bool:
        """As Store says: all in one call of the kernel, which syncs the files together, unless a subclass writes in another way."""
        names, expect = [*others, key], [*[CREATE_ONLY] * len(others), CREATE_LAST]
        if len(names) > _CREATED_TOGETHER or type(self).put_many is not LocalStore.put_many:
            return super().create_after(others, key, value)
        put = partial(self.put_many, names, pieces_of([*others.values(), value]), expect)
        try:
            return not isinstance(when_files_are_free(put)[-1], Changed)
        except StoreError as error:
            if error.key not in {key, None}:  # of another file: then the last was not written
                error.done = False
            raise

    def _put_parts(self, key: str, parts: Iterator[bytes]) -> Version:
        """Writes a value without locks; one part at a time is in memory."""
        root = self._root_created()
        self._check_case(root, [key])
        new_files.write_file(root.fd, key, parts, sync=self.sync)
        return file_version(root.fd, key)

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        """As the port says. Folders stay, except below an erased prefix: there empty folders are removed, and the files that crashed writers left."""
        if is_prefix(names):
            self._erase_below(names[0])
            return [None]
        self._check_writable(names)
        return _when_free(names, partial(self._erase, names, expect))

    def _erase(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        root = self._current_root()
        result = np.empty((len(names), 4), np.int64)
        if root is None:
            result[:] = (-1, 0, -1, 0)
        else:
            _kernel.erase_files(root.fd, names, [expected(version) for version in expect], self.sync, result)
        answers: list[Changed | None] = [None] * len(names)
        for i, (code, inode, size, changed) in enumerate(result.tolist()):
            if code == errno.EISDIR or (code == -1 and size < 0):
                answers[i] = Changed(ABSENT) if expect[i] else None
            elif code == -1:
                answers[i] = Changed(pack_version(inode, size, changed))
            elif code:
                raise (
                    not_synced(inode, names[i]) if code == NOT_SYNCED else refused("cannot be erased", code, names[i])
                )
        return answers

    def _erase_below(self, prefix: str) -> None:
        self.require("erasable")

        def erase(keys: list[str]) -> None:
            self.erase_many(keys, [None] * len(keys))

        self._listed(prefix, lambda root: folders.clear_below(root, prefix, erase), None)

    def erase_immutable(self, keys: Sequence[str]) -> None:
        """As Store says, without locks, unless a subclass erases in another way."""
        if type(self).erase_many is not LocalStore.erase_many:
            super().erase_immutable(keys)
            return
        self._check_writable(keys)
        root = self._current_root()
        if root is not None:
            new_files.unlink_files(root.fd, keys, sync=self.sync)

    def erase_leftovers(self, prefix: str, before: int) -> int:
        return self._listed(prefix, lambda root: leftovers.erase_leftovers(root, prefix, before), 0)

    def _copy_from(self, names: Sequence[str], source: StorePort, sources: Sequence[str], limit: int) -> list[int]:
        """As Store says. From another folder the system copies, without locks; a source that is not a file has no value."""
        if not isinstance(source, LocalStore):
            return super()._copy_from(names, source, sources, limit)
        self._check_writable(names)
        folders.check_names(sources)
        source_root = source._current_root()
        if source_root is None:
            return [-1] * len(names)
        root = self._root_created()
        self._check_case(root, names)
        return new_files.copy_files(source_root.fd, root.fd, sources, names, sync=self.sync)

    def _share(self, names: Sequence[str], sources: Sequence[str]) -> list[int]:
        """As Store says: hard links, if the disk has them; versions stay."""
        self._check_writable(names)
        root = self._root_created()
        self._check_case(root, names)
        codes = new_files.link_files(root.fd, names, sources, sync=self.sync)
        copied = [i for i, code in enumerate(codes) if code in new_files.NEEDS_A_COPY]
        sizes = super()._share([names[i] for i in copied], [sources[i] for i in copied])
        for i, size in zip(copied, sizes, strict=True):
            codes[i] = new_files.ABSENT if size < 0 else 0
        return codes

    # --- listing ---------------------------------------------------------------------------------------------------------------------

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        """As the port says. A page looks at each folder on its path; details cost one system call for each file."""
        look = partial(folders.page_below, prefix, after, limit or PAGE, delimited=delimited, details=details)
        return self._listed(prefix, look, NO_KEYS)

    def list_names(self, prefix: str) -> builtins.list[str]:
        """As Store says, by one look at the folder, unless a subclass lists in another way."""
        if type(self).list_page is not LocalStore.list_page:
            return super().list_names(prefix)
        return self._listed(prefix, partial(folders.names_below, prefix=prefix), [])

    def list_column(self, prefix: str, length: int, *, sizes: bool = False) -> NameColumn:
        """As Store says, by one look at the folder, and one at each file for its size, unless a subclass lists in another way."""
        if type(self).list_page is not LocalStore.list_page:
            return super().list_column(prefix, length, sizes=sizes)
        look = partial(folders.column_of, prefix=prefix, length=length, sizes=sizes, threads=self.threads or cores())
        return self._listed(prefix, look, no_names(length, sizes=sizes))

    def _listed(self, prefix: str, look: Callable[[int], T], nothing: T) -> T:
        root = self._current_root()
        if root is None:
            return nothing
        try:
            return look(root.fd)
        except StoreError:
            raise
        except OSError as error:
            raise refused("cannot be listed", error.errno or 0, prefix, path=self.path) from error

    # --- the root folder -------------------------------------------------------------------------------------------------------------

    def _open(self) -> RootFolder | None:
        """The root, None if it does not exist. Two threads may open it twice: the copy that is not kept is closed."""
        return self._root or when_files_are_free(self._open_now, FREE_FILES)

    def _open_now(self) -> RootFolder | None:
        try:
            root = self._root = RootFolder(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._root_error(error) from error
        return root

    def _current_root(self) -> RootFolder | None:
        """The root; if it was removed and created again, the folder that now has its path."""
        root = self._root
        if root is not None:
            if not root.is_removed():
                return root
            self._root = None
        return self._open()

    def _root_created(self) -> RootFolder:
        root = self._current_root()
        if root is None:
            try:
                folders.make_folders(self.path, self.sync)
            except OSError as error:
                raise self._root_error(error) from error
            root = self._open()
        if root is None:
            raise StoreError("the store's folder was removed while it was created", path=self.path, hint="try again")
        return root

    def _root_error(self, error: OSError) -> StoreError:
        code = error.errno or 0
        if code in {errno.ENOTDIR, errno.EEXIST}:
            return StoreError(
                "the store's root is not a folder", errno=code, path=self.path, hint=folder_hint(self.path)
            )
        reason, hint = reason_of(code)
        return StoreError(f"the store's folder cannot be opened: {reason}", errno=code, path=self.path, hint=hint)

    def _folds_case(self, root: RootFolder, *, certain: bool) -> bool | None:
        """Whether the disk folds case. If it must be certain and cannot be found out otherwise, a file is created (and removed)."""
        if self._folds is None:
            try:
                self._folds = case_folding.folds_visibly(root.fd)
                if self._folds is None and certain:
                    self._folds = case_folding.folds_by_probe(root.fd)
                    self._can = None
            except OSError:  # an error here also fails the following write, which reports it
                return None
        return self._folds

    # --- before a write --------------------------------------------------------------------------------------------------------------

    def _check_writable(self, names: Sequence[str]) -> None:
        if self.read_only:
            raise ReadOnlyError(
                "the store was opened for reading",
                key=names[0] if names else None,
                path=self.path,
                hint="open it without read_only=True",
            )
        folders.check_names(names)

    def _check_case(self, root: RootFolder, names: Sequence[str]) -> None:
        if self._folds_case(root, certain=True):
            case_folding.refuse_clash(root.fd, names)

    def _published(self, root: RootFolder, names: Sequence[str], pieces: Pieces, expect: Versions) -> Columns:
        self._check_case(root, names)
        result = np.empty((len(names), 4), np.int64)
        (files, buffers), rows, offsets, *_ = pieces
        threads = self.threads or cores()
        _kernel.publish_files(root.fd, names, files, buffers, rows, offsets, expect, self.sync, threads, result)
        return result
