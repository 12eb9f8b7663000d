"""Import of one scanned file: its arrays are copied, or reference chunks in the file, which a repository may adopt. Nothing is committed here.

scanner.py scans files; import_file.py chooses the destination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from math import prod
from threading import Event
from typing import Literal, TypeAlias

from frazil.api.nodes import create_group, open_group
from frazil.api.repository import Repository
from frazil.api.session import Session
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.base.record import Record
from frazil.base.reports import human
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.integrations.files.imports.array_copies import ArrayCopy, copy_arrays, make_groups
from frazil.integrations.files.imports.layout import ArrayLayout, LayoutOptions, choose_layout
from frazil.integrations.files.imports.references import check_references, set_references
from frazil.integrations.files.imports.selection import select_variables
from frazil.integrations.files.libraries.decoded_chunks import DecodedChunks
from frazil.integrations.files.numpy_files.arrays import KIND, check_stored
from frazil.integrations.files.scanned import ScannedFile, Skipped, element_nbytes
from frazil.integrations.files.sources.source import Source, source_of
from frazil.metadata.paths import joined
from frazil.repository.virtual.locations import is_remote, parse_location
from frazil.repository.virtual.prefixes import Prefixes
from frazil.runtime import Runtime
from frazil.stores.locations import Location, resolve
from frazil.stores.memory import MemoryStore
from frazil.stores.operations.adapted_store import adapt

Mode: TypeAlias = Literal["copy", "virtual", "adopt"]
Report: TypeAlias = Callable[[int], object]

_LEAST_CHECKED = 2**40  # bytes of elements below which a variable is copied without regard to the size of its file
_MOST_OF_FILE = 2**20  # bytes of elements for each byte of a file: more than any codec achieves
IMPORTS = Runtime(bytes_in_flight=2**28)  # the default limits of an import


class Imported(Record):
    """The result of an import, or of a dry run.

    arrays    paths of the arrays, below the group of the import
    layouts   of each array that is copied: chunks, shards, codecs, and the reason
    skipped   parts of the file that are left out, with their paths in the file
    nbytes    of the elements;  snapshot: the id of the commit, branch: its branch; None if nothing was committed"""

    arrays: tuple[str, ...]
    layouts: tuple[ArrayLayout, ...]
    skipped: tuple[Skipped, ...]
    nbytes: int
    snapshot: str | None = None
    branch: str | None = None


def folder_prefix(file: str) -> str:
    """The prefix of locations that must be allowed for virtual chunks in a file."""
    return source_of(file).prefix


def remote_prefixes(files: Iterable[str]) -> dict[str, Location]:
    """The bucket or web server of each remote file, and the one store from which all files there are read. Raises InvalidInputError."""
    roots = dict.fromkeys(parse_location(file).root for file in files if is_remote(file))
    return {f"{root}/": resolve(root)[0] for root in roots}


def mode_of(scanned: ScannedFile, mode: Mode | None) -> Mode:
    """The mode of an import, with the default filled in: references are imported as such, values are copied."""
    return mode or ("virtual" if scanned.refers else "copy")


def check_mode(scanned: ScannedFile, file: str, mode: Mode, prefixes: Prefixes | None) -> None:
    """Refuses modes that a file does not allow, before a destination is created. References may name any file of this machine, so their values are copied only
    from places that the user names. Raises InvalidInputError."""
    if mode == "adopt" and is_remote(file):
        raise InvalidInputError(
            "a remote file cannot be adopted",
            key=file,
            hint="copy the file to this machine first; or refer to it where it is, or copy its values",
        )
    if mode != "copy":
        check_references(scanned.arrays, file)
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
    """The total number of bytes that an import reports."""
    if mode == "copy":
        return sum(element_nbytes(array.dtype) * prod(array.shape) for array in scanned.arrays)
    return scanned.size if mode == "adopt" else 0


def plan_import(
    scanned: ScannedFile,
    mode: Mode,
    layout: LayoutOptions,
    runtime: Runtime,
    *,
    trial: Group | None = None,
    path: str = "",
) -> Imported:
    """The result of an import of these variables, without writing.

    trial  the root of a hierarchy in memory, in which the nodes are created below the group at `path`, because they may not fit; None: a new plain one
    Raises InvalidInputError for options that do not fit, and for nodes that the trial hierarchy cannot hold."""
    budget = runtime.checked().bytes_in_flight
    if mode != "copy" and layout != LayoutOptions():
        raise InvalidInputError("chunks, shards and codecs can be chosen only where values are copied")
    if mode == "copy" and not scanned.refers:
        _check_sizes(scanned)
    layouts = [choose_layout(array, layout, budget) for array in scanned.arrays] if mode == "copy" else []
    root = create_group(MemoryStore()) if trial is None else trial
    make_groups(root, path, dict(scanned.groups))
    created: dict[str, Mapping[str, object]] = {}
    for array, chosen in zip_longest(scanned.arrays, layouts):
        own = {} if chosen is None else {"chunks": chosen.chunks, "shards": chosen.shards, "codecs": chosen.codecs}
        created[joined(path, array.path)] = {**array.arguments(), **own}
    root.create_arrays(created)
    nbytes = sum(element_nbytes(array.dtype) * prod(array.shape) for array in scanned.arrays)
    return Imported(tuple([array.path for array in scanned.arrays]), tuple(layouts), scanned.skipped, nbytes)


def _check_sizes(scanned: ScannedFile) -> None:
    """Refuses arrays that consist almost only of fill values, such as those of a damaged header: a copy would take years. Raises InvalidInputError."""
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
    skip: Sequence[str] = (),
    layout: LayoutOptions | None = None,
    report: Report = lambda _: None,
    virtual_prefixes: Prefixes | None = None,
    runtime: Runtime = IMPORTS,
    planned: Imported | None = None,
) -> Imported:
    """Creates the groups and arrays of a file below the group at a path, which is created if it does not exist; commits nothing.

    destination  a writable Session; or the location of a plain store, for mode "copy"
    file     its path, or its URL; for a dataset in memory, its name
    mode     "copy": values are decoded, and encoded with codecs of ours; "adopt": the file is copied whole, chunks are parts of it; "virtual": chunks are parts
             of the file where it is, which the session's repository must allow (folder_prefix)
    skip     variables that are left out, as for select_variables
    layout   chunks, shards and codecs of copies
    report   is called with bytes done
    virtual_prefixes  as for scan_file
    runtime  bytes_in_flight: bytes that the import holds, or one shard if that is larger
    planned  the result of plan_import for these variables; None: it is made here
    Raises InvalidInputError if a remote file is to be adopted, for a variable that cannot be imported and is not left out, and for an array that the
    repository's format cannot hold; AlreadyExistsError if another node has the path of an array, StoreError, also if the file changed meanwhile, and errors of
    reading it."""
    source = (
        Source(file, "")
        if scanned.in_memory
        else source_of(file, virtual_prefixes)._replace(time_limit=scanned.time_limit)
    )
    scanned = select_variables(scanned, skip, file)
    check_mode(scanned, file, mode, virtual_prefixes)
    planned = planned or plan_import(scanned, mode, layout or LayoutOptions(), runtime)
    try:
        if scanned.kind == KIND and mode != "virtual":
            check_stored(source, scanned.arrays)
        if mode == "copy":
            ended = Event()
            with ExitStack() as files:
                found, decoded = open_arrays(scanned, source, virtual_prefixes, runtime, files, ended)
                copies = [
                    ArrayCopy(found[name], name, laid_out)
                    for name, laid_out in zip(planned.arrays, planned.layouts, strict=True)
                ]
                groups, origin = dict(scanned.groups), (f"{source.location} {scanned.state!r}", source.changed_at())
                copy_arrays(destination, path, groups, copies, origin, report, decoded.spool, ended, runtime)
        else:
            _refer(destination, scanned, source, path, mode, report)
    except DataError as error:  # its values may be wrong, or it may have changed since the scan
        _check_state(source, scanned, error)
        raise
    _check_state(source, scanned)
    return planned._replace(arrays=tuple([joined(path, array) for array in planned.arrays]))


def _check_state(source: Source, scanned: ScannedFile, error: DataError | None = None) -> None:
    """Raises StoreError if the file has changed since the scan."""
    if source.state() != scanned.state:
        raise StoreError(
            "the file changed while it was imported",
            key=source.name,
            hint="import it again when no process writes to it",
        ) from error


def _refer(
    destination: Session | Location, scanned: ScannedFile, source: Source, path: str, mode: Mode, report: Report
) -> None:
    """Creates arrays whose chunks are parts of the file, or of its copy in the repository."""
    if not isinstance(destination, Session):
        raise InvalidInputError(
            "only a repository can refer to chunks in files", hint="import into a repository, or copy the values"
        )
    make_groups(destination.root, path, dict(scanned.groups))
    target = destination.root[path]
    # all arrays before any chunk, because their paths may exist already
    assert isinstance(target, Group), "make_groups made it"
    created = target.create_arrays({array.path: array.arguments() for array in scanned.arrays})
    if not created:
        return
    adopted = destination.adopt_file(source.name) if mode == "adopt" else ""
    if adopted:
        report(scanned.size)
    for array in scanned.arrays:
        set_references(destination, array, created[array.path].path, source, scanned.state, adopted)


def open_arrays(
    scanned: ScannedFile,
    source: Source,
    prefixes: Prefixes | None,
    runtime: Runtime,
    files: ExitStack,
    ended: Event,
) -> tuple[dict[str, Array], DecodedChunks]:
    """Each array of the file, by path, to be read: references to its chunks, or chunks that a library decodes; and the chunks of those that a library decodes.
    prefixes: of locations that chunks may be read from, beside the folder of the file; files: closes the files that libraries open; ended: as for
    DecodedChunks. Raises InvalidInputError if a library is missing."""
    own = {} if scanned.refers or source.container is not None else {source.prefix: None}
    allowed = {**own, **(prefixes if isinstance(prefixes, Mapping) else dict.fromkeys(prefixes or ()))}
    session = Repository.create(MemoryStore(), virtual_prefixes=allowed, runtime=runtime).writable_session()
    native = [array for array in scanned.arrays if array.library is None]
    found = session.root.create_arrays({array.path: array.arguments() for array in native}) if native else {}
    arrays: dict[str, Array] = dict(found)
    for array in native:
        set_references(session, array, array.path, source, scanned.state)
    by_library = [array for array in scanned.arrays if array.library is not None]
    decoded = DecodedChunks(by_library, source, files, ended)
    if by_library:
        root = open_group(adapt(decoded), runtime=runtime)
        for array in by_library:
            node = root[array.path]
            assert isinstance(node, Array)
            arrays[array.path] = node
    return arrays, decoded
