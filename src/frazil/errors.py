"""Every exception that Frazil raises, and how their messages show a value. There is one class for each way in which a caller reacts; no other module defines
exceptions.

FrazilError
├── NotFoundError (KeyError, FileNotFoundError, ValueError)  nothing is at this location: check it, or create the node
├── AlreadyExistsError (FileExistsError, ValueError)         something already exists: choose another location, or pass overwrite=True
├── InvalidInputError (ValueError)   the call is wrong: change its arguments
│   ├── SelectionError (IndexError)  a selection that does not fit the array
│   ├── MetadataError                a metadata document that breaks the rules
│   ├── NodeKindError (AlreadyExistsError)  an array where a group was expected, or the reverse: open the node that exists
│   ├── MissingPackageError (ImportError)  a module needs a package: install the extra that the hint names
│   ├── ConversionError              the other dialect cannot express something: look at .refusals, change or remove it
│   └── UnknownExtensionError        a codec, data type, grid ... that is not registered: register it
├── ReadOnlyError (PermissionError, ValueError)  opened for reading: open it for writing
├── ConflictError                    another writer changed the same thing first: look at .conflicts, try again
├── CommitUnknownError               the reply was lost: commit again without changes, which finds out
├── StoreError (OSError)             the store failed: repair the store or its connection, then try again
│   └── AccessError                  an object exists, but cannot be read: change its permissions, or restore it from a copy
└── DataError                        stored bytes are wrong: restore them from a copy, or write them again
    ├── ChunkDecodeError             a chunk that its codecs cannot decode
    ├── ChecksumError                a checksum that does not match
    └── FormatError                  a shard index or document with invalid bytes

FallbackWarning (UserWarning)        no error: a data type is read as the fallback that its document names, or zarr-python's own codec pipeline is used
RedirectWarning (UserWarning)        no error: a web server redirects to another one, which is read

The bases that are errors of Python are those that zarr-python raises in the same place: `except FileNotFoundError` in its scripts works. Names of zarr.errors,
such as ContainsArrayError, are aliases of these classes (the last lines of this file).
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import EACCES, EIO, EPERM
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "AccessError",
    "AlreadyExistsError",
    "ChecksumError",
    "ChunkDecodeError",
    "CommitUnknownError",
    "ConflictError",
    "ConversionError",
    "DataError",
    "FallbackWarning",
    "FormatError",
    "FrazilError",
    "InvalidInputError",
    "MetadataError",
    "MissingPackageError",
    "NodeConflict",
    "NodeKindError",
    "NotFoundError",
    "ReadOnlyError",
    "RedirectWarning",
    "SelectionError",
    "StoreError",
    "UnknownExtensionError",
]

_SHOWN = 60  # characters


def shown(value: object) -> str:
    """A value from a user as messages show it: its repr, shortened. Never raises, even if the repr fails, as for an integer of too many digits."""
    try:
        text = repr(value)
    except Exception:
        bits = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"a value of type {type(value).__name__}{bits}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def one_line(text: str) -> str:
    """A text on one line: characters that break the line or control a terminal are escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


class FrazilError(Exception):
    """Base of all. `message` describes the error. Where known, `key` names the stored object, `path` the node or the member
    of its document, `chunk` the coordinates of the chunk (or inner chunk) in the array's chunk grid, and `hint` how to fix it."""

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        path: str | None = None,
        chunk: tuple[int, ...] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.key, self.path, self.chunk, self.hint = message, key, path, chunk, hint

    def __str__(self) -> str:
        """One line. Names in the message may come from untrusted data, so control characters are escaped."""
        locations = [
            f"{name} {value!r}" if isinstance(value, str) else f"{name} {value}"
            for name, value in (("path", self.path), ("key", self.key), ("chunk", self.chunk))
            if value is not None
        ]
        return one_line(
            self.message
            + (f" ({', '.join(locations)})" if locations else "")
            + (f". Hint: {self.hint}" if self.hint is not None else "")
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self._fields())

    def _fields(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "message"}


def _rebuild(kind: type[FrazilError], message: str, fields: dict[str, object]) -> FrazilError:
    error = kind(message)
    for name, value in fields.items():
        setattr(error, name, value)
    return error


class NotFoundError(FrazilError, KeyError, FileNotFoundError, ValueError):
    """There is nothing at this key, path, branch or tag."""


class AlreadyExistsError(FrazilError, FileExistsError, ValueError):
    """Something exists already."""


class InvalidInputError(FrazilError, ValueError):
    """An argument of the call is wrong."""


class SelectionError(InvalidInputError, IndexError):
    """A selection that does not fit the array."""


class MetadataError(InvalidInputError):
    """A metadata document, or the arguments to create one, break the rules of the format; `path` names the member."""


class NodeKindError(InvalidInputError, AlreadyExistsError):
    """An array where a group was expected, or a group where an array was."""


class UnknownExtensionError(InvalidInputError):
    """An extension (codec, data type, chunk grid, chunk key encoding, storage transformer) that the registry does not have."""


class MissingPackageError(InvalidInputError, ImportError):
    """A module of Frazil needs a package that is not installed. The hint names the extra that has it."""

    path = None  # in place of the slot of ImportError, which is not pickled


class ConversionError(InvalidInputError):
    """The target dialect cannot express some of the metadata. `refusals` lists all of it: (path of the node, member or None, reason) each."""

    refusals: Sequence[tuple[str, str | None, str]] = ()


class ReadOnlyError(FrazilError, PermissionError, ValueError):
    """A write to something opened for reading."""


class NodeConflict(Protocol):
    """One of ConflictError.conflicts; a function that solves conflicts takes one. `str` describes it in words.

    kind    "chunks", "metadata", "attributes", "created", "deleted", "changed", "renamed", "parent" or "read"
    path    of the node
    chunks  int64[n, d]: coordinates of the chunks; None if the conflict is about the node itself"""

    @property
    def kind(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def chunks(self) -> NDArray[np.int64] | None: ...


class ConflictError(FrazilError):
    """Another writer changed the same nodes or chunks first. `conflicts` has what clashed, if it is known."""

    conflicts: Sequence[NodeConflict] = ()


class CommitUnknownError(FrazilError):
    """Whether the commit happened is not known, because the reply was lost. `snapshot`: the id of the commit if it happened; None where that is not known.

    Commit again without any change to find out, or discard the session."""

    snapshot: str | None = None


class StoreError(FrazilError, OSError):
    """The store could not do the operation (I/O error, permission, disk full, a key that it cannot hold).
    `errno` is the error number of the system, if there is one.

    done  of a write that failed. False: it was not done, and the store is sure that it will not be done later either. True: it was done, but a crash may
          undo it, as it could not be synced. None: the store does not know; a request without a reply may still arrive"""

    def __init__(
        self,
        message: str,
        *,
        errno: int | None = None,
        done: bool | None = None,
        key: str | None = None,
        path: str | None = None,
        chunk: tuple[int, ...] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, key=key, path=path, chunk=chunk, hint=hint)
        self.errno = errno
        self.done = done

    def _fields(self) -> dict[str, object]:
        return {**super()._fields(), "errno": self.errno}  # an attribute of OSError, not in the instance's own dict


class AccessError(StoreError):
    """An object exists, but this process cannot read it: it has no permission, or the disk fails there. Other objects may be readable."""

    NUMBERS = frozenset((EACCES, EPERM, EIO))


class DataError(FrazilError):
    """Stored bytes are wrong."""


class ChunkDecodeError(DataError):
    """A chunk that its codecs cannot decode, or that decodes to another size than its shape requires. `codec_failed`: a codec in Python ended with an exception
    that says nothing about the bytes, which may be intact."""

    codec_failed: bool = False


class ChecksumError(DataError):
    """A checksum that does not match the bytes it protects."""


class FormatError(DataError):
    """A shard index or another stored structure with invalid bytes. `other_version`: the bytes are not damaged, but of a version of the format that cannot be
    read here."""

    other_version: bool = False


class FallbackWarning(UserWarning):
    """A data type that is not registered is read as the fallback that its document names; with `Registry.without_fallbacks` that is an error. Or
    frazil.zarr.CodecPipeline
    leaves chunks of zarr-python to the pipeline of zarr-python."""


class RedirectWarning(UserWarning):
    """A web server redirects to another one, which is read. With ObjectStore(url, redirects=[]) that is an error."""


class ZarrDeprecationWarning(DeprecationWarning):
    """Never issued: for filters of warnings in scripts of zarr-python, which must not apply to the warnings above."""


class ZarrRuntimeWarning(RuntimeWarning):
    """Never issued, as ZarrDeprecationWarning."""


# Names of zarr.errors, for scripts that were written for zarr-python: each is the class that is raised here in the same place.
BaseZarrError = FrazilError
NodeNotFoundError = ArrayNotFoundError = GroupNotFoundError = PathNotFoundError = ChunkNotFoundError = NotFoundError
ContainsArrayError = ContainsGroupError = ContainsArrayAndGroupError = AlreadyExistsError
NodeTypeValidationError = NodeKindError
MetadataValidationError = MetadataError
UnknownCodecError = DataTypeValidationError = PickleCodecDisabledError = UnknownExtensionError
UnstableSpecificationWarning = ZarrFutureWarning = ZarrUserWarning = FallbackWarning
BoundsCheckError = ArrayIndexError = NegativeStepError = VindexInvalidSelectionError = SelectionError
