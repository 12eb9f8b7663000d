"""The requests of a process and their results, one line each in its own file, written before and after: so they are known even if the process was killed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Journal:
    """The file of one process. A process that can no longer write here (its files may be limited) ends at once, as its later actions would be unknown."""

    def __init__(self, folder: Path, name: str, turn: int) -> None:
        path = folder / f"{name}.{turn:04}.journal"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def record(self, **values: object) -> None:
        line = json.dumps(values).encode() + b"\n"
        try:
            whole = os.write(self._file, line) == len(line)
        except OSError:
            whole = False
        if not whole:
            os._exit(0)


def entries(folder: Path, name: str) -> list[dict[str, Any]]:
    """The lines of the processes of this name, in order. A line that the death of its writer cut off was never acted on."""
    found = []
    for path in sorted(folder.glob(f"{name}.*.journal")):
        found += [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return found


class Answers:
    """The known state of numbered requests: that they were made, and the answer, "committed", "refused" or "unknown"."""

    def __init__(self, journal_entries: list[dict[str, Any]]) -> None:
        self.answers: dict[int, str] = {}
        for entry in journal_entries:
            if "n" in entry:
                self.answers[entry["n"]] = entry.get("told", "unknown")

    def numbers(self, answer: str) -> set[int]:
        return {number for number, recorded in self.answers.items() if recorded == answer}

    @property
    def next(self) -> int:
        return max(self.answers, default=0) + 1
