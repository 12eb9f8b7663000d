"""Files of other formats, recognised by their first bytes and scanned: the first step of an import. The caller decides how the values are used."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO, Final

from frazil.errors import FormatError, FrazilError
from frazil.integrations.files.grib.messages import MAGIC as GRIB_MAGIC
from frazil.integrations.files.grib.messages import has_message
from frazil.integrations.files.kerchunk.references import JSON, scan_references
from frazil.integrations.files.libraries.scan_messages import GRIB, HDF5, TIFF
from frazil.integrations.files.libraries.scan_process import scan_in_process
from frazil.integrations.files.netcdf.classic import scan_netcdf_classic
from frazil.integrations.files.netcdf.header import MAGIC
from frazil.integrations.files.numpy_files.arrays import NPY, ZIP, scan_npy, scan_npz
from frazil.integrations.files.scanned import ScannedFile
from frazil.integrations.files.sources.ranged_file import RangedFile
from frazil.integrations.files.sources.source import TIME_LIMIT, Source, open_file, source_of, state_of, unreadable
from frazil.integrations.files.tiff.series import MAGICS as TIFF_MAGICS
from frazil.repository.virtual.prefixes import Prefixes

_HEADING: Final = 2**16  # bytes in which the first message of GRIB begins
_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_SCANS: Final[tuple[tuple[tuple[bytes, ...], Callable[[BinaryIO, str], ScannedFile]], ...]] = (
    (tuple(MAGIC), scan_netcdf_classic),
    ((NPY,), scan_npy),
    ((ZIP,), scan_npz),
)


def scan_file(
    file: str | os.PathLike[str], *, virtual_prefixes: Prefixes | None = None, time_limit: float = TIME_LIMIT
) -> ScannedFile:
    """The arrays of a file of NetCDF, HDF5, NumPy, TIFF or GRIB, or of kerchunk's references, and the positions of their chunks.

    file  a path, or the URL of a remote object: only the ranges with its structure are read
    virtual_prefixes  as of a repository: the places from which it is read, with credentials; None: from its URL, with the credentials of the environment.
                      References to whole remote objects need it: their sizes are requested, and a file must not choose the servers to which this machine sends
                      requests
    time_limit  seconds that a library may take for one dataset of HDF5, a field of GRIB, or the structure of a TIFF file, and then for each chunk that it
                decodes: libraries never return for some damaged files. They run in another process, which is ended then
    Raises NotFoundError if there is none, StoreError if it cannot be read, FormatError if it has another format, is broken or takes longer, InvalidInputError
    for a folder, and if a required library is missing."""
    source = source_of(file, virtual_prefixes)
    name = source.name
    try:
        with open_file(source) as opened:
            try:
                scanned = _scan(opened, source, time_limit, virtual_prefixes)
            except Exception:
                _report_failure(opened)
                raise
            _report_failure(opened)
            state = state_of(opened, source) if isinstance(opened, RangedFile) else scanned.state
            return scanned._replace(state=state, time_limit=time_limit)
    except OSError as error:
        if isinstance(error, FrazilError):
            raise
        raise unreadable(error, name) from error


def _scan(file: BinaryIO, source: Source, time_limit: float, prefixes: Prefixes | None) -> ScannedFile:
    begin, name = file.read(8), source.name
    file.seek(0)
    for magics, scan in _SCANS:
        if begin.startswith(magics):
            return scan(file, name)
    if begin.startswith(TIFF_MAGICS):
        return scan_in_process(file, name, time_limit, TIFF)
    if begin.startswith(GRIB_MAGIC):
        return scan_in_process(file, name, time_limit, GRIB)
    if begin.startswith(JSON):
        return scan_references(file, source, prefixes)
    if _is_hdf5(file):
        return scan_in_process(file, name, time_limit, HDF5)
    file.seek(0)
    if has_message(file.read(_HEADING)):
        return scan_in_process(file, name, time_limit, GRIB)
    raise FormatError(
        "the file is none of NetCDF, HDF5, NumPy, TIFF, GRIB and kerchunk's references, by its first bytes",
        key=name,
        hint="of NetCDF classic there are CDF-1, CDF-2 and CDF-5"
        if begin.startswith(b"CDF")
        else "docs/import.md lists the formats",
    )


def _report_failure(file: BinaryIO) -> None:
    """Raises the original error of the store: h5py converts it to another one, as if the file were damaged."""
    if isinstance(file, RangedFile) and file.failure is not None:
        raise file.failure


def _is_hdf5(file: BinaryIO) -> bool:
    """Whether the signature exists: at the beginning, or behind a user block of 512 bytes, 1024, and so on."""
    at = 0
    while True:
        file.seek(at)
        found = file.read(len(_HDF5))
        if found == _HDF5:
            return True
        if len(found) < len(_HDF5):
            return False
        at = at * 2 or 512
