"""What users and the rest of Frazil do with a store, written once on top of the port (port.py): single keys, whole values, changes, listings.

The rules of partial values are in operations/partial_values.py. A store implements the port, may have a shorter way for `copy_in`, and overrides little else
here: `require` and `direct`, which a store may answer without determining all its capabilities, and `write_parts`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self, final

import numpy as np

from frazil.base.retry import FREE_FILES, WRITES, attempts, outrun, when_files_are_free
from frazil.errors import ReadOnlyError, StoreError
from frazil.stores.keys.names import check_key, check_prefix, distinct_keys
from frazil.stores.local.kernel_results import file_version, read_documents
from frazil.stores.operations import partial_values
from frazil.stores.port import StorePort
from frazil.stores.transfer import composed_values, value_copies
from frazil.stores.transfer.content import read_values
from frazil.stores.values import (
    ABSENT,
    ANY,
    CREATE_ONLY,
    FOUND,
    MISSING,
    NO_SPANS,
    STALE,
    WHOLE,
    Changed,
    Columns,
    NameColumn,
    Page,
    Pieces,
    Version,
    check_not_lost,
    no_names,
    pages,
    pieces_of,
    up_to,
    whole_spans,
)

if TYPE_CHECKING:
    from frazil._kernel import Buffer

_LARGEST = 2**24  # bytes of a document, the default of get_many; a store's bytes_in_flight may be more


class _ReadOnly:
    """zarr-python's name for a capability. No property, as a store of a user may have an attribute of this name."""

    def __get__(self, store: Store | None, _: object) -> bool:
        return store is not None and not store.capabilities.writable


class Store(StorePort):
    """Keys to bytes: the port, and the operations built on it. Keys and prefixes are checked here.

    read_only  whether writes raise ReadOnlyError
    Raises InvalidInputError for bad keys, StoreError for what the store cannot do, ReadOnlyError where it is not writable."""

    __slots__ = ()
    read_only: bool = _ReadOnly()  # type: ignore[assignment] # which gives one

    def __str__(self) -> str:
        """The location as a user would name it, for messages. The repr, where a store has no such name."""
        return repr(self)

    def close(self) -> None:
        """Does nothing, as stores hold nothing open; a ZipStore completes its archive."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- reading -------------------------------------------------------------------------------------------------------------------

    @final
    def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        check_key(key)
        self.require("readable")
        return self._read([key], WHOLE)[0]

    @final
    def get_versioned(self, key: str) -> tuple[bytes, Version | None] | None:
        """The value of a key and its version, in one request; None without a value. To change a value that you read, see `update`."""
        check_key(key)
        self.require("readable")
        names = [key]
        fetched = self.fetch(names, WHOLE)
        value = read_values(fetched, names, WHOLE)[0]
        return None if value is None else (value, fetched.versions[0])

    @final
    def get_many(self, keys: Sequence[str], largest: int | None = _LARGEST) -> builtins.list[bytes | None]:
        """The values of keys, in that order; None for a missing key. largest: most bytes of a value (None: no limit), which a store that downloads enforces."""
        for key in keys:
            check_key(key)
        direct = self._read_direct(keys)
        if direct is not None:
            return direct
        self.require("readable")
        values: list[bytes | None] = []
        length = -1 if largest is None else up_to(largest)
        for page in pages(keys):
            names = builtins.list(keys[page])
            values += when_files_are_free(partial(self._read, names, whole_spans(len(names), length)), FREE_FILES)
        return values

    def _read_direct(self, keys: Sequence[str]) -> builtins.list[bytes | None] | None:
        """The values of keys in the store's own way, if it has one without a fetch; else None."""
        root = self.kernel_root()
        return None if root is None else when_files_are_free(partial(read_documents, root.fd, keys), FREE_FILES)

    def _read(self, names: Sequence[str], spans: Columns) -> builtins.list[bytes | None]:
        # Sizes and versions are not needed, but only the kernel could read an answer of local files without them.
        single_read = self.kernel_root() is None and not self.capabilities.local
        return read_values(self.fetch(names, spans, single_read=single_read), names, spans)

    @final
    def get_partial_values(
        self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]
    ) -> builtins.list[bytes | None]:
        """The bytes of each (key, (start, length)), in that order; None for a missing key. A length of None means up to the end, a start < 0
        counts from the end. The part beyond the end of a value is cut off."""
        self.require("readable")
        requested = partial_values.checked_ranges(key_ranges)
        numbers_of: dict[str, builtins.list[int]] = {}  # for each key, those of its ranges
        for number, (key, _, _) in enumerate(requested):
            numbers_of.setdefault(key, []).append(number)
        values: list[bytes | None] = [None] * len(requested)
        keys = builtins.list(numbers_of)
        for page in pages(keys):
            names = keys[page]
            numbers = [number for key in names for number in numbers_of[key]]
            rows = {key: row for row, key in enumerate(names)}
            spans = np.array([(rows[requested[number][0]], *requested[number][1:]) for number in numbers], np.int64)
            for number, value in zip(numbers, self._read(names, spans), strict=True):
                values[number] = value
        return values

    def exists(self, key: str) -> bool:
        """Whether a key has a value; one request. NodeStore, whose documents may be unreadable, overrides it."""
        check_key(key)
        self.require("readable")
        return self.fetch([key], NO_SPANS, single_read=not self.capabilities.direct).status[0] == FOUND

    @final
    def sizes(self, keys: Sequence[str]) -> Columns:
        """Bytes of each value, int64; -1 for a missing key."""
        self.require("readable")
        for key in keys:
            check_key(key)
        sizes = np.empty(len(keys), np.int64)
        for page in pages(keys):
            fetched = self.fetch(keys[page], NO_SPANS)
            sizes[page] = np.where(np.fromiter(fetched.status, np.int64) == FOUND, fetched.sizes, -1)
        return sizes

    @final
    def has_version(self, key: str, version: Version) -> bool:
        """Whether the value of a key has this version. One request, or a look at the file; arrays check their document before they write. The key is valid.

        A store may return False for the current version: then read the value."""
        root = self.kernel_root()
        if root is not None:
            return file_version(root.fd, key) == version
        return self.fetch([key], NO_SPANS).versions[0] == version

    # --- writing -------------------------------------------------------------------------------------------------------------------

    @final
    def set(self, key: str, value: Buffer) -> None:
        """Stores a value under a key, whatever its old value."""
        self.put(key, value)

    @final
    def put(self, key: str, value: Buffer, expect: Version | None = ANY) -> Version | Changed:
        """Stores a value if the key has the version `expect` (ANY; ABSENT; CREATE_ONLY; a version). Returns the new version, or the present one."""
        self._check_put(key, expect)
        return self.put_many([key], pieces_of([value]), [expect])[0]

    @final
    def create(self, key: str, value: Buffer) -> bool:
        """Stores a value under a key that has none and that is never replaced. Returns whether it was stored (see CREATE_ONLY in `put_many`)."""
        return not isinstance(self.put(key, value, CREATE_ONLY), Changed)

    def create_after(self, others: Mapping[str, Buffer], key: str, value: Buffer) -> bool:
        """As create, but stores the values to which this one refers before it.

        others  these values by valid keys, stored as by put_own: no crash leaves the key without them. If one fails, the key is certainly not stored
                (StoreError.done is False)"""
        try:
            self.put_own(builtins.list(others), pieces_of(builtins.list(others.values())))
        except StoreError as error:
            error.done = False
            raise
        return self.create(key, value)

    @final
    def put_own(self, names: Sequence[str], pieces: Pieces) -> None:
        """Stores values under valid keys that no other process writes, such as new ids, and that are never replaced: existing values stay. Fails as
        put_many."""
        # a disk needs no locks for CREATE_ONLY; a request is repeated when its answer is lost, and a condition would make the repetition fail
        expect = CREATE_ONLY if self.capabilities.local else ANY
        self.put_many(names, pieces, [expect] * len(names))

    @final
    def append(self, key: str, value: Buffer, expect: Version | None = ANY) -> Version | Changed:
        """As put, but appends to the present value. Only on a local disk the old bytes do not pass through this process."""
        self._check_put(key, expect)
        new = pieces_of([value])
        conditional = self.capabilities.expects
        expected = expect if conditional else ANY
        for _ in attempts(WRITES):
            old = self.fetch([key], WHOLE, expect=[expected])  # kept until versions are compared
            present = old.versions[0] or ABSENT
            if old.status[0] == STALE:
                if expected is ANY:  # replaced while it was read
                    continue
                return Changed(present)
            sources, rows = composed_values.joined_sources(old.sources, new.sources, new.rows)
            rows = np.concatenate((old.rows[old.rows[:, 0] != MISSING], rows))
            whole = composed_values.composed(sources, rows, np.array([0, len(rows)], np.int64))
            answer = self.put_many([key], whole, [present if conditional else ANY])[0]
            if not isinstance(answer, Changed) or expected is not ANY:
                return answer
            check_not_lost(key, answer)
        raise outrun("the value", key, WRITES)

    def _check_put(self, key: str, expect: Version | None) -> None:
        check_key(key)
        self.require("writable")
        if expect is not ANY:
            self.require("conditional")

    @final
    def update(self, key: str, change: Callable[[bytes | None], Buffer | None]) -> Version | None:
        """Reads, changes and stores a value, and repeats this where another writer was faster, so that no write is lost (where the store is conditional).

        change  gets the present value (None: no value), returns the new one, or None to keep the present one; it may be called several times
        Returns the new version, None if nothing was changed."""
        check_key(key)
        return self.update_many([key], lambda _, old: change(old))[0]

    def update_many(
        self, keys: Sequence[str], change: Callable[[str, bytes | None], Buffer | None]
    ) -> builtins.list[Version | None]:
        """`update` of several keys, which are valid and distinct; at most as many as may be open at once. KeepingStore overrides it: its values may be old."""
        self.require("readable")
        self.require("writable")
        conditional = self.capabilities.expects
        versions: dict[str, Version | None] = dict.fromkeys(keys)
        names = builtins.list(keys)
        for _ in attempts(WRITES):
            spans = whole_spans(len(names))
            fetched = self.fetch(names, spans)  # kept until put_many has compared versions (Fetched.version_may_repeat)
            old = read_values(fetched, names, spans)
            new = {key: value for key, value in zip(names, map(change, names, old), strict=True) if value is not None}
            present = dict(zip(names, (version or ABSENT for version in fetched.versions), strict=True))
            expect = [present[key] if conditional else ANY for key in new]
            answers = self.put_many(builtins.list(new), pieces_of(builtins.list(new.values())), expect) if new else []
            del fetched
            names = []
            for key, answer in zip(new, answers, strict=True):
                if isinstance(answer, Changed):
                    check_not_lost(key, answer)
                    names.append(key)
                else:
                    versions[key] = answer
            if not names:
                return builtins.list(versions.values())
        raise outrun("the value", names[0], WRITES)

    @final
    def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        """Stores (key, start, value): `value` becomes the bytes of the key's value from `start`; the value may grow. Bytes of other writers are kept (see
        `update`). Raises InvalidInputError, before anything is written, for ranges of one key that overlap, and for a start < 0 or beyond the end
        (for a missing key: other than 0)."""
        self.write_parts(partial_values.grouped_writes(key_start_values))

    def write_parts(self, writes: partial_values.Writes) -> None:
        """As set_partial_values, for ranges that are checked against each other: reads and puts whole values. A store that writes parts in its own way
        overrides it."""
        self.require("readable")
        self.require("writable")
        names = builtins.list(writes)
        parts = builtins.list(pages(names))
        if len(parts) > 1:  # nothing is written if one leaves a gap
            for key, size in zip(names, self.sizes(names).tolist(), strict=True):
                partial_values.check_starts(key, writes[key], max(size, 0))
        for page in parts:
            self.update_many(names[page], lambda key, old: partial_values.patched(key, old or b"", writes[key]))

    @final
    def erase(self, key: str) -> None:
        """Removes a key and its value; no error for a missing key."""
        self.erase_values([key])

    @final
    def erase_values(self, keys: Iterable[str]) -> None:
        """Removes keys and their values."""
        names = distinct_keys(keys)
        self.require("erasable")
        for page in pages(names):
            self.erase_many(names[page], [ANY] * len(names[page]))

    def erase_immutable(self, keys: Sequence[str]) -> None:
        """Removes valid, distinct keys whose values are never replaced, so that no writer can interfere. One call, as servers take 1000 per request."""
        self.require("erasable")
        self.erase_many(keys, [ANY] * len(keys))

    @final
    def erase_prefix(self, prefix: str) -> None:
        """Removes all keys that begin with prefix; "" is everything."""
        check_prefix(prefix)
        if self.capabilities.erases_prefixes:
            self.erase_many([prefix], [ANY])
            return
        self.require("erasable")
        self.require("listable")
        for page in self.list_pages(prefix):
            self.erase_values(page.keys)

    def copy_in(
        self,
        names: Sequence[str],
        source: StorePort,
        sources: Sequence[str],
        *,
        limit: int = 2**26,
        shares: bool = False,
    ) -> builtins.list[int]:
        """As the port says. Stores with a shorter way override the methods that it calls."""
        return self._share(names, sources) if shares else self._copy_from(names, source, sources, limit)

    def _copy_from(
        self, names: Sequence[str], source: StorePort, sources: Sequence[str], limit: int
    ) -> builtins.list[int]:
        """copy_in without `shares`, by fetch and put."""
        return value_copies.copy_by_put(self, names, source, sources, limit)

    def _share(self, names: Sequence[str], sources: Sequence[str]) -> builtins.list[int]:
        """copy_in with `shares`: here copies."""
        return Store._copy_from(self, names, self, sources, 2**26)

    # --- listing -------------------------------------------------------------------------------------------------------------------

    @final
    def list(self) -> builtins.list[str]:
        """All keys, sorted."""
        self.require("listable")
        return [key for page in self.list_pages("") for key in page.keys]

    @final
    def list_prefix(self, prefix: str) -> builtins.list[str]:
        """All keys that begin with prefix ("" or ending in "/"), sorted."""
        check_prefix(prefix)
        self.require("listable")
        return [key for page in self.list_pages(prefix) for key in page.keys]

    @final
    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        """The keys, and the prefixes (ending in "/"), directly below prefix, each sorted and with `prefix` at the beginning."""
        check_prefix(prefix)
        self.require("listable")
        rows = [row for page in self.list_pages(prefix, delimited=True) for row in page.keys]
        return [row for row in rows if row[-1] != "/"], [row for row in rows if row[-1] == "/"]

    def list_names(self, prefix: str) -> builtins.list[str]:
        """The names directly below a prefix, folders with a "/" behind them: those of `list_dir`, and on a disk also names of what is no key, as links, pipes
        and folders without files."""
        keys, folders = self.list_dir(prefix)
        return [name.removeprefix(prefix) for name in (*keys, *folders)]

    @final
    def list_pages(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Iterator[Page]:
        """All pages of a listing, one after the other, as list_page gives them. The prefix is valid."""
        following: str | None = after
        while following is not None:
            page = self.list_page(prefix, following, delimited=delimited, details=details, limit=limit)
            yield page
            following = page.next

    def list_column(self, prefix: str, length: int, *, sizes: bool = False) -> NameColumn:
        """The names directly below a prefix ("chunks/") that are `length` ASCII letters and digits, for millions of them, without a Python object each. With
        `sizes` also the sizes of their values; values that are removed meanwhile are then left out. Raises StoreError."""
        parts = [no_names(length, sizes=sizes)]
        for page in self.list_pages(prefix, details=sizes):
            names = [key[len(prefix) :] for key in page.keys]
            rows = [row for row, name in enumerate(names) if len(name) == length and name.isascii() and name.isalnum()]
            if page.sizes is not None:
                rows = [row for row in rows if page.sizes.item(row) >= 0]
            column = np.array([names[row] for row in rows], f"S{length}")
            parts.append(NameColumn(column, None if page.sizes is None else page.sizes[rows]))
        found = [part.sizes for part in parts if part.sizes is not None]
        return NameColumn(np.concatenate([part.names for part in parts]), np.concatenate(found) if sizes else None)

    @final
    def is_empty(self, prefix: str = "") -> bool:
        """Whether no key begins with prefix."""
        check_prefix(prefix)
        self.require("listable")
        return not any(page.keys for page in self.list_pages(prefix, limit=1))

    @property
    def uncached(self) -> Store:
        """The store beneath caches, which returns the current values."""
        return self

    def unsynced(self) -> Store:
        """The same store, but its writes may return before the values are on the medium; itself where both are the same."""
        return self

    def sync_values(self, keys: Sequence[str]) -> builtins.list[str]:
        """When it returns, the values of these keys are on the medium, also those written through `unsynced`. Returns the keys that are missing. Raises
        StoreError: with `done` False nothing was lost, and the call may be repeated; else the values may be lost, even if a later call succeeds."""
        return []

    def erase_leftovers(self, prefix: str, before: int) -> int:
        """Removes files below a prefix that are no keys, were left by writers that ended early, and were changed before a time of the store (ns since 1970).
        Returns how many. Some stores never have such files."""
        return 0

    @property
    def direct(self) -> bool:
        """Capabilities.direct. Reads need it alone: to determine all its capabilities, a store may have to look at its disk."""
        return self.capabilities.direct

    def require(self, capability: str) -> None:
        """Raises StoreError, or ReadOnlyError, if the store does not have this capability."""
        can = self.capabilities
        if getattr(can, capability):
            return
        if capability == "writable" or (capability == "erasable" and not can.writable):
            raise ReadOnlyError(f"{self} can only be read", hint="open it for writing")
        hint = "this needs a list of keys, which web servers do not give: use a copy on a disk or in a bucket"
        raise StoreError(f"{self} is not {capability}", hint=hint if capability == "listable" else None)
