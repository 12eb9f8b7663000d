"""Datasets and trees of xarray written into groups, as by Dataset.to_zarr and DataTree.to_zarr; into a branch as one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from xarray import DataArray, Dataset, DataTree

from frazil.api.consolidated import consolidate_metadata
from frazil.api.forked import apart
from frazil.api.nodes import create_group, open_group, planned_group
from frazil.api.session import checked_commit
from frazil.array.arguments import check_flag, check_mapping, checked_progress
from frazil.array.creation.data_source import addresses_read
from frazil.array.group import Group
from frazil.base.record import Record
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, NodeKindError, NotFoundError
from frazil.integrations.xarray.data_store import FrazilDataStore
from frazil.integrations.xarray.layout import Layout, check_dimensions, layout_of
from frazil.integrations.xarray.locations import DatasetLocation, branch_of, joined, store_of
from frazil.integrations.xarray.new_variables import Mode, Target, check_encoding
from frazil.integrations.xarray.region import checked_region
from frazil.integrations.xarray.writer import Writer
from frazil.metadata.model import GroupMetadata
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.location_overlap import address_of, check_no_overlap
from frazil.stores.locations import Location, resolve

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from xarray.core.datatree import DatasetView

_MODES: Final = ("w", "w-", "a", "a-", "r+")
_NAME = "__xarray_dataarray_name__"  # the attribute in which xarray.open_dataarray finds the name


class Options(Record):
    """The options of a write that datasets and trees share, as accessors.py describes them"""

    chunks: object
    shards: object
    compute: bool
    safe_chunks: bool
    align_chunks: bool | None
    message: str | None
    progress: Callable[[int], object] | None
    consolidated: bool = False
    zarr_format: Literal[2, 3] | None = None


def as_dataset(array: DataArray) -> Dataset:
    """The dataset that xarray.open_dataarray converts back to the array, including its name. No node may have the name that xarray's own engines give to a
    variable here."""
    names = {*array.coords, *array.dims}
    if array.name is not None and array.name not in names:
        return array.to_dataset()
    name = "dataarray"
    while name in names:
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
    options = _checked(options)
    check_encoding(encoding, dataset)
    check_dimensions(layout, dataset.dims)

    def write(location: Location, path: str) -> Delayed | None:
        inner = joined(path, group)
        if chosen == "w":
            _check_no_overlap(dataset, location, inner)
        # a session may take several writes for one commit
        later = append_dim if isinstance(location, NodeStore) and branch_of(target) is None else None
        chosen_target = _target(chosen, append_dim, layout, options)._replace(append_later=later)
        found = _existing(location, inner, chosen, options)
        store = _planned(dataset, found, chosen_target, region, encoding)
        store.try_out(_new_root(location, inner, chosen, options) if found is None else found)
        return _written({"": store}, _opened(location, inner, chosen, options), options)

    return _write_to(target, group, chosen, options, write)


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
    options = _checked(options)
    encodings = {} if encoding is None else encoding
    check_mapping(encodings, "encoding")
    if unknown := set(encodings) - set(tree.groups):
        raise InvalidInputError(f"unexpected encoding group name(s) provided: {unknown}")
    for node in tree.subtree:
        inherit = write_inherited_coords or node is tree
        check_encoding(encodings.get(node.path), node.to_dataset(inherit=inherit))
    check_dimensions(layout, {name for node in tree.subtree for name in node.dims})

    def write(location: Location, path: str) -> Delayed | None:
        inner = joined(path, group)
        if chosen == "w":
            for node in tree.subtree:
                _check_no_overlap(node.dataset, location, inner)
        root = _existing(location, inner, chosen, options)
        new = _new_root(location, inner, chosen, options) if root is None else root
        stores: dict[str, FrazilDataStore] = {}
        for name, node in tree.subtree_with_keys:
            below = "" if node is tree else name
            dataset = node.to_dataset(inherit=write_inherited_coords or node is tree)
            found = _below(root, below)
            target = _target(chosen, None, layout, options)
            stores[below] = _planned(dataset, found, target, region, encodings.get(node.path))
            stores[below].try_out(new, below)
        return _written(stores, _opened(location, inner, chosen, options), options)

    return _write_to(target, group, chosen, options, write)


def _written(stores: Mapping[str, FrazilDataStore], root: Group, options: Options) -> Delayed | None:
    """Writes what was planned for the groups at and below `root`, by their paths. If elements cannot be written, arrays that grew get their lengths again, and
    new arrays of a session are removed: they would look complete."""
    writer, groups = Writer(options.progress), dict[str, Group]()
    try:
        for below, store in stores.items():
            groups[below] = root.require_group(below) if below else root
            store.make(groups[below], writer)
        return writer.sync(compute=options.compute)
    except BaseException:
        for below in reversed(groups):
            stores[below].undo(groups[below])
        raise


def _mode(mode: Mode | None, append_dim: str | None, region: object) -> Mode:
    """The mode; the default is "a" for appending and "r+" for a region. Raises InvalidInputError."""
    chosen: Mode = mode or ("a" if append_dim is not None else "r+" if region is not None else "w-")
    if chosen not in _MODES:
        raise InvalidInputError(f"mode is {mode!r}; it must be one of {', '.join(_MODES)}")
    if append_dim is not None and chosen not in ("a", "a-"):
        raise InvalidInputError("cannot set append_dim unless mode='a', mode='a-' or mode=None")
    if region is not None and chosen not in ("a", "a-", "r+"):
        raise InvalidInputError("cannot set region unless mode='a', mode='a-', mode='r+' or mode=None")
    return chosen


def _checked(options: Options) -> Options:
    """The options, progress as a function. Raises InvalidInputError."""
    for name in ("compute", "safe_chunks", "consolidated"):
        check_flag(getattr(options, name), name)
    if options.align_chunks is not None:
        check_flag(options.align_chunks, "align_chunks")
    return options if options.progress is None else options._replace(progress=checked_progress(options.progress))


def _target(mode: Mode, append_dim: str | None, layout: Layout, options: Options) -> Target:
    named = layout.chunks is not None or layout.shards is not None
    align = named if options.align_chunks is None else options.align_chunks
    return Target(mode, None, append_dim, layout, options.safe_chunks, align)


def _planned(
    dataset: Dataset,
    group: Group | None,
    target: Target,
    region: object,
    encoding: Mapping[str, Mapping[str, object]] | None,
) -> FrazilDataStore:
    """A store that has planned the write of the dataset into a group, or into a new one. Nothing is changed. Raises InvalidInputError, MetadataError."""
    reader = FrazilDataStore(group)
    dataset, found = checked_region(dataset, region, target.mode, target.append_dim, reader.coordinate)
    for name in reader.arrays:
        if encoding and name in encoding:
            raise InvalidInputError(f"variable {name!r} already exists, but encoding was provided", path=name)
    store = FrazilDataStore(group, arrays=reader.arrays, target=target._replace(region=found))
    copied = {name: dict(each) for name, each in (encoding or {}).items()}
    dataset.dump_to_store(store, encoding=copied)
    return store


def _existing(location: Location, path: str, mode: Mode, options: Options) -> Group | None:
    """The group that is changed; None if a new one is created. Raises NotFoundError if it must exist and does not, InvalidInputError if its format is not the
    one of the options."""
    if mode in ("w", "w-"):
        return None
    try:
        found = open_group(location, "r+", path=path)
    except NotFoundError:
        if mode == "r+":
            raise
        return None
    if options.zarr_format not in (None, found.metadata.zarr_format):
        raise InvalidInputError(
            f"zarr_format is {options.zarr_format!r}; the group has the format {found.metadata.zarr_format!r}",
            path=found.path or "/",
            hint='leave zarr_format out, or replace the group by mode="w"',
        )
    return found


def _below(root: Group | None, path: str) -> Group | None:
    """The group of a node of a tree; None if it does not exist yet. Raises NodeKindError for an array."""
    if root is None or path not in root:
        return root if not path else None
    found = root[path]
    if not isinstance(found, Group):
        raise NodeKindError("an array is there, not a group", path=found.path)
    return found


def _new_root(location: Location, path: str, mode: Mode, options: Options) -> Group | None:
    """The group that _opened makes, before anything is stored; None if something is in its place, which _opened raises."""
    try:
        return planned_group(location, path=path, overwrite=mode == "w", zarr_format=options.zarr_format)[0]
    except AlreadyExistsError:
        return None


def _check_no_overlap(dataset: Dataset | DatasetView, location: Location, path: str) -> None:
    """Refuses variables of dask that would be read after their source was removed; the others are in memory by then. Raises InvalidInputError."""
    store, prefix = resolve(location, path)
    target = address_of(store, prefix)
    for variable in dataset.variables.values():
        for address in addresses_read(variable.data) if variable.chunks is not None else ():
            check_no_overlap(
                address,
                target,
                "load() the data first, or write to another location: it would be removed before it is read",
            )


def _opened(location: Location, path: str, mode: Mode, options: Options) -> Group:
    if mode == "r+":
        return open_group(location, "r+", path=path)
    if mode in ("a", "a-"):
        return open_group(location, "a", path=path, zarr_format=options.zarr_format)
    if mode == "w":
        return create_group(location, path=path, overwrite=True, zarr_format=options.zarr_format)
    try:
        return create_group(location, path=path, zarr_format=options.zarr_format)
    except AlreadyExistsError as error:
        error.hint = 'mode="w" replaces what is there, mode="a" adds to it'
        try:
            found = open_group(location, "r+", path=path)
        except FrazilError:
            found = None
        if found is None or found.attrs or len(found):
            raise
        return found  # it is empty, like the root of a new repository


def _write_to(
    target: DatasetLocation,
    group: str | None,
    mode: Mode,
    options: Options,
    write: Callable[[Location, str], Delayed | None],
) -> Delayed | str | None:
    """Calls `write` with a place. Returns the id of the snapshot for a branch."""
    branch = branch_of(target)
    if branch is None:
        if options.message is not None:
            raise InvalidInputError(
                "this location has no commits",
                hint="the message is for a branch, as in sea.repo@main, or for session.commit",
            )
        location, path = store_of(target)
        _check_consolidated(options, in_repository=isinstance(location, NodeStore))
        if (
            mode == "w"
            and options.compute
            and isinstance(location, NodeStore)
            and _has_content(location, joined(path, group))
        ):
            with apart(location) as aside:  # what is replaced is lost only when the new data is complete
                return write(aside, path)
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
    text = options.message or "written by xarray"
    checked_commit(text)
    session, path = branch
    try:
        write(session.store, path)
        if not session.has_changes:
            return session.snapshot_id
        return session.commit(text, rebase="disjoint")
    except BaseException:
        session.discard()  # no other code has this session: its chunk files would stay until a collection
        raise


def _has_content(store: NodeStore, path: str) -> bool:
    """Whether there is anything but an empty group at a path."""
    node = store.nodes.find(path)
    if node is None or not isinstance(node, GroupMetadata):
        return node is not None
    return bool(node.attributes) or bool(store.nodes.children(path))


def _check_consolidated(options: Options, *, in_repository: bool) -> None:
    if options.consolidated and in_repository:
        raise InvalidInputError(
            "a repository has no consolidated metadata",
            hint="it needs none: one read of a snapshot finds all its nodes",
        )
