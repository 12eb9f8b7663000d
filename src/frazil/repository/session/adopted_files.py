"""Adopting files: one is copied whole into a repository, as one chunk file, and chunks become parts of it.

What lies where in the file the caller knows (integrations/ has scanners); nothing of its content is looked at here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import FormatError, InvalidInputError, NotFoundError, StoreError
from frazil.formats.alpha.refs import chunk_key
from frazil.formats.ids import ID_BYTES, ObjectId, decode_id, new_id
from frazil.repository.session.changed_references import NATIVE, SHARED, Rows
from frazil.repository.virtual.reference_columns import reference_columns
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import NO_SPANS, WHOLE
from frazil.stores.values import FOUND, Fetched, Pieces

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from frazil.repository.session.transaction import Transaction

__all__ = ["adopt_file", "set_adopted"]


def adopt_file(transaction: Transaction, path: str | os.PathLike[str]) -> ObjectId:
    """Copies a file of this machine into a chunk file of its own, without holding it in memory where both lie on disks; its id. One that nothing refers to at the
    commit is garbage, as other chunk files are.

    Raises ReadOnlyError, NotFoundError, StoreError (also where the file changed meanwhile); InvalidInputError for what is no path, and in a repository that the
    library of the alpha can use, as that takes every chunk file for one chunk."""
    transaction.require_writable()
    _refuse_compatible(transaction)
    _check_path(path)
    folder, name = os.path.split(os.path.realpath(path))
    source, names = LocalStore(folder, read_only=True), [name]
    fetched = source.fetch(names, WHOLE)
    if not name or fetched.status[0] != FOUND:
        raise NotFoundError("there is no file", key=os.fspath(path))
    files, identity = transaction.files, new_id(os.urandom)
    key = files.key(chunk_key(identity))
    files.store.put_many([key], Pieces(fetched.sources, fetched.rows, np.array([0, 1])), [None])
    if not _is_same(fetched, source.fetch(names, NO_SPANS)):
        files.store.erase_values([key])
        raise StoreError("the file changed while it was copied", key=os.fspath(path))
    return identity


def _is_same(before: Fetched, after: Fetched) -> bool:
    return after.status[0] == FOUND and after.versions[0] == before.versions[0]


def _refuse_compatible(transaction: Transaction) -> None:
    if not transaction.rules.packs:
        raise InvalidInputError(
            "a repository that the library of the alpha can use has one chunk in a chunk file, so that no file can be adopted",
            hint="set virtual chunks, or copy the values",
        )


def _check_path(path: object) -> None:
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(f"a file is named by a path, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInputError("a path is text, not empty, and has no NUL", path=repr(text))
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidInputError("a path has a letter that no name of a file has", path=ascii(text)[1:-1]) from None


def _identity(adopted: object) -> ObjectId:
    if not isinstance(adopted, str):
        raise InvalidInputError(f"an adopted file is named by text, not {type(adopted).__name__}", hint=_ADOPTED)
    try:
        return decode_id(adopted)
    except FormatError as error:
        raise InvalidInputError(error.message, hint=_ADOPTED) from None


_ADOPTED: Final = "adopt_file returns it"


def set_adopted(
    transaction: Transaction,
    path: str,
    coordinates: ArrayLike,
    adopted: str,
    offsets: ArrayLike,
    lengths: ArrayLike,
) -> None:
    """Lets chunks of the array at a normalised path be parts of an adopted file, by the text of its id: coordinates int64[n, d]; offsets and lengths in bytes, int64[n].

    Raises InvalidInputError (also for what ends beyond the file), ReadOnlyError, NotFoundError; then nothing was changed."""
    transaction.require_writable()
    _refuse_compatible(transaction)
    absolute = "/" + path
    with transaction.lock:
        grid = transaction.grid_of(absolute)
    made = reference_columns(coordinates, "", offsets, lengths, grid=grid, path=absolute)
    identity = _identity(adopted)
    key = transaction.files.key(chunk_key(identity))
    size = int(transaction.files.store.sizes([key])[0])
    if size < 0:
        raise NotFoundError("there is no such chunk file", key=key, hint="adopt_file makes one")
    beyond = np.flatnonzero(made.offsets + made.lengths > size)
    if len(beyond):
        raise InvalidInputError(
            f"it ends at byte {int((made.offsets + made.lengths)[beyond[0]])}, and the file has {size} bytes",
            key=key,
            path=absolute,
            chunk=tuple(made.coordinates[beyond[0]].tolist()),
        )
    count = len(made.coordinates)
    ids = np.broadcast_to(np.frombuffer(identity, np.uint8), (count, ID_BYTES))
    rows = Rows(
        made.coordinates,
        np.full(count, NATIVE, np.uint8),
        ids,
        np.full(count, SHARED, np.int64),
        made.offsets,
        made.lengths,
    )
    with transaction.lock:
        transaction.set_rows(absolute, rows)
