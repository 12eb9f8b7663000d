"""`ds.frazil.write(...)`: accessors that xarray's objects have when the engine is loaded, or `frazil.xarray` is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import xarray

from frazil.integrations.xarray.write import Options, as_dataset, write_dataset, write_tree
from frazil.stores.locations import given_location

if TYPE_CHECKING:
    from dask.delayed import Delayed

    from frazil.integrations.xarray.layout import Extents
    from frazil.integrations.xarray.locations import DatasetLocation
    from frazil.integrations.xarray.new_variables import Mode
    from frazil.integrations.xarray.region import Region

_NAME = "frazil"


class DatasetAccessor:
    """`Dataset.frazil`."""

    def __init__(self, dataset: xarray.Dataset) -> None:
        self._dataset = dataset

    def write(
        self,
        target: DatasetLocation | None = None,
        mode: Mode | None = None,
        group: str | None = None,
        region: Region = None,
        append_dim: str | None = None,
        shards: Extents = None,
        chunks: Extents = None,
        encoding: Mapping[str, Mapping[str, object]] | None = None,
        compute: bool = True,
        *,
        store: DatasetLocation | None = None,
        safe_chunks: bool = True,
        align_chunks: bool | None = None,
        message: str | None = None,
        progress: Callable[[int], object] | None = None,
        consolidated: bool = False,
        storage_options: Mapping[str, object] | None = None,
        zarr_format: Literal[2, 3] | None = None,
    ) -> Delayed | str | None:
        """Writes the dataset into a group, as Dataset.to_zarr does.

        target   a folder, a URL or a Store; a Group or a writable Session, which has the changes then; a branch, "sea.repo@main" or a Repository: one commit.
                 store is the name that to_zarr has for it
        mode     "w-": the group must not exist; "w": it is replaced; "a": variables are added, those that exist are overwritten; "a-": of those that exist only
                 variables with append_dim are written; "r+": variables must exist. None: "a" with append_dim, "r+" with a region, else "w-"
        group    path of the group below the target
        region   the place of the dataset in the dimensions of the store: slices by dimension, "auto" for one or for all: found by coordinates
        append_dim  the dimension along which existing arrays grow
        shards, chunks  of new arrays: extents by dimension (others: the whole length), one extent for all, or "auto"; None: those in the encoding of the
                        variable,
                 else the chunks of dask, else "auto". A variable that fits into one chunk gets no shards
        encoding by variable, instead of its own: chunks, shards, compressors, filters, serializer, fill_value, dtype, scale_factor, ...
        compute  False: a Delayed that writes arrays of dask; into a session, it computes a fork for session.merge. Arrays in memory are written at once
        safe_chunks  refuses chunks of dask that are not aligned with chunks (shards) of the store; False: dask rechunks them, as with align_chunks
        align_chunks whether dask rechunks them; None: if chunks or shards are given here
        message  of the commit;  progress: called with the bytes of elements that were written since the last call
        consolidated  whether the group gets consolidated metadata afterwards; a repository needs none
        storage_options  of a bucket, with the names of fsspec, as for frazil.open
        zarr_format  of a new group; None: 3, and for new variables the format of their group. An existing group must have it
        Returns the id of the snapshot, if it was committed. After a failure a plain store may be partly written; in a session `discard` drops the changes.
        Raises AlreadyExistsError, NotFoundError, InvalidInputError, MetadataError, ReadOnlyError, ConflictError, StoreError."""
        options = Options(
            chunks, shards, compute, safe_chunks, align_chunks, message, progress, consolidated, zarr_format
        )
        location = given_location(target, store, storage_options)  # type: ignore[arg-type] # checked there
        return write_dataset(self._dataset, location, mode, group, region, append_dim, encoding, options)


class DataArrayAccessor(DatasetAccessor):
    """`DataArray.frazil`: writes the array as the dataset that xarray.open_dataarray reads."""

    def __init__(self, array: xarray.DataArray) -> None:
        super().__init__(as_dataset(array))


class TreeAccessor:
    """`DataTree.frazil`."""

    def __init__(self, tree: xarray.DataTree) -> None:
        self._tree = tree

    def write(
        self,
        target: DatasetLocation | None = None,
        mode: Mode | None = None,
        group: str | None = None,
        region: Region = None,
        shards: Extents = None,
        chunks: Extents = None,
        encoding: Mapping[str, Mapping[str, Mapping[str, object]]] | None = None,
        compute: bool = True,
        *,
        store: DatasetLocation | None = None,
        write_inherited_coords: bool = False,
        safe_chunks: bool = True,
        align_chunks: bool | None = None,
        message: str | None = None,
        progress: Callable[[int], object] | None = None,
        consolidated: bool = False,
        storage_options: Mapping[str, object] | None = None,
        zarr_format: Literal[2, 3] | None = None,
    ) -> Delayed | str | None:
        """Writes the tree, each node into a group, as DataTree.to_zarr does; into a branch as one commit.

        group     of the root of the tree
        encoding  by path of the node, and by variable
        write_inherited_coords  whether coordinates that a node has from its parents are written in its own group too
        The other arguments as for datasets."""
        options = Options(
            chunks, shards, compute, safe_chunks, align_chunks, message, progress, consolidated, zarr_format
        )
        location = given_location(target, store, storage_options)  # type: ignore[arg-type] # checked there
        return write_tree(
            self._tree, location, mode, group, region, encoding, options, write_inherited_coords=write_inherited_coords
        )


def register() -> None:
    """Adds the accessors to xarray's classes, once."""
    if not hasattr(xarray.Dataset, _NAME):
        xarray.register_dataset_accessor(_NAME)(DatasetAccessor)
        xarray.register_dataarray_accessor(_NAME)(DataArrayAccessor)
        xarray.register_datatree_accessor(_NAME)(TreeAccessor)
