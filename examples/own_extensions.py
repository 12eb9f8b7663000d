"""Your own extensions of the Zarr v3 draft of 2022: compressed documents, names of dimensions, scrambled chunks.

The draft names each extension by a URI. To open the hierarchy, pass a registry that has them. Without it, extensions with `must_understand` false are ignored.
Usage: python own_extensions.py [FOLDER]"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from typing import Any

import numpy as np

import frazil
from frazil.codecs import DEFAULT_REGISTRY
from frazil.extensions import ArrayMetadata, Extension

COMPRESSED = "https://example.org/zarr/compressed-documents/1.0"
AXES = "https://example.org/zarr/axes/1.0"
SCRAMBLED = "https://example.org/zarr/scrambled/1.0"


class Compressed:
    """Documents of nodes as gzipped JSON; zarr.json, which names this encoding, stays JSON."""

    def __init__(self, entry: Extension) -> None:
        """entry: the entry of zarr.json, with the URI as its name."""

    def encode(self, document: dict[str, Any]) -> bytes:
        return gzip.compress(json.dumps(document).encode(), mtime=0)

    def decode(self, value: bytes) -> Any:
        return json.loads(gzip.decompress(value))


def with_axes(entry: Extension, metadata: ArrayMetadata) -> ArrayMetadata:
    """The metadata of a document, with the names of dimensions that the extension adds."""
    return metadata.with_members(dimension_names=entry.configuration["names"])


class Scrambled:
    """A store that wraps another store. It has some of the draft's ten operations; Frazil derives the others."""

    def __init__(self, entry: Extension, inner: frazil.stores.Store) -> None:
        self.inner = inner

    def get(self, key: str) -> bytes | None:
        value = self.inner.get(key)
        return None if value is None else bytes(byte ^ 0x5A for byte in value)

    def set(self, key: str, value: bytes) -> None:
        self.inner.set(key, bytes(byte ^ 0x5A for byte in value))

    def erase(self, key: str) -> None:
        self.inner.erase(key)

    def list_prefix(self, prefix: str) -> list[str]:
        return self.inner.list_prefix(prefix)


REGISTRY = (
    DEFAULT_REGISTRY.with_metadata_encoding(COMPRESSED, Compressed)
    .with_array_extension(AXES, with_axes)
    .with_storage_transformer(SCRAMBLED, Scrambled)
)


def main(folder: str) -> None:
    encoding = {"extension": COMPRESSED, "type": "gzip", "metadata_key_suffix": ".json.gz"}
    root = frazil.create_group(
        folder,
        zarr_format="draft",
        entry_point={"metadata_encoding": encoding},
        overwrite=True,
        registry=REGISTRY,
    )
    names = {"extension": AXES, "must_understand": False, "configuration": {"names": ["y", "x"]}}
    depth = root.create_array(
        "depth",
        data=np.arange(48, dtype="int16").reshape(6, 8),
        chunks=(3, 4),
        storage_transformers=[{"extension": SCRAMBLED, "type": "xor"}],
        document={"extensions": [names]},
    )
    print(f"{depth.dimension_names} of {', '.join(sorted(root.store.list_dir('meta/')[0]))}")

    depth = frazil.open_array(folder, path="depth", registry=REGISTRY)
    assert depth[4, 2:5].tolist() == [34, 35, 36]
    try:
        frazil.open_array(folder, path="depth")
    except frazil.errors.UnknownExtensionError as error:
        print(f"without the registry: {error.message.partition(' is not')[0]} is not known")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:  # nothing is left behind
            main(f"{scratch}/depth.zr3")
