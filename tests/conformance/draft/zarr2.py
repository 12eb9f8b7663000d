"""zarr-python 2.18 in its own process, with a few calls on a folder."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.external_data import zarr2_python

WORKER = Path(__file__).parent / "zarr2_worker.py"
SWITCHES = {"ZARR_V3_EXPERIMENTAL_API": "1", "ZARR_V3_SHARDING": "1"}


class Zarr2Error(Exception):
    """An exception of zarr-python."""


class Zarr2:
    """One process. `scratch`: a folder for the exchanged values."""

    def __init__(self, scratch: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._values = scratch / "values.npy"
        self._fill = scratch / "fill.npy"
        self._process = subprocess.Popen(
            [zarr2_python(), WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, **SWITCHES},
        )

    def close(self) -> None:
        self._process.communicate()

    def create(
        self, store: Path, path: str, values: np.ndarray | None = None, *, fill: object = None, **arguments: object
    ) -> None:
        """A new array of the dtype and shape of `values`, which are written, or of those in `arguments`. fill: a NumPy value of the dtype"""
        if values is not None:
            arguments = {"shape": values.shape, "dtype": described(values.dtype), **arguments}
        request: dict[str, object] = {"arguments": arguments}
        if fill is not None:
            np.save(self._fill, fill, allow_pickle=False)
            request["fill"] = str(self._fill)
        self._ask("create", store, path, **request)
        if values is not None:
            self.write(store, path, values)

    def write(self, store: Path, path: str, values: np.ndarray, selection: Sequence[tuple[int, int]] = ()) -> None:
        """Writes into a box of (start, stop); none: everything."""
        np.save(self._values, values, allow_pickle=False)
        self._ask("write", store, path, values=str(self._values), selection=selection)

    def read(self, store: Path, path: str) -> np.ndarray:
        return self.look(store, path)[0]

    def look(self, store: Path, path: str) -> tuple[np.ndarray, Mapping[str, object]]:
        """The values, and attributes, chunks, order and fill value (as hexadecimal bytes) in zarr-python."""
        answer = self._ask("read", store, path, values=str(self._values))
        return np.load(self._values, allow_pickle=False), answer

    def group(self, store: Path, path: str, attributes: Mapping[str, object]) -> None:
        self._ask("group", store, path, attributes=attributes)

    def nodes(self, store: Path) -> Mapping[str, object]:
        """Kind and attributes of every node."""
        return self._ask("nodes", store, "")

    def delete(self, store: Path, path: str) -> None:
        self._ask("delete", store, path)

    def consolidate(self, store: Path) -> None:
        self._ask("consolidate", store, "")

    def _ask(self, do: str, store: Path, path: str, **more: object) -> Mapping[str, object]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "store": str(store), "path": path, **more}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise Zarr2Error(f"{answer['error']}\n{answer['trace']}")
        return answer


def described(dtype: np.dtype) -> object:
    """A dtype as JSON."""
    return dtype.str if dtype.names is None else [list(field) for field in dtype.descr]


@pytest.fixture(scope="session")
def zarr2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zarr2]:
    """One process for all tests. tests/conftest.py makes it available to every test."""
    made = Zarr2(tmp_path_factory.mktemp("zarr2"))
    yield made
    made.close()
