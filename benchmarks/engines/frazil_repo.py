"""Frazil, arrays in a repository, without syncing files (as icechunk)."""

from __future__ import annotations

from typing import Any

import numpy as np

import engines
import frazil
from engines.frazil import options
from rows import Spec


class Engine(engines.RepositoryEngine):
    modules = ("frazil",)
    durable = False

    def __init__(self) -> None:
        if not hasattr(frazil, "Repository"):
            raise engines.Unsupported("this frazil has no repositories")

    def opened(self, path: str) -> frazil.Repository:
        return frazil.Repository.open_or_create(
            path, durable=self.durable, virtual_prefixes=[f"file://{self.virtual_folder}/"]
        )

    def connect(self, path: str) -> None:
        self.repository = self.opened(path)

    def begin(self) -> None:
        self.session = self.repository.writable_session("main")

    def create_array(self, name: str, spec: Spec) -> Any:
        return self.session.root.create_array(name, **options(spec))

    def array(self, name: str) -> Any:
        return self.session.root[name]

    def open(self, path: str, write: bool = False) -> Any:
        return self.opened(path).readonly_session("main").root["data"]

    def commit(self, message: str) -> None:
        self.session.commit(message)

    def set_references(self, name: str, first: int, count: int, url: str) -> None:
        items = np.arange(first, first + count)
        self.session.set_virtual_chunks(name, items[:, None], [url] * count, 8 * items, np.full(count, 8))

    def history(self, path: str) -> int:
        return sum(1 for _ in self.opened(path).history("main"))

    def list_arrays(self, path: str) -> dict[str, tuple[int, ...]]:
        root = self.opened(path).readonly_session("main").root
        return {name: node.shape for name, node in root.members(max_depth=None) if hasattr(node, "shape")}
