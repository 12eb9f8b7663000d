"""The other implementations of Zarr v3, each with the same few calls on a folder. refusals.py lists their limits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pytest

from tests.foreign.interop.cases import Case

zarr = pytest.importorskip("zarr")
tensorstore = pytest.importorskip("tensorstore")
pytest.importorskip("zarrs")

Values = np.ndarray
Selection = tuple[object, ...]


class Peer(Protocol):
    """name: as in refusals.py."""

    name: str

    def create(self, path: Path, case: Case) -> None:
        """A new array, whose document is the peer's own."""

    def write(self, path: Path, selection: Selection, values: Values) -> None: ...

    def read(self, path: Path, selection: Selection = (...,)) -> Values: ...


class ZarrPython(NamedTuple):
    """zarr-python with its own codecs, or with another pipeline beneath it.

    keep_fill: store chunks of fill values too; zarr-python takes NaNs of any bits for a NaN fill value, and complex numbers with -0.0 for 0"""

    name: str = "zarr-python"
    pipeline: str = ""
    keep_fill: bool = True

    def create(self, path: Path, case: Case) -> None:
        with self._settings():
            zarr.create(
                store=str(path),
                shape=case.shape,
                chunks=case.chunk,
                dtype=np.dtype(case.dtype),
                fill_value=case.fill_scalar,
                codecs=list(case.codecs),
                chunk_key_encoding=case.keys,
                dimension_names=case.dimension_names,
                attributes=case.attributes,
                zarr_format=3,
            )

    def write(self, path: Path, selection: Selection, values: Values) -> None:
        with self._settings():
            zarr.open_array(str(path), mode="r+", zarr_format=3)[selection] = values

    def read(self, path: Path, selection: Selection = (...,)) -> Values:
        with self._settings():
            return np.asarray(zarr.open_array(str(path), mode="r", zarr_format=3)[selection])

    @contextmanager
    def _settings(self) -> Iterator[None]:
        settings = {"array.write_empty_chunks": self.keep_fill, "async.concurrency": 2, "threading.max_workers": 2}
        if self.pipeline:
            settings |= {"codec_pipeline.path": self.pipeline, "codec_pipeline.strict": True}
        with zarr.config.set(settings), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


class TensorStore(NamedTuple):
    """tensorstore's zarr3 driver. keep_fill as above."""

    name: str = "tensorstore"
    keep_fill: bool = False

    def create(self, path: Path, case: Case) -> None:
        self._open(path, create=True, metadata=case.document())

    def write(self, path: Path, selection: Selection, values: Values) -> None:
        self._open(path, store_data_equal_to_fill_value=self.keep_fill)[selection].write(values).result()

    def read(self, path: Path, selection: Selection = (...,)) -> Values:
        return np.asarray(self._open(path)[selection].read().result())

    def _open(self, path: Path, **more: object) -> Values:
        kvstore = {"driver": "file", "path": f"{path}/"}
        spec = {"driver": "zarr3", "kvstore": kvstore, "recheck_cached_data": True, "recheck_cached_metadata": True}
        return tensorstore.open({**spec, **more}).result()


ZARRS = ZarrPython("zarrs", "zarrs.ZarrsCodecPipeline")
TENSORSTORE = TensorStore()
PEERS: tuple[Peer, ...] = (ZarrPython(), ZARRS, TENSORSTORE)


def version(peer: Peer) -> tuple[int, ...]:
    """The version of the peer's package; its refusals depend on it."""
    module = tensorstore if peer.name == "tensorstore" else zarr
    return tuple(int(part) for part in getattr(module, "__version__", "0").split(".")[:3])
