"""StoreTests, part three: many threads at one store."""

from __future__ import annotations

from functools import partial

from frazil.stores.values import ABSENT, Changed, pieces_of
from frazil.testing.checks import run_threads
from frazil.testing.store_base import StoreTestBase

THREADS = 8


class StoreConcurrencyTests(StoreTestBase):
    def test_threads_count_together(self) -> None:
        store = self.filled(n=b"0")
        if not store.capabilities.expects:
            return

        def count() -> None:
            for _ in range(10):
                store.update("n", lambda old: b"%d" % (int(old or b"0") + 1))

        run_threads([count] * THREADS)
        assert store.get("n") == b"%d" % (10 * THREADS)

    def test_exactly_one_thread_creates(self) -> None:
        store = self.new_store()
        if not store.capabilities.expects:
            return
        answers: list[bytes | Changed] = []
        value = pieces_of([b"1"])
        run_threads([lambda: answers.extend(store.put_many(["a/b"], value, [ABSENT]))] * THREADS)
        won = [answer for answer in answers if isinstance(answer, bytes)]
        assert len(won) == 1
        assert {answer.version for answer in answers if isinstance(answer, Changed)} == set(won)

    def test_exactly_one_thread_creates_an_immutable_key(self) -> None:
        store = self.new_store()
        if not store.capabilities.conditional:
            return
        created: list[tuple[int, int]] = []

        def create(n: int) -> None:
            created.extend((i, n) for i in range(10) if store.create(f"refs/{i}", b"%d" % n * 1000))

        run_threads([partial(create, n) for n in range(THREADS)])
        assert sorted(i for i, _ in created) == list(range(10)), "one thread creates each key"
        assert [store.get(f"refs/{i}") for i, n in created] == [b"%d" % n * 1000 for _, n in created]

    def test_a_key_is_created_or_put(self) -> None:
        store = self.new_store()
        if not store.capabilities.conditional:
            return
        created: list[str] = []

        def write(n: int) -> None:
            value = b"%d" % n
            for i in range(10):
                key = f"refs/{i}"
                if store.create(key, value) if n % 2 else isinstance(store.put(key, value, ABSENT), bytes):
                    created.append(key)

        run_threads([partial(write, n) for n in range(THREADS)])
        assert sorted(created) == sorted(f"refs/{i}" for i in range(10))

    def test_readers_see_whole_values(self) -> None:
        store = self.filled(a=bytes(100_000))

        def write(n: int) -> None:
            for size in range(100_000, 100_010):
                store.set("a", bytes([n]) * size)

        def read() -> None:
            for _ in range(25):
                value = store.get("a")
                assert value is not None
                assert len(value) >= 100_000
                assert value.count(value[0]) == len(value)

        run_threads([*(partial(write, n) for n in range(4)), *[read] * 4])

    def test_writers_of_different_keys(self) -> None:
        store = self.new_store()

        def write(n: int) -> None:
            for i in range(10):
                store.set(f"d/{i}/{n}", b"%d" % n)
            if store.capabilities.erasable:
                store.erase_values([f"d/{i}/{n}" for i in range(0, 10, 2)])

        run_threads([partial(write, n) for n in range(8)])
        remaining = range(1, 10, 2) if store.capabilities.erasable else range(10)
        keys = sorted(f"d/{i}/{n}" for i in remaining for n in range(8))
        assert [store.get(key) for key in keys] == [key.rpartition("/")[2].encode() for key in keys]
        assert not store.capabilities.listable or store.list() == keys

    def test_partial_writers_of_one_key(self) -> None:
        store = self.filled(a=bytes(THREADS * 4))
        if not store.capabilities.expects:
            return
        run_threads([lambda n=n: store.set_partial_values([("a", 4 * n, bytes([n] * 4))]) for n in range(THREADS)])  # type: ignore[misc]
        assert store.get("a") == b"".join(bytes([n] * 4) for n in range(THREADS))

    def test_threads_append_together(self) -> None:
        store = self.new_store()
        if not store.capabilities.expects:
            return

        def write(n: int) -> None:
            for i in range(5):
                store.append("a", bytes([n, i]))

        run_threads([partial(write, n) for n in range(THREADS)])
        value = store.get("a") or b""
        assert sorted(zip(value[::2], value[1::2], strict=True)) == [(n, i) for n in range(THREADS) for i in range(5)]
