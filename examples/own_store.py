"""Your own store: arrays in one SQLite file, used as a key-value database. You write some operations, and Frazil derives the others.

`get` and `set` are enough. With ranges and sizes, Frazil need not read a whole shard for one chunk. Versions and conditional writes make many writers safe.
Usage: python own_store.py [FILE]"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import frazil

TABLE = "CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"
COUNTER = "CREATE TABLE IF NOT EXISTS counter (n INTEGER NOT NULL)"


class SQLiteStore(frazil.stores.StoreWithPartialAccess):
    """Keys and values in a table. Safe in many threads and processes; pickled by its path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        with self.transaction():
            self.db.execute(TABLE)
            self.db.execute(COUNTER)
            self.db.execute("INSERT INTO counter SELECT 0 WHERE NOT EXISTS (SELECT * FROM counter)")

    def __reduce__(self) -> tuple[type[SQLiteStore], tuple[str]]:
        return SQLiteStore, (self.path,)

    def __repr__(self) -> str:
        return f"SQLiteStore({self.path!r})"

    def __del__(self) -> None:
        if hasattr(self, "db"):
            self.db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction during which no other thread or process writes."""
        with self.lock:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self.lock:
            return self.db.execute(query, values).fetchall()

    # --- operations of the Zarr v3 draft that the database has --------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        found = self.ask("SELECT value FROM objects WHERE key = ?", key)
        return found[0][0] if found else None

    def get_partial_values(self, key_ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> list[bytes | None]:
        values: list[bytes | None] = []
        for key, (start, length) in key_ranges:
            cut = "SELECT coalesce(substr(value, ?, coalesce(?, length(value))), x'') FROM objects WHERE key = ?"
            found = self.ask(cut, start + 1, length, key)
            values.append(found[0][0] if found else None)
        return values

    def set(self, key: str, value: bytes) -> None:
        with self.transaction():
            self.replace(key, value)

    def erase(self, key: str) -> None:
        with self.transaction():
            self.db.execute("DELETE FROM objects WHERE key = ?", (key,))

    def erase_prefix(self, prefix: str) -> None:
        with self.transaction():
            self.db.execute("DELETE FROM objects WHERE substr(key, 1, ?) = ?", (len(prefix), prefix))

    def list_prefix(self, prefix: str) -> list[str]:
        return [
            str(key) for (key,) in self.ask("SELECT key FROM objects WHERE substr(key, 1, ?) = ?", len(prefix), prefix)
        ]

    # --- operations that the draft does not have: sizes, versions, conditions -----------------------------------------------------------

    def size(self, key: str) -> int | None:
        found = self.ask("SELECT length(value) FROM objects WHERE key = ?", key)
        return found[0][0] if found else None

    def version(self, key: str) -> bytes | None:
        found = self.ask("SELECT version FROM objects WHERE key = ?", key)
        return b"%d" % found[0][0] if found else None

    def set_if(self, key: str, value: bytes, version: bytes) -> bytes | None:
        with self.transaction():
            return self.replace(key, value) if self.present(key) == version else None

    def erase_if(self, key: str, version: bytes) -> bool:
        with self.transaction():
            same = self.present(key) == version
            if same:
                self.db.execute("DELETE FROM objects WHERE key = ?", (key,))
            return same

    def present(self, key: str) -> bytes:
        found = self.db.execute("SELECT version FROM objects WHERE key = ?", (key,)).fetchone()
        return b"%d" % found if found else b""

    def replace(self, key: str, value: bytes) -> bytes:
        """Stores a value with a version number that was never used before."""
        self.db.execute("UPDATE counter SET n = n + 1")
        self.db.execute("INSERT OR REPLACE INTO objects SELECT ?, ?, n FROM counter", (key, value))
        return b"%d" % self.db.execute("SELECT n FROM counter").fetchone()


def main(path: str) -> None:
    store = SQLiteStore(path)
    group = frazil.create_group(store, attributes={"title": "arrays in a database"}, overwrite=True)
    heat = group.create_array("heat", shape=(64, 512), dtype="f4", chunks=(1, 128), shards=(64, 512), fill_value=np.nan)

    def write(row: int) -> None:
        """Writes like another process, with its own connection."""
        array = frazil.open_array(SQLiteStore(path), path="heat", mode="r+")
        array[row] = np.sin(np.arange(512) / (row + 1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(64)))
    rows = np.arange(1, 65)[:, None]
    assert np.array_equal(heat[...], np.sin(np.arange(512) / rows).astype("f4"))
    can = store.as_store().capabilities
    print(f"64 writers of one shard, {'none of them lost' if can.conditional else 'in turns'}")
    print(f"{', '.join(store.list())} in {Path(path).stat().st_size // 1024} KiB of {Path(path).name}")
    print(f"one row: {heat[7, :3]}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:  # nothing is left behind
            main(f"{scratch}/arrays.sqlite")
