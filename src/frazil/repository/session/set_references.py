"""Sets chunks of a session's array to parts of existing files: virtual chunks in files elsewhere, and parts of adopted files, which are copied whole
into the repository.

manifests/reference_columns.py checks references, virtual/virtual_fetch.py reads them. The caller knows the places in the files (integrations/ has scanners)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from frazil.base.arrays import Columns
from frazil.errors import FormatError, InvalidInputError, NotFoundError, StoreError
from frazil.formats.ids import ID_BYTES, ObjectId, decode_id, encode_id
from frazil.formats.manifests import FileCheck
from frazil.repository.manifests.reference_columns import VirtualReferences, reference_columns, set_checks
from frazil.repository.session.changed_references import NATIVE, SHARED, VIRTUAL, Rows
from frazil.repository.session.chunk_ids import new_chunk_ids
from frazil.repository.session.transaction import Transaction
from frazil.repository.virtual.virtual_fetch import VirtualContainers
from frazil.stores.local.local_store import LocalStore
from frazil.stores.locations import location_text
from frazil.stores.values import FOUND, NO_SPANS, WHOLE, Pieces

FileState: TypeAlias = "str | tuple[int, str] | FileCheck"
Check: TypeAlias = "bool | Mapping[str, FileState]"


def set_virtual(
    transaction: Transaction,
    path: str,
    coordinates: ArrayLike,
    locations: str | Sequence[str],
    offsets: ArrayLike,
    lengths: ArrayLike,
    *,
    check: Check,
) -> None:
    """Sets chunks of the array at a normalised path to parts of files elsewhere. check: records the present state of each file, or the given state, if the
    format can store it. Raises InvalidInputError, ReadOnlyError, NotFoundError, StoreError; then nothing was changed."""
    transaction.require_writable()
    containers, keeps = transaction.options.virtual, transaction.rules.checks
    own_checks = None if isinstance(check, bool) else _file_checks(check, containers)
    grid = transaction.grid_of("/" + path)
    references = reference_columns(coordinates, locations, offsets, lengths, grid=grid, path="/" + path)
    references = set_checks(references, containers, look_up=check is True and keeps)
    if own_checks is not None:
        unknown = next((location for location in own_checks if location not in references.names), None)
        if unknown is not None and references.names:
            raise InvalidInputError("check names a file that has none of these chunks", key=unknown)
        references = references._replace(checks=own_checks if keeps else {})
    with transaction.lock:
        changes = transaction.changes
        number_of = {text: number for number, text in enumerate(changes.locations)}
        numbers = np.array(
            [changes.location(name, references.checks.get(name), number_of) for name in references.names], np.int64
        )
        objects = numbers[references.locations] if len(references.coordinates) else np.zeros(0, np.int64)
        transaction.set_rows("/" + path, _rows(references, VIRTUAL, bytes(ID_BYTES), objects))


def set_adopted(
    transaction: Transaction,
    path: str,
    coordinates: ArrayLike,
    adopted: str,
    offsets: ArrayLike,
    lengths: ArrayLike,
) -> None:
    """Sets chunks of the array at a normalised path to parts of an adopted file, by the text of its id. Raises InvalidInputError (also beyond the end of the
    file), ReadOnlyError, NotFoundError; then nothing was changed."""
    transaction.require_writable()
    _refuse_compatible(transaction)
    grid = transaction.grid_of("/" + path)
    references = reference_columns(coordinates, "", offsets, lengths, grid=grid, path="/" + path)
    if not isinstance(adopted, str):
        raise InvalidInputError(f"the id of an adopted file must be text, not {type(adopted).__name__}", hint=_ADOPTED)
    try:
        identity = decode_id(adopted)
    except FormatError as error:
        raise InvalidInputError(error.message, hint=_ADOPTED) from None
    key = transaction.files.key(f"chunks/{encode_id(identity)}")
    size = int(transaction.files.store.sizes([key])[0])
    if size < 0:
        raise NotFoundError("there is no such chunk file", key=key, hint="adopt_file makes one")
    ends = references.offsets + references.lengths
    too_long = np.flatnonzero(ends > size)
    if len(too_long):
        raise InvalidInputError(
            f"it ends at byte {int(ends[too_long[0]])}, and the file has {size} bytes",
            key=key,
            path="/" + path,
            chunk=tuple(references.coordinates[too_long[0]].tolist()),
        )
    transaction.needs_check = True
    transaction.set_rows("/" + path, _rows(references, NATIVE, identity, np.full(len(ends), SHARED, np.int64)))


def _rows(references: VirtualReferences, kind: int, identity: ObjectId, objects: Columns) -> Rows:
    count = len(references.coordinates)
    ids = np.broadcast_to(np.frombuffer(identity, np.uint8), (count, ID_BYTES))
    return Rows(
        references.coordinates, np.full(count, kind, np.uint8), ids, objects, references.offsets, references.lengths
    )


def _file_checks(states: Mapping[str, FileState], containers: VirtualContainers) -> dict[str, FileCheck]:
    """Checks of locations, from the arguments of a user. Raises InvalidInputError."""
    if not isinstance(states, Mapping):
        raise InvalidInputError(f"check is {states!r}; it must be True, False, or a mapping", hint=_MAPPING)
    checks: dict[str, FileCheck] = {}
    for location, value in states.items():
        if not isinstance(location, str):
            raise InvalidInputError(f"check has {location!r}, which is not a location", hint=_MAPPING)
        container, key = containers.find(location)
        checks[location] = _file_check(location, value, container.where(key))
    return checks


_MAPPING: Final = 'from locations to ETags, or to (size, ETag): check={"s3://bucket/sea.nc": (4096, \'"0123abcd"\')}'


def _file_check(location: str, value: FileState, mapped_to: str) -> FileCheck:
    match value:
        case FileCheck():
            return value
        case str(tag):
            size = -1
        case (int(size), str(tag)) if size >= 0 and not isinstance(size, bool):
            pass
        case _:
            raise InvalidInputError(f"the version of a file is given as {value!r}", key=location, hint=_MAPPING)
    if not tag or not tag.isascii() or not tag.isprintable():
        raise InvalidInputError(f"{tag!r} is not a valid ETag", key=location, hint=_MAPPING)
    if tag.startswith("W/"):
        raise InvalidInputError(
            f"{tag} is a weak ETag, which does not identify the bytes",
            key=location,
            hint="check=True keeps the time instead",
        )
    return FileCheck(size, -1, tag if tag.endswith('"') else f'"{tag}"', mapped_to)


# --- adopted files ---------------------------------------------------------------------------------------------------------------------

_ADOPTED: Final = "adopt_file returns it"


def adopt_file(transaction: Transaction, path: str | os.PathLike[str]) -> ObjectId:
    """Copies a file of this machine into a chunk file, and returns its id. If both are on disks, the file is not held in memory. Without a reference at the
    commit it is garbage. Raises ReadOnlyError, NotFoundError, StoreError (also if the file changed meanwhile), InvalidInputError for an invalid path, and if
    the format has a chunk file for each chunk."""
    transaction.require_writable()
    _refuse_compatible(transaction)
    folder, name = os.path.split(os.path.realpath(location_text(path)))
    source, names = LocalStore(folder, read_only=True), [name]
    fetched = source.fetch(names, WHOLE)
    if not name or fetched.status[0] != FOUND:
        raise NotFoundError("there is no file", key=os.fspath(path))
    files, value = transaction.files, Pieces(fetched.sources, fetched.rows, np.array([0, 1]))
    identity = ObjectId(new_chunk_ids(value, digests=transaction.rules.digests)[0].tobytes())
    key = files.key(f"chunks/{encode_id(identity)}")
    files.store.put_many([key], value, [None])
    after = source.fetch(names, NO_SPANS)
    if after.status[0] != FOUND or after.versions[0] != fetched.versions[0]:
        files.store.erase_values([key])
        raise StoreError("the file changed while it was copied", key=os.fspath(path))
    return identity


def _refuse_compatible(transaction: Transaction) -> None:
    if not transaction.rules.packs:
        raise InvalidInputError(
            "a repository that the library of the alpha can use has one chunk in a chunk file, so that no file can be adopted",
            hint="set virtual chunks, or copy the values",
        )
