"""frazil.import_file: imports files of other formats into a repository or a plain store, in one call: scan, plan, write, commit.

The steps are in scanner.py, importer.py and destination.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from frazil.api.repository import Repository
from frazil.api.session import checked_commit
from frazil.array.arguments import check_flag, checked_progress
from frazil.base.record import Record
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.integrations.files.imports.destination import Destination, open_destination
from frazil.integrations.files.imports.importer import (
    IMPORTS,
    Imported,
    Mode,
    Report,
    check_mode,
    folder_prefix,
    import_scanned,
    mode_of,
    plan_import,
    remote_prefixes,
)
from frazil.integrations.files.imports.layout import AUTO, Extents, LayoutOptions, check_dimensions
from frazil.integrations.files.imports.selection import select_variables
from frazil.integrations.files.kerchunk.virtual_dataset import NAME, VirtualDataset, is_dataset, scan_dataset
from frazil.integrations.files.scanner import scan_file
from frazil.integrations.files.sources.source import TIME_LIMIT
from frazil.metadata.paths import check_lenient_name, joined, normalise
from frazil.repository.virtual.locations import is_remote
from frazil.stores.memory import MemoryStore

if TYPE_CHECKING:
    from frazil.api.session import Session
    from frazil.integrations.files.scanned import ScannedFile
    from frazil.repository.virtual.prefixes import Prefixes
    from frazil.runtime import Runtime
    from frazil.stores.locations import Location


class FileImport(Record):
    """A scanned file with the variables to import, the group for them, and their plan, if it was made already."""

    file: str
    group: str
    scanned: ScannedFile
    planned: Imported | None = None


def import_file(
    source: str | os.PathLike[str] | VirtualDataset,
    destination: Location | Session | Repository,
    mode: Mode | None = None,
    *,
    path: str = "",
    variables: Sequence[str] | None = None,
    skip: Sequence[str] = (),
    chunks: Extents = AUTO,
    shards: Extents = AUTO,
    codecs: object = AUTO,
    message: str | None = None,
    dry_run: bool = False,
    virtual_prefixes: Prefixes | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Callable[[int], object] | None = None,
    runtime: Runtime = IMPORTS,
) -> Imported:
    """Imports the arrays of a file of another format into a repository, in one commit, or into a plain store, with groups, attributes and dimension names.

    source       a path, or the URL of a remote file, which is read by ranges: NetCDF 3 and 4, HDF5, NumPy (.npy, .npz), TIFF, GRIB; references of kerchunk
                 (JSON, or a folder of Parquet); or a Dataset or DataTree of xarray that VirtualiZarr made
    destination  a repository ("sea.repo", "sea.repo@branch/group"), created if nothing is there; a plain store (an existing one, or a new "sea.zarr"); a
                 Session, which then has the changes
    mode         "copy": decodes values and encodes them again; "adopt": copies the file into the repository, chunks are ranges of the copy; "virtual": chunks
                 are ranges of the file itself, which must not change; None: "virtual" for references, else "copy"
    path         path of the group that the arrays are written to
    variables    paths of the variables to import (None: all); "*", "?" and "[...]" match any characters
    skip         paths of variables to leave out
    chunks       of copies: "auto" (about 1 MiB); "same" as in the file; extents for the variables with as many dimensions; or extents by dimension name
    shards       "auto" (32 to 64 MiB), extents as for chunks, or None for none
    codecs       "auto", "same" as in the file, or as in create_array
    message      message of the commit
    dry_run      writes nothing, and reports what would be done
    virtual_prefixes  where a remote file, or virtual chunks, may be read from, and with which credentials, as for a repository
    time_limit   seconds that a library may take for one dataset or field, for the structure of a TIFF file, and for each chunk that it decodes
    progress     called with the number of bytes done since the last call
    runtime      bytes_in_flight: memory of the import (256 MiB), or one shard if that is larger
    The same call resumes an interrupted import into a plain store. Raises InvalidInputError for a variable that cannot be imported and is not left out,
    FormatError, AlreadyExistsError, NotFoundError, StoreError, DataError, ConflictError."""
    check_flag(dry_run, "dry_run")
    # the rules of the hierarchy, which may be stricter, apply when nodes are created
    path = normalise(path, check_lenient_name)
    if mode not in (None, "copy", "adopt", "virtual"):
        raise InvalidInputError(f"mode is {mode!r}; it must be 'copy', 'adopt' or 'virtual'")
    layout = LayoutOptions(chunks, shards, codecs)
    report = checked_progress(progress)
    prefixes = virtual_prefixes
    if not isinstance(source, str | os.PathLike):
        if not is_dataset(source):
            raise InvalidInputError(
                f"not a file: {type(source).__name__}", hint="give a path, a URL or a dataset of VirtualiZarr"
            )
        file, scanned = NAME, scan_dataset(source)
    else:
        file = os.fspath(source)
        prefixes = virtual_prefixes or remote_prefixes([file])
        scanned = scan_file(file, virtual_prefixes=prefixes or None, time_limit=time_limit)
    selected = select_variables(scanned, skip, file, variables)
    mode = mode_of(selected, mode)
    check_mode(selected, file, mode, virtual_prefixes)
    check_dimensions(selected.arrays, layout)
    planned = plan_import(selected, mode, layout, runtime)
    if dry_run:
        return planned
    opened = FileImport(file, path, selected, planned)
    return import_files([opened], destination, mode, layout, message, report, prefixes or None, runtime)


def import_files(
    files: Sequence[FileImport],
    destination: Location | Session | Repository,
    mode: Mode,
    layout: LayoutOptions,
    message: str | None,
    report: Report,
    prefixes: Prefixes | None,
    runtime: Runtime,
) -> Imported:
    """Several scanned files, in one commit; arguments and errors as for import_file. Raises InvalidInputError if nothing would be imported."""
    if not any(file.scanned.arrays for file in files):
        raise InvalidInputError(
            "nothing could be imported: there is no array",
            key=", ".join([file.file for file in files]) or None,
            hint="frazil import --dry-run FILE shows what was found",
        )
    text = message or f"Import {', '.join(PurePath(file.file).name for file in files)}"
    checked_commit(text)

    def rehearse() -> None:
        session = Repository.create(MemoryStore()).writable_session()
        for file in files:
            plan_import(file.scanned, mode, layout, runtime, trial=session.root, path=file.group)
        session.commit(text, allow_empty=True)

    target = open_destination(destination, "", _allowed(files, prefixes), mode, runtime, rehearse)
    try:
        parts = [_imported(file, target, mode, layout, report, prefixes, runtime) for file in files]
        snapshot = branch = None
        session = target.target
        if target.commits:
            branch = session.branch  # type: ignore[union-attr] # a session, as it commits
            snapshot = session.commit(text, rebase="disjoint")  # type: ignore[union-attr]
    finally:
        if target.commits and target.target.has_changes:  # type: ignore[union-attr]
            target.target.discard()  # type: ignore[union-attr]
    return Imported(
        tuple([path for part in parts for path in part.arrays]),
        tuple([layout for part in parts for layout in part.layouts]),
        tuple([skipped for part in parts for skipped in part.skipped]),
        sum(part.nbytes for part in parts),
        snapshot,
        branch,
    )


def _imported(
    file: FileImport,
    target: Destination,
    mode: Mode,
    layout: LayoutOptions,
    report: Report,
    prefixes: Prefixes | None,
    runtime: Runtime,
) -> Imported:
    group = joined(target.path, file.group)
    try:
        return import_scanned(
            target.target,
            file.scanned,
            file.file,
            path=group,
            mode=mode,
            layout=layout,
            report=report,
            virtual_prefixes=prefixes,
            runtime=runtime,
            planned=file.planned,
        )
    except AlreadyExistsError as error:
        if error.hint is None or "overwrite" in error.hint:  # imports never overwrite
            error.hint = "choose another group with path="
        raise


def _allowed(files: Sequence[FileImport], prefixes: Prefixes | None) -> Mapping[str, Location | None]:
    """The prefixes that a session needs for references to these files."""
    allowed: dict[str, Location | None] = {
        folder_prefix(file.file): None for file in files if not (file.scanned.in_memory or is_remote(file.file))
    }
    for url in {url for file in files for array in file.scanned.arrays for url in array.urls}:
        allowed[url.rpartition("/")[0] + "/"] = None  # only for this session: readers must allow it again
    if isinstance(prefixes, Mapping):
        return {**allowed, **prefixes}
    return {**allowed, **dict.fromkeys(prefixes or ())}
