"""Arrays of a scanned file, brought into a session of a repository: copied, adopted with the file, or as references to it. What scanning finds is in scanned.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from frazil.api.repository import Repository
from frazil.api.session import Session
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.errors import InvalidInputError, StoreError
from frazil.integrations.scanned import ScannedArray, ScannedFile, Skipped
from frazil.integrations.scanning import location_of
from frazil.operations.window import window
from frazil.record import Record
from frazil.stores.memory import MemoryStore

__all__ = ["HOW", "How", "Imported", "folder_prefix", "import_scanned", "import_size"]

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
    return location_of(file).rpartition("/")[0] + "/"


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
) -> Imported:
    """Makes the groups and arrays of a file below the group at a path, which is made where it is missing; commits nothing.

    how  "copy": values are decoded, and encoded with codecs of ours; "adopt": the file is copied whole, chunks are parts of it; "virtual": chunks are parts of
         the file where it is, which the session's repository must allow (folder_prefix)
    report  is called with bytes that were done
    Raises AlreadyExistsError where something has the path of an array, StoreError, also where the file changed meanwhile, and what reading it raises."""
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
    if made:
        take = _taker(session, scanned, file, how, report)
        for array, target_array in made:
            take(array, target_array)
    state = os.stat(file)
    if (state.st_size, state.st_mtime_ns) != (scanned.size, scanned.modified):
        raise StoreError("the file changed while it was imported", key=file)
    return Imported(tuple([array.path for _, array in made]), tuple(skipped))


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
    session: Session, scanned: ScannedFile, file: str, how: How, report: Callable[[int], None]
) -> Callable[[ScannedArray, Array], None]:
    """What fills the arrays that were made."""
    if how == "copy":
        source = _shown(scanned, file)

        def copy(array: ScannedArray, made: Array) -> None:
            values = source[array.path]
            assert isinstance(values, Array)
            _copy(values, made, report)

        return copy
    location = location_of(file)
    adopted = session.adopt_file(file) if how == "adopt" else ""
    if how == "adopt":
        report(scanned.size)

    def refer(array: ScannedArray, made: Array) -> None:
        _refer(session, array, made.path, location, adopted)

    return refer


def _refer(session: Session, array: ScannedArray, path: str, location: str, adopted: str) -> None:
    """References to the chunks of an array; those that no part of the file is are stored."""
    chunks = array.chunks
    if len(chunks.offsets):
        if adopted:
            session.set_adopted_chunks(path, chunks.coordinates, adopted, chunks.offsets, chunks.lengths)
        else:
            session.set_virtual_chunks(path, chunks.coordinates, location, chunks.offsets, chunks.lengths)
    for coordinates, value in array.given:
        session.store.set("/".join(part for part in (path, "c", *map(str, coordinates)) if part), value)


def _shown(scanned: ScannedFile, file: str) -> Group:
    """The arrays of a file as references to it, in a repository that nobody keeps."""
    session = Repository.create(MemoryStore(), virtual_prefixes=[folder_prefix(file)]).writable_session()
    location = location_of(file)
    for array in scanned.arrays:
        session.root.create_array(array.path, **array.arguments())  # type: ignore[arg-type]
        _refer(session, array, array.path, location, "")
    return session.root


def _copy(source: Array, made: Array, report: Callable[[int], None]) -> None:
    """Piece by piece, cut where chunks of the copy end."""
    for place, tile in window(made).tiles(_TILE_BYTES):
        selection = tuple([slice(start, start + length) for start, length in zip(place, tile.shape, strict=True)])
        made[selection] = source[selection]
        report(tile.nbytes)
