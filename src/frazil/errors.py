"""Every exception that Frazil raises, and how their messages show a value. What a caller does next decides the class; no other module defines exceptions.

FrazilError
├── NotFoundError (KeyError, FileNotFoundError, ValueError)  nothing is there: check the location, or create it
├── AlreadyExistsError (FileExistsError, ValueError)         something already exists: choose another location, or pass overwrite=True
├── InvalidInputError (ValueError)   the call is wrong: change its arguments
│   ├── SelectionError (IndexError)  a selection that does not fit the array
│   ├── MetadataError                a metadata document that breaks the rules
│   ├── NodeKindError (AlreadyExistsError)  an array is where a group was meant, or the reverse: open what is there
│   ├── ConversionError              what another dialect cannot say: look at .refusals, change or remove it
│   └── UnknownExtensionError        a codec, data type, grid ... that is not registered: register it
├── ReadOnlyError (PermissionError, ValueError)  opened for reading: open it for writing
├── ConflictError                    somebody else changed the same thing first: look at .conflicts, try again
├── CommitUnknownError               the answer was lost: look before doing it again
├── StoreError (OSError)             the store failed: repair the store or its connection, then try again
└── DataError                        stored bytes are wrong: restore them from a copy, or write them anew
    ├── ChunkDecodeError             a chunk that its codecs cannot decode
    ├── ChecksumError                a checksum that does not match
    └── FormatError                  a shard index or document whose bytes make no sense

FallbackWarning (UserWarning)        no error: a data type is read as the fallback that its document names, or zarr-python's own codec pipeline is used
RedirectWarning (UserWarning)        no error: a web server redirects to another one, which is read

The errors of Python among the bases are those that zarr-python raises in the same place: `except FileNotFoundError` of its scripts works. Names of zarr.errors, such as
ContainsArrayError, are other names of these classes (the last lines of this file).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
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
    """A value that a user gave, as messages show it: its repr, cut short. Raises nothing, also for what has no repr, such as an integer of too many digits."""
    try:
        text = repr(value)
    except Exception:
        bits = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"a value of type {type(value).__name__}{bits}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def one_line(text: str) -> str:
    """A text on one line: what would break it, or what a terminal takes for a command, is escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


class FrazilError(Exception):
    """Base of all. `message` says what is wrong; where known, `key` names the stored object, `path` the node or the member
    of its document, `chunk` the coordinates of the chunk (or inner chunk) in the array's chunk grid, and `hint` how to mend it."""

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
        """One line: names in it may be anybody's, and no terminal obeys them."""
        where = [
            f"{name} {value!r}" if isinstance(value, str) else f"{name} {value}"
            for name, value in (("path", self.path), ("key", self.key), ("chunk", self.chunk))
            if value is not None
        ]
        return one_line(
            self.message
            + (f" ({', '.join(where)})" if where else "")
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
    """Nothing is at this key, path, branch or tag."""


class AlreadyExistsError(FrazilError, FileExistsError, ValueError):
    """Something is there already."""


class InvalidInputError(FrazilError, ValueError):
    """An argument of the call is wrong."""


class SelectionError(InvalidInputError, IndexError):
    """A selection that does not fit the array."""


class MetadataError(InvalidInputError):
    """A metadata document, or the arguments that would make one, break the rules of the format; `path` names the member."""


class NodeKindError(InvalidInputError, AlreadyExistsError):
    """An array is where a group was meant, or a group where an array was."""


class UnknownExtensionError(InvalidInputError):
    """An extension (codec, data type, chunk grid, chunk key encoding, storage transformer) that the registry does not have."""


class ConversionError(InvalidInputError):
    """What the dialect to convert to cannot say. `refusals` holds all of it: (path of the node, member or None, reason) each."""

    refusals: Sequence[tuple[str, str | None, str]] = ()


class ReadOnlyError(FrazilError, PermissionError, ValueError):
    """A write to something opened for reading."""


class ConflictError(FrazilError):
    """Somebody else changed the same thing first. `conflicts` holds what clashed, as values."""

    conflicts: Sequence[object] = ()


class CommitUnknownError(FrazilError):
    """Whether the commit happened is not known, as its answer was lost. `snapshot`: the id that it has if it did; None where that is not known.

    Commit again without changing anything, which finds out; or discard the session."""

    snapshot: str | None = None


class StoreError(FrazilError, OSError):
    """The store could not do what it was asked (I/O error, permission, disk full, a key that it cannot hold).
    `errno` is the system's number where there is one.

    done  of a write that failed. False: it was not done, and the store is sure that it will not be done later either. True: it was done, but a crash may
          undo it, as it could not be synced. None: the store does not know; a request whose answer was lost may still arrive"""

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
        return {**super()._fields(), "errno": self.errno}  # which is OSError's, not of the instance's own dict


class DataError(FrazilError):
    """Stored bytes are wrong."""


class ChunkDecodeError(DataError):
    """A chunk that its codecs cannot decode, or that decodes to another size than its shape says."""


class ChecksumError(DataError):
    """A checksum that does not match the bytes it protects."""


class FormatError(DataError):
    """A shard index or another stored structure whose bytes make no sense. `other_version`: they are no damage, but of a version of the format that is not read here."""

    other_version: bool = False


class FallbackWarning(UserWarning):
    """A data type that is not registered is read as the fallback that its document names; `Registry.without_fallbacks` refuses that instead. Or frazil.zarr.CodecPipeline
    leaves chunks of zarr-python to the pipeline of zarr-python."""


class RedirectWarning(UserWarning):
    """A web server redirects to another one, which is read. ObjectStore(url, redirects=[]) refuses that instead."""


# Names of zarr.errors, for scripts that were written for zarr-python: what is raised here in the same place.
BaseZarrError = FrazilError
NodeNotFoundError = ArrayNotFoundError = GroupNotFoundError = PathNotFoundError = NotFoundError
ContainsArrayError = ContainsGroupError = ContainsArrayAndGroupError = AlreadyExistsError
NodeTypeValidationError = NodeKindError
MetadataValidationError = MetadataError
UnstableSpecificationWarning = ZarrUserWarning = FallbackWarning
BoundsCheckError = ArrayIndexError = NegativeStepError = VindexInvalidSelectionError = SelectionError
