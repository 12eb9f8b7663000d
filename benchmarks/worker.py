"""One engine in one process, driven by compare.py: reads pickled (verb, row) from stdin and writes a pickled reply to stdout."""

from __future__ import annotations

import itertools
import os
import pickle
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import engines
from array_tasks import ArrayTasks, Wrong
from draft_tasks import DraftTasks
from repository_tasks import RepositoryTasks
from rows import Row


def answer(worker: ArrayTasks, verb: str, row: Row | None) -> dict[str, Any]:
    try:
        return {"ok": getattr(worker, verb)(row)}
    except Wrong as error:
        return {"error": f"WRONG: {error}"}
    except engines.Unsupported as error:
        return {"error": f"not possible: {error}"}
    except Exception as error:
        return {"error": f"failed: {type(error).__name__}: {error}"}


def main() -> None:
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of an engine must not get into the pipe
    name, scratch, server = sys.argv[1:]
    try:
        engine = engines.load(name)
    except Exception as error:
        pickle.dump({"error": f"{type(error).__name__}: {error}"}, replies)
        replies.close()
        return
    location = (name, Path(scratch), server)
    worker: ArrayTasks
    if isinstance(engine, engines.RepositoryEngine):
        worker = RepositoryTasks(engine, *location)
    else:
        worker = (DraftTasks if name == "frazil" else ArrayTasks)(engine, *location)
    with suppress(EOFError, KeyboardInterrupt):
        for verb, row in (pickle.load(sys.stdin.buffer) for _ in itertools.count()):
            pickle.dump(answer(worker, verb, row), replies)
            replies.flush()


if __name__ == "__main__":
    main()
