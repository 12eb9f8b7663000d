"""The store port: keys to bytes. Every store implements it; arrays, groups and chunk storage know no more of a store than this.

Here live the port and the fallbacks that give every store the ten operations of the Zarr v3 draft ("Abstract store interface"). Its values
live in values.py, keys in keys.py. What a store does with keys and bytes lives in its own file."""

from __future__ import annotations

import builtins
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from frazil.errors import ReadOnlyError, StoreError
from frazil.late import LateModule
from frazil.stores.fetched.content import read_values
from frazil.stores.keys import check_key, check_prefix, distinct_keys
from frazil.stores.operations.partial_values import check_starts, checked_ranges, grouped_writes, patched
from frazil.stores.retry import FREE_FILES, WRITES, attempts, when_files_are_free
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    ANY,
    FOUND,
    MISSING,
    STALE,
    UNKNOWN,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Page,
    Pieces,
    Sources,
    Version,
    check_not_lost,
    pieces_of,
    up_to,
)

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.stores import value_copies
    from frazil.stores.operations import append
else:
    append = LateModule("frazil.stores.operations.append")
    value_copies = LateModule("frazil.stores.value_copies")

__all__ = [
    "ABSENT",
    "ABSENT_KEY",
    "ANY",
    "FOUND",
    "MISSING",
    "NO_SPANS",
    "STALE",
    "UNKNOWN",
    "WHOLE",
    "Capabilities",
    "Changed",
    "Columns",
    "Fetched",
    "Page",
    "Pieces",
    "Sources",
    "Store",
    "Version",
]

WHOLE: Columns = np.array([[0, 0, -1]], np.int64)  # the spans of one whole object
NO_SPANS: Columns = np.zeros((0, 3), np.int64)  # a fetch that only looks names up
_DOCUMENT: Columns = np.array([[0, 0, up_to(2**24)]], np.int64)  # which a store's bytes_in_flight may raise
WHOLE.flags.writeable = NO_SPANS.flags.writeable = _DOCUMENT.flags.writeable = False

_OPEN_AT_ONCE = 256  # objects of one fetch: a process may often have 1024 files open


class KernelRoot(Protocol):
    """An open folder; its descriptor stays open as long as this is kept."""

    @property
    def fd(self) -> int: ...


class Store(ABC):
    """Keys to bytes. Safe to use from many threads; pickles (by location, where it has one).

    Abstract: capabilities, fetch, put_many, erase_many, list_page; they are given valid keys (keys.check_key) and need not check them again.
    Everything else checks what it is given (InvalidInputError, StoreError for what the store cannot, ReadOnlyError) and has a fallback here that
    a store overrides where it can do better."""

    __slots__ = ()

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @property
    def identity(self) -> str | None:
        """What tells this store's values from those of any other, also in other processes and at other times: such as a URL, without credentials. Two stores
        with one identity have, under one key and version, the same bytes. None: that cannot be told; what is read is not kept on disk (cache=) then."""
        return None

    @abstractmethod
    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """Byte ranges of objects, in one batch.

        names   may repeat; a name without a span is only looked up (status, version, size)
        spans   int64[n, 3]: (row in names, start, length); start < 0 counts from the end, length < 0 means up to the end. A length of -1 - n says that the caller
                expects n bytes at most (up_to): a store that downloads them refuses more. A suffix longer than the object is the whole object; a range that reaches beyond the end is handed on and fails where it is read (FAILED_RANGE)
        expect  for each name the version it must have (None: any); another, or none at all, makes the name STALE and its rows MISSING. ABSENT: the
                name must not be there
        held    what an earlier fetch of the same names answered: those objects are read on, so that both answers come from one version
        once    the caller reads each object once and no more: opening may be left to the kernel (status UNKNOWN)
        Raises StoreError when the store fails; a missing object is a status, not an error."""

    def kernel_root(self) -> KernelRoot | None:
        """The folder in which the kernel may open keys by itself, as files; None where objects are to be fetched."""
        return None

    @abstractmethod
    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> builtins.list[Version | Changed]:
        """Publishes each value whole: a reader sees the old object or the new one, also after a crash. expect[i]: ANY (None), ABSENT or a version.
        Names are distinct. The store keeps no buffer of the caller's."""

    def append_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> builtins.list[Version | Changed]:
        """As put_many, with each value behind the one that is there (nothing, where nothing is). Published whole, too."""
        return append.append_by_put(self, names, pieces, expect)

    @abstractmethod
    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> builtins.list[Changed | None]:
        """Removes objects; one that is not there is no error with ANY (nor with ABSENT). Names are distinct."""

    @abstractmethod
    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        """A page of the keys that begin with a prefix, in columns.

        prefix     "" or ending in "/"
        after      rows come after this text; `next` of the page before
        delimited  what is directly below the prefix: keys, and prefixes in place of the keys below them
        details    sizes, versions and times are wanted too. Versions are those of `fetch` where the store lists them: good to compare, not to remember
        limit      rows of the page at most, 1 or more; None: as many as the store finds at once"""

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        found = self.get_versioned(key)
        return None if found is None else found[0]

    def get_versioned(self, key: str) -> tuple[bytes, Version | None] | None:
        """The value of a key and its version, in one request; None where nothing is there. To change a value that you read, see `update`."""
        check_key(key)
        self._require("readable")
        names = [key]
        fetched = self.fetch(names, WHOLE)
        value = read_values(fetched, names, WHOLE)[0]
        return None if value is None else (value, fetched.versions[0])

    def has_version(self, key: str, version: Version) -> bool:
        """Whether the value of a key has this version. One request; an array asks it of its document before it writes. The key is valid.

        False may be wrong: who is told so reads the value."""
        return self.fetch([key], NO_SPANS).versions[0] == version

    def get_documents(self, keys: Sequence[str]) -> builtins.list[bytes | None]:
        """The values of keys that hold documents, which are small, in that order; None where nothing is there. A store that downloads them refuses large ones."""
        self._require("readable")
        values: list[bytes | None] = []
        for key in keys:
            check_key(key)
        for page in pages(keys):
            names = builtins.list(keys[page])
            spans = _DOCUMENT
            if len(names) > 1:
                spans = np.repeat(_DOCUMENT, len(names), axis=0)
                spans[:, 0] = np.arange(len(names))
            values += when_files_are_free(partial(self._read, names, spans), FREE_FILES)
        return values

    def _read(self, names: builtins.list[str], spans: Columns) -> builtins.list[bytes | None]:
        return read_values(self.fetch(names, spans), names, spans)

    def get_partial_values(
        self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]
    ) -> builtins.list[bytes | None]:
        """The bytes of each (key, (start, length)), in that order; None for a missing key. A length of None means up to the end, a start < 0
        counts from the end. What reaches beyond the end of a value is cut."""
        self._require("readable")
        asked = checked_ranges(key_ranges)
        values: list[bytes | None] = []
        for first in range(0, len(asked), _OPEN_AT_ONCE):
            part = asked[first : first + _OPEN_AT_ONCE]
            rows = {key: row for row, key in enumerate(dict.fromkeys(key for key, _, _ in part))}
            names = builtins.list(rows)
            spans = np.array([(rows[key], start, length) for key, start, length in part], np.int64)
            values += read_values(self.fetch(names, spans), names, spans)
        return values

    def exists(self, key: str) -> bool:
        """Whether a key has a value; one request."""
        return bool(self.sizes([key])[0] >= 0)

    def sizes(self, keys: Sequence[str]) -> Columns:
        """Bytes of each value, int64; -1 where nothing is there."""
        self._require("readable")
        for key in keys:
            check_key(key)
        sizes = np.empty(len(keys), np.int64)
        for page in pages(keys):
            fetched = self.fetch(keys[page], NO_SPANS)
            sizes[page] = [
                size if status == FOUND else -1 for size, status in zip(fetched.sizes, fetched.status, strict=True)
            ]
        return sizes

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def set(self, key: str, value: Buffer) -> None:
        """Stores a value under a key, whatever is there."""
        self.put(key, value)

    def put(self, key: str, value: Buffer, expect: Version | None = ANY) -> Version | Changed:
        """Stores a value if the key has the version `expect` (ANY; ABSENT; a version): its new version, or what had come between."""
        check_key(key)
        self._require("writable")
        if expect is not ANY:
            self._require("conditional")
        return self.put_many([key], pieces_of([value]), [expect])[0]

    def create(self, key: str, value: Buffer) -> bool:
        """Stores a value under a key that has none: True, or False where one is there already, which stays as it is. For keys that everybody only
        ever creates and nobody replaces, such as the reference files of repositories: a store may do without the locks of `put`. Of many creators, also
        of other programs that keep to this, one is told True. The value appears whole or not at all; an error says nothing about whether it did. A store
        that syncs what it writes also syncs before it answers False: the key may be there by an earlier call whose sync failed.
        Raises StoreError where the store is not conditional."""
        check_key(key)
        self._require("writable")
        self._require("conditional")
        return not isinstance(self.put(key, value, ABSENT), Changed)

    def keeps_conditions(self, key: str) -> bool:
        """Whether conditions hold in fact. Some servers ignore them: a store that cannot know tries to create `key`, which is there; where that succeeds its value is lost.
        Raises StoreError where no answer comes."""
        return self.capabilities.conditional

    def append(self, key: str, value: Buffer, expect: Version | None = ANY) -> Version | Changed:
        """As put, with the value behind the one that is there. Whether the old bytes pass through the caller, capabilities.appendable says."""
        check_key(key)
        self._require("writable")
        if expect is not ANY:
            self._require("conditional")
        return self.append_many([key], pieces_of([value]), [expect])[0]

    def update(self, key: str, change: Callable[[bytes | None], Buffer | None]) -> Version | None:
        """Reads, changes and stores a value, again where somebody else was quicker, so that no write is lost (where the store is conditional).

        change  gets the present value (None: not there), returns the new one, or None to leave it as it is; it may be called several times
        Returns the new version, None where nothing was changed."""
        check_key(key)
        return self._update_many([key], lambda _, old: change(old))[0]

    def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        """Stores (key, start, value): `value` becomes the bytes of the key's value from `start`, which may grow. Other writers' bytes are kept (see
        `update`). Raises InvalidInputError, before anything is written, for ranges of one key that overlap, and for a start < 0 or beyond the end
        (of a missing key: other than 0)."""
        writes = grouped_writes(key_start_values)
        self._require("readable")
        self._require("writable")
        names = builtins.list(writes)
        if len(names) > _OPEN_AT_ONCE:
            for key, size in zip(names, self.sizes(names).tolist(), strict=True):
                check_starts(key, writes[key], max(size, 0))
        for page in pages(names):
            self._update_many(names[page], lambda key, old: patched(key, old or b"", writes[key]))

    def erase(self, key: str) -> None:
        """Removes a key and its value; no error where nothing is there."""
        self.erase_values([key])

    def erase_values(self, keys: Iterable[str]) -> None:
        """Removes keys and their values."""
        names = distinct_keys(keys)
        self._require("erasable")
        for page in pages(names):
            self.erase_many(names[page], [ANY] * len(names[page]))

    def erase_prefix(self, prefix: str) -> None:
        """Removes all keys that begin with prefix; "" is everything."""
        check_prefix(prefix)
        self._require("erasable")
        self._require("listable")
        for page in self.list_pages(prefix):
            self.erase_values(page.keys)

    # --- listing -------------------------------------------------------------------------------------------------------------------

    def list(self) -> builtins.list[str]:
        """All keys, sorted."""
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> builtins.list[str]:
        """All keys that begin with prefix ("" or ending in "/"), sorted."""
        check_prefix(prefix)
        self._require("listable")
        return [key for page in self.list_pages(prefix) for key in page.keys]

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        """The keys, and the prefixes (ending in "/"), directly below prefix, each sorted; whole, that is, with `prefix` before them."""
        check_prefix(prefix)
        self._require("listable")
        rows = [row for page in self.list_pages(prefix, delimited=True) for row in page.keys]
        return [row for row in rows if row[-1] != "/"], [row for row in rows if row[-1] == "/"]

    def list_pages(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False
    ) -> Iterator[Page]:
        """All pages of a listing, one after the other, as list_page gives them. The prefix is valid."""
        following: str | None = after
        while following is not None:
            page = self.list_page(prefix, following, delimited=delimited, details=details)
            yield page
            following = page.next

    def is_empty(self, prefix: str = "") -> bool:
        """Whether no key begins with prefix."""
        check_prefix(prefix)
        self._require("listable")
        return not self.list_page(prefix, limit=1).keys

    # --- what the above is made of ---------------------------------------------------------------------------------------------------

    def link_many(self, names: Sequence[str], sources: Sequence[str]) -> builtins.list[bool]:
        """Gives each name the value of its source, another key of this store, without copying bytes where a store can; False where no value is there.
        Keys are valid, names distinct, none is a source. What a name had is replaced; that nobody else writes it meanwhile is the caller's care."""
        done: builtins.list[bool] = []
        for page in pages(names):
            spans = np.zeros((len(names[page]), 3), np.int64)
            spans[:, 0], spans[:, 2] = np.arange(len(spans)), -1
            fetched = self.fetch(sources[page], spans)
            found = [status == FOUND for status in fetched.status]
            kept = builtins.list(itertools.compress(names[page], found))
            pieces = Pieces(fetched.sources, fetched.rows[found], np.arange(len(kept) + 1, dtype=np.int64))
            if kept:
                self.put_many(kept, pieces, [ANY] * len(kept))
            done += found
        return done

    def copy_in(
        self, names: Sequence[str], source: Store, sources: Sequence[str], *, limit: int = 2**26
    ) -> builtins.list[int]:
        """Gives each name the value that a key of another store (or of this one) has, byte for byte: the size of each, -1 where no value is there; that name stays as it is.

        Keys are valid, names distinct. What a name had is replaced; that nobody else writes it meanwhile is the caller's care. A value is that of one version of its
        source, also where others replace it; the port's fallback tries that a few times.
        limit  bytes that may be in memory; a store that is given `put_stream` keeps to it for larger values too
        Raises StoreError with the key; others of the call may have been copied."""
        return value_copies.copy_by_put(self, names, source, sources, limit)

    def put_stream(self, key: str, size: int, parts: Iterator[bytes]) -> None:
        """Stores a value that comes in parts, `size` bytes together, whatever is there. It is published whole, or not at all where `parts` raises. Here all of it is
        held in memory; a store that can do better overrides this."""
        self.put_many([key], pieces_of([b"".join(parts)]), [ANY])

    def _require(self, capability: str) -> None:
        can = self.capabilities
        if getattr(can, capability):
            return
        if capability == "writable" or (capability == "erasable" and not can.writable):
            raise ReadOnlyError(f"{self!r} can only be read", hint="open it for writing")
        raise StoreError(f"{self!r} is not {capability}")

    def _update_many(
        self, names: builtins.list[str], change: Callable[[str, bytes | None], Buffer | None]
    ) -> builtins.list[Version | None]:
        self._require("readable")
        self._require("writable")
        conditional = self.capabilities.expects
        versions: dict[str, Version | None] = dict.fromkeys(names)
        for _ in attempts(WRITES):
            spans = np.zeros((len(names), 3), np.int64)
            spans[:, 0], spans[:, 2] = np.arange(len(names)), -1
            fetched = self.fetch(
                names, spans
            )  # kept until its versions have been expected: see Fetched.version_may_repeat
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
        raise StoreError(f"others changed the value before each of {WRITES.attempts} attempts", key=names[0])


def pages(keys: Sequence[str]) -> Iterator[slice]:
    for first in range(0, len(keys), _OPEN_AT_ONCE):
        yield slice(first, first + _OPEN_AT_ONCE)
