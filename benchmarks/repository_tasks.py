"""The tasks that need a repository. Those of array_tasks.py can also run in one."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

import engines
from array_tasks import ArrayTasks, Clock, Metrics, bytes_written, check
from rows import Row


class RepositoryTasks(ArrayTasks):
    fixtures: ClassVar[dict[str, str]] = ArrayTasks.fixtures | {
        "commits": "make_history",
        "reference": "make_references",
        "list": "make_tree",
    }
    engine: engines.RepositoryEngine

    def __init__(self, engine: engines.RepositoryEngine, name: str, scratch: Path, server: str) -> None:
        super().__init__(engine, name, scratch, server)
        engine.virtual_folder = scratch / name / "virtual"
        engine.virtual_folder.mkdir(parents=True, exist_ok=True)
        self.items = engine.virtual_folder / "items.bin"

    def make_history(self, row: Row) -> None:
        self.engine.connect(self.path)
        self.engine.begin()
        self.engine.write(
            self.engine.create_array("data", row.spec), row.spec.whole, np.zeros(row.spec.shape, row.spec.dtype)
        )
        self.engine.commit("start")
        for _ in range(row.start):
            self.small_commit()

    def small_commit(self) -> None:
        at, self.turn = self.turn % 100, self.turn + 1
        self.engine.begin()
        self.engine.write(self.engine.array("data"), (slice(at, at + 1),), np.array([float(self.turn)]))
        self.engine.commit(f"commit {self.turn}")

    def commits(self, row: Row) -> Metrics:
        before = self.engine.history(self.path)
        with Clock() as clock:
            for _ in range(row.count):
                self.small_commit()
        turns = np.arange(1, self.turn + 1)
        expected = np.zeros(row.spec.shape)
        expected[(turns - 1) % 100] = turns
        self.check_whole(self.path, expected)
        check(self.engine.history(self.path) - before, row.count)
        return {"ms each": clock.seconds / row.count * 1e3}

    def append(self, row: Row) -> Metrics:
        lines = np.random.default_rng(0).random((row.count, 1, row.spec.shape[1]))
        self.engine.create(self.fresh(self.new), row.spec)
        self.engine.commit("start")
        before = self.engine.history(self.new)
        with Clock() as clock:
            for i, line in enumerate(lines):
                self.engine.begin()
                self.engine.append(self.engine.array("data"), line)
                self.engine.commit(f"append {i}")
        self.check_whole(self.new, lines[:, 0])
        check(self.engine.history(self.new) - before, row.count)
        self.fresh(self.new)
        return {"ms each": clock.seconds / row.count * 1e3}

    def make_references(self, row: Row) -> None:
        np.arange(1.0, row.spec.shape[0] + 1).tofile(self.items)
        self.engine.create(self.path, row.spec)
        self.engine.set_references("data", 0, row.start, f"file://{self.items}")
        self.engine.commit("references")

    def reference(self, row: Row) -> Metrics:
        at, self.turn, before = row.start + self.turn, self.turn + 1, bytes_written()
        with Clock() as clock:
            self.engine.connect(self.path)
            self.engine.begin()
            self.engine.set_references("data", at, 1, f"file://{self.items}")
            self.engine.commit(f"reference {at}")
        written = bytes_written() - before
        last = self.engine.read(self.engine.open(self.path), (slice(at - 2, at + 2),))
        check(last, np.array([at - 1.0, at, at + 1, 0]))
        return {"s": clock.seconds, "kB written": written / 1e3}

    def make_tree(self, row: Row) -> None:
        self.engine.connect(self.path)
        self.engine.begin()
        for name in tree(row.start):
            self.engine.create_array(name, row.spec)
        self.engine.commit("tree")

    def list(self, row: Row) -> Metrics:
        with Clock() as clock:
            found = self.engine.list_arrays(self.path)
        check(
            {name.strip("/"): tuple(shape) for name, shape in found.items()},
            dict.fromkeys(tree(row.start), row.spec.shape),
        )
        return {"s": clock.seconds}


def tree(count: int) -> list[str]:
    """Names of `count` arrays, 100 in a group."""
    return [f"g{i // 100}/a{i % 100}" for i in range(count)]
