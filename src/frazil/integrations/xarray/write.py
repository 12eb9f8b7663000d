"""Datasets and trees of xarray written into groups, as Dataset.to_zarr and DataTree.to_zarr have it; into a branch as one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from xarray import DataArray, Dataset, DataTree

from frazil.api.consolidated import consolidate_metadata
from frazil.api.nodes import create_group, open_group
from frazil.array.arguments import check_flag
from frazil.array.creation.data_source import addresses_read
from frazil.array.group import Group
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError
from frazil.integrations.xarray.data_store import FrazilDataStore
from frazil.integrations.xarray.layout import Layout, layout_of
from frazil.integrations.xarray.locations import DatasetLocation, branch_of, joined, store_of
from frazil.integrations.xarray.new_variables import Mode, Target
from frazil.integrations.xarray.region import checked_region
from frazil.integrations.xarray.writer import Writer
from frazil.record import Record
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.location_overlap import address_of, check_apart
from frazil.stores.locations import Location, resolve

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from xarray.core.datatree import DatasetView

__all__ = ["Options", "as_dataset", "write_dataset", "write_tree"]

_MODES: Final = ("w", "w-", "a", "a-", "r+")
_NAME = "__xarray_dataarray_name__"  # an attribute that xarray.open_dataarray takes the name of


class Options(Record):
    """How something is written: the arguments that datasets and trees have in common, as accessors.py describes them"""

    chunks: object
    shards: object
    compute: bool
    safe_chunks: bool
    align_chunks: bool | None
    message: str | None
    progress: Callable[[int], object] | None
    consolidated: bool = False


def as_dataset(array: DataArray) -> Dataset:
    """The dataset that xarray.open_dataarray makes an array of again, its name included. No node may have the name that xarray's own engines give to a variable here."""
    taken = {*array.coords, *array.dims}
    if array.name is not None and array.name not in taken:
        return array.to_dataset()
    name = "dataarray"
    while name in taken:
        name += "_"
    dataset = array.to_dataset(name=name)
    dataset.attrs[_NAME] = array.name
    return dataset


def write_dataset(
    dataset: Dataset,
    target: DatasetLocation,
    mode: Mode | None,
    group: str | None,
    region: object,
    append_dim: str | None,
    encoding: Mapping[str, Mapping[str, object]] | None,
    options: Options,
) -> Delayed | str | None:
    """Writes a dataset into one group; arguments and result as for the accessor."""
    chosen = _mode(mode, append_dim, region)
    layout = layout_of(options.chunks, options.shards)

    def write(location: Location, path: str) -> Delayed | None:
        writer = Writer(options.progress)
        if chosen == "w":
            _check_apart(dataset, location, joined(path, group))
        _dump(
            dataset,
            lambda: _opened(location, joined(path, group), chosen),
            _target(chosen, append_dim, layout, options),
            region,
            encoding,
            writer,
        )
        return writer.sync(compute=options.compute)

    return _into(target, group, options, write)


def write_tree(
    tree: DataTree,
    target: DatasetLocation,
    mode: Mode | None,
    group: str | None,
    region: object,
    encoding: Mapping[str, Mapping[str, Mapping[str, object]]] | None,
    options: Options,
    *,
    write_inherited_coords: bool,
) -> Delayed | str | None:
    """Writes each node of a tree into a group; arguments and result as for the accessor."""
    chosen = _mode(mode, None, region)
    layout = layout_of(options.chunks, options.shards)
    encodings = encoding or {}
    if unknown := set(encodings) - set(tree.groups):
        raise InvalidInputError(f"unexpected encoding group name(s) provided: {unknown}")

    def write(location: Location, path: str) -> Delayed | None:
        writer = Writer(options.progress)
        if chosen == "w":
            for node in tree.subtree:
                _check_apart(node.dataset, location, joined(path, group))
        root: list[Group] = []

        def opened(below: str) -> Group:
            if not root:
                root.append(_opened(location, joined(path, group), chosen))
            return root[0].require_group(below) if below else root[0]

        for name, node in tree.subtree_with_keys:
            below = "" if node is tree else name
            _dump(
                node.to_dataset(inherit=write_inherited_coords or node is tree),
                lambda below=below: opened(below),  # type: ignore[misc]
                _target(chosen, None, layout, options),
                region,
                encodings.get(node.path),
                writer,
            )
        return writer.sync(compute=options.compute)

    return _into(target, group, options, write)


def _mode(mode: Mode | None, append_dim: str | None, region: object) -> Mode:
    """The mode, "a" for appending and "r+" for a region where none is given. Raises InvalidInputError."""
    chosen: Mode = mode or ("a" if append_dim is not None else "r+" if region is not None else "w-")
    if chosen not in _MODES:
        raise InvalidInputError(f"mode is {mode!r}; it must be one of {', '.join(_MODES)}")
    if append_dim is not None and chosen not in ("a", "a-"):
        raise InvalidInputError("cannot set append_dim unless mode='a', mode='a-' or mode=None")
    if region is not None and chosen not in ("a", "a-", "r+"):
        raise InvalidInputError("cannot set region unless mode='a', mode='a-', mode='r+' or mode=None")
    return chosen


def _target(mode: Mode, append_dim: str | None, layout: Layout, options: Options) -> Target:
    named = layout.chunks is not None or layout.shards is not None
    align = named if options.align_chunks is None else options.align_chunks
    return Target(mode, None, append_dim, layout, options.safe_chunks, align)


def _dump(
    dataset: Dataset,
    group: Callable[[], Group],
    target: Target,
    region: object,
    encoding: Mapping[str, Mapping[str, object]] | None,
    writer: Writer,
) -> None:
    """Everything but the elements, which the writer then has."""
    reader = FrazilDataStore(group)
    if target.mode not in ("w", "w-"):
        dataset, found = checked_region(dataset, region, target.mode, target.append_dim, reader.coordinate)
        target = target._replace(region=found)
        for name in reader.arrays if encoding else ():
            if encoding and name in encoding:
                raise InvalidInputError(f"variable {name!r} already exists, but encoding was provided", path=name)
        store = FrazilDataStore(reader.group, arrays=reader.arrays, target=target)
    else:
        store = FrazilDataStore(group, target=target)
    copied = {name: dict(each) if isinstance(each, Mapping) else each for name, each in (encoding or {}).items()}
    dataset.dump_to_store(store, writer=writer, encoding=copied)


def _check_apart(dataset: Dataset | DatasetView, location: Location, path: str) -> None:
    """Refuses variables of dask that would be read after they were removed; the others are in memory by then. Raises InvalidInputError."""
    store, prefix = resolve(location, path)
    target = address_of(store, prefix)
    for variable in dataset.variables.values():
        for address in addresses_read(variable.data) if variable.chunks is not None else ():
            check_apart(
                address,
                target,
                "the data would be removed before it is read: load() it first; or write to another place",
            )


def _opened(location: Location, path: str, mode: Mode) -> Group:
    if mode == "r+":
        return open_group(location, "r+", path=path)
    if mode in ("a", "a-"):
        return open_group(location, "a", path=path)
    if mode == "w":
        return create_group(location, path=path, overwrite=True)
    try:
        return create_group(location, path=path)
    except AlreadyExistsError:
        try:
            found = open_group(location, "r+", path=path)
        except FrazilError:
            found = None
        if found is None or found.attrs or len(found):
            raise
        return found  # nothing is in it, as in the root of a new repository


def _into(
    target: DatasetLocation, group: str | None, options: Options, write: Callable[[Location, str], Delayed | None]
) -> Delayed | str | None:
    """Lets `write` write to a place. Of a branch, the id of the snapshot."""
    check_flag(options.consolidated, "consolidated")
    branch = branch_of(target)
    if branch is None:
        if options.message is not None:
            raise InvalidInputError(
                "nothing is committed here",
                hint="the message is for a branch, as in sea.repo@main, or for session.commit",
            )
        location, path = store_of(target)
        _check_consolidated(options, in_repository=isinstance(location, NodeStore))
        done = write(location, path)
        if options.consolidated:
            consolidate_metadata(location, path=joined(path, group))
        return done
    _check_consolidated(options, in_repository=True)
    if not options.compute:
        raise InvalidInputError(
            "compute=False cannot be combined with a commit",
            hint='session = frazil.Repository.open("sea.repo").writable_session("main"); later = ds.frazil.write(session, compute=False); '
            'session.merge(later.compute()); session.commit("message")',
        )
    session, path = branch
    write(session.store, path)
    if not session.has_changes:
        return session.snapshot_id
    return session.commit(options.message or "written by xarray", rebase="disjoint")


def _check_consolidated(options: Options, *, in_repository: bool) -> None:
    if options.consolidated and in_repository:
        raise InvalidInputError(
            "a repository holds no consolidated metadata",
            hint="it needs none: one read of a snapshot finds all its nodes",
        )
