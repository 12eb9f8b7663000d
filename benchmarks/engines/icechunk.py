"""icechunk through zarr-python's default pipeline, on the local disk, with its default configuration."""

from __future__ import annotations

from typing import Any

import icechunk
import numpy as np
import zarr as zarr_python

import engines
from engines import zarr
from rows import Spec


class Engine(zarr.Engine, engines.RepositoryEngine):
    modules = ("icechunk", "zarr")
    create = engines.RepositoryEngine.create

    def opened(self, path: str) -> icechunk.Repository:
        url, store = f"file://{self.virtual_folder}/", icechunk.local_filesystem_store(str(self.virtual_folder))
        configuration = icechunk.RepositoryConfig.default()
        configuration.set_virtual_chunk_container(icechunk.VirtualChunkContainer(url, store))
        access = {url: icechunk.credentials.LocalFileSystemAccess}
        storage = icechunk.local_filesystem_storage(path)
        return icechunk.Repository.open_or_create(storage, config=configuration, authorize_virtual_chunk_access=access)

    def connect(self, path: str) -> None:
        self.repository = self.opened(path)

    def begin(self) -> None:
        self.session = self.repository.writable_session("main")

    def create_array(self, name: str, spec: Spec) -> Any:
        return self.checked(zarr_python.create_array(self.session.store, name=name, **zarr.options(spec)))

    def array(self, name: str) -> Any:
        return zarr_python.open_array(self.session.store, path=name, mode="r+")

    def open(self, path: str, write: bool = False) -> Any:
        return self.checked(
            zarr_python.open_array(self.opened(path).readonly_session("main").store, path="data", mode="r")
        )

    def commit(self, message: str) -> None:
        self.session.commit(message)

    def set_references(self, name: str, first: int, count: int, url: str) -> None:
        offsets, lengths = 8 * np.arange(first, first + count, dtype="u8"), np.full(count, 8, "u8")
        bad = self.session.store.set_virtual_refs_arr(
            name, (count,), [url] * count, offsets, lengths, arr_offset=(first,)
        )
        assert not bad, f"{len(bad)} references refused"

    def history(self, path: str) -> int:
        return sum(1 for _ in self.opened(path).ancestry(branch="main"))

    def list_arrays(self, path: str) -> dict[str, tuple[int, ...]]:
        root = zarr_python.open_group(self.opened(path).readonly_session("main").store, mode="r")
        return {name: node.shape for name, node in root.members(max_depth=None) if isinstance(node, zarr_python.Array)}
