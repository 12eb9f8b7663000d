"""Operations of a store over a file system of fsspec. Asynchronous file systems run many requests at once, in fsspec's event loop; others one after the other.

A folder of the local file system is not adapted: our LocalStore is used instead, as it has versions and conditional writes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from inspect import iscoroutinefunction
from typing import Any, Final, NoReturn

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem, sync
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from frazil.errors import FrazilError, InvalidInputError, StoreError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.operations.adapted_store import AdaptedStore
from frazil.stores.operations.protocols import MISSING_ERRORS, shown_cause, store_failure, without_secrets
from frazil.stores.store import Store

_HINT: Final = '(fsspec.filesystem("s3"), "bucket/sea.zarr")'

_MISSING: Final = (
    None,
    404,
    410,
)  # causes of an error that says rightly that a file does not exist: none, or the status of a response
_CACHED: Final = "fsspec.implementations.cached"


def store_over(files: AbstractFileSystem, path: object, requests_in_flight: int) -> Store:
    """The store over a folder or prefix of a file system. Raises InvalidInputError if no path is given, and for a file system that was created for
    coroutines."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InvalidInputError("a file system of fsspec is a location only together with a path", hint=_HINT)
    below = os.fspath(path)
    while isinstance(files, DirFileSystem):  # it cannot run coroutines if the file system below has none
        files, below = files.fs, str(files._join(below))
    if getattr(files, "asynchronous", False):
        raise InvalidInputError(
            "an asynchronous file system can only be used by coroutines", hint="make it without asynchronous=True"
        )
    root = str(files._strip_protocol(below)).rstrip("/")
    if type(files) is LocalFileSystem:
        return LocalStore(root or "/")
    name = f"fsspec {getattr(files, '_fs_token', id(files))} {root}"
    return AdaptedStore(FileSystemOperations(files, root, requests_in_flight), guard_name=name)


class FileSystemOperations:
    """The operations that AdaptedStore needs, for the files below `root`. Cached listings and sizes of the file system are dropped before each use, as others
    may write."""

    def __init__(
        self,
        files: AbstractFileSystem,
        root: str,
        requests_in_flight: int,
        loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
        missing: tuple[type[Exception], ...] = (),
    ) -> None:
        """loop: where coroutines run; None: chosen by the file system. missing: errors for missing files, beside FileNotFoundError and the like."""
        self.files: Final = files
        self._loop = loop
        self._missing: tuple[type[Exception], ...] = (*MISSING_ERRORS, *missing)
        self.root: Final = root
        self._requests = requests_in_flight

    def __repr__(self) -> str:
        return f"{type(self.files).__name__}({without_secrets(self.root)!r})"

    # --- values --------------------------------------------------------------------------------------------------------------------

    def get_partial_values(self, key_ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> list[bytes | None]:
        calls: list[tuple[str, int | None, int | None]] = []
        for key, (start, length) in key_ranges:
            path = self._path(key)
            calls.append((path, start or None, None) if length is None else (path, start, start + length))
        answers = self._map("cat_file", calls)
        return [
            self._end_of(key_range, answer) if isinstance(answer, Exception) else bytes(answer)
            for key_range, answer in zip(key_ranges, answers, strict=True)
        ]

    def _end_of(self, key_range: tuple[str, tuple[int, int | None]], error: Exception) -> bytes | None:
        """None for a missing file. Some servers refuse a range that begins beyond the end of a file: then the result is empty. Raises all other errors."""
        key, (start, _) = key_range
        if isinstance(error, self._missing):
            return None
        size = self.size(key) if start else None
        if size is None or size > start:
            _fail("cat_file", error, key)
        return b""

    def sizes(self, keys: Sequence[str]) -> list[int | None]:
        self.files.invalidate_cache()
        answers = self._map("info", [(self._path(key),) for key in keys])
        self._check_missing(keys, answers)
        sizes: list[int | None] = []
        for key, answer in zip(keys, answers, strict=True):
            if isinstance(answer, Exception) or answer.get("type") == "directory":
                sizes.append(None)
            elif answer.get("size") is None:
                raise StoreError(f"{self} does not give the size of a file", key=key)
            else:
                sizes.append(int(answer["size"]))
        return sizes

    def _check_missing(self, keys: Sequence[str], answers: Sequence[object]) -> None:
        """Raises the first error of `info` that does not say that a file is not there. HTTPFileSystem says so after any failure, which is the cause of its
        error then: such a file is read, which fails as it should."""
        doubtful: list[str] = []
        for key, answer in zip(keys, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, self._missing):
                _fail("info", answer, key)
            if isinstance(answer, Exception) and getattr(answer.__cause__, "status", answer.__cause__) not in _MISSING:
                doubtful.append(key)
        if not doubtful:
            return
        found = self._map("cat_file", [(self._path(key), 0, 1) for key in doubtful])
        for key, answer in zip(doubtful, found, strict=True):
            if not isinstance(answer, Exception):
                raise StoreError(f"{self} tells no size of a file that can be read", key=key, hint="try again")
            if not isinstance(answer, self._missing):
                _fail("cat_file", answer, key)

    def size(self, key: str) -> int | None:
        return self.sizes([key])[0]

    def set(self, key: str, value: bytes) -> None:
        self.set_values({key: value})

    def set_values(self, values: Mapping[str, bytes]) -> None:
        calls = [(self._path(key), value) for key, value in values.items()]
        answers = self._map("pipe_file", calls)
        for key, (path, value), answer in zip(values, calls, answers, strict=True):
            if isinstance(answer, FileNotFoundError):  # a file system with folders, which must exist first
                self._call("makedirs", self.files._parent(path), True)
                self._call("pipe_file", path, value)
            elif isinstance(answer, Exception):
                _fail("pipe_file", answer, key)

    def erase_values(self, keys: Collection[str]) -> None:
        for key, answer in zip(keys, self._map("rm_file", [(self._path(key),) for key in keys]), strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, self._missing):
                _fail("rm_file", answer, key)

    # --- listing -------------------------------------------------------------------------------------------------------------------

    @property
    def list_prefix(self) -> Callable[[str], list[str]] | None:
        """None: not from this file system, of which `list_dir` lists each folder."""
        return None if _leaves_out_folders(self.files) else self._list_prefix

    def _list_prefix(self, prefix: str) -> list[str]:
        self.files.invalidate_cache()
        try:
            found = self._call("find", self._path(prefix.removesuffix("/")))
        except self._missing:
            return []
        return [key for path in found if (key := self._key(path)).startswith(prefix) and key]

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        self.files.invalidate_cache()
        try:
            found = self._call("ls", self._path(prefix.removesuffix("/")), True)
        except self._missing:
            return [], []
        rows = [(self._key(row["name"]), row["type"]) for row in found]
        below = [(key, kind) for key, kind in rows if key.startswith(prefix) and len(key) > len(prefix)]
        return [key for key, kind in below if kind != "directory"], [key for key, kind in below if kind == "directory"]

    # --- the file system -----------------------------------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}" if key else self.root or str(self.files.root_marker)

    def _key(self, path: str) -> str:
        return path.removeprefix(f"{self.root}/" if self.root else "").strip("/")

    def _call(self, name: str, *arguments: object) -> Any:
        """The result of a method of the file system. Raises what it raises."""
        answer = self._map(name, [arguments])[0]
        if isinstance(answer, Exception):
            try:
                raise answer
            finally:
                del answer  # its traceback has this frame
        return answer

    def _map(self, name: str, calls: Sequence[tuple[object, ...]]) -> list[Any]:
        """The results of a method of the file system for each of the arguments, or its exceptions."""
        method = getattr(self.files, f"_{name}", None)
        if not self.files.async_impl or not iscoroutinefunction(method):
            return [_answer(self.files, name, arguments) for arguments in calls]

        async def run() -> list[object]:
            gate = asyncio.Semaphore(self._requests)

            async def one(arguments: tuple[object, ...]) -> object:
                async with gate:
                    return await method(*arguments)

            return await asyncio.gather(*map(one, calls), return_exceptions=True)

        return list(sync(self.files.loop if self._loop is None else self._loop(), run))


def _fail(name: str, error: Exception, key: str) -> NoReturn:
    if isinstance(error, MemoryError):
        raise error
    if isinstance(error, FrazilError):  # a copy: callers hold the error, and its traceback would hold their frames
        raise copy(error).with_traceback(error.__traceback__) from error.__cause__
    raise store_failure(name, error, key) from shown_cause(error)


def _leaves_out_folders(files: AbstractFileSystem) -> bool:
    """Whether `find` is the one of fsspec itself: where a folder cannot be listed, after an error of the network too, it goes on without it."""
    while type(files).__module__ == _CACHED and isinstance(inner := getattr(files, "fs", None), AbstractFileSystem):
        files = inner  # to which it passes `find`
    kind = type(getattr(files, "sync_fs", files))
    if issubclass(kind, AsyncFileSystem):
        return kind._find is AsyncFileSystem._find
    return kind.find is AbstractFileSystem.find


def _answer(files: AbstractFileSystem, name: str, arguments: tuple[object, ...]) -> object:
    try:
        return getattr(files, name)(*arguments)
    except Exception as error:  # checked for each key by the caller
        return error
