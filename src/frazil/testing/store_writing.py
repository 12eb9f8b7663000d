"""StoreTests, part two: put, erase, partial writes, conditions, and calls that must leave everything as it is."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from frazil.errors import InvalidInputError, ReadOnlyError, StoreError
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store
from frazil.stores.transfer.value_copies import put_parts
from frazil.stores.values import ABSENT, ANY, WHOLE, Capabilities, Changed, Pieces, Sources, pieces_of
from frazil.stores.wrappers import read_only
from frazil.testing.checks import refusal
from frazil.testing.store_base import NINE_BAD_KEYS, StoreTestBase, columns

if TYPE_CHECKING:
    from frazil._kernel import Buffer


class StoreWritingTests(StoreTestBase):
    # --- whole values ----------------------------------------------------------------------------------------------------------------

    def test_set_replaces(self) -> None:
        store = self.filled(a=b"long value")
        store.set("a", b"short")
        assert store.get("a") == b"short"
        store.set("a", b"")
        assert store.get("a") == b""

    def test_values_of_all_buffer_kinds(self) -> None:
        store = self.new_store()
        numbers = np.arange(6, dtype=">u2").reshape(2, 3)
        values: dict[str, Buffer] = {
            "bytearray": bytearray(b"abc"),
            "memoryview": memoryview(b"xabcx")[1:4],
            "array": numbers,
            "strided": numbers.T,
            "reversed": memoryview(b"abc")[::-1],
            "empty": np.zeros((3, 0)),
            "scalar": np.array(7, "u1"),
            "struct": np.zeros(2, [("a", "u1"), ("b", "<f4")]),
        }
        for key, value in values.items():
            store.set(key, value)
            assert store.get(key) == np.asarray(value).tobytes()
        for wrong in ("text", 5, None, [1, 2]):
            refusal(InvalidInputError, lambda wrong=wrong: store.set("bytearray", wrong))  # type: ignore[misc]
        assert store.get("bytearray") == b"abc"

    def test_the_callers_buffer_stays_the_callers(self) -> None:
        store = self.new_store()
        buffer = bytearray(b"before")
        store.set("a", buffer)
        store.put_many(["b"], Pieces(Sources(None, [memoryview(buffer)]), columns((-1, 0, 6)), np.array([0, 1])), [ANY])
        fetched = store.fetch(["a"], WHOLE)
        buffer[:] = b"after!"
        assert (store.get("a"), store.get("b")) == (b"before", b"before")
        buffer += b"and it can be resized: nobody holds it"
        assert fetched.sizes.tolist() == [6]

    def test_put_many_pieces(self) -> None:
        store = self.new_store()
        sources = Sources(None, [b"0123456789", memoryview(b"abcdef"), np.arange(3, dtype=np.uint8)])
        rows = columns((-2, 1, 2), (-1, 0, 10), (-1, 9, 1), (-3, 0, 3), (-1, 4, 0))
        offsets = np.array([0, 3, 4, 4, 5], np.int64)
        answers = store.put_many(["a", "b/c", "none", "empty"], Pieces(sources, rows, offsets), [ANY] * 4)
        assert [isinstance(answer, bytes) for answer in answers] == [True] * 4
        assert [store.get(key) for key in ("a", "b/c", "none", "empty")] == [b"bc01234567899", b"\0\1\2", b"", b""]

    def test_erase(self) -> None:
        store = self.filled_with({"a": b"1", "b/c": b"2", "b/d": b"3", "e": b"4"})
        if not store.capabilities.erasable:
            for call in (lambda: store.erase("a"), lambda: store.erase_values(["a"])):
                refusal(StoreError, call)
            assert store.get("a") == b"1"
            try:  # the store may be able to do it anyway
                store.erase_prefix("b/")
            except StoreError:
                assert store.get_partial_values([("b/c", (0, 1)), ("b/d", (0, 1))]) == [b"2", b"3"]
            else:
                assert store.get_partial_values([("b/c", (0, 1)), ("b/d", (0, 1))]) == [None, None]
            assert store.get("e") == b"4"
            return
        store.erase("a")
        store.erase("a")
        store.erase("b")
        assert [store.get(key) for key in ("a", "b/c", "e")] == [None, b"2", b"4"]
        refusal(InvalidInputError, lambda: store.erase_values("be"))
        store.erase_values(iter(["b/c", "nothing", "e", "e"]))
        assert [store.get(key) for key in ("b/c", "b/d", "e")] == [None, b"3", None]
        store.set("a", b"again")
        assert store.get("a") == b"again"

    def test_erase_prefix(self) -> None:
        keys = ["a/b", "a/c/d", "a0", "a!", "ab/c", "a", "z"]
        store = self.filled_with({key: b"" for key in keys if key != "a"})
        if not (store.capabilities.erasable and store.capabilities.listable):
            return
        store.erase_prefix("a/")
        assert store.list() == ["a!", "a0", "ab/c", "z"]
        store.erase_prefix("nothing/")
        store.set("a", b"now a key")
        store.erase_prefix("a/")
        assert store.get("a") == b"now a key"
        store.erase_prefix("")
        assert store.list() == []

    def test_copy_in_shared(self) -> None:
        values = {"a": b"1", "b/c": b"", "b/d": b"long value", "there/x": b"old"}
        store = self.filled_with(values)
        names = ["n", "there/y", "there/x", "new/folder/z"]
        assert self.shared(store, names, ["a", "nothing/here", "b/d", "b/c"]) == [True, False, True, True]
        assert [store.get(name) for name in names] == [b"1", None, b"long value", b""]
        assert self.shared(store, ["n", "there/x"], ["b/d", "b/d"]) == [True, True], "and again"
        store.set("b/d", b"changed")
        assert (store.get("n"), store.get("there/x")) == (b"long value", b"long value"), "a write changes one key"
        if store.capabilities.erasable:
            store.erase("a")
            store.erase("b/d")
            assert store.get("n") == b"long value"
        many = [f"m/{i}" for i in range(300)]
        assert self.shared(store, many, ["b/c" if i % 3 else "zero" for i in range(300)]) == [
            bool(i % 3) for i in range(300)
        ]
        assert self.shared(store, [], []) == []

    def shared(self, store: Store, names: list[str], sources: list[str]) -> list[bool]:
        """copy_in with `shares`: whether each value existed."""
        return [size >= 0 for size in store.copy_in(names, store, sources, shares=True)]

    def test_copy_in(self) -> None:
        values = {"a": b"1", "b/c": b"", "b/d": b"long value" * 100, "there/x": b"old"}
        store, other = self.filled_with(values), MemoryStore()
        names = ["n", "there/y", "there/x", "new/folder/z"]
        for limit in (2**26, 7):
            assert other.copy_in(names, store, ["a", "nothing/here", "b/d", "b/c"], limit=limit) == [1, -1, 1000, 0]
            assert [other.get(name) for name in names] == [b"1", None, b"long value" * 100, b""]
            assert store.copy_in(["there/x", "k/l"], other, ["there/x", "there/y"], limit=limit) == [1000, -1]
            assert (store.get("there/x"), store.get("k/l")) == (b"long value" * 100, None)
            store.set("there/x", b"old")
        assert store.copy_in([], other, []) == []

    def test_put_parts(self) -> None:
        store = self.new_store()
        put_parts(store, "a/b", 6, iter([b"abc", b"", b"def"]))
        assert store.get("a/b") == b"abcdef"
        put_parts(store, "a/b", 0, iter([]))
        assert store.get("a/b") == b""

        def broken() -> Iterator[bytes]:
            yield b"abc"
            raise StoreError("the source is gone")

        for key in ("a/b", "c"):
            refusal(StoreError, lambda key=key: put_parts(store, key, 6, broken()))  # type: ignore[misc]
        assert (store.get("a/b"), store.get("c")) == (b"", None)

    # --- conditions ----------------------------------------------------------------------------------------------------------------

    def test_conditional_put(self) -> None:
        store = self.new_store()
        if not store.capabilities.conditional:
            refusal(StoreError, lambda: store.put("a", b"1", ABSENT))
            assert isinstance(store.put("a", b"1", ANY), bytes)
            return
        first = store.put("a/b", b"1", ABSENT)
        assert isinstance(first, bytes)
        assert first != ABSENT
        assert store.put("a/b", b"2", ABSENT) == Changed(first)
        assert store.get("a/b") == b"1"
        second = store.put("a/b", b"2", first)
        assert isinstance(second, bytes)
        assert second != first
        assert store.put("a/b", b"3", first) == Changed(second)
        third = store.put("a/b", b"3", ANY)
        assert isinstance(third, bytes)
        assert store.get_versioned("a/b") == (b"3", third)
        assert store.put("nothing", b"3", third) == Changed(ABSENT)
        assert store.get("nothing") is None

    def test_create(self) -> None:
        store = self.new_store()
        if not store.capabilities.conditional:
            refusal(StoreError, lambda: store.create("a/b", b"1"))
            assert store.get("a/b") is None
            return
        buffer = bytearray(b"1")
        assert store.create("a/b", buffer) is True
        buffer[:] = b"2"
        assert store.create("a/b", buffer) is False
        assert store.get("a/b") == b"1"
        first = self.version(store, "a/b")
        assert store.put("a/b", b"3", ABSENT) == Changed(first)
        assert isinstance(store.put("a/b", b"3", first), bytes), "what was created is a value as others"
        assert store.create("a/b", b"4") is False
        assert (store.create("a/c", np.arange(3, dtype="u1")), store.create("a/empty", b"")) == (True, True)
        assert [store.get(key) for key in ("a/b", "a/c", "a/empty")] == [b"3", b"\0\1\2", b""]
        assert not store.capabilities.listable or store.list() == ["a/b", "a/c", "a/empty"]
        if store.capabilities.erasable:
            store.erase("a/b")
            assert store.create("a/b", b"5") is True
        for key in NINE_BAD_KEYS:
            refusal(InvalidInputError, lambda key=key: store.create(key, b""))  # type: ignore[misc]
        refusal(InvalidInputError, lambda: store.create("a/d", "text"))  # type: ignore[arg-type]
        refusal(ReadOnlyError, lambda: read_only(store).create("a/d", b""))
        assert store.get("a/d") is None

    def test_conditions_hold_key_by_key(self) -> None:
        store = self.filled(a=b"1", b=b"2")
        if not store.capabilities.expects:
            return
        a, b = self.version(store, "a"), self.version(store, "b")
        store.set("a", b"another")
        now = self.version(store, "a")
        answers = store.put_many(["a", "b", "c", "d"], pieces_of([b"A", b"B", b"C", b"D"]), [a, b, ABSENT, b])
        assert answers[0] == Changed(now)
        assert answers[3] == Changed(ABSENT)
        assert answers[1:3] == [self.version(store, "b"), self.version(store, "c")]
        assert [store.get(key) for key in "abcd"] == [b"another", b"B", b"C", None]

    def test_conditional_erase(self) -> None:
        store = self.filled(a=b"1", b=b"2")
        can = store.capabilities
        if not (can.expects and can.erasable and can.conditional_erase):
            return
        old = self.version(store, "a")
        store.set("a", b"3")
        new = self.version(store, "a")
        assert store.erase_many(["a", "b", "c"], [old, ABSENT, ABSENT]) == [
            Changed(new),
            Changed(self.version(store, "b")),
            None,
        ]
        assert (store.get("a"), store.get("b")) == (b"3", b"2")
        assert store.erase_many(["c", "a", "d"], [new, new, ANY]) == [Changed(ABSENT), None, None]
        assert store.get("a") is None
        assert isinstance(store.put_many(["a"], pieces_of([b"4"]), [ABSENT])[0], bytes)

    def test_a_version_never_comes_back(self) -> None:
        store = self.new_store()
        opened, versions = [], []
        for _ in range(20):
            store.set("a", b"same")
            fetched = store.fetch(["a"], WHOLE)
            opened.append(fetched)
            versions.append(fetched.versions[0])
            if store.capabilities.erasable:
                store.erase("a")
        if store.capabilities.expects:
            assert None not in versions
            assert self.profile.versions_come_back or len(set(versions)) == len(versions), (
                "while a fetch holds an object, no other one has its version"
            )

    def test_update(self) -> None:
        store = self.filled(a=b"1")
        assert store.update("a", lambda old: (old or b"") + b"2") is not None
        assert store.update("b", lambda old: b"new" if old is None else b"wrong") is not None
        assert store.update("a", lambda _: None) is None
        assert (store.get("a"), store.get("b")) == (b"12", b"new")

    def test_update_repeats_what_was_overtaken(self) -> None:
        store = self.filled(a=b"1")
        if not store.capabilities.expects:
            return
        old_values: list[bytes | None] = []

        def change(old: bytes | None) -> bytes:
            old_values.append(old)
            if len(old_values) == 1:
                store.set("a", b"between")
            return (old or b"") + b"!"

        store.update("a", change)
        assert old_values == [b"1", b"between"]
        assert store.get("a") == b"between!"

    # --- appending -----------------------------------------------------------------------------------------------------------------

    def test_append(self) -> None:
        store = self.filled_with({"a": b"0123", "empty": b""})
        first = self.appended(store, "a", b"45")
        assert (store.get("a"), store.get_versioned("a")) == (b"012345", (b"012345", first))
        assert self.appended(store, "a", b"67") != first
        for key, value in (("empty", b"x"), ("new/key", b"yz"), ("a", b"")):
            self.appended(store, key, value)
        assert [store.get(key) for key in ("a", "empty", "new/key")] == [b"01234567", b"x", b"yz"]
        buffer = bytearray(b"!")
        store.append("a", buffer)
        buffer[:] = b"?"
        assert store.get("a") == b"01234567!"

    def test_conditional_append(self) -> None:
        store = self.filled(a=b"1")
        if not store.capabilities.conditional:
            refusal(StoreError, lambda: store.append("a", b"2", ABSENT))
            return
        first = self.version(store, "a")
        assert store.append("a", b"2", ABSENT) == Changed(first)
        second = store.append("a", b"2", first)
        assert second == self.version(store, "a")
        assert store.append("a", b"3", first) == Changed(second)
        assert store.append("b", b"3", first) == Changed(ABSENT)
        assert isinstance(store.append("b", b"3", ABSENT), bytes)
        assert (store.get("a"), store.get("b")) == (b"12", b"3")

    def appended(self, store: Store, key: str, value: bytes) -> bytes | None:
        answer = store.append(key, value)
        assert not isinstance(answer, Changed)
        return answer

    # --- partial writes ------------------------------------------------------------------------------------------------------------

    def test_set_partial_values(self) -> None:
        store = self.filled_with({"a": b"0123456789", "b/c": b"xyz"})
        store.set_partial_values(
            [("a", 8, b"ABC"), ("b/c", 0, b"X"), ("a", 2, bytearray(b"--")), ("new", 2, b"c"), ("new", 0, b"ab")]
        )
        assert [store.get(key) for key in ("a", "b/c", "new")] == [b"01--4567ABC", b"Xyz", b"abc"]
        store.set_partial_values([("a", 11, b"+"), ("a", 12, b"+"), ("a", 3, b""), ("empty", 0, b"")])
        assert (store.get("a"), store.get("empty")) == (b"01--4567ABC++", b"")
        store.set_partial_values(iter([]))

    def test_bad_partial_writes_change_nothing(self) -> None:
        store = self.filled(a=b"0123", b=b"xyz")
        for wrong in (
            [("b", 0, b"X"), ("a", 0, b"12"), ("a", 1, b"3")],
            [("b", 0, b"X"), ("a", 1, b"1"), ("a", 1, b"1")],
            [("b", 0, b"X"), ("a", 5, b"1")],
            [("b", 0, b"X"), ("a", -1, b"1")],
            [("b", 0, b"X"), ("new", 1, b"1")],
            [("b", 0, b"X"), ("a", 2**70, b"1")],
        ):
            error = refusal(InvalidInputError, lambda wrong=wrong: store.set_partial_values(wrong))  # type: ignore[misc]
            assert error.key in {"a", "new"}
            assert (store.get("a"), store.get("b"), store.get("new")) == (b"0123", b"xyz", None)

    def test_invalid_partial_writes_are_refused(self) -> None:
        store = self.filled(a=b"0123")
        for wrong in ([("a", b"1")], [5], [("a", "0", b"1")], [("a", 0, "text")]):
            refusal(InvalidInputError, lambda wrong=wrong: store.set_partial_values(wrong))  # type: ignore[misc]
        assert store.get("a") == b"0123"

    def test_set_partial_values_of_many_keys(self) -> None:
        store = self.new_store()
        store.set_partial_values([(f"k/{i}", 0, b"%d" % i) for i in range(100)])
        refusal(
            InvalidInputError,
            lambda: store.set_partial_values([(f"k/{i}", 2 if i > 90 else 3, b"!") for i in range(100)]),
        )
        assert store.get_partial_values([(f"k/{i}", (0, None)) for i in range(100)]) == [b"%d" % i for i in range(100)]

    def test_operations_say_the_same(self) -> None:
        """The fallbacks of the document, in both directions: the operations are equivalent to each other."""
        store = self.new_store()
        store.set("a", b"one")
        store.set_partial_values([("b", 0, b"one")])
        for key in ("a", "b"):
            assert [store.get(key)] == store.get_partial_values([(key, (0, None))]) == [b"one"]
        store.set("a", b"a longer value")
        store.set("a", b"short")
        store.set_partial_values([("b", 0, b"short")])
        assert store.get("a") == store.get("b") == b"short", "set cuts what was longer"
        store.set_partial_values([("b", 1, b"--")])
        assert store.get("b") == b"s--rt", "and a partial value does not"
        if store.capabilities.erasable:
            store.erase("a")
            store.erase_values(["b"])
            assert store.get_partial_values([("a", (0, 1)), ("b", (0, 1))]) == [None, None]

    # --- refusals ------------------------------------------------------------------------------------------------------------------

    def test_bad_keys_are_refused_by_writes(self) -> None:
        store = self.filled(a=b"1")
        before = store.list() if store.capabilities.listable else []
        for key in NINE_BAD_KEYS:
            refusal(InvalidInputError, lambda key=key: store.set(key, b"2"))  # type: ignore[misc]
            refusal(InvalidInputError, lambda key=key: store.update(key, lambda _: b"2"))  # type: ignore[misc]
            refusal(InvalidInputError, lambda key=key: store.append(key, b"2"))  # type: ignore[misc]
            refusal(InvalidInputError, lambda key=key: store.erase(key))  # type: ignore[misc]
            refusal(InvalidInputError, lambda key=key: store.erase_values(["a", key]))  # type: ignore[misc]
            refusal(InvalidInputError, lambda key=key: store.set_partial_values([("a", 0, b"2"), (key, 0, b"2")]))  # type: ignore[misc]
        assert store.get("a") == b"1"
        assert not store.capabilities.listable or store.list() == before

    def test_read_only(self) -> None:
        inner = self.filled(a=b"1")
        store = read_only(inner)
        assert store.capabilities == inner.capabilities._replace(writable=False, erasable=False)
        assert read_only(store) is store
        for call in (
            lambda: store.set("a", b"2"),
            lambda: store.put("a", b"2", ABSENT),
            lambda: store.update("a", lambda _: b"2"),
            lambda: store.set_partial_values([("a", 0, b"2")]),
            lambda: store.erase("a"),
            lambda: store.erase_values(["a"]),
            lambda: store.erase_prefix(""),
            lambda: store.put_many(["a"], pieces_of([b"2"]), [ANY]),
            lambda: store.append("a", b"2"),
            lambda: store.erase_many(["a"], [ANY]),
            lambda: store.copy_in(["b"], store, ["a"], shares=True),
            lambda: store.copy_in(["b"], inner, ["a"]),
            lambda: put_parts(store, "a", 1, iter([b"2"])),
        ):
            refusal(ReadOnlyError, call)
        assert store.get("a") == inner.get("a") == b"1"
        assert not inner.capabilities.listable or store.list() == ["a"]
        assert store.get_versioned("a") == inner.get_versioned("a")

    def test_capabilities_are_values(self) -> None:
        store = self.new_store()
        assert isinstance(store.capabilities, Capabilities)
        assert store.capabilities == store.capabilities
        assert store.capabilities.readable, "StoreTests reads what it writes"
        assert store.capabilities.writable, "StoreTests fills the store that it tests"

    def test_pickle(self) -> None:
        store = self.filled_with({"a/b": b"1"})
        version = store.get_versioned("a/b")
        try:
            other = pickle.loads(pickle.dumps(store))
        except InvalidInputError as error:  # a store that must be unique, such as a writable session
            assert error.hint is not None
            return
        assert other.get_versioned("a/b") == version
        assert other.capabilities == store.capabilities
        other.set("a/b", b"2")
        assert other.get("a/b") == b"2"
