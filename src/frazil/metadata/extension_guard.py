"""Calls to extensions of users. An exception or a wrong result becomes a FrazilError that names the extension and keeps the traceback.

This is for documents and for opening. codecs/codec.py and codecs/chain/python_stage.py call codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self, TypeVar

from frazil.base.arrays import Columns
from frazil.errors import FrazilError, InvalidInputError, MetadataError

if TYPE_CHECKING:
    from frazil.metadata.grids.chunk_keys import ChunkKeyEncoding

T = TypeVar("T")

GRID: Final = ("extension", "check", "grid_shape")
KEYS: Final = ("extension", "encode_one", "encode_all", "decode")


class ExtensionCall:
    """A context for calls to one extension, which `kind` and `name` identify. A FrazilError passes unchanged. Any other exception becomes `refusal`, with
    `path`."""

    __slots__ = ("kind", "name", "path", "refusal")

    def __init__(
        self, kind: str, name: str, path: str | None, refusal: type[InvalidInputError] = MetadataError
    ) -> None:
        self.kind, self.name, self.path, self.refusal = kind, name, path, refusal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (FrazilError, MemoryError)):
            raise self.refusal(
                f"the {self.kind} {self.name} failed with {type(error).__name__}: {error}", path=self.path
            ) from error

    def wrong(self, result: object, expected: str, found: str | None = None) -> InvalidInputError:
        """The error for a wrong result. found: describes the result where its class is not enough."""
        return self.refusal(
            f"the {self.kind} {self.name} made {found or type(result).__name__} instead of {expected}", path=self.path
        )


def with_methods(call: ExtensionCall, make: Callable[[], T], methods: tuple[str, ...], expected: str) -> T:
    """The object that an extension returns. Raises an error if it lacks one of the methods."""
    with call:
        result = make()
        if isinstance(result, type) or not all(callable(getattr(result, name, None)) for name in methods):
            raise call.wrong(result, f"{expected}, which has {', '.join(methods)}")
        return result


def _checked_key(call: ExtensionCall, key: object, prefix: str) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise call.wrong(key, f"a key that begins with {prefix!r}", repr(key) if isinstance(key, str) else None)
    return key


class CheckedKeys:
    """A user's chunk key encoding whose results are checked. Raises InvalidInputError that names the encoding."""

    __slots__ = ("_call", "keys")

    def __init__(self, keys: ChunkKeyEncoding) -> None:
        self.keys = keys
        with ExtensionCall("chunk key encoding", type(keys).__name__, "chunk_key_encoding"):
            self._call = ExtensionCall(
                "chunk key encoding", keys.extension().name, "chunk_key_encoding", InvalidInputError
            )

    @property
    def also(self) -> str | None:
        """As in DraftKeys."""
        return getattr(self.keys, "also", None)

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str:
        with self._call as call:
            return _checked_key(call, self.keys.encode_one(coordinates, prefix), prefix)

    def encode_all(self, coordinates: Columns, prefix: str = "") -> list[str]:
        with self._call as call:
            keys: object = self.keys.encode_all(coordinates, prefix)
            if not isinstance(keys, list) or len(keys) != len(coordinates):
                count = f"a list of {len(keys)}" if isinstance(keys, list) else None
                raise call.wrong(keys, f"a list of {len(coordinates)} keys", count)
            return [_checked_key(call, key, prefix) for key in keys]

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        with self._call as call:
            found: object = self.keys.decode(key, ndim)
            if found is None:
                return None
            if not isinstance(found, tuple) or len(found) != ndim or not all(type(at) is int for at in found):
                raise call.wrong(found, f"{ndim} coordinates, or None", repr(found))
            return found
