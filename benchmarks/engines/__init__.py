"""Adapters, one file per engine, each with a class Engine. An adapter is loaded only in its own worker process.

This module has what they share: the verbs that worker.py calls. A verb that an engine lacks raises Unsupported."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from rows import PLAIN, REPOSITORY, Box, Spec


class Unsupported(Exception):
    """The engine cannot do this row; the reason is shown in the table."""


class Engine:
    """Arrays in a folder. Every adapter turns off options that keep decoded chunks between reads."""

    kind = PLAIN
    modules: tuple[str, ...] = ()  # what a user imports

    def create(self, path: str, spec: Spec) -> Any:
        """A new array, open for writing, at a path where nothing exists yet."""
        raise Unsupported("create")

    def open(self, path: str, write: bool = False) -> Any:
        """The array at a path (or, for reading, an http URL), with empty caches."""
        raise Unsupported("open")

    def read(self, array: Any, box: Box) -> np.ndarray:
        values: np.ndarray = array[box]
        return values

    def open_appending(self, path: str) -> Any:
        """The array, open for writes that append new inner chunks to existing shards instead of rewriting the shards."""
        raise Unsupported("not available: shards are written anew")

    def create_appending(self, path: str, spec: Spec) -> Any:
        """A new array for writes like those of open_appending, if the engine has them; else an ordinary one."""
        return self.create(path, spec)

    def element(self, array: Any, position: tuple[int, ...]) -> Any:
        """One element, as a scalar or an array without dimensions."""
        return array[position]

    def points(self, array: Any, places: tuple[np.ndarray, ...]) -> np.ndarray:
        """The elements at places, an index array for each axis."""
        raise Unsupported("points")

    def lines(self, array: Any, rows: np.ndarray) -> np.ndarray:
        """Whole planes across the first axis, in the order of rows."""
        raise Unsupported("lines")

    def write(self, array: Any, box: Box, values: np.ndarray) -> None:
        array[box] = values

    def append(self, array: Any, rows: np.ndarray) -> Any:
        """Grows the array along its first axis by rows, and writes them there. Returns the array to continue with."""
        array.append(rows, axis=0)
        return array

    def commit(self, message: str) -> None:
        """Commits the last writes; does nothing in a plain store."""


class RepositoryEngine(Engine):
    """Arrays in a transactional repository. create() and open() use the array named "data"."""

    kind = REPOSITORY
    virtual_folder: Path  # set by the caller: virtual references may point to files in it

    def connect(self, path: str) -> None:
        """Opens the repository at path, or creates it; begin() then starts a writable session on main."""
        raise Unsupported("connect")

    def begin(self) -> None:
        raise Unsupported("begin")

    def create_array(self, name: str, spec: Spec) -> Any:
        raise Unsupported("create_array")

    def array(self, name: str) -> Any:
        """An array of the writable session."""
        raise Unsupported("array")

    def set_references(self, name: str, first: int, count: int, url: str) -> None:
        """Chunks first, first + 1, ... of a 1-d array become the 8-byte items of the same numbers in the file at url."""
        raise Unsupported("set_references")

    def history(self, path: str) -> int:
        """The number of snapshots of main."""
        raise Unsupported("history")

    def list_arrays(self, path: str) -> dict[str, tuple[int, ...]]:
        """Opens the repository. Returns the path and the shape of every array in it."""
        raise Unsupported("list_arrays")

    def create(self, path: str, spec: Spec) -> Any:
        self.connect(path)
        self.begin()
        return self.create_array("data", spec)


def load(name: str) -> Engine:
    engine: Engine = import_module(f"engines.{name}").Engine()
    return engine
