"""Names of zarr-python's Group that group.py does not have, implemented with those of group.py. docs/design/068-names-of-zarr-python.md has the reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from frazil.array import info as _info
from frazil.array.array import Array
from frazil.array.creation import data_source
from frazil.array.handle import Handle
from frazil.array.hierarchy.node_changes import check_above
from frazil.array.interface import html
from frazil.errors import InvalidInputError, NodeKindError
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.model import ArrayMetadata, GroupMetadata

if TYPE_CHECKING:
    from typing import Self

    from frazil.array.creation.array_metadata import Lengths
    from frazil.metadata.model import Metadata


def path_of(path: str | None, name: str | None) -> str:
    """The path of a new node, which zarr-python calls its name. Raises InvalidInputError where none is given, or both."""
    if path is None and name is not None:
        return name
    if path is None or name is not None:
        problem = (
            "the new node has no path" if path is None else f"the path of the new node is given twice, also as {name=}"
        )
        raise InvalidInputError(problem, hint='group.create_array("level1/temp", ...)')
    return path


class ZarrGroup(Handle):
    """Base class of Group."""

    __slots__ = ()

    if TYPE_CHECKING:  # the members of Group that are needed here

        @property
        def metadata(self) -> GroupMetadata: ...
        def __getitem__(self, path: str, /) -> Array | Self: ...
        def arrays(self) -> Iterator[tuple[str, Array]]: ...
        def groups(self) -> Iterator[tuple[str, Self]]: ...
        def members(self, max_depth: int | None = 0) -> Iterator[tuple[str, Array | Self]]: ...
        def create_group(
            self, path: str, *, attributes: Mapping[str, object] | None = None, overwrite: bool = False
        ) -> Self: ...
        @property
        def create_array(self) -> Callable[..., Array]: ...
        def create_arrays(
            self, arrays: Mapping[str, Mapping[str, object]], *, overwrite: bool = False
        ) -> dict[str, Array]: ...
        def _planned(self, arrays: Mapping[str, Mapping[str, object]]) -> Mapping[str, Metadata]: ...
        def require_group(self, path: str) -> Self: ...
        @property
        def require_array(self) -> Callable[..., Array]: ...

    def array_keys(self) -> Iterator[str]:
        """Names of the arrays among the direct members."""
        return (name for name, _ in self.arrays())

    def array_values(self) -> Iterator[Array]:
        """The arrays among the direct members."""
        return (array for _, array in self.arrays())

    def group_keys(self) -> Iterator[str]:
        """Names of the groups among the direct members."""
        return (name for name, _ in self.groups())

    def group_values(self) -> Iterator[Self]:
        """The groups among the direct members."""
        return (group for _, group in self.groups())

    def nmembers(self, max_depth: int | None = 0) -> int:
        """Number of nodes below this group. max_depth: 0 for the direct members, None for all."""
        return sum(1 for _ in self.members(max_depth))

    def get_array(self, path: str) -> Array:
        """The array at a path below this group. Raises NotFoundError, InvalidInputError for a group."""
        node = self[path]
        if not isinstance(node, Array):
            raise NodeKindError("a group is there, not an array", path=node.path)
        return node

    def get_group(self, path: str) -> Self:
        """The group at a path below this group. Raises NotFoundError, InvalidInputError for an array."""
        node = self[path]
        if isinstance(node, Array):
            raise NodeKindError("an array is there, not a group", path=node.path)
        return node

    @property
    def info(self) -> _info.GroupInfo:
        """The content of the group's document, as a value that prints as a table. Costs no request."""
        return _info.group_info(self.path, self.metadata, self.store, read_only=self.read_only)

    def info_complete(self) -> _info.GroupInfo:
        """`info` with the numbers of arrays and groups below it, at all levels. Costs as many requests as members(max_depth=None)."""
        arrays = [isinstance(node, Array) for _, node in self.members(None)]
        return self.info._replace(arrays=sum(arrays), groups=len(arrays) - sum(arrays))

    # --- at a prompt ---------------------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        return html.group_html(self._location, self.metadata)

    # --- creating ------------------------------------------------------------------------------------------------------------------

    def create_hierarchy(
        self, nodes: Mapping[str, object], *, overwrite: bool = False
    ) -> Iterator[tuple[str, Array | Self]]:
        """Creates many nodes. Returns their paths and the new nodes.

        nodes  for each path the arguments of create_array, with a shape; or the attributes of a group, as {"attributes": {...}} or {}; or metadata of
               zarr-python
        Raises AlreadyExistsError, InvalidInputError, MetadataError, ReadOnlyError."""
        groups, arrays = self._planned_hierarchy(nodes)  # before anything is created
        created: dict[str, Array | Self] = {}
        for path, group_arguments in groups.items():
            created[path] = self.create_group(path, overwrite=overwrite, **group_arguments)  # type: ignore[arg-type]
        created.update(self.create_arrays(arrays, overwrite=overwrite))
        return iter([(path, created[path]) for path in nodes])

    def _planned_hierarchy(
        self, nodes: Mapping[str, object]
    ) -> tuple[dict[str, dict[str, object]], dict[str, dict[str, object]]]:
        """The arguments of the new groups, parents first, and of the new arrays. All are checked: raises as create_hierarchy."""
        arguments = {path: node_arguments(path, node) for path, node in nodes.items()}
        arrays = {path: given for path, given in arguments.items() if "shape" in given}
        groups = {path: given for path, given in sorted(arguments.items()) if path not in arrays}
        planned, location = dict(self._planned(arrays)), self._location
        for path, given in groups.items():
            if others := set(given) - {"attributes"}:
                raise InvalidInputError(
                    f"{min(others)} is not an argument of a group", path=path, hint="an array has a shape"
                )
            at = location.below(path)
            if at in planned:
                raise InvalidInputError("two of the new nodes have one path", path=at)
            attributes: Any = given.get("attributes")
            planned[at] = GroupMetadata(attributes=attributes, zarr_format=location.layout.zarr_format)
        for node in planned.values():
            location.layout.emit(node)  # refuses what the dialect cannot express
        check_above(planned, planned)
        return groups, arrays

    def create_dataset(self, name: str, **arguments: object) -> Array:
        """create_array, under the older names create_dataset and create. dtype: float64 if there is no data, as in zarr-python."""
        if arguments.get("data") is None and arguments.get("dtype") is None:
            arguments["dtype"] = "float64"
        return self.create_array(name, **arguments)

    create = create_dataset

    def require_dataset(
        self,
        name: str,
        *,
        shape: Lengths,
        dtype: object = "float64",
        exact: bool = False,
        **arguments: object,
    ) -> Array:
        """The older name of require_array."""
        return self.require_array(name, shape=shape, dtype=dtype, exact=exact, **arguments)

    def require_groups(self, *names: str) -> tuple[Self, ...]:
        """require_group of each."""
        return tuple([self.require_group(name) for name in names])

    def array(self, name: str, data: object = None, **arguments: object) -> Array:
        """A new array with these elements; arguments as for create_array."""
        if data is None:
            return self.create_array(name, **{"dtype": "float64", **arguments})
        return self.create_array(name, data=data if hasattr(data, "dtype") else data_source.as_array(data), **arguments)

    def empty(self, name: str, *, shape: Lengths, **arguments: object) -> Array:
        """A new array of zeros, none of which is stored; arguments as for create_array."""
        return self.create_array(name, shape=shape, **{"dtype": "float64", **arguments})

    def zeros(self, name: str, *, shape: Lengths, **arguments: object) -> Array:
        """A new array of zeros; arguments as for create_array."""
        return self.create_array(name, shape=shape, **{"dtype": "float64", **arguments, "fill_value": 0})

    def ones(self, name: str, *, shape: Lengths, **arguments: object) -> Array:
        """A new array of ones; arguments as for create_array."""
        return self.create_array(name, shape=shape, **{"dtype": "float64", **arguments, "fill_value": 1})

    def full(self, name: str, *, shape: Lengths, fill_value: object, **arguments: object) -> Array:
        """A new array whose elements are all `fill_value`; arguments as for create_array."""
        return self.create_array(name, shape=shape, **{"dtype": "float64", **arguments, "fill_value": fill_value})

    def empty_like(self, name: str, data: object, **arguments: object) -> Array:
        """As `empty`, with the shape, the data type and, of a frazil.Array, the chunks, shards and fill value of another array."""
        return self.create_array(name, **like(data, arguments))

    def zeros_like(self, name: str, data: object, **arguments: object) -> Array:
        """As `zeros`, with the arguments that empty_like takes from another array."""
        return self.create_array(name, **{**like(data, arguments), "fill_value": 0})

    def ones_like(self, name: str, data: object, **arguments: object) -> Array:
        """As `ones`, with the arguments that empty_like takes from another array."""
        return self.create_array(name, **{**like(data, arguments), "fill_value": 1})

    def full_like(self, name: str, data: object, fill_value: object = None, **arguments: object) -> Array:
        """As `full`, with the arguments that empty_like takes from another array; by default also its fill value."""
        fill = getattr(data, "fill_value", None) if fill_value is None else fill_value
        return self.create_array(name, **{**like(data, arguments), "fill_value": fill})


def like(data: object, arguments: Mapping[str, object]) -> dict[str, object]:
    """Arguments of create_array for an array of the shape and data type of another one, and of its chunks, shards and fill value where it is a frazil.Array;
    `arguments` take precedence. Raises InvalidInputError for data that is no array."""
    if not isinstance(data, Array):
        source = data if hasattr(data, "shape") and hasattr(data, "dtype") else data_source.as_array(data)
        return {"shape": source.shape, "dtype": source.dtype, **arguments}
    metadata = data.metadata
    found: dict[str, object] = {"shape": data.shape, "dtype": metadata.data_type, "chunks": data.chunks}
    if "dtype" not in arguments:
        found["fill_value"] = None if metadata.fill_is_undefined else metadata.fill_value
    elif not metadata.fill_is_undefined and _holds(arguments["dtype"], data.fill_value):
        found["fill_value"] = data.fill_value
    if "chunks" not in arguments:
        found["shards"] = data.shards
        if not isinstance(metadata.chunk_grid, RegularGrid):
            found["chunks" if data.shards is None else "shards"] = metadata.chunk_grid
    return {**found, **arguments}


def _holds(dtype: object, fill: np.generic | None) -> bool:
    """Whether NumPy converts a fill value to this data type without a change."""
    with suppress(TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
        source = np.asarray(fill)
        cast = source.astype(dtype)  # type: ignore[call-overload] # other types of data type are a TypeError
        if cast.dtype.kind in "mM" and cast.dtype.kind != source.dtype.kind:
            return False
        is_missing = source != source and cast != cast  # noqa: PLR0124 # NaN and NaT
        return bool(is_missing or cast.astype(source.dtype) == source)
    return False


def node_arguments(path: str, node: object) -> dict[str, object]:
    """Arguments of create_array or create_group for a node as given to create_hierarchy. Raises InvalidInputError."""
    if node is None:
        return {}
    if isinstance(node, GroupMetadata):
        return {"attributes": dict(node.attributes)}
    if isinstance(node, ArrayMetadata):
        return _array_arguments(path, node)
    if hasattr(node, "to_dict"):  # metadata of zarr-python
        document = node.to_dict()
        if document.get("zarr_format") != 3:
            raise InvalidInputError(
                f"metadata of Zarr v{document.get('zarr_format')} is not supported here",
                path=path,
                hint="give shape, dtype, chunks",
            )
        if document.get("node_type") == "array":
            grid = document["chunk_grid"]["configuration"]
            return {
                "shape": document["shape"],
                "dtype": document["data_type"],
                "chunks": grid["chunk_shape"] if "chunk_shape" in grid else grid["chunk_shapes"],
                "codecs": list(document["codecs"]),
                "fill_value": getattr(node, "fill_value", None),
                "chunk_key_encoding": document["chunk_key_encoding"],
                "attributes": document.get("attributes"),
                "dimension_names": document.get("dimension_names"),
            }
        return {"attributes": document.get("attributes")}
    if isinstance(node, Mapping):
        return {str(name): value for name, value in node.items()}
    raise InvalidInputError(
        f"a {type(node).__name__} does not describe a new node",
        path=path,
        hint='{"shape": (10, 10), "dtype": "uint8"}, or {} for a group',
    )


def _array_arguments(path: str, metadata: ArrayMetadata) -> dict[str, object]:
    """Arguments of create_array for an array with the same metadata. Raises InvalidInputError for other formats than the final Zarr v3."""
    if metadata.zarr_format != 3:
        raise InvalidInputError(
            f"metadata of zarr_format={metadata.zarr_format!r} is not supported here",
            path=path,
            hint="give shape, dtype, chunks",
        )
    grid = metadata.chunk_grid
    return {
        "shape": metadata.shape,
        "dtype": metadata.data_type,
        "chunks": grid.chunk_shape if isinstance(grid, RegularGrid) else grid,
        "codecs": list(metadata.codecs),
        "fill_value": metadata.fill_value,
        "chunk_key_encoding": metadata.chunk_key_encoding,
        "attributes": dict(metadata.attributes),
        "dimension_names": metadata.dimension_names,
        "storage_transformers": list(metadata.storage_transformers),
    }
