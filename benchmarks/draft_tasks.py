"""The tasks with the Zarr v3 draft of 2022, which no peer reads: the same array in both dialects, and a conversion compared with plain copying."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, ClassVar

from array_tasks import ArrayTasks, Clock, Metrics, check
from rows import Row

ALTERNATIONS = 4  # per measurement; the ratio uses the fastest ones, so that both are equal and noise does not count


def frazil() -> Any:
    """Imported only in the worker that has it."""
    import frazil

    return frazil


class DraftTasks(ArrayTasks):
    fixtures: ClassVar[dict[str, str]] = ArrayTasks.fixtures | {
        "read_draft": "make_both",
        "convert": "make_draft",
    }

    def make_both(self, row: Row) -> None:
        """The array in the final specification, and the same bytes in shards of the draft's transformer."""
        self.make_array(row)
        frazil().convert(self.path, f"{self.path}.draft", zarr_format="draft-2021", overwrite=True)

    def make_draft(self, row: Row) -> None:
        """One location, in the draft of December 2022."""
        self.make_array(row)
        frazil().convert(self.path, zarr_format="draft")

    def drop(self, row: None) -> None:
        super().drop(row)
        self.fresh(f"{self.path}.draft")

    def read_draft(self, row: Row) -> Metrics:
        final, draft = self.path, f"{self.path}.draft"
        seconds: dict[str, float] = {}
        for _ in range(ALTERNATIONS):
            for path in self._in_turn([final, draft]):
                array = self.engine.open(path)
                with Clock() as clock:
                    got = self.engine.read(array, row.box)
                check(got, self.values(row.spec)[row.box])
                del got
                seconds[path] = min(clock.seconds, seconds.get(path, clock.seconds))
        return {"s": seconds[draft], "x final codec": seconds[draft] / seconds[final]}

    def convert(self, row: Row) -> Metrics:
        ways: dict[str, Callable[[], object]] = {
            "copytree": lambda: shutil.copytree(self.path, self.new),
            "convert": lambda: frazil().convert(self.path, self.new),
            "cp -r": lambda: subprocess.run(["cp", "-r", self.path, self.new], check=True),
            "convert again": lambda: frazil().convert(self.path, self.new),
        }
        seconds = {}
        for name in self._in_turn(list(ways)):
            self.fresh(self.new)
            os.sync()  # so that no measurement waits for the writes of the one before
            with Clock() as clock:
                ways[name]()
            seconds[name] = clock.seconds
            if name == "convert":
                self.check_whole(self.new, self.values(row.spec))
        self.fresh(self.new)
        # two tries each, so that noise favours neither
        converting = min(seconds["convert"], seconds["convert again"])
        return {
            "s": converting,
            "s, copytree": seconds["copytree"],
            "s, cp -r": seconds["cp -r"],
            "x copying": converting / min(seconds["copytree"], seconds["cp -r"]),
        }

    def _in_turn(self, names: list[str]) -> list[str]:
        """Starts with another one each time."""
        self.turn += 1
        at = self.turn % len(names)
        return names[at:] + names[:at]
