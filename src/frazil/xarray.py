"""Frazil with xarray: `pip install 'frazil[xarray]'`. Importing this registers `Dataset.frazil`, `DataArray.frazil` and `DataTree.frazil`.

xarray finds engine="frazil" by itself. The accessors are also registered when xarray loads its engines, which the first open_dataset does."""

from frazil.base.optional_package import missing_package

try:
    from frazil.integrations.xarray.accessors import DataArrayAccessor, DatasetAccessor, TreeAccessor, register
except ImportError as error:
    raise missing_package("xarray", "frazil.xarray needs the package", "xarray", error) from error

__all__ = ["DataArrayAccessor", "DatasetAccessor", "TreeAccessor"]

register()
