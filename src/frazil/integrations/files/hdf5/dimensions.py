"""The dimensions of datasets in an HDF5 file: their names, from scales, labels or the numbers that netCDF stores, and the lengths of those that grow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.base.record import Record
from frazil.integrations.files.scanned import text_of

if TYPE_CHECKING:
    import h5py


_ALONE: Final = b"This is a netCDF dimension but not a netCDF variable"  # beginning of the NAME of such a scale


class Scale(Record):
    """A dimension that has a dataset. number: netCDF's number of it, -1 if there is none."""

    name: str
    number: int
    address: int


class Dimensions:
    """The dimensions of all datasets of one file.

    netCDF has one length for a dimension that grows, the largest of its variables, and the fill value where others end earlier; HDF5 has a length for each."""

    def __init__(self, module: ModuleType, datasets: Sequence[h5py.Dataset]) -> None:
        self.h5py = module
        self.scales: dict[int, Scale] = {}  # by address
        self.by_number: dict[int, Scale] = {}
        self.lengths: dict[int, int] = {}  # of scales that grow, by address
        self.phony: dict[tuple[int, int], str] = {}
        for dataset in datasets:
            if dataset.shape is not None and module.h5ds.is_scale(dataset.id):
                self._add(dataset)
        for dataset in datasets:
            for axis, scale in enumerate(self._scales_of(dataset)):
                if scale is not None and scale.number >= 0 and dataset.maxshape[axis] is None:
                    longest = self.lengths.get(scale.address, 0)
                    self.lengths[scale.address] = max(longest, dataset.shape[axis])

    def _add(self, dataset: h5py.Dataset) -> None:
        number = np.asarray(dataset.attrs.get("_Netcdf4Dimid", -1))
        address = self._address(dataset)
        scale = Scale(str(dataset.name).rpartition("/")[2], int(number.reshape(-1)[0]) if number.size else -1, address)
        self.scales[address] = scale
        if scale.number >= 0:
            self.by_number.setdefault(scale.number, scale)

    def is_alone(self, dataset: h5py.Dataset) -> bool:
        """Whether a dataset is only a dimension."""
        if dataset.shape is None or self._address(dataset) not in self.scales:
            return False
        name = dataset.attrs.get("NAME")
        return isinstance(name, bytes) and name.startswith(_ALONE)

    def _address(self, dataset: h5py.Dataset) -> int:
        return int(self.h5py.h5o.get_info(dataset.id).addr)

    def _scales_of(self, dataset: h5py.Dataset) -> list[Scale | None]:
        """The scale of each dimension, if there is one."""
        if dataset.shape is None:
            return []
        rank = len(dataset.shape)
        found: list[Scale | None] = [None] * rank
        own = self.scales.get(self._address(dataset))
        if own is not None and rank == 1:
            return [own]
        if "DIMENSION_LIST" in dataset.attrs and len(attached := dataset.attrs["DIMENSION_LIST"]) == rank:
            found = [self._scale_of(dataset, references) for references in attached]
        if None in found and "_Netcdf4Coordinates" in dataset.attrs:
            numbers = np.asarray(dataset.attrs["_Netcdf4Coordinates"]).reshape(-1).tolist()
            if len(numbers) == rank:
                found = [scale or self.by_number.get(number) for scale, number in zip(found, numbers, strict=True)]
        if own is not None and rank and found[0] is None:
            found[0] = own
        return found

    def _scale_of(self, dataset: h5py.Dataset, references: Iterable[h5py.h5r.Reference]) -> Scale | None:
        """The first scale of a dimension that is in the file; None if there is none. A scale that was removed leaves a reference to nothing, for which the
        scales of h5py are an error."""
        for reference in references:
            if type(reference) is not self.h5py.h5r.Reference or not reference:  # of a region; null
                continue
            with suppress(KeyError, RuntimeError, ValueError):
                address = int(self.h5py.h5o.get_info(self.h5py.h5r.dereference(reference, dataset.id)).addr)
                if (scale := self.scales.get(address)) is not None:
                    return scale
        return None

    def shape(self, dataset: h5py.Dataset) -> tuple[int, ...]:
        """The shape of the dataset in netCDF."""
        return tuple(
            [
                extent if scale is None or limit is not None else max(extent, self.lengths.get(scale.address, 0))
                for extent, scale, limit in zip(dataset.shape, self._scales_of(dataset), dataset.maxshape, strict=True)
            ]
        )

    def names(self, dataset: h5py.Dataset) -> tuple[str, ...]:
        """A name for each dimension. Dimensions without a name in the file are called phony_dim_0 and so on, as in netCDF: one name for all of a length, but
        never twice in a dataset."""
        names: list[str] = []
        used: dict[int, int] = {}
        for axis, scale in enumerate(self._scales_of(dataset)):
            name = scale.name if scale is not None else text_of(dataset.dims[axis].label)
            if not name:
                extent = dataset.shape[axis]
                again = used[extent] = used.get(extent, -1) + 1
                name = self.phony.setdefault((extent, again), f"phony_dim_{len(self.phony)}")
            names.append(name)
        return tuple(names)
