"""Files of other formats, told apart by their first bytes and scanned: what an import begins with. What is done with the values is the caller's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO, Final

from frazil.errors import FormatError, InvalidInputError, StoreError
from frazil.integrations.hdf5 import scan_hdf5
from frazil.integrations.netcdf_classic import scan_netcdf_classic
from frazil.integrations.netcdf_header import MAGIC
from frazil.repository.virtual_locations import file_location

if TYPE_CHECKING:
    from frazil.integrations.scanned import ScannedFile

__all__ = ["location_of", "scan_file"]

_HDF5: Final = b"\x89HDF\r\n\x1a\n"


def scan_file(path: str | os.PathLike[str]) -> ScannedFile:
    """The arrays of a NetCDF classic, NetCDF4 or HDF5 file, and where their chunks lie.

    Raises StoreError where it cannot be read, FormatError where it is none of these or is broken, InvalidInputError where h5py is needed and not there."""
    name = _text(path)
    try:
        with open(name, "rb") as file:
            if file.read(4) in MAGIC:
                return scan_netcdf_classic(file, name)
            if not _is_hdf5(file):
                raise FormatError(
                    "the file is none of NetCDF classic, NetCDF4 and HDF5, by its first bytes",
                    key=name,
                    hint="of NetCDF classic there are CDF-1, CDF-2 and CDF-5",
                )
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"cannot read: {error.strerror}", errno=error.errno, key=name) from error
    return scan_hdf5(name)


def location_of(path: str | os.PathLike[str]) -> str:
    """The location of a file of this machine for references to it: links in its path are followed now, as they are not when chunks are read."""
    return file_location(os.path.realpath(_text(path)))


def _text(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    if not isinstance(name, str) or "\0" in name:
        raise InvalidInputError(f"not the path of a file: {path!r}", hint="give a str or a pathlib.Path")
    return name


def _is_hdf5(file: BinaryIO) -> bool:
    """Whether the signature is there: at the beginning, or behind a user block of 512 bytes, 1024, and so on."""
    at = 0
    while True:
        file.seek(at)
        found = file.read(len(_HDF5))
        if found == _HDF5:
            return True
        if len(found) < len(_HDF5):
            return False
        at = at * 2 or 512
