"""Compares the files of virtual chunks with what the manifests record: whether they exist, are long enough, and did not change. Each is looked up once, and
none is read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
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
        virtual = manifest.kinds[rows] == VIRTUAL
        numbers = manifest.locations[rows]
        virtual &= (numbers >= 0) & (numbers < manifest.location_starts.size - 1)
        names = {number: manifest.location(number) for number in np.unique(numbers[virtual]).tolist()}
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
                found.append((f"{plain_location(name)} has {state.size} bytes, and chunks end beyond that", too_long))
        return found

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
        states = self._containers.look_up(new) if new else {}
        self._states |= {location: states.get(location, "it is not there") for location in new}
        if new:
            self._progress("virtual files asked for", len(new))
