"""The files under gc/ of a repository: columns of ids with a checksum, each written once under its own name. The store reports their age; local clocks are
never used.

Their writers define what they mean: condemned.py, expired.py, lost.py, pins.py, marks.py, tips.py, collection.py."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias, get_args

import numpy as np

from frazil.base.arrays import Values
from frazil.base.record import Record
from frazil.errors import FormatError
from frazil.formats.ids import encode_id, new_id
from frazil.repository.maintenance.id_columns import NO_IDS, ids_of_names
from frazil.repository.replaced_files import files_alone, no_file, refuse_replaced
from frazil.stores.store import Store
from frazil.stores.values import CREATE_ONLY, pieces_of

NamedColumns: TypeAlias = "Mapping[str, Values]"
Folder: TypeAlias = Literal["condemned", "expired", "lost", "marks", "pins", "runs", "tips"]

FOLDER: Final = "gc/"
_NUMBERS: Final = ("starts", "numbers", "names")  # columns of numbers; all others are ids
NUMBERS: Final = np.dtype(np.int64)
LATER: Final = "no collection of this version writes such a file: a later version may be running a collection"
_MAGIC: Final = b"frazil-gc-1\n"
_MOST_HEADER: Final = 2**16
_HINTS: Final[Mapping[Folder, str]] = {
    "condemned": "remove this file while no collection runs: the objects that it names are condemned again",
    "expired": "restore it from a copy; nothing was removed",
    "lost": "remove this file, and repair again with accept_loss=True; nothing was removed",
    "pins": "remove this file while no process creates a branch or a tag; nothing was removed",
    "tips": "remove this file: the next collection writes it again; nothing was removed",
}


class RepositoryFiles(Protocol):
    """The location of a repository; every RepositoryFormat is one."""

    @property
    def store(self) -> Store: ...

    @property
    def prefix(self) -> str: ...

    def key(self, name: str) -> str: ...


class RecordFile(Record):
    """One file. name: in the repository; modified: when the store stored it, ns since 1970 by its own clock, -1 if unknown; size: bytes"""

    name: str
    modified: int
    size: int

    @property
    def folder(self) -> str:
        return self.name.split("/")[1]


def emit_columns(columns: NamedColumns) -> bytes:
    """The bytes of one-dimensional columns."""
    parts = [np.ascontiguousarray(column).tobytes() for column in columns.values()]
    shapes = [[name, column.dtype.str, len(column)] for name, column in columns.items()]
    body = b"".join(parts)
    header = json.dumps({"columns": shapes, "crc32": _checksum(shapes, body)}).encode()
    return _MAGIC + header + b"\n" + body


def _checksum(shapes: object, body: bytes | memoryview) -> int:
    """Includes the shapes: a wrong count or type would make other ids of the same bytes."""
    return zlib.crc32(body, zlib.crc32(json.dumps(shapes).encode()))


def parse_columns(data: bytes, key: str) -> dict[str, Values]:
    """The columns of these bytes, without copying. Raises FormatError with the key."""
    end = data.find(b"\n", len(_MAGIC), _MOST_HEADER)
    if not data.startswith(_MAGIC) or end < 0:
        raise _damaged(key, "it does not begin with the magic bytes")
    body = memoryview(data)[end + 1 :]
    try:
        header = json.loads(data[len(_MAGIC) : end])
        found, at = {}, 0
        if _checksum(header["columns"], body) != header["crc32"]:
            raise _damaged(key, "its checksum does not match")
        for name, kind, count in header["columns"]:
            found[name] = np.frombuffer(body, np.dtype(kind), count, at)
            at += found[name].nbytes
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(key, str(error)) from None
    return found


def _damaged(key: str, why: str) -> FormatError:
    return FormatError(
        f"a file of the garbage collection is damaged: {why}",
        key=key,
        hint=next((hint for folder, hint in _HINTS.items() if f"{FOLDER}{folder}/" in key), None),
    )


def new_record(folder: Folder) -> str:
    """A unique new name."""
    return f"{FOLDER}{folder}/{encode_id(new_id(os.urandom))}"


def write_record(files: RepositoryFiles, name: str, columns: NamedColumns) -> None:
    """Writes a file. Raises StoreError, ReadOnlyError."""
    store = files.store
    store.require("writable")
    store.put_many([files.key(name)], pieces_of([emit_columns(columns)]), [CREATE_ONLY])


def list_records(files: RepositoryFiles, folder: Folder | None = None) -> list[RecordFile]:
    """All files under gc/, or those of one folder. Foreign names are ignored: Frazil's end in an id. Raises FormatError for a link or the like in the place of
    a folder or file: a store does not list it, so the records would be lost; StoreError."""
    folders: Sequence[Folder] = get_args(Folder) if folder is None else [folder]
    refuse_replaced(
        files.store, [files.key(FOLDER[:-1]), *(files.key(f"{FOLDER}{subfolder}") for subfolder in folders)]
    )
    start = files.key(FOLDER if folder is None else f"{FOLDER}{folder}/")
    found: list[RecordFile] = []
    for page in files.store.list_pages(start, details=True):
        assert page.sizes is not None
        assert page.modified is not None
        for key, modified, size in zip(page.keys, page.modified.tolist(), page.sizes.tolist(), strict=True):
            name = key[len(files.prefix) :]
            if name.count("/") == 2 and len(ids_of_names([name.rsplit("/", 1)[1]])[1]):
                found.append(RecordFile(name, modified, size))
    if files.store.capabilities.local:
        _refuse_unlisted(files, folders, {record.name for record in found})
    return found


def refuse_later(files: RepositoryFiles, records: Sequence[RecordFile]) -> None:
    """Raises FormatError for a file in a folder that this version does not know: it may protect objects."""
    for record in records:
        if record.folder not in get_args(Folder):
            raise FormatError(LATER, key=files.key(record.name), hint="collect with that version; nothing was removed")


def _refuse_unlisted(files: RepositoryFiles, folders: Sequence[Folder], listed: Collection[str]) -> None:
    """Raises FormatError for a folder or link in the place of a file, which a listing does not show."""
    store = files.store
    for folder in folders:
        prefix = files.key(f"{FOLDER}{folder}/")
        for name in store.list_names(prefix):
            record = f"{FOLDER}{folder}/{name.removesuffix('/')}"
            if record in listed or not len(ids_of_names([name.removesuffix("/")])[1]):
                continue
            with files_alone(
                _HINTS.get(folder)
            ):  # no error for a file that another process has just created or removed
                store.sizes([files.key(record)])
            if name[-1] == "/":
                raise no_file(files.key(record), _HINTS.get(folder))


def read_records(
    files: RepositoryFiles, records: list[RecordFile], names: Collection[str], *, may_have: Collection[str] = ()
) -> list[dict[str, Values]]:
    """The columns of files, without files removed meanwhile. may_have: columns that some files also have.

    Raises FormatError, also for a file that has not exactly these columns, as one that was copied from another folder; StoreError."""
    keys = [files.key(record.name) for record in records]
    values = files.store.get_many(keys, largest=None) if keys else []
    found = {key: parse_columns(value, key) for key, value in zip(keys, values, strict=True) if value is not None}
    for key, columns in found.items():
        missing = sorted(set(names) - columns.keys())
        if missing:
            raise _damaged(key, f"it has no {', '.join(missing)}")
        others = sorted(columns.keys() - {*names, *may_have})
        if others:
            raise _damaged(key, f"it has {', '.join(others)}, as a file of another folder")
        for name, column in columns.items():
            if column.dtype != (NUMBERS if name in _NUMBERS else NO_IDS.dtype):
                raise _damaged(key, f"its {name} are of the type {column.dtype}")
    return list(found.values())
