"""An array codec applied to a byte string, which is viewed as a 1-dimensional array of uint8: `frazil.on_bytes`, a codec that no other program knows.

The 2022 draft allows an array codec behind one that makes bytes; the final Zarr v3 has no other way to express that."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

import numpy as np

from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.chain.compilation import fixed_chain
from frazil.codecs.chain.python_chain import PythonChain
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, BytesToBytes, ChunkSpec, Codec, ParseCodecs
from frazil.errors import ChunkDecodeError, FrazilError, MetadataError

_SAMPLES = (16, 4096)  # lengths, in bytes, at which sizes are compared


class OnBytes(BytesToBytes):
    """codec: an array-to-array or array-to-bytes codec whose output is as long as its input; with others the decoded length would not be known."""

    codec: ArrayToArray | ArrayToBytes
    name = "frazil.on_bytes"
    required = ("codec",)

    def __init__(self, codec: Codec) -> None:
        if not isinstance(codec, ArrayToArray | ArrayToBytes):
            raise MetadataError(f"codec is {codec!r}; it must be a codec of arrays", path="codec")
        self.codec = codec
        for length in _SAMPLES:
            with suppress(FrazilError):
                if _chain(self.codec, length).nbytes == length:
                    continue
            raise MetadataError(
                f"codec {codec.name} does not make as many bytes as it gets, so that it cannot run over a byte string",
                path="codec",
                hint="put it before the codecs that make bytes",
            )

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, object], parse: ParseCodecs) -> OnBytes:
        (codec,) = parse([configuration["codec"]], "codec")
        return cls(codec)

    def encode(self, data: bytes) -> bytes:
        return _chain(self.codec, len(data)).encode(np.frombuffer(data, np.uint8))

    def decode(self, data: bytes, limit: int) -> bytes:
        if len(data) > limit:
            raise ChunkDecodeError(f"codec {self.name} got {len(data)} bytes; at most {limit} are possible")
        try:
            chain = _chain(self.codec, len(data))
        except MetadataError as error:
            raise ChunkDecodeError(f"codec {self.name}: {error}") from error
        return chain.decode(data).tobytes()

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes


@lru_cache(maxsize=16)  # for each chunk again, this would take as long as its codec
def _chain(codec: ArrayToArray | ArrayToBytes, length: int) -> PythonChain:
    """For byte strings of this length. Raises MetadataError if the codec cannot take them, or makes more or fewer bytes of some values."""
    codecs = (codec,) if isinstance(codec, ArrayToBytes) else (codec, Bytes("little"))
    return fixed_chain(codecs, ChunkSpec((length,), np.dtype(np.uint8), (), b"\0"), OnBytes.name)
