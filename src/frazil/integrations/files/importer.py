"""Import of a scanned file into a session of a repository: its arrays are copied, or refer to chunks in the file, which the repository may adopt.

What scanning finds is in scanned.py; which variables are left out on request is decided here, and is an error otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from math import prod
from typing import Final, Literal, TypeAlias

from frazil.api.repository import Repository
from frazil.api.session import Session
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.formats.manifests import FileCheck
from frazil.integrations.files.scanned import ScannedArray, ScannedFile, Skipped
from frazil.integrations.files.source import Source, source_of
from frazil.operations.window import window
from frazil.record import Record
from frazil.repository.virtual.locations import is_remote, parse_location
from frazil.repository.virtual.prefixes import Prefixes
from frazil.stores.locations import Location, resolve
from frazil.stores.memory import MemoryStore

How: TypeAlias = Literal["copy", "virtual", "adopt"]

_SKIPPED: Final = "it was asked to be skipped"
_MOST_TOLD: Final = 10  # variables that one error names
_TILE_BYTES: Final = 2**25  # that are copied at once
_SMALLEST, _LARGEST = 2**15, 2**25  # bytes of chunks that a copy keeps the shape of


class Imported(Record):
    """arrays: paths of those that were made, below the group of the import; skipped: what of the file is left out, with paths as in the file"""

    arrays: tuple[str, ...]
    skipped: tuple[Skipped, ...]


def folder_prefix(file: str) -> str:
    """The prefix of locations that virtual chunks in a file need to be allowed."""
    return source_of(file).prefix


def far_places(files: Iterable[str]) -> dict[str, Location]:
    """The bucket or web server of each file at a distance, and the one store that all files there are read from. Raises InvalidInputError."""
    roots = dict.fromkeys(parse_location(file).root for file in files if is_remote(file))
    return {f"{root}/": resolve(root)[0] for root in roots}


def has_variable(scanned: ScannedFile, name: str) -> bool:
    """Whether a variable of the file has this path; "*", "?" and "[...]" stand for any characters, as in a shell."""
    return any(is_named(path, [name]) for path in [*[array.path for array in scanned.arrays], *_missing(scanned)])


def without_skipped(scanned: ScannedFile, skip: Sequence[str], file: str) -> ScannedFile:
    """The file without the variables that `skip` names.

    skip  paths of variables in the file, "level1/temp", as for has_variable
    file  its name in errors
    Raises InvalidInputError for a variable that cannot be imported and that `skip` does not name, and for a name in `skip` that no variable has."""
    for name in skip:
        if not has_variable(scanned, name):
            raise InvalidInputError(f"there is no variable {name!r} to be skipped", key=file)
    missing = _missing(scanned)
    lost = [path for path in missing if not is_named(path, skip)]
    if lost:
        told = lost[:_MOST_TOLD]
        raise InvalidInputError(
            f"{len(lost)} variable{'s' * (len(lost) > 1)} cannot be imported: "
            + "; ".join([*[f"/{path}: {missing[path]}" for path in told], *["..."] * (len(lost) > len(told))]),
            key=file,
            hint=f"import the others, with {' '.join([f'--skip {path}' for path in told])}",
        )
    left_out = [Skipped(array.path, None, _SKIPPED) for array in scanned.arrays if is_named(array.path, skip)]
    for part in left_out:
        missing[part.path] = part.reason
    kept = tuple([array for array in scanned.arrays if array.path not in missing])
    return scanned._replace(
        arrays=kept,
        skipped=tuple([part._replace(loses_values=False) for part in (*scanned.skipped, *left_out)]),
    )


def _missing(scanned: ScannedFile) -> dict[str, str]:
    """Variables whose values would be lost, with the reasons."""
    return {part.path: part.reason for part in scanned.skipped if part.attribute is None and part.loses_values}


def is_named(path: str, names: Sequence[str]) -> bool:
    """Whether one of the names is that of the variable at a path; "*", "?" and "[...]" in names stand for any characters, as in a shell."""
    return any(fnmatchcase(path, name.strip("/")) for name in names)


def import_size(scanned: ScannedFile, how: How) -> int:
    """Bytes that an import reports, all in all."""
    if how == "copy":
        return sum(array.dtype.itemsize * prod(array.shape) for array in scanned.arrays)
    return scanned.size if how == "adopt" else 0


def import_scanned(
    session: Session,
    scanned: ScannedFile,
    file: str,
    *,
    path: str = "",
    how: How = "copy",
    skip: Sequence[str] = (),
    report: Callable[[int], None] = lambda _: None,
    virtual_prefixes: Prefixes | None = None,
) -> Imported:
    """Makes the groups and arrays of a file below the group at a path, which is made where it is missing; commits nothing.

    file  its path, or its URL
    how  "copy": values are decoded, and encoded with codecs of ours; "adopt": the file is copied whole, chunks are parts of it; "virtual": chunks are parts of
         the file where it is, which the session's repository must allow (folder_prefix)
    skip  variables that are left out, as without_skipped takes them
    report  is called with bytes that were done
    virtual_prefixes  as for scan_file
    Raises InvalidInputError where a file at a distance is to be adopted, for a variable that cannot be imported and is not in `skip`, and for an array that the
    repository's format cannot hold; AlreadyExistsError where something has the path of an array, StoreError, also where the file changed meanwhile, and what reading it raises."""
    source = source_of(file, virtual_prefixes)
    if how == "adopt" and source.place is not None:
        raise InvalidInputError(
            "a file at a distance cannot be adopted",
            key=file,
            hint="copy the file to this machine first; or refer to it where it is, or copy its values",
        )
    scanned = without_skipped(scanned, skip, file)
    target = _at(session.root, path)
    for name, attributes in scanned.groups.items():
        group = _at(target, name)
        if attributes:
            group.attrs.update(attributes)
    made: list[tuple[ScannedArray, Array]] = []
    for array in scanned.arrays:  # all of them before any value moves, as their paths may be taken
        arguments = _copied(array) if how == "copy" else array.arguments()
        made.append((array, target.create_array(array.path, **arguments)))  # type: ignore[arg-type]
    try:
        if made:
            take = _taker(session, scanned, source, how, report, virtual_prefixes)
            for array, target_array in made:
                take(array, target_array)
    except DataError as error:  # its values may be wrong, or not be those that were scanned
        _check_state(source, scanned, error)
        raise
    _check_state(source, scanned)
    return Imported(tuple([array.path for _, array in made]), scanned.skipped)


def _check_state(source: Source, scanned: ScannedFile, error: DataError | None = None) -> None:
    """Raises StoreError where the file is not what was scanned."""
    if source.state() != scanned.state:
        raise StoreError("the file changed while it was imported", key=source.name) from error


def _at(group: Group, path: str) -> Group:
    return group.require_group(path) if path.strip("/") else group


def _copied(array: ScannedArray) -> dict[str, object]:
    """Arguments for an array with codecs of ours; chunks keep their shape where that is a sensible one."""
    keeps = _SMALLEST <= array.dtype.itemsize * prod(array.chunk_shape) <= _LARGEST
    return {**array.arguments(), "codecs": "auto", "chunks": array.chunk_shape if keeps else "auto"}


def _taker(
    session: Session,
    scanned: ScannedFile,
    source: Source,
    how: How,
    report: Callable[[int], None],
    prefixes: Prefixes | None,
) -> Callable[[ScannedArray, Array], None]:
    """What fills the arrays that were made."""
    if how == "copy":
        shown = _shown(scanned, source, prefixes)

        def copy(array: ScannedArray, made: Array) -> None:
            values = shown[array.path]
            assert isinstance(values, Array)
            _copy(values, made, report)

        return copy
    adopted = session.adopt_file(source.name) if how == "adopt" else ""
    if how == "adopt":
        report(scanned.size)

    def refer(array: ScannedArray, made: Array) -> None:
        _refer(session, array, made.path, source, scanned.state, adopted)

    return refer


def _refer(
    session: Session, array: ScannedArray, path: str, source: Source, state: FileCheck, adopted: str = ""
) -> None:
    """References to the chunks of an array, in a file of this state; those that no part of the file is are stored."""
    chunks = array.chunks
    if len(chunks.offsets):
        if adopted:
            session.set_adopted_chunks(path, chunks.coordinates, adopted, chunks.offsets, chunks.lengths)
        else:
            session.set_virtual_chunks(
                path,
                chunks.coordinates,
                source.location,
                chunks.offsets,
                chunks.lengths,
                check={source.location: state},  # the state that was scanned: no request is needed
            )
    for coordinates, value in array.given:
        session.store.set("/".join(part for part in (path, "c", *map(str, coordinates)) if part), value)


def _shown(scanned: ScannedFile, source: Source, prefixes: Prefixes | None) -> Group:
    """The arrays of a file as references to it, in a repository that nobody keeps."""
    session = Repository.create(MemoryStore(), virtual_prefixes=prefixes or [source.prefix]).writable_session()
    for array in scanned.arrays:
        session.root.create_array(array.path, **array.arguments())  # type: ignore[arg-type]
        _refer(session, array, array.path, source, scanned.state)
    return session.root


def _copy(source: Array, made: Array, report: Callable[[int], None]) -> None:
    """Piece by piece, cut where chunks of the copy end."""
    for place, tile in window(made).tiles(_TILE_BYTES):
        selection = tuple([slice(start, start + length) for start, length in zip(place, tile.shape, strict=True)])
        made[selection] = source[selection]
        report(tile.nbytes)
