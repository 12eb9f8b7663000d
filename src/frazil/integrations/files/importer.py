"""Arrays of a scanned file, brought into a session of a repository: copied, adopted with the file, or as references to it. What scanning finds is in scanned.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

from frazil.api.repository import Repository
from frazil.api.session import Session
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.integrations.files.scanned import ScannedArray, ScannedFile, Skipped
from frazil.integrations.files.source import Source, source_of
from frazil.operations.window import window
from frazil.record import Record
from frazil.repository.virtual.file_checks import FileCheck
from frazil.repository.virtual.locations import is_remote, parse_location
from frazil.repository.virtual.prefixes import Prefixes
from frazil.stores.locations import Location, resolve
from frazil.stores.memory import MemoryStore

__all__ = ["HOW", "How", "Imported", "far_places", "folder_prefix", "import_scanned", "import_size"]

How: TypeAlias = Literal["copy", "virtual", "adopt"]
HOW: Final[tuple[How, ...]] = ("copy", "virtual", "adopt")

_TILE_BYTES: Final = 2**25  # that are copied at once
_SMALLEST, _LARGEST = 2**15, 2**25  # bytes of chunks that a copy keeps the shape of


class Imported(Record):
    """arrays: paths of those that are there now; skipped: what of the file is not, paths as in the file"""

    arrays: tuple[str, ...]
    skipped: tuple[Skipped, ...]


def folder_prefix(file: str) -> str:
    """The prefix of locations that virtual chunks in a file need to be allowed."""
    return source_of(file).prefix


def far_places(files: Iterable[str]) -> dict[str, Location]:
    """The bucket or web server of each file at a distance, and the one store that all files there are read from. Raises InvalidInputError."""
    roots = dict.fromkeys(parse_location(file).root for file in files if is_remote(file))
    return {f"{root}/": resolve(root)[0] for root in roots}


def import_size(scanned: ScannedFile, how: How) -> int:
    """Bytes that an import reports, all in all."""
    if how == "copy":
        return sum(_nbytes(array) for array in scanned.arrays)
    return scanned.size if how == "adopt" else 0


def _nbytes(array: ScannedArray) -> int:
    count = array.dtype.itemsize
    for extent in array.shape:
        count *= extent
    return count


def import_scanned(
    session: Session,
    scanned: ScannedFile,
    file: str,
    *,
    path: str = "",
    how: How = "copy",
    report: Callable[[int], None] = lambda _: None,
    virtual_prefixes: Prefixes | None = None,
) -> Imported:
    """Makes the groups and arrays of a file below the group at a path, which is made where it is missing; commits nothing.

    file  its path, or its URL
    how  "copy": values are decoded, and encoded with codecs of ours; "adopt": the file is copied whole, chunks are parts of it; "virtual": chunks are parts of
         the file where it is, which the session's repository must allow (folder_prefix)
    report  is called with bytes that were done
    virtual_prefixes  as for scan_file
    Raises InvalidInputError where a file at a distance is to be adopted; AlreadyExistsError where something has the path of an array, StoreError, also where the file changed meanwhile, and what reading it raises."""
    source = source_of(file, virtual_prefixes)
    if how == "adopt" and source.place is not None:
        raise InvalidInputError(
            "a file at a distance cannot be adopted",
            key=file,
            hint="copy the file to this machine first; or refer to it where it is, or copy its values",
        )
    target = _at(session.root, path)
    skipped = list(scanned.skipped)
    for name, attributes in scanned.groups.items():
        group = _at(target, name)
        if attributes:
            group.attrs.update(attributes)
    made: list[tuple[ScannedArray, Array]] = []
    for array in scanned.arrays:  # all of them before any value moves, as their paths may be taken
        arguments = _copied(array) if how == "copy" else array.arguments()
        try:
            made.append((array, target.create_array(array.path, **arguments)))  # type: ignore[arg-type]
        except InvalidInputError as error:  # what a repository cannot hold
            skipped.append(Skipped(array.path, None, error.message))
    try:
        if made:
            take = _taker(session, scanned, source, how, report, virtual_prefixes)
            for array, target_array in made:
                take(array, target_array)
    except DataError as error:  # its values may be wrong, or not be those that were scanned
        _check_state(source, scanned, error)
        raise
    _check_state(source, scanned)
    return Imported(tuple([array.path for _, array in made]), tuple(skipped))


def _check_state(source: Source, scanned: ScannedFile, error: DataError | None = None) -> None:
    """Raises StoreError where the file is not what was scanned."""
    if source.state() != scanned.state:
        raise StoreError("the file changed while it was imported", key=source.name) from error


def _at(group: Group, path: str) -> Group:
    return group.require_group(path) if path.strip("/") else group


def _copied(array: ScannedArray) -> dict[str, object]:
    """Arguments for an array with codecs of ours; chunks keep their shape where that is a sensible one."""
    nbytes = array.dtype.itemsize
    for extent in array.chunk_shape:
        nbytes *= extent
    keeps = _SMALLEST <= nbytes <= _LARGEST
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
                check={source.location: state},  # what was scanned; and nobody need be asked
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
