"""The place of a file to be scanned, on this machine or a remote object that is read by ranges; and the state of the file. scanner.py reads its content."""

from __future__ import annotations

import os
from typing import BinaryIO, Final, cast

from frazil.base.record import Record
from frazil.errors import FrazilError, InvalidInputError, NotFoundError, StoreError
from frazil.formats.manifests import FileCheck
from frazil.integrations.files.sources.ranged_file import RangedFile
from frazil.repository.virtual.locations import file_location, is_remote, parse_location
from frazil.repository.virtual.prefixes import Prefixes, VirtualContainer
from frazil.repository.virtual.virtual_fetch import open_containers

TIME_LIMIT: Final = 60.0  # seconds
_TABLES: Final = ".zmetadata"  # beside references in Parquet
_FOLDERS: Final = (".parq", ".parq/", ".parquet", ".parquet/")  # endings of the names of such folders


class Source(Record):
    """A file.

    name      in the form that the user gave: a path, or a URL
    location  for references to it. Links in a path are resolved now, because they are not followed when chunks are read. "": it is a dataset in memory
    container  the store from which it is read, if it is remote, and its key there; None for a file of this machine
    time_limit  seconds that a library may take for one call on it"""

    name: str
    location: str
    container: VirtualContainer | None = None
    key: str = ""
    time_limit: float = TIME_LIMIT

    @property
    def prefix(self) -> str:
        """The prefix of locations that must be allowed for virtual chunks in it."""
        return self.location.rpartition("/")[0] + "/"

    def beside(self, path: str) -> Source:
        """The file at a path below the folder of this one."""
        name, location = (text.rpartition("/")[0] + "/" + path for text in (self.name, self.location))
        if self.container is None:
            return Source(os.path.join(os.path.dirname(self.name), path), location)
        return Source(name, location, self.container, self.key.rpartition("/")[0] + "/" * ("/" in self.key) + path)

    def state(self) -> FileCheck:
        """The current state of the file. Raises NotFoundError, StoreError."""
        if not self.location:
            return FileCheck(0)
        if self.container is not None:
            return state_of(cast(BinaryIO, RangedFile(self.container.store, self.key, self.name)), self)
        try:
            found = os.stat(self.name)
        except OSError as error:
            raise unreadable(error, self.name) from error
        return FileCheck(found.st_size, found.st_mtime_ns)

    def changed_at(self) -> str:
        """When a file of this machine, or one of its names or permissions, last changed, even if its time of modification was set back since; "" for others."""
        if not self.location or self.container is not None:
            return ""
        try:
            return f"{os.stat(self.name).st_ctime_ns}"
        except OSError as error:
            raise unreadable(error, self.name) from error


def source_of(file: str | os.PathLike[str], prefixes: Prefixes | None = None) -> Source:
    """The file at a path or URL; for a folder of references in Parquet, its `.zmetadata`. prefixes: as `virtual_prefixes` of a repository, which also allow
    redirects and give credentials.

    Raises InvalidInputError for a value that is neither, and for a URL outside of the prefixes."""
    name = os.fspath(file)
    if not isinstance(name, str) or "\0" in name:
        raise InvalidInputError(f"not the path of a file: {file!r}", hint="give a str or a pathlib.Path")
    if not is_remote(name):
        if os.path.isfile(os.path.join(name, _TABLES)):
            name = os.path.join(name, _TABLES)
        return Source(name, file_location(os.path.realpath(name)))
    if name.endswith(_FOLDERS):
        name = f"{name.rstrip('/')}/{_TABLES}"
    if parse_location(name).folder:
        raise InvalidInputError("a folder is named, not a file", key=name)
    container, key = open_containers(prefixes or [name.rpartition("/")[0] + "/"]).find(name)
    return Source(name, name, container, key)


def open_file(source: Source) -> BinaryIO:
    """The file, open for reading. Raises NotFoundError, StoreError, InvalidInputError for a folder."""
    if source.container is None:
        try:
            return open(source.name, "rb")
        except OSError as error:
            raise unreadable(error, source.name) from error
    return cast(BinaryIO, RangedFile(source.container.store, source.key, source.name))


def state_of(file: BinaryIO, source: Source | None = None) -> FileCheck:
    """The state of an open file; source: its place."""
    if isinstance(file, RangedFile):
        if source is None or source.container is None:
            return FileCheck(file.size)
        return source.container.file_check(source.key, file.version, file.size)
    try:
        found = os.fstat(file.fileno())
    except OSError as error:
        raise unreadable(error, file.name) from error
    return FileCheck(found.st_size, found.st_mtime_ns)


def unreadable(error: OSError, name: str) -> FrazilError:
    """The error for a file of this machine that the system cannot open or read. A part of its path may be a file, which has nothing below it."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFoundError("there is no file", key=name, hint="check the path")
    if isinstance(error, IsADirectoryError):
        return InvalidInputError(
            "it is a folder; files of NetCDF, HDF5, NumPy, TIFF, GRIB and kerchunk's references are imported",
            key=name,
            hint="`frazil copy x.zarr sea.repo@main` copies a hierarchy of Zarr v3, `frazil convert x.zarr sea.repo@main` one of Zarr v2",
        )
    return StoreError(f"the file cannot be read: {error.strerror or error}", errno=error.errno, key=name)
