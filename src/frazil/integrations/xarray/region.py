"""The region of a write: the place of a dataset in each dimension of the store, as in Dataset.to_zarr. Pure, except that coordinates are looked up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeAlias

import numpy as np
from xarray import Dataset, Variable

from frazil.errors import InvalidInputError, NotFoundError

Region: TypeAlias = "Mapping[str, slice | str] | str | None"
_AUTO: Final = "auto"


def checked_region(
    dataset: Dataset, region: object, mode: str, append_dim: str | None, coordinate: Callable[[str], Variable]
) -> tuple[Dataset, dict[str, slice] | None]:
    """The dataset without its indexes, which a region never changes, and a slice for each named dimension.

    region      slices by dimension; "auto" for a dimension, or for all: found by its coordinate in the store
    coordinate  returns a coordinate of the store
    Raises InvalidInputError, NotFoundError for values that no coordinate of the store has, TypeError for a region of another type."""
    if region is None:
        return dataset, None
    requested: object = dict.fromkeys(dataset.dims, _AUTO) if isinstance(region, str) and region == _AUTO else region
    if not isinstance(requested, Mapping):
        raise TypeError(f"``region`` must be a dict, got {type(region)}")
    found = dict(requested)
    if any(isinstance(part, str) and part == _AUTO for part in found.values()):
        if mode not in ("r+", "a"):
            raise InvalidInputError(f"``mode`` must be 'r+' or 'a' when using ``region='auto'``, got {mode!r}")
        _check_dimensions(dataset, found)
        found = {
            dimension: _slice(dataset, dimension, coordinate) if isinstance(part, str) and part == _AUTO else part
            for dimension, part in found.items()
        }
    _check(dataset, found, append_dim)
    return dataset.drop_vars(dataset.indexes), found


def _slice(dataset: Dataset, dimension: Hashable, coordinate: Callable[[str], Variable]) -> slice:
    if dimension not in dataset.variables:
        return slice(0, dataset.sizes[dimension])
    stored = coordinate(str(dimension))
    if stored.ndim != 1 or not (index := stored.to_index()).is_unique:
        raise InvalidInputError(
            f"the coordinate {dimension!r} of the store has {'repeated values' if stored.ndim == 1 else f'{stored.ndim} dimensions'}, so it does not determine a region",
            path=str(dimension),
            hint=f"region={{{dimension!r}: slice(start, stop)}}",
        )
    positions = index.get_indexer(dataset[dimension].data)
    if not positions.size:
        return slice(0, 0)
    if (positions == -1).any():
        raise NotFoundError(
            f"the store does not have all values of the coordinate {dimension!r}",
            path=str(dimension),
            hint="a region changes no coordinates; append_dim adds new ones",
        )
    if (np.diff(positions) != 1).any():
        raise InvalidInputError(
            f"the values of the coordinate {dimension!r} do not follow each other in the store",
            path=str(dimension),
            hint="write each contiguous part separately",
        )
    return slice(int(positions[0]), int(positions[-1]) + 1)


def _check_dimensions(dataset: Dataset, region: Mapping[Hashable, object]) -> None:
    if not set(region) <= set(dataset.dims):
        raise InvalidInputError(
            f"all keys in ``region`` are not in Dataset dimensions, got {list(region)} and {list(dataset.dims)}"
        )


def _check(dataset: Dataset, region: Mapping[Hashable, object], append_dim: str | None) -> None:
    _check_dimensions(dataset, region)
    for part in region.values():
        if not isinstance(part, slice):
            raise TypeError(f"all values in ``region`` must be slice objects, got region={dict(region)}")
        if any(end is not None and not hasattr(end, "__index__") for end in (part.start, part.stop)):
            raise TypeError(f"slices in ``region`` must be whole numbers, got region={dict(region)}")
        if part.step not in {1, None}:
            raise InvalidInputError(f"step on all slices in ``region`` must be 1 or None, got region={dict(region)}")
    outside = [name for name, variable in dataset.variables.items() if not set(region) & set(variable.dims)]
    if region and outside:
        raise InvalidInputError(
            "with a region, all variables in the dataset to write must have at least one dimension in common with "
            f"the region's dimensions {list(region)}; {outside!r} have none",
            hint=f"ds.drop_vars({outside!r})",
        )
    if append_dim is not None and append_dim in region:
        raise InvalidInputError(
            f"cannot list the same dimension in both ``append_dim`` and ``region``, got {append_dim} in both"
        )
