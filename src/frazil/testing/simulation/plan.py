"""The decisions of a seed before a run begins: the store, the faults, the number of clients, and their work. A pure function of the seed.

Most runs leave some of it out, because with everything at once faults and conflicting changes rarely meet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Final, Literal, TypeAlias

from frazil.base.record import Record
from frazil.errors import InvalidInputError

Kind: TypeAlias = Literal["bucket", "disk"]
Format: TypeAlias = Literal["alpha", "memory"]
Fault: TypeAlias = Literal["fail", "lose", "late", "unsynced", "interrupt", "die", "crash"]

FAULTS: Final[Mapping[Fault, str]] = {
    "fail": "an error, and nothing happens, or of several writes some",
    "lose": "it happens, but the answer is an error",
    "late": "an error, and it happens at a later point, or never; of a bucket",
    "unsynced": "it happens, but its folder cannot be synced: an error; of a disk",
    "interrupt": "KeyboardInterrupt, SystemExit or MemoryError, before or after it happens",
    "die": "the client ends there",
    "crash": "the machine stops there, with all clients; a disk loses what was not synced",
}
ACTS: Final[Mapping[str, int]] = {  # changes that clients make, with their relative frequencies
    "write": 4,
    "append": 3,
    "undo": 1,  # a write, and then a write of the previous values
    "unappend": 1,  # an append, and a resize back
    "attribute": 1,
    "resize": 1,
    "move": 1,
    "swap": 1,  # of two nodes, by three moves
    "array": 1,
    "group": 1,
    "remove": 1,
}
TASKS: Final[Mapping[str, int]] = {  # tasks of clients, with their relative frequencies; 0: a variant of other tasks
    "work": 3,  # in a session, which is committed
    "run": 1,  # a function by Repository.run
    "look": 1,  # as a reader, also of sessions that were opened before
    "tag": 1,
    "rest": 1,  # read one array and write another in a serializable session
    "fork": 0,  # of a session, for a change
    "fork_reads": 0,  # of a serializable session, to read
    "threads": 0,  # two in one session
    "handles": 0,  # of arrays, kept while others change them, and used again
    "reset": 1,  # lets the branch point to another snapshot
    "solve": 0,  # a rebase whose conflicts are solved
    "collect": 0,  # two more clients collect garbage and expire snapshots, and hours pass
    "rescue": 1,  # points branches other than main, and tags, to snapshots that may be condemned, and commits to such branches
    "check": 0,  # collectors also verify and repair
    "merge": 3,  # merges a snapshot, applies a commit, or reverts it
    "drift": 0,  # clocks jump by up to days, also that of the store, and late operations take up to days
}
_LATER: Final = (
    "reset",
    "solve",
    "collect",
    "rescue",
    "check",
    "drift",
    "merge",
)  # decided last, so that older seeds without them keep their meaning
_OTHER_FORMAT: Final = 10  # one of this many seeds uses the second format
_CLIENT_TASKS: Final = 5  # tasks of a client


class Plan(Record):
    """format: of the repository, the second one is frazil.testing.memory_format;  acts, tasks: names, repeated by their frequency;  rate: probability of a
    fault at an operation;  switch: probability that another client runs at a point"""

    seed: int
    kind: Kind
    format: Format
    faults: Sequence[Fault]
    clients: int
    packing: str
    acts: Sequence[str]
    tasks: Sequence[str]
    rate: float
    switch: float
    steps: int

    def __str__(self) -> str:
        text = f"{self.kind}, format {self.format!r}, {self.clients} clients, packing {self.packing!r}, faults {list(self.faults)}"
        return f"{text}, acts {sorted(set(self.acts))}, tasks {sorted(set(self.tasks))}"


def make_plan(seed: int, kind: Kind | None = None, without: Collection[str] = ()) -> Plan:
    """The plan of a seed. kind: None lets the seed decide;  without: names of faults, acts and tasks that are left out in any case.

    Raises InvalidInputError for an unknown name."""
    for name in without:
        if name not in {*FAULTS, *ACTS, *TASKS}:
            raise InvalidInputError(
                f"there is no {name!r} in a simulation", hint=f"there are {[*FAULTS, *ACTS, *TASKS]}"
            )
    random = Random(f"plan {seed}")
    chosen: Kind = random.choice(("bucket", "disk"))
    faults = [fault for fault in FAULTS if random.random() < 0.4 and fault not in without]
    acts = [
        name for name, weight in ACTS.items() if random.random() < 0.6 for _ in range(weight) if name not in without
    ]
    tasks = [
        name
        for name, weight in TASKS.items()
        if name not in _LATER and random.random() < 0.8
        for _ in range(max(weight, 1))
        if name not in without
    ]
    if not {"work", "run"} & set(tasks):
        tasks.append("work")
    later = Random(f"later {seed}")
    chosen_later = [name for name in _LATER if later.random() < 0.4 and name not in without]
    tasks += [name for name in chosen_later for _ in range(max(TASKS[name], 1))]
    return Plan(
        seed,
        kind or chosen,
        "memory" if seed % _OTHER_FORMAT == _OTHER_FORMAT - 1 else "alpha",
        faults,
        random.randrange(2, 5),
        random.choice(("auto", "off")),
        acts or ["write"],
        tasks,
        random.choice((0.01, 0.03, 0.06)),
        random.choice((0.1, 0.5, 0.9)),
        random.randrange(2, _CLIENT_TASKS),
    )
