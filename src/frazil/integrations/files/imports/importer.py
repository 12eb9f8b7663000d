"""Import of one scanned file: its arrays are copied, or refer to chunks in the file, which a repository may adopt. Nothing is committed here.

Files are scanned by scanner.py; where they go is decided in import_file.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from math import prod
from typing import Literal, TypeAlias

from frazil.api.session import Session
from frazil.array.info import human
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.integrations.files.imports.array_copies import ArrayCopy, copy_arrays, joined, make_groups
from frazil.integrations.files.imports.array_sources import open_arrays
from frazil.integrations.files.imports.layout import ArrayLayout, LayoutOptions, choose_layout
from frazil.integrations.files.imports.references import check_references, set_references
from frazil.integrations.files.imports.selection import select_variables
from frazil.integrations.files.numpy_files.arrays import KIND, check_stored
from frazil.integrations.files.scanned import ScannedFile, Skipped, element_nbytes
from frazil.integrations.files.sources.source import Source, source_of
from frazil.record import Record
from frazil.repository.virtual.locations import is_remote, parse_location
from frazil.repository.virtual.prefixes import Prefixes
from frazil.runtime import Runtime
from frazil.stores.locations import Location, resolve

Mode: TypeAlias = Literal["copy", "virtual", "adopt"]
Report: TypeAlias = Callable[[int], object]

_LEAST_CHECKED = 2**40  # bytes of elements below which a variable is copied whatever the size of its file
_MOST_OF_FILE = 2**20  # bytes of elements for each byte of a file: more than any codec reaches
IMPORTS = Runtime(bytes_in_flight=2**28)  # what an import may use where nothing else is said


class Imported(Record):
    """What an import did, or would do.

    arrays    paths of the arrays, below the group of the import
    layouts   of each array that is copied: chunks, shards, codecs, and why
    skipped   what of the file is left out, with paths as in the file
    nbytes    of the elements;  snapshot: the id of the commit, branch: what it went to; None where nothing was committed"""

    arrays: tuple[str, ...]
    layouts: tuple[ArrayLayout, ...]
    skipped: tuple[Skipped, ...]
    nbytes: int
    snapshot: str | None = None
    branch: str | None = None


def folder_prefix(file: str) -> str:
    """The prefix of locations that virtual chunks in a file need to be allowed."""
    return source_of(file).prefix


def remote_prefixes(files: Iterable[str]) -> dict[str, Location]:
    """The bucket or web server of each remote file, and the one store that all files there are read from. Raises InvalidInputError."""
    roots = dict.fromkeys(parse_location(file).root for file in files if is_remote(file))
    return {f"{root}/": resolve(root)[0] for root in roots}


def mode_of(scanned: ScannedFile, mode: Mode | None) -> Mode:
    """The mode of an import where none is given: references are imported as such, values are copied."""
    return mode or ("virtual" if scanned.refers else "copy")


def check_mode(scanned: ScannedFile, file: str, mode: Mode, prefixes: Prefixes | None) -> None:
    """Refuses what a file of references does not allow: it may name any file of this machine, so values are copied only from places that the user names. Raises InvalidInputError."""
    if not scanned.refers or mode == "virtual":
        return
    if mode == "adopt":
        raise InvalidInputError(
            "a file of references has no chunks of its own to adopt", key=file, hint='mode="virtual"'
        )
    if not prefixes:
        raise InvalidInputError(
            "values are copied only from locations that virtual_prefixes allows",
            key=file,
            hint='virtual_prefixes=["file:///data/"]; or mode="virtual"',
        )


def import_size(scanned: ScannedFile, mode: Mode) -> int:
    """Bytes that an import reports, all in all."""
    if mode == "copy":
        return sum(element_nbytes(array.dtype) * prod(array.shape) for array in scanned.arrays)
    return scanned.size if mode == "adopt" else 0


def plan_import(scanned: ScannedFile, mode: Mode, layout: LayoutOptions, runtime: Runtime) -> Imported:
    """What an import of these variables would make. Raises InvalidInputError for options that do not fit."""
    budget = runtime.checked().bytes_in_flight
    if mode != "copy" and layout != LayoutOptions():
        raise InvalidInputError("chunks, shards and codecs can be chosen only where values are copied")
    if mode == "copy" and not scanned.refers:
        _check_sizes(scanned)
    layouts = [choose_layout(array, layout, budget) for array in scanned.arrays] if mode == "copy" else []
    nbytes = sum(element_nbytes(array.dtype) * prod(array.shape) for array in scanned.arrays)
    return Imported(tuple([array.path for array in scanned.arrays]), tuple(layouts), scanned.skipped, nbytes)


def _check_sizes(scanned: ScannedFile) -> None:
    """Refuses arrays that are nearly all fill value, such as those of a damaged header: a copy would take years. Raises InvalidInputError."""
    for array in scanned.arrays:
        nbytes = element_nbytes(array.dtype) * prod(array.shape)
        if nbytes > max(_LEAST_CHECKED, _MOST_OF_FILE * scanned.size):
            raise InvalidInputError(
                f"its elements have {human(nbytes)}, and the file has {human(scanned.size)}: nearly all of it is not stored, or the file is damaged",
                path=array.path,
                hint='leave it out with skip=; mode="virtual" refers to what is stored',
            )


def import_scanned(
    destination: Session | Location,
    scanned: ScannedFile,
    file: str,
    *,
    path: str = "",
    mode: Mode = "copy",
    variables: Sequence[str] | None = None,
    skip: Sequence[str] = (),
    layout: LayoutOptions | None = None,
    report: Report = lambda _: None,
    virtual_prefixes: Prefixes | None = None,
    runtime: Runtime = IMPORTS,
) -> Imported:
    """Makes the groups and arrays of a file below the group at a path, which is made where it is missing; commits nothing.

    destination  a writable Session; or the location of a plain store, for mode "copy"
    file     its path, or its URL; of a dataset in memory, what to call it
    mode     "copy": values are decoded, and encoded with codecs of ours; "adopt": the file is copied whole, chunks are parts of it; "virtual": chunks are parts of
             the file where it is, which the session's repository must allow (folder_prefix)
    variables, skip  variables that are imported (None: all), and that are left out, as select_variables takes them
    layout   chunks, shards and codecs of copies
    report   is called with bytes that were done
    virtual_prefixes  as for scan_file
    runtime  bytes_in_flight: bytes that the import holds, or one shard where that is more
    Raises InvalidInputError where a remote file is to be adopted, for a variable that cannot be imported and is not left out, and for an array that the
    repository's format cannot hold; AlreadyExistsError where something has the path of an array, StoreError, also where the file changed meanwhile, and what reading it raises."""
    source = Source(file, "") if scanned.in_memory else source_of(file, virtual_prefixes)
    if mode == "adopt" and source.container is not None:
        raise InvalidInputError(
            "a remote file cannot be adopted",
            key=file,
            hint="copy the file to this machine first; or refer to it where it is, or copy its values",
        )
    scanned = select_variables(scanned, skip, file, variables)
    check_mode(scanned, file, mode, virtual_prefixes)
    planned = plan_import(scanned, mode, layout or LayoutOptions(), runtime)
    try:
        if scanned.kind == KIND and mode != "virtual":
            check_stored(source, scanned.arrays)
        if mode == "copy":
            with ExitStack() as files:
                found = open_arrays(scanned, source, virtual_prefixes, runtime, files)
                copies = [
                    ArrayCopy(found[name], name, laid_out)
                    for name, laid_out in zip(planned.arrays, planned.layouts, strict=True)
                ]
                origin = f"{source.location} {scanned.state!r}"
                copy_arrays(destination, path, dict(scanned.groups), copies, origin, report)
        else:
            _refer(destination, scanned, source, path, mode, report)
    except DataError as error:  # its values may be wrong, or not be those that were scanned
        _check_state(source, scanned, error)
        raise
    _check_state(source, scanned)
    return planned._replace(arrays=tuple([joined(path, array) for array in planned.arrays]))


def _check_state(source: Source, scanned: ScannedFile, error: DataError | None = None) -> None:
    """Raises StoreError where the file is not what was scanned."""
    if source.state() != scanned.state:
        raise StoreError(
            "the file changed while it was imported",
            key=source.name,
            hint="import it again when no process writes to it",
        ) from error


def _refer(
    destination: Session | Location, scanned: ScannedFile, source: Source, path: str, mode: Mode, report: Report
) -> None:
    """Arrays whose chunks are parts of the file, or of its copy in the repository."""
    if not isinstance(destination, Session):
        raise InvalidInputError(
            "only a repository can refer to chunks in files", hint="import into a repository, or copy the values"
        )
    check_references(scanned.arrays, source.name)
    make_groups(destination.root, path, dict(scanned.groups))
    target = destination.root[path.strip("/")] if path.strip("/") else destination.root
    # all of them before any chunk, as their paths may be taken
    made = [(array, target.create_array(array.path, **array.arguments())) for array in scanned.arrays]  # type: ignore[union-attr, arg-type]
    if not made:
        return
    adopted = destination.adopt_file(source.name) if mode == "adopt" else ""
    if adopted:
        report(scanned.size)
    for array, array_made in made:
        set_references(destination, array, array_made.path, source, scanned.state, adopted)
