"""frazil.export_file: an array or a group as a file of another format, or as plain Zarr, in one call. hdf5_file.py and other_files.py write the content of the
files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import IO, Final, Literal, TypeAlias, get_args

from frazil.api.destinations import check_output
from frazil.api.nodes import open_node
from frazil.array.arguments import checked_progress
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.base.record import Record
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, NotFoundError, StoreError
from frazil.integrations.files.exports.hdf5_file import Form, write_hdf5
from frazil.integrations.files.exports.other_files import write_npy_file, write_npz, write_tiff
from frazil.integrations.files.exports.source import Exported, exported
from frazil.integrations.files.imports.importer import IMPORTS
from frazil.operations.convert.convert import prepare as prepare_conversion
from frazil.operations.copy.copy import prepare_copy
from frazil.repository.virtual.locations import is_remote
from frazil.runtime import Runtime
from frazil.stores.local.local_store import LocalStore
from frazil.stores.local.replaced_file import descriptor_of, replaced_file
from frazil.stores.location_overlap import address_of, check_no_overlap
from frazil.stores.locations import Location

Format: TypeAlias = Literal["netcdf4", "hdf5", "npy", "npz", "tiff", "zarr", "zarr2"]
_ALL: Final = get_args(Format)

FORMATS: Final[dict[str, Format]] = {  # by the ending of the file
    ".nc": "netcdf4", ".nc4": "netcdf4", ".h5": "hdf5", ".hdf5": "hdf5", ".hdf": "hdf5", ".npy": "npy", ".npz": "npz", ".tif": "tiff", ".tiff": "tiff",
    ".zarr": "zarr",
}  # fmt: skip

_STREAMS: Final[dict[Format, Callable[[Exported, IO[bytes], int, Callable[[int], object]], None]]] = {
    "npy": write_npy_file,
    "npz": write_npz,
    "tiff": write_tiff,
}


class ExportDone(Record):
    """The result of an export: the format, paths of the arrays, and bytes of their elements."""

    format: Format
    arrays: tuple[str, ...]
    nbytes: int


def export_file(
    source: Location | Array | Group,
    destination: str | os.PathLike[str],
    format: Format | None = None,  # noqa: A002 # the word of users
    *,
    path: str = "",
    variables: Sequence[str] | None = None,
    skip: Sequence[str] = (),
    overwrite: bool = False,
    progress: Callable[[int], object] | None = None,
    runtime: Runtime = IMPORTS,
) -> ExportDone:
    """Writes an array, or a group with all nodes below it, as a file of another format; or as plain Zarr, with unchanged chunks.

    source       an Array, a Group, or the location of one; in a repository as in "sea.repo@v1/level1"
    destination  the file; for plain Zarr any location
    format       "netcdf4", "hdf5", "npy" (one array), "npz", "tiff" (one array), "zarr" (the source's format), "zarr2" (Zarr v2; chunks that it cannot hold are
                 encoded again); None: by the ending of the name
    path         of the node below the source
    variables, skip  paths of arrays that are written (None: all) and that are left out
    overwrite    whether an existing file is replaced
    progress     called with bytes done since the last call, for HDF5 and NetCDF4 on another thread;  runtime: bytes_in_flight: memory of the export (256 MiB)
    A file appears under its name when it is complete. Raises InvalidInputError if a library is missing, and for arrays that the format cannot hold;
    AlreadyExistsError, NotFoundError, StoreError, DataError."""
    report = checked_progress(progress)
    chosen = format or _format_of(destination)
    if chosen not in _ALL:
        raise InvalidInputError(f"format is {format!r}; it must be one of {', '.join(_ALL)}")
    node = _node(source, path, runtime)
    name = PurePath(os.fspath(destination)).name.split(".")[0] or "values"
    found = exported(node, name, variables, skip)
    if chosen in ("zarr", "zarr2"):
        if variables is not None or skip:
            raise InvalidInputError(
                "an export to plain Zarr always has all arrays below the source",
                hint="name the array or group to be copied with path=",
            )
        if chosen == "zarr2":
            task = prepare_conversion(
                node.store, destination, 2, path=node.path, overwrite=overwrite, recode=True, runtime=runtime
            )
            task.run(report)
            return ExportDone(chosen, tuple(found.arrays), found.nbytes)
        prepare_copy(node.store, destination, path=node.path, overwrite=overwrite, runtime=runtime).run(report)
    else:
        _check_outside(node, os.fspath(destination))
        _write(found, os.fspath(destination), chosen, overwrite, runtime.checked().bytes_in_flight, report)
    return ExportDone(chosen, tuple(found.arrays), found.nbytes)


def _node(source: Location | Array | Group, path: str, runtime: Runtime) -> Array | Group:
    if isinstance(source, Group):
        return source[path] if path else source
    if isinstance(source, Array):
        if path:
            raise InvalidInputError("an array has no nodes below it", path=path)
        return source
    return open_node(source, path=path, runtime=runtime)


def _check_outside(node: Array | Group, file: str) -> None:
    """Refuses a destination among the files of the source, because it could replace one of them. Raises InvalidInputError."""
    if not is_remote(file):
        source = address_of(node.store, f"{node.path}/" if node.path else "")
        check_no_overlap(source, address_of(LocalStore(file), ""), "choose a file beside the source")


def _format_of(destination: str | os.PathLike[str]) -> Format:
    text = os.fspath(destination).rstrip("/")
    ending = PurePath(text.lower().removesuffix(".zip") if text.lower().endswith(".zarr.zip") else text).suffix.lower()
    if ending not in FORMATS:
        raise InvalidInputError(
            f"the format cannot be derived from the name {text}",
            hint=f"format=, or a name that ends in {', '.join(FORMATS)}",
        )
    return FORMATS[ending]


def _write(
    source: Exported, file: str, form: Format, overwrite: bool, budget: int, report: Callable[[int], object]
) -> None:
    if is_remote(file):
        raise InvalidInputError(
            "a file can only be written on this machine", key=file, hint="export it here, and upload it"
        )
    check_output(file)
    target = _replaceable(file, overwrite)
    try:
        with replaced_file(target) as unfinished:
            if form in ("netcdf4", "hdf5"):
                write_hdf5(source, unfinished, Form(form == "netcdf4", budget), report)
            else:
                with open(unfinished, "w+b") as stream:
                    _STREAMS[form](source, stream, budget, report)
    except OSError as error:
        if isinstance(error, FrazilError):
            raise
        raise StoreError(f"cannot write: {error.strerror or error}", errno=error.errno, key=file) from error


def _replaceable(file: str, overwrite: bool) -> str:
    """The path of the file to write, behind links. Raises AlreadyExistsError, InvalidInputError for something that is not a plain file, such as a folder or a
    device, NotFoundError without a folder for it."""
    if os.path.lexists(file) and not overwrite:
        raise AlreadyExistsError(
            "the file already exists", key=file, hint="choose another name, or replace it: overwrite=True"
        )
    target = os.path.realpath(file)
    if descriptor_of(file) is not None or (os.path.lexists(target) and not os.path.isfile(target)):
        raise InvalidInputError("only a plain file is replaced", key=file, hint="choose another name")
    if not os.path.isdir(os.path.dirname(target)):
        raise NotFoundError("there is no folder for the file", key=file, hint="make the folder, or choose another one")
    return target
