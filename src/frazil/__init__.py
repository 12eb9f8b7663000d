"""Frazil: large N-dimensional arrays, Zarr v3 with the sharding codec, on a native kernel.

The public names are those below. Errors are in frazil.errors, codecs in frazil.codecs, stores in frazil.stores, and the types for writing
extensions in frazil.extensions."""

from typing import TYPE_CHECKING

from frazil import codecs, errors, stores
from frazil.api.nodes import create_array, create_group, open_array, open_group
from frazil.api.nodes import open_node as open
from frazil.base.late import late_names
from frazil.codecs.registry import Registry
from frazil.errors import CommitUnknownError, ConflictError, FrazilError
from frazil.runtime import Runtime, config

if TYPE_CHECKING:
    from frazil import dask as dask
    from frazil import dtype, extensions, storage
    from frazil import xarray as xarray
    from frazil import zarr as zarr
    from frazil.api.consolidated import consolidate_metadata, open_consolidated
    from frazil.api.constructors import (
        array,
        create,
        create_hierarchy,
        empty,
        empty_like,
        from_array,
        full,
        full_like,
        group,
        load,
        ones,
        ones_like,
        open_like,
        print_debug_info,
        save,
        save_array,
        save_group,
        tree,
        zeros,
        zeros_like,
    )
    from frazil.api.repository import Repository
    from frazil.api.session import Session
    from frazil.array.array import Array
    from frazil.array.group import Group
    from frazil.integrations.files.exports.export_file import export_file
    from frazil.integrations.files.imports.import_file import import_file
    from frazil.operations.checksum import checksum
    from frazil.operations.convert.convert import convert
    from frazil.operations.copy.copy import copy
    from frazil.operations.rechunk.rechunk import rechunk
    from frazil.operations.shards.shards import shards
    from frazil.operations.validate.validate import validate

__all__ = [
    "array",
    "create_hierarchy",
    "open_like",
    "print_debug_info",
    "storage",
    "tree",
    "zeros_like",
    "zeros",
    "save_group",
    "save_array",
    "save",
    "ones_like",
    "ones",
    "load",
    "group",
    "full_like",
    "full",
    "from_array",
    "empty_like",
    "empty",
    "create",
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
    "config",
    "consolidate_metadata",
    "convert",
    "copy",
    "create_array",
    "create_group",
    "dtype",
    "errors",
    "export_file",
    "extensions",
    "import_file",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "rechunk",
    "shards",
    "stores",
    "validate",
]  # without dask, xarray and zarr, whose packages may be missing: `from frazil import *` would fail
__version__ = "0.1.0"

if not TYPE_CHECKING:
    _CONSTRUCTORS = (
        "array",
        "create",
        "create_hierarchy",
        "empty",
        "empty_like",
        "from_array",
        "full",
        "full_like",
        "group",
        "load",
        "ones",
        "ones_like",
        "open_like",
        "print_debug_info",
        "save",
        "save_array",
        "save_group",
        "tree",
        "zeros",
        "zeros_like",
    )
    globals().pop("array", None)  # the package: the public name is that of a function
    __getattr__, __dir__ = late_names(
        __name__,
        {
            **dict.fromkeys(_CONSTRUCTORS, "frazil.api.constructors"),
            "Array": "frazil.array.array",
            "Group": "frazil.array.group",
            "Repository": "frazil.api.repository",
            "Session": "frazil.api.session",
            "checksum": "frazil.operations.checksum",
            "consolidate_metadata": "frazil.api.consolidated",
            "convert": "frazil.operations.convert.convert",
            "copy": "frazil.operations.copy.copy",
            "dask": "frazil.dask",
            "dtype": "frazil.dtype",
            "export_file": "frazil.integrations.files.exports.export_file",
            "extensions": "frazil.extensions",
            "import_file": "frazil.integrations.files.imports.import_file",
            "open_consolidated": "frazil.api.consolidated",
            "rechunk": "frazil.operations.rechunk.rechunk",
            "shards": "frazil.operations.shards.shards",
            "storage": "frazil.storage",
            "validate": "frazil.operations.validate.validate",
            "xarray": "frazil.xarray",
            "zarr": "frazil.zarr",
        },
    )
