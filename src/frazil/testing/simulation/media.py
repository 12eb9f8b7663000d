"""The storage of simulated values: a bucket, whose operations are single requests that may arrive late, and a disk, which loses unsynced data at a crash.

Both are tables of values with versions, below the store port. store.py decides which operation fails, and when."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import Lock

from frazil.stores.values import ABSENT, Capabilities, Changed, Version

Value = tuple[bytes, Version]


class Medium:
    """Values by key, as all clients see them now. A put and an erase compare and change in one step, also between the threads of a store suite."""

    capabilities = Capabilities()
    late = False  # whether an operation that failed may still happen

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.modified: dict[str, int] = {}  # when each was put, on the clock of the medium, ns since 1970
        self.clock: Callable[[], int] = int
        self.at_put: Callable[[str], object] = str  # gets the key of each put
        self._written = 0
        self._changes = Lock()

    def get(self, key: str) -> Value | None:
        """The value of a key and its version, None where it has none."""
        return self.values.get(key)

    def put(self, key: str, data: bytes, expect: Version | None) -> Version | Changed:
        """Stores a value if the key has the version `expect` (None: any)."""
        with self._changes:
            present = self._version(key)
            if expect is not None and expect != present:
                return Changed(present)
            self._written += 1
            version = self._written.to_bytes(8, "big")
            self.values[key] = data, version
            self.modified[key] = self.clock()
        self.at_put(key)
        return version

    def erase(self, key: str, expect: Version | None) -> Changed | None:
        """Removes a key if it has the version `expect` (None: any)."""
        with self._changes:
            present = self._version(key)
            if expect is not None and expect != present:
                return Changed(present)
            self.values.pop(key, None)
        return None

    def sync(self, key: str) -> None:
        """Makes the changes in the folder of a key durable."""

    def crash(self, random: Random) -> None:
        """The machine stops, and starts again."""

    def _version(self, key: str) -> Version:
        found = self.values.get(key)
        return ABSENT if found is None else found[1]


class Bucket(Medium):
    """An object store. Acknowledged changes are durable. A failed request may arrive at any later time."""

    capabilities = Capabilities(conditional_erase=False)
    late = True


class Disk(Medium):
    """A local disk. Values are written and synced before they get their name; names are durable when their folder was synced. Each name that was not
    may be lost or not at a crash, independently of others."""

    capabilities = Capabilities(direct=True)

    def __init__(self) -> None:
        super().__init__()
        self._lasting: dict[str, Value] = {}

    def sync(self, key: str) -> None:
        folder = _folder(key)
        for name in self._unsynced():
            if _folder(name) == folder:
                self._persist(name)

    def crash(self, random: Random) -> None:
        for name in self._unsynced():
            if random.random() < 0.5:
                self._persist(name)
        self.values = dict(self._lasting)

    def _unsynced(self) -> list[str]:
        names = sorted({*self.values, *self._lasting})
        return [name for name in names if self.values.get(name) != self._lasting.get(name)]

    def _persist(self, name: str) -> None:
        found = self.values.get(name)
        if found is None:
            self._lasting.pop(name, None)
        else:
            self._lasting[name] = found


def _folder(key: str) -> str:
    return key.rpartition("/")[0]
