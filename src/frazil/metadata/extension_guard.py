"""What extensions of the user's are asked: whatever they raise or make is told as an error of ours that names them, and their traceback is kept.

Codecs at work on chunks are asked in codecs/codec.py and codecs/python_stage.py; here is what happens when documents are read and arrays are opened."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from frazil.errors import FrazilError, InvalidInputError, MetadataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from frazil.metadata.chunk_keys import ChunkKeyEncoding

T = TypeVar("T")

GRID: Final = ("extension", "check", "grid_shape")
KEYS: Final = ("extension", "encode_one", "encode_all", "decode")


class Asking:
    """A context in which an extension is asked: `kind` and `name` say which. Errors of ours pass; any other becomes `refusal`, with `path`."""

    __slots__ = ("kind", "name", "path", "refusal")

    def __init__(
        self, kind: str, name: str, path: str | None, refusal: type[InvalidInputError] = MetadataError
    ) -> None:
        self.kind, self.name, self.path, self.refusal = kind, name, path, refusal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, (FrazilError, MemoryError)):
            raise self.refusal(
                f"the {self.kind} {self.name} failed with {type(error).__name__}: {error}", path=self.path
            ) from error

    def wrong(self, made: object, wanted: str, told: str | None = None) -> InvalidInputError:
        """The error for an answer that is not what it has to be. told: what it is, where the class does not say it."""
        return self.refusal(
            f"the {self.kind} {self.name} made {told or type(made).__name__} instead of {wanted}", path=self.path
        )


def made_by(ask: Asking, make: Callable[[], object], kind: type[T], wanted: str) -> T:
    """What an extension makes, which must be of this class."""
    with ask:
        made = make()
        if not isinstance(made, kind):
            raise ask.wrong(made, wanted)
        return made


def with_methods(ask: Asking, make: Callable[[], T], methods: tuple[str, ...], wanted: str) -> T:
    """What an extension makes, which must have these methods."""
    with ask:
        made = make()
        if isinstance(made, type) or not all(callable(getattr(made, name, None)) for name in methods):
            raise ask.wrong(made, f"{wanted}, which has {', '.join(methods)}")
        return made


class AskedKeys:
    """A chunk key encoding of the user's, as chunks are looked for: its answers are checked. Raises InvalidInputError that names it."""

    __slots__ = ("_ask", "keys")

    def __init__(self, keys: ChunkKeyEncoding) -> None:
        self.keys = keys
        with Asking("chunk key encoding", type(keys).__name__, "chunk_key_encoding"):
            self._ask = Asking("chunk key encoding", keys.extension().name, "chunk_key_encoding", InvalidInputError)

    @property
    def also(self) -> str | None:
        """As of DraftKeys."""
        return getattr(self.keys, "also", None)

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str:
        with self._ask as ask:
            key: object = self.keys.encode_one(coordinates, prefix)
            if not isinstance(key, str) or not key.startswith(prefix):
                raise ask.wrong(key, f"a key that begins with {prefix!r}", repr(key) if isinstance(key, str) else None)
            return key

    def encode_all(self, coordinates: NDArray[np.int64], prefix: str = "") -> list[str]:
        with self._ask as ask:
            keys: object = self.keys.encode_all(coordinates, prefix)
            if not isinstance(keys, list) or len(keys) != len(coordinates):
                count = f"a list of {len(keys)}" if isinstance(keys, list) else None
                raise ask.wrong(keys, f"a list of {len(coordinates)} keys", count)
            for key in keys:
                if not isinstance(key, str) or not key.startswith(prefix):
                    raise ask.wrong(
                        key, f"a key that begins with {prefix!r}", repr(key) if isinstance(key, str) else None
                    )
            return keys

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        with self._ask as ask:
            found: object = self.keys.decode(key, ndim)
            if found is None:
                return None
            if not isinstance(found, tuple) or len(found) != ndim or not all(type(at) is int for at in found):
                raise ask.wrong(found, f"{ndim} coordinates, or None", repr(found))
            return found
