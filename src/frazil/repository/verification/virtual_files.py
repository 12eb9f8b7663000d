"""Compares the files of virtual chunks with what the manifests record: whether they exist, are long enough, and did not change. Each is looked up once, and
none is read."""

from __future__ import annotations

from errno import ELOOP

import numpy as np
from numpy.typing import NDArray

from frazil.base.arrays import distinct
from frazil.base.reports import counted
from frazil.errors import AccessError, InvalidInputError, StoreError
from frazil.formats.manifests import VIRTUAL, FileCheck, Manifest
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.virtual.file_checks import plain_location, what_differs
from frazil.repository.virtual.virtual_fetch import VirtualContainers
from frazil.stores.values import Columns


class VirtualFiles:
    """The state of files elsewhere, looked up when it is needed. containers: where the files may be"""

    __slots__ = ("_containers", "_progress", "_states")

    def __init__(self, containers: VirtualContainers, progress: Progress) -> None:
        self._containers, self._progress = containers, progress
        self._states: dict[str, FileCheck | str] = {}  # by location: its state, or why it is unknown

    def faults(self, manifest: Manifest, rows: Columns) -> list[tuple[str, NDArray[np.bool_]]]:
        """What is wrong with files of int64[k] rows: a text, and bool[k] the affected rows. Raises StoreError."""
        virtual, numbers, names = _locations(manifest, rows)
        self._look_up([plain_location(name) for name in names.values()])
        found: list[tuple[str, NDArray[np.bool_]]] = []
        stops = manifest.offsets[rows] + manifest.lengths[rows]
        for number, name in names.items():
            affected, state = virtual & (numbers == number), self._states[plain_location(name)]
            if isinstance(state, str):
                found.append((f"{plain_location(name)}: {state}", affected))
                continue
            change = None if (check := manifest.checks.get(name)) is None else what_differs(check, state)
            if change is not None:
                found.append((f"{plain_location(name)} has changed: {change}", affected))
            elif state.size >= 0:
                too_long = affected & (stops > state.size)
                found.append(
                    (f"{plain_location(name)} has {counted(state.size, 'byte')}, and chunks end beyond that", too_long)
                )
        return found

    def fault_now(self, manifest: Manifest, row: Columns) -> str | None:
        """What is wrong with the file of one row, int64[1], by its present state, also compared with the state that was looked up before; None: nothing, or the
        chunk is not virtual. Raises StoreError."""
        for name in _locations(manifest, row)[2].values():
            location = plain_location(name)
            before = self._states.pop(location, None)
            for text, affected in self.faults(manifest, row):
                if affected.any():
                    return text
            now = self._states[location]
            if isinstance(before, FileCheck) and isinstance(now, FileCheck) and (change := what_differs(before, now)):
                return f"{location} has changed while it was read: {change}"
        return None

    def _look_up(self, locations: list[str]) -> None:
        """Looks up the files that are not known yet, in one batch."""
        new: list[str] = []
        for location in dict.fromkeys(locations):
            if location not in self._states:
                try:
                    self._containers.find(location)
                    new.append(location)
                except InvalidInputError as error:
                    self._states[location] = error.message
        if new:
            self._states |= self._states_of(new)
            self._progress("virtual files asked for", len(new))

    def _states_of(self, locations: list[str]) -> dict[str, FileCheck | str]:
        """A batch with a file that may not be read is looked up in two halves."""
        try:
            found = self._containers.look_up(locations)
        except StoreError as error:
            if not isinstance(error, AccessError) and error.errno != ELOOP:
                raise
            if len(locations) == 1:
                return {locations[0]: error.message}
            middle = len(locations) // 2
            return self._states_of(locations[:middle]) | self._states_of(locations[middle:])
        return {location: found.get(location, "it is not there") for location in locations}


def _locations(manifest: Manifest, rows: Columns) -> tuple[NDArray[np.bool_], NDArray[np.int32], dict[int, str]]:
    """Of int64[k] rows: bool[k] which are virtual, the number of the location of each, and the locations by number."""
    numbers = manifest.locations[rows]
    virtual = (manifest.kinds[rows] == VIRTUAL) & (numbers >= 0) & (numbers < manifest.location_starts.size - 1)
    return virtual, numbers, {number: manifest.location(number) for number in distinct(numbers[virtual]).tolist()}
