"""Executes requests with zarr-python 2.18: one JSON object per line on standard input, answers on standard output. Run by the Python of .venv-zarr2, with the
variables that enable its draft of v3; values are exchanged in .npy files. This module imports nothing of the project."""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

import numcodecs
import numpy as np

warnings.simplefilter("ignore")
import zarr  # noqa: E402
from zarr._storage.v3_storage_transformers import ShardingStorageTransformer  # noqa: E402

Request = Mapping[str, Any]


def dtype_of(described: object) -> np.dtype:
    """A dtype from a string or from the JSON of its descr."""
    if isinstance(described, str):
        return np.dtype(described)
    return np.dtype([tuple(field) for field in described])


def codec(configuration: Mapping[str, object] | None) -> object:
    return None if configuration is None else numcodecs.get_codec(dict(configuration))


def create(store: zarr.DirectoryStoreV3, request: Request) -> dict[str, object]:
    arguments = dict(request["arguments"])
    arguments["dtype"] = dtype_of(arguments["dtype"])
    if "compressor" in arguments:
        arguments["compressor"] = codec(arguments["compressor"])
    if "filters" in arguments:
        arguments["filters"] = [codec(configuration) for configuration in arguments["filters"]]
    if "chunks_per_shard" in arguments:
        per_shard = tuple(arguments.pop("chunks_per_shard"))
        arguments["storage_transformers"] = [ShardingStorageTransformer("indexed", chunks_per_shard=per_shard)]
    if "fill" in request:
        arguments["fill_value"] = np.load(request["fill"])[()]
    attributes = arguments.pop("attributes", {})
    array = zarr.create(store=store, path=request["path"], zarr_version=3, **arguments)
    if attributes:
        array.attrs.update(attributes)
    return {}


def write(store: zarr.DirectoryStoreV3, request: Request) -> dict[str, object]:
    array = zarr.open_array(store, path=request["path"], mode="r+", zarr_version=3)
    array[tuple(slice(*part) for part in request["selection"]) if request["selection"] else ...] = np.load(
        request["values"]
    )
    return {}


def read(store: zarr.DirectoryStoreV3, request: Request) -> dict[str, object]:
    array = zarr.open_array(store, path=request["path"], mode="r", zarr_version=3)
    np.save(request["values"], np.asarray(array[...]), allow_pickle=False)
    return {
        "attributes": dict(array.attrs),
        "chunks": list(array.chunks),
        "order": array.order,
        "fill": None if array.fill_value is None else np.asarray(array.fill_value, array.dtype).tobytes().hex(),
    }


def group(store: zarr.DirectoryStoreV3, request: Request) -> dict[str, object]:
    made = zarr.open_group(store, path=request["path"], mode="a", zarr_version=3)
    made.attrs.update(request["attributes"])
    return {}


def nodes(store: zarr.DirectoryStoreV3, request: Request) -> dict[str, object]:
    """The kind and the attributes of all nodes."""
    found: dict[str, object] = {}

    def walk(parent: zarr.Group) -> None:
        for node in parent.values():
            found[node.path] = ["array" if isinstance(node, zarr.Array) else "group", dict(node.attrs)]
            if isinstance(node, zarr.Group):
                walk(node)

    root = zarr.open_group(store, mode="r", zarr_version=3)
    walk(root)
    return {"": ["group", dict(root.attrs)], **found}


def delete(store: zarr.DirectoryStoreV3, request: Request) -> dict[str, object]:
    del zarr.open_group(store, mode="r+", zarr_version=3)[request["path"]]
    return {}


def consolidate(store: zarr.DirectoryStoreV3, request: Request) -> dict[str, object]:
    zarr.consolidate_metadata(store, path="g" if request["path"] else "")
    return {}


WORK = {work.__name__: work for work in (create, write, read, group, nodes, delete, consolidate)}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = WORK[request["do"]](zarr.DirectoryStoreV3(request["store"]), request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
