"""The entry point of engine="frazil": datasets, trees and groups, opened lazily. CF conventions are decoded by xarray."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal, TypeAlias, TypedDict, Unpack

from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint, StoreBackendEntrypoint

from frazil.api.repository import Repository
from frazil.api.session import Session
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.errors import InvalidInputError
from frazil.integrations.xarray import accessors
from frazil.integrations.xarray.data_store import FrazilDataStore, members_of
from frazil.integrations.xarray.locations import group_to_read
from frazil.repository.virtual.prefixes import Prefixes
from frazil.stores.locations import given_location
from frazil.stores.store import Store

Decoder: TypeAlias = "object"  # a flag, a mapping or a coder; xarray checks it
_ENDINGS = (".zarr", ".repo")

accessors.register()  # xarray imports this module with the engines, before the first dataset is opened


class Decoders(TypedDict, total=False):
    """xarray's arguments for decoding; those that are missing have its defaults."""

    mask_and_scale: Decoder
    decode_times: Decoder
    concat_characters: Decoder
    decode_coords: Decoder
    use_cftime: bool | None
    decode_timedelta: Decoder


class Arguments(Decoders, total=False):
    """The arguments of open_dataset."""

    drop_variables: str | Iterable[str] | None
    group: str | None
    consolidated: bool | None
    use_zarr_fill_value_as_mask: bool | None
    virtual_prefixes: Prefixes | None
    storage_options: Mapping[str, object] | None
    zarr_format: Literal[2, 3] | None
    mode: Literal["r", "r+"]
    cache_members: bool


class FrazilBackendEntrypoint(BackendEntrypoint):
    """Arrays and groups of Zarr, in folders, buckets, web servers and repositories.

    The place has the forms of the command line, such as sea.zarr, s3://bucket/sea.zarr, sea.repo@v1 or sea.repo@main/level1; or is a Group; a Session; a
    Repository, which is read at `main`; or a Store."""

    description: ClassVar[str] = "Open Zarr groups and repositories using Frazil"
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: object) -> bool:
        if isinstance(filename_or_obj, Group | Session | Repository | Store):
            return True
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        text = str(filename_or_obj).rstrip("/")
        return text.endswith(_ENDINGS) or any(f"{ending}@" in text for ending in _ENDINGS)

    def open_dataset(
        self,
        filename_or_obj: object,
        *,
        mask_and_scale: Decoder = True,
        decode_times: Decoder = True,
        concat_characters: Decoder = True,
        decode_coords: Decoder = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Decoder = None,
        group: str | None = None,
        consolidated: bool | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        virtual_prefixes: Prefixes | None = None,
        storage_options: Mapping[str, object] | None = None,
        zarr_format: Literal[2, 3] | None = None,
        mode: Literal["r", "r+"] = "r",
        cache_members: bool = True,
    ) -> Dataset:
        """The dataset of one group.

        group         its path below the location
        consolidated  False: members are listed, and read from their own documents; otherwise from consolidated metadata if the location cannot list
        use_zarr_fill_value_as_mask  whether fill values of arrays mark missing values; None: in other dialects than Zarr v3
        virtual_prefixes  places that virtual chunks of a repository may be read from, as for Repository.open
        storage_options   of a bucket or web server, with the names of fsspec, as for frazil.open
        zarr_format       2 or 3: the group must have it; where a location has groups of both formats, the one that is opened
        mode, cache_members  of the engine "zarr", without effect: datasets are opened for reading, and members are read in one batch
        The others are xarray's arguments. Raises NotFoundError, MetadataError, InvalidInputError, StoreError."""
        opened = _group(filename_or_obj, group, consolidated, virtual_prefixes, storage_options, zarr_format, mode)
        members = {name: node for name, node in members_of(opened, drop_variables, 0) if isinstance(node, Array)}
        decoders: Decoders = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        return _dataset(opened, members, use_zarr_fill_value_as_mask, drop_variables, decoders)

    def open_groups_as_dict(
        self,
        filename_or_obj: object,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        consolidated: bool | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        virtual_prefixes: Prefixes | None = None,
        storage_options: Mapping[str, object] | None = None,
        zarr_format: Literal[2, 3] | None = None,
        mode: Literal["r", "r+"] = "r",
        cache_members: bool = True,
        **decoders: Unpack[Decoders],
    ) -> dict[str, Dataset]:
        """The datasets of a group and of all groups below it, by their paths, which are relative if `group` is given; arguments as for open_dataset."""
        root = _group(filename_or_obj, group, consolidated, virtual_prefixes, storage_options, zarr_format, mode)
        groups: dict[str, tuple[Group, dict[str, Array]]] = {"": (root, {})}
        for path, node in members_of(root, drop_variables, None):
            above, _, name = path.rpartition("/")
            if isinstance(node, Group):
                groups[path] = (node, {})
            else:
                groups[above][1][name] = node
        return {
            (path or "." if group else f"/{path}"): _dataset(
                node, arrays, use_zarr_fill_value_as_mask, drop_variables, decoders
            )
            for path, (node, arrays) in groups.items()
        }

    def open_datatree(self, filename_or_obj: object, **arguments: Unpack[Arguments]) -> DataTree:
        """A group and all groups below it as a tree; arguments as for open_dataset."""
        return DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **arguments))


def _group(
    place: object,
    path: str | None,
    consolidated: bool | None,
    virtual_prefixes: Prefixes | None,
    storage_options: Mapping[str, object] | None,
    zarr_format: Literal[2, 3] | None,
    mode: str,
) -> Group:
    if mode not in ("r", "r+"):
        raise InvalidInputError(
            f"mode is {mode!r}; a dataset is opened for reading",
            hint='mode="r"; ds.frazil.write(..., mode=) writes one',
        )
    location = given_location(place, None, storage_options)  # type: ignore[arg-type] # any object: checked there
    found = group_to_read(location, path, virtual_prefixes, zarr_format)
    return found.from_documents() if consolidated is False else found


def _dataset(
    group: Group,
    arrays: Mapping[str, Array],
    fill_as_mask: bool | None,
    drop_variables: str | Iterable[str] | None,
    decoders: Decoders,
) -> Dataset:
    store = FrazilDataStore(group, arrays=arrays, fill_as_mask=fill_as_mask)
    return StoreBackendEntrypoint().open_dataset(store, drop_variables=drop_variables, **decoders)
