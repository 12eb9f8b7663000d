"""Frazil: large N-dimensional arrays, Zarr v3 with the sharding codec, on a native kernel.

The public names are those below; errors are in frazil.errors, codecs in frazil.codecs, stores in frazil.stores, what
extensions are written with in frazil.extensions."""

from typing import TYPE_CHECKING

from frazil import codecs, errors, stores
from frazil.api.places import create_array, create_group, open_array, open_group
from frazil.api.places import open_node as open
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.codecs.registry import Registry
from frazil.errors import CommitUnknownError, ConflictError, FrazilError
from frazil.late import late_names
from frazil.runtime import Runtime

if TYPE_CHECKING:
    from frazil import dask, extensions, xarray
    from frazil.api.repository import Repository
    from frazil.api.session import Session
    from frazil.operations.checksum import checksum
    from frazil.operations.convert.convert import convert
    from frazil.operations.copy.copy import copy
    from frazil.operations.rechunk.rechunk import rechunk
    from frazil.operations.shards.shards import shards
    from frazil.operations.validate.validate import validate

__all__ = [
    "Array",
    "CommitUnknownError",
    "ConflictError",
    "FrazilError",
    "Group",
    "Registry",
    "Repository",
    "Runtime",
    "Session",
    "checksum",
    "codecs",
    "convert",
    "copy",
    "create_array",
    "create_group",
    "dask",
    "errors",
    "extensions",
    "open",
    "open_array",
    "open_group",
    "rechunk",
    "shards",
    "stores",
    "validate",
    "xarray",
]
__version__ = "0.1.0"

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "Repository": "frazil.api.repository",
            "Session": "frazil.api.session",
            "checksum": "frazil.operations.checksum",
            "convert": "frazil.operations.convert.convert",
            "copy": "frazil.operations.copy.copy",
            "dask": "frazil.dask",
            "extensions": "frazil.extensions",
            "rechunk": "frazil.operations.rechunk.rechunk",
            "shards": "frazil.operations.shards.shards",
            "validate": "frazil.operations.validate.validate",
            "xarray": "frazil.xarray",
        },
    )
