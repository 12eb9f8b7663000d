"""StoreTests, part one: fetch, get, partial values and listing."""

from __future__ import annotations

import numpy as np

from frazil.errors import InvalidInputError, StoreError
from frazil.stores.store import Store
from frazil.stores.transfer.content import read_values
from frazil.stores.values import ABSENT, ABSENT_KEY, FOUND, MISSING, STALE, UNKNOWN, Page
from frazil.testing.checks import refusal
from frazil.testing.store_base import NINE_BAD_KEYS, StoreTestBase, columns

TREE = ["b", "a/b", "a/c", "a/d/e", "a/f/g", "a/d/h/i", "a!/x", "a0", "é/\U0001f600", "ab", "Z", "a/d0"]


class StoreReadingTests(StoreTestBase):
    """Tests of reading and listing. Stores that can only be read define filled_with besides make_store: a store of theirs that holds these values."""

    # --- get -------------------------------------------------------------------------------------------------------------------------

    def test_get_what_is_there_and_what_is_not(self) -> None:
        store = self.filled_with({"a/b": b"hello", "c": b""})
        assert store.get("a/b") == b"hello"
        assert store.get("c") == b"", "an empty value is a value"
        assert store.get("a") is None, "a prefix is not a key"
        assert store.get("a/b/c") is None, "nothing is below a key"
        assert store.get("d") is None

    def test_get_versioned(self) -> None:
        store = self.filled(a=b"one")
        assert store.get_versioned("nothing") is None
        found = store.get_versioned("a")
        assert found is not None
        assert found[0] == b"one"
        assert found[1] != ABSENT

    def test_exists_and_sizes(self) -> None:
        store = self.filled_with({"a": b"12345", "b/c": b""})
        assert [store.exists(key) for key in ("a", "b/c", "b", "d")] == [True, True, False, False]
        assert store.sizes(["b/c", "d", "a", "b", "a"]).tolist() == [0, -1, 5, -1, 5]
        assert store.sizes([]).tolist() == []

    def test_large_value(self) -> None:
        value = np.random.default_rng(7).bytes(5_000_001)
        store = self.filled(big=value)
        assert store.get("big") == value
        assert store.get_partial_values([("big", (4_999_990, None)), ("big", (-3, None))]) == [
            value[4_999_990:],
            value[-3:],
        ]

    # --- partial values ------------------------------------------------------------------------------------------------------------

    def test_partial_values(self) -> None:
        store = self.filled_with({"a": b"0123456789", "b/c": b"", "d": b"xyz"})
        cases: list[tuple[str, tuple[int, int | None], bytes | None]] = [
            ("a", (0, None), b"0123456789"),
            ("d", (1, 1), b"y"),
            ("a", (3, 4), b"3456"),
            ("a", (3, 0), b""),
            ("a", (10, None), b""),
            ("a", (10, 3), b""),
            ("a", (8, 100), b"89"),
            ("a", (100, 3), b""),
            ("a", (100, None), b""),
            ("a", (-3, None), b"789"),
            ("a", (-3, 2), b"78"),
            ("a", (-3, 100), b"789"),
            ("a", (-100, None), b"0123456789"),
            ("a", (-100, 100), b"0123456789"),
            ("a", (-12, 4), b"01"),
            ("a", (-100, 4), b""),
            ("b/c", (0, None), b""),
            ("b/c", (-4, None), b""),
            ("nothing", (0, None), None),
            ("nothing", (-4, 4), None),
            ("b", (0, 1), None),
        ]
        assert store.get_partial_values([(key, span) for key, span, _ in cases]) == [value for _, _, value in cases]
        assert store.get_partial_values(iter([])) == []

    def test_partial_values_come_in_the_order_asked_for(self) -> None:
        store = self.filled_with({"b": b"second", "a": b"first"})
        ranges: list[tuple[str, tuple[int, int | None]]] = [
            ("b", (0, 2)),
            ("a", (1, None)),
            ("b", (0, 2)),
            ("c", (0, 1)),
            ("b", (3, 1)),
        ]
        assert store.get_partial_values(ranges) == [b"se", b"irst", b"se", None, b"o"]
        assert store.get_partial_values(ranges[::-1]) == [b"o", None, b"se", b"irst", b"se"]

    def test_partial_values_of_many_keys(self) -> None:
        store = self.filled_with({f"k/{i}": b"%d" % i for i in range(100)})
        ranges = [(f"k/{i}", (0, None)) for i in range(100)] + [("k/7", (-1, None)), ("none", (0, 1))]
        assert store.get_partial_values(ranges) == [b"%d" % i for i in range(100)] + [b"7", None]

    def test_bad_ranges(self) -> None:
        store = self.filled(a=b"0123")
        refusal(InvalidInputError, lambda: store.get_partial_values([("a", (0, -2))]))
        refusal(InvalidInputError, lambda: store.get_partial_values([("a", (2**70, None))]))
        refusal(InvalidInputError, lambda: store.get_partial_values([("a", (0.5, None))]))  # type: ignore[list-item]
        refusal(InvalidInputError, lambda: store.get_partial_values([("a", 1)]))  # type: ignore[list-item]
        refusal(InvalidInputError, lambda: store.get_partial_values([("a", (0,))]))  # type: ignore[list-item]

    # --- fetch ---------------------------------------------------------------------------------------------------------------------

    def test_fetch_with_repeated_names_and_spans(self) -> None:
        store = self.filled(a=b"0123456789", b=b"xyz")
        names = ["b", "nothing", "a", "b"]
        spans = [(2, 3, 2), (0, 0, -1), (1, 0, -1), (3, -2, -1), (2, -4, 4), (2, -40, -1)] * 3
        fetched, values = self.fetch(store, names, *spans)
        assert list(fetched.status) == [FOUND, ABSENT_KEY, FOUND, FOUND]
        assert values == [b"34", b"xyz", None, b"yz", b"6789", b"0123456789"] * 3
        assert fetched.sizes.dtype == fetched.rows.dtype == np.int64
        assert fetched.sizes.tolist() == [3, -1, 10, 3]
        assert fetched.rows.shape == (18, 3)
        assert (fetched.rows[2::6, 0] == MISSING).all()
        assert fetched.versions[0] == fetched.versions[3]
        assert fetched.versions[1] is None

    def test_fetch_without_spans_looks_up(self) -> None:
        store = self.filled(a=b"0123456789")
        fetched, values = self.fetch(store, ["a", "b"])
        assert (list(fetched.status), fetched.sizes.tolist(), values) == ([FOUND, ABSENT_KEY], [10, -1], [])
        fetched, values = self.fetch(store, [])
        assert (list(fetched.status), values) == ([], [])

    def test_fetch_expecting_a_version(self) -> None:
        store = self.filled(a=b"one", b=b"two")
        if not (store.capabilities.expects and store.capabilities.writable):
            return
        version = self.version(store, "a")
        names, spans = ["a", "b", "c", "d"], [(0, 0, -1), (1, 0, -1), (2, 0, -1), (3, 0, -1)]
        expect = [version, None, ABSENT, version]
        fetched, values = self.fetch(store, names, *spans, expect=expect)
        assert list(fetched.status) == [FOUND, FOUND, ABSENT_KEY, STALE]
        assert values == [b"one", b"two", None, None]
        store.set("a", b"six")
        store.set("c", b"new")
        fetched, values = self.fetch(store, names, *spans, expect=expect)
        assert list(fetched.status) == [STALE, FOUND, STALE, STALE], "of equal length, and still another version"
        assert values == [None, b"two", None, None]
        assert fetched.rows[0, 0] == MISSING

    def test_held_objects_stay_as_they_were(self) -> None:
        store = self.filled(a=b"first value", b=b"gone", c=b"kept")
        names = ["a", "b", "c", "d"]
        opened, tails = self.fetch(store, names, (0, -5, 5), (1, -1, 1), (2, 1, 2))
        assert tails == [b"value", b"e", b"ep"]
        spans = columns((0, 0, 5), (0, 0, -1), (1, 0, -1), (2, 0, 2), (3, 0, -1))
        before = [b"first", b"first value", b"gone", b"ke", None]
        again = store.fetch(names, spans, continue_from=opened)
        assert read_values(again, names, spans) == before
        assert list(again.status) == [FOUND, FOUND, FOUND, ABSENT_KEY]
        if not store.capabilities.writable:
            return
        store.set("a", b"second")
        store.set("d", b"new")
        if store.capabilities.erasable:
            store.erase("b")
        again = store.fetch(names, spans, continue_from=opened)
        values = read_values(again, names, spans)
        for value, name, old in zip(values, spans[:, 0].tolist(), before, strict=True):
            # a value that cannot be kept, or is in one object with the replaced one, is reported as another one
            state = FOUND if name != 3 else ABSENT_KEY
            assert (again.status[name], value) in {(state, old), (STALE, None)}
        assert all(
            again.versions[i] == opened.versions[i] for i, status in enumerate(again.status) if status == FOUND
        ), "what is held has one version"

    def test_fetch_once(self) -> None:
        store = self.filled(a=b"0123456789")
        fetched = store.fetch(["a", "b"], columns((0, 2, 3), (1, 0, -1)), single_read=True)
        assert fetched.status[0] in {FOUND, UNKNOWN}
        assert fetched.status[1] in {ABSENT_KEY, UNKNOWN}
        assert fetched.rows[0, 0] != MISSING
        assert (fetched.rows[1, 0] == MISSING) == (fetched.status[1] == ABSENT_KEY)

    # --- listing -------------------------------------------------------------------------------------------------------------------

    def test_lists_are_sorted_by_their_bytes(self) -> None:
        store = self.filled_with(dict.fromkeys(TREE, b"."))
        if not store.capabilities.listable:
            for call in (store.list, lambda: store.list_prefix("a/"), lambda: store.list_dir("a/"), store.is_empty):
                refusal(StoreError, call)
            return
        ordered = sorted(TREE, key=str.encode)
        assert store.list() == ordered
        assert store.list_prefix("a/") == ["a/b", "a/c", "a/d/e", "a/d/h/i", "a/d0", "a/f/g"]
        assert store.list_prefix("a/d/") == ["a/d/e", "a/d/h/i"]
        assert store.list_prefix("a/b/") == store.list_prefix("nothing/") == []

    def test_listing_in_pages(self) -> None:
        store = self.filled_with(dict.fromkeys(TREE, b"."))
        if not store.capabilities.listable:
            return
        below = store.list_prefix("a/")
        for delimited, rows in ((False, below), (True, ["a/b", "a/c", "a/d/", "a/d0", "a/f/"])):
            assert self._listed(store, "a/", delimited, None) == rows
            for limit in (1, 2, 5, 6, 7):
                assert self._listed(store, "a/", delimited, limit) == rows
        assert self._after(store, "a/c") == below[2:], "`after` is not in the list"
        assert self._after(store, "a/c0") == below[2:], "nor need it be a key"
        assert self._after(store, "b") == []
        assert self._after(store, "Z") == below
        assert list(store.list_page("a/", "Z", limit=1).keys) == ["a/b"]
        following = store.list_page("a/", limit=2).next
        assert following is not None
        for _ in range(2):
            assert list(store.list_page("a/", following, limit=2).keys) == below[2:4], "a page may be asked for again"

    @staticmethod
    def _after(store: Store, after: str) -> list[str]:
        return [key for page in store.list_pages("a/", after) for key in page.keys]

    @staticmethod
    def _listed(store: Store, prefix: str, delimited: bool, limit: int | None) -> list[str]:
        rows: list[str] = []
        following: str | None = ""
        while following is not None:
            page = store.list_page(prefix, following, delimited=delimited, limit=limit)
            assert limit is None or len(page.keys) <= limit
            rows += page.keys
            following = page.next
        return rows

    def test_details_of_a_listing(self) -> None:
        values = {"a/b": b"12345", "a/c": b"", "a/d/e": b"1", "f": b"xy"}
        store = self.filled_with(values)
        if not store.capabilities.listable:
            return
        for prefix, delimited, rows in (
            ("", False, ["a/b", "a/c", "a/d/e", "f"]),
            ("a/", True, ["a/b", "a/c", "a/d/"]),
            ("none/", False, []),
        ):
            pages = list(store.list_pages(prefix, delimited=delimited, details=True))
            assert [row for page in pages for row in page.keys] == rows
            for page in pages:
                self._check_details(store, page)

    @staticmethod
    def _check_details(store: Store, page: Page) -> None:
        assert page.prefixes().tolist() == [row.endswith("/") for row in page.keys]
        assert page.sizes is not None
        assert page.versions is not None
        assert page.modified is not None
        assert page.sizes.dtype == page.modified.dtype == np.int64
        keys = [row for row in page.keys if not row.endswith("/")]
        sizes = dict(zip(keys, store.sizes(keys).tolist(), strict=True))
        assert page.sizes.tolist() == [sizes.get(row, -1) for row in page.keys]
        assert len(page.versions) == len(page.modified) == len(page.keys)
        versions = dict(zip(keys, store.fetch(keys, columns()).versions, strict=True))
        for row, version, modified in zip(page.keys, page.versions, page.modified.tolist(), strict=True):
            assert version in {None, versions.get(row)}, "of a value that has not changed it is the version of a fetch"
            assert modified == -1 or (row in versions and modified > 0)

    def test_list_dir(self) -> None:
        store = self.filled_with(dict.fromkeys(TREE, b"."))
        if not store.capabilities.listable:
            return
        assert store.list_dir("a/") == (["a/b", "a/c", "a/d0"], ["a/d/", "a/f/"])
        assert store.list_dir("") == (["Z", "a0", "ab", "b"], ["a!/", "a/", "é/"])
        assert store.list_dir("a/d/") == (["a/d/e"], ["a/d/h/"])
        assert store.list_dir("b/") == store.list_dir("nothing/") == ([], [])

    def test_the_examples_of_the_document(self) -> None:
        """Zarr v3 draft, Abstract store interface: list_prefix and list_dir."""
        store = self.filled_with(dict.fromkeys(("a/b", "a/c/d", "e/f/g"), b"."))
        if not store.capabilities.listable:
            return
        assert store.list_prefix("a/") == ["a/b", "a/c/d"]
        store = self.filled_with(dict.fromkeys(("a/b", "a/c", "a/d/e", "a/f/g"), b"."))
        assert store.list_dir("a/") == (["a/b", "a/c"], ["a/d/", "a/f/"])
        assert store.list_dir("b/") == ([], [])

    def test_a_prefix_goes_with_its_last_key(self) -> None:
        store = self.filled_with({"a/b/c/d": b"1", "a/e": b"2"})
        if not (store.capabilities.listable and store.capabilities.erasable):
            return
        assert store.list_dir("a/") == (["a/e"], ["a/b/"])
        store.erase("a/b/c/d")
        assert store.list_dir("a/") == (["a/e"], [])
        assert store.list_dir("a/b/") == ([], [])
        store.erase("a/e")
        assert store.list_dir("") == ([], [])
        assert store.is_empty()

    def test_is_empty(self) -> None:
        store = self.new_store()
        if not store.capabilities.listable:
            return
        assert store.is_empty()
        assert store.list() == []
        assert store.list_dir("") == ([], [])
        store = self.filled_with({"a/b": b""})
        assert not store.is_empty()
        assert not store.is_empty("a/")
        assert store.is_empty("b/")
        assert store.is_empty("a/b/")

    # --- keys ----------------------------------------------------------------------------------------------------------------------

    def test_bad_keys_are_refused_by_reads(self) -> None:
        store = self.filled(a=b"1")
        for key in NINE_BAD_KEYS:
            for call in (store.get, store.get_versioned, store.exists):
                error = refusal(InvalidInputError, lambda call=call, key=key: call(key))  # type: ignore[misc]
                assert error.key is not None
                assert error.hint is not None
            refusal(InvalidInputError, lambda key=key: store.get_partial_values([("a", (0, 1)), (key, (0, 1))]))  # type: ignore[misc]
        refusal(InvalidInputError, lambda: store.get(b"a"))  # type: ignore[arg-type]

    def test_bad_prefixes_are_refused(self) -> None:
        store = self.filled(a=b"1")
        for prefix in ("a", "/", "//", "a//", "../", "a/./", "a\0/"):
            for call in (store.list_prefix, store.list_dir, store.erase_prefix, store.is_empty):
                refusal(InvalidInputError, lambda call=call, prefix=prefix: call(prefix))  # type: ignore[misc]
        assert store.get("a") == b"1"

    def test_keys_that_the_document_allows(self) -> None:
        """a-z, A-Z, 0-9 and /.-_ in any order, but no "/" at the end. This port adds the rule that no name is empty, "." or ".."."""
        letters = "".join(map(chr, range(ord("a"), ord("z") + 1)))
        keys = [
            "0123456789",
            letters,
            letters.upper() + "2",
            ".-_",
            "_",
            "-.-",
            "..a",
            "a..",
            "c0.1.2",
            "data/x/c1/0",
            "meta/x.array.json",
        ]
        store = self.filled_with({key: key.encode() for key in keys})
        assert store.get_partial_values([(key, (0, None)) for key in keys]) == [key.encode() for key in keys]
        if store.capabilities.listable:
            assert store.list() == sorted(keys)

    def test_values_of_all_bytes(self) -> None:
        value = bytes(range(256))
        store = self.filled_with({"a": value, "b": value[::-1]})
        assert (store.get("a"), store.get("b")) == (value, value[::-1])

    def test_keys_of_all_kinds(self) -> None:
        keys = [
            "with space",
            "-",
            "...",
            "a.b-c_D",
            "x" * 200,
            "ünï/çødé",
            "日本/語",
            "%2e%2e",
            "a\\b",
            "c/0/1",
            "a:b",
            "~",
            "é",
            "e\u0301",
        ]
        store = self.filled_with({key: key.encode() for key in keys})
        assert [store.get(key) for key in keys] == [key.encode() for key in keys]
        if store.capabilities.listable:
            assert store.list() == sorted(keys)

    def test_case(self) -> None:
        if not self.new_store().capabilities.case_sensitive:
            return
        store = self.filled_with({"foo": b"a", "FOO": b"b"})
        assert (store.get("foo"), store.get("FOO"), store.get("Foo")) == (b"a", b"b", None)
        if store.capabilities.erasable:
            store.erase("foo")
            assert (store.get("foo"), store.get("FOO")) == (None, b"b")
