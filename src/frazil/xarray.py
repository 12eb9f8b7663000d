"""Frazil with xarray: `pip install 'frazil[xarray]'`. Importing this registers `Dataset.frazil`, `DataArray.frazil` and `DataTree.frazil`.

xarray finds engine="frazil" by itself; the accessors are registered too as soon as it has loaded its engines, which the first open_dataset does."""

from frazil.integrations.xarray.accessors import DataArrayAccessor, DatasetAccessor, TreeAccessor, register

__all__ = ["DataArrayAccessor", "DatasetAccessor", "TreeAccessor"]

register()
