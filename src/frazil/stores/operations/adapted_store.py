"""The store over a user's object that has some of the ten operations of the Zarr v3 draft ("Abstract store interface"), and the class to derive such
objects from. The object's operations are found by protocols.py, missing ones are made by fallbacks.py."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.base.retry import READS, attempts
from frazil.errors import InvalidInputError, StoreError
from frazil.stores.keys.listing import page_of, with_details
from frazil.stores.keys.locks import GuardState, guard_of
from frazil.stores.keys.names import is_prefix
from frazil.stores.operations import fallbacks
from frazil.stores.operations.fallbacks import ReadValue, Span
from frazil.stores.operations.protocols import (
    MISSING_ERRORS,
    Operations,
    PartlyReadable,
    PartlyWritable,
    Readable,
    Writable,
)
from frazil.stores.store import Store
from frazil.stores.transfer.content import join_pieces
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    ANY,
    FOUND,
    MISSING,
    STALE,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Page,
    Pieces,
    Sources,
    Version,
    Versions,
    continued,
    resolve_span,
)

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.stores.operations.partial_values import Writes
    from frazil.stores.values import SourceBuffer

    Adaptable = Readable | PartlyReadable | Writable | PartlyWritable | Mapping[str, Buffer]
    Objects = Mapping[str, ReadValue | None]

_BATCH: Final = 1000  # keys of one erase_values


class AdaptedStore(Store):
    """A store over an object that has some of the operations of the document; created by `adapt`, which documents them."""

    __slots__ = ("_can", "_guard", "_ops", "guard_name", "inner", "sole_writer")

    def __init__(
        self,
        inner: Adaptable,
        *,
        sole_writer: bool = False,
        guard_name: str | None = None,
        _state: GuardState | None = None,
    ) -> None:
        """guard_name: a common name for several copies of an object: writers through all objects of one name exclude each other."""
        self.inner: Final = inner
        self.sole_writer: Final = sole_writer
        self._ops = ops = Operations.of(inner, StoreWithPartialAccess)
        self.guard_name: Final = guard_name
        self._guard = guard_of(inner if guard_name is None else guard_name, _state)
        readable, writable = fallbacks.is_readable(ops), fallbacks.is_writable(ops)
        erasable = writable and fallbacks.is_erasable(ops)
        conditional = ops.version is not None and ops.set_if is not None and (ops.erase_if is not None or not erasable)
        conditional = writable and (conditional or (sole_writer and (readable or ops.version is not None)))
        self._can = Capabilities(
            readable=readable,
            writable=writable,
            listable=fallbacks.is_listable(ops),
            erasable=erasable,
            conditional=conditional,
            direct=ops.get_partial_values is None,
            guarded=writable and readable and not conditional,
            erases_prefixes=ops.erase_prefix is not None,
        )

    def __repr__(self) -> str:
        inner = type(self.inner).__name__ if isinstance(self.inner, Mapping) else repr(self.inner)
        return f"AdaptedStore({inner}{', sole_writer=True' if self.sole_writer else ''})"

    def __str__(self) -> str:
        return f"a {type(self.inner).__name__}" if isinstance(self.inner, Mapping) else str(self.inner)

    def __reduce__(self) -> tuple[object, ...]:
        state = self._guard.state()
        make = partial(AdaptedStore, sole_writer=self.sole_writer, guard_name=self.guard_name, _state=state)
        return make, (self.inner,)

    @property
    def capabilities(self) -> Capabilities:
        return self._can

    @property
    def _exact(self) -> bool:
        """Whether equal versions mean equal bytes, whichever process writes."""
        return self._ops.version is not None or self.sole_writer

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """As the port says. If the object has partial values but no versions, the bytes of the earlier answer are compared with the present ones, and the name
        is STALE if they differ."""
        self.require("readable")
        requested: dict[str, dict[Span, None]] = {name: {} for name in names}
        for name, start, length in spans.tolist():
            requested[names[name]][start, length] = None
        stale: Collection[str] = ()
        has_parts = self._ops.get_partial_values is not None
        if single_read and expect is None and continue_from is None and (has_parts or all(requested.values())):
            for spans_of in requested.values():
                if not spans_of:
                    spans_of[0, 1] = None  # to find out whether it exists
            objects = self._look(requested, sized=False, versioned=False)
        elif continue_from is None:
            objects = self._look(requested)
        else:
            objects, stale = self._look_again(requested, continued(continue_from, dict))
        status = [STALE if name in stale else ABSENT_KEY if objects[name] is None else FOUND for name in names]
        if expect is not None:
            now = self._versions_after(objects, names, expect) if continue_from is None else {}
            for i, (name, version) in enumerate(zip(names, expect, strict=True)):
                entry = objects[name]
                if version is not None and version != now.get(name, ABSENT if entry is None else entry.version):
                    status[i] = STALE
        return self._answer(names, spans, objects, status)

    def _answer(self, names: Sequence[str], spans: Columns, objects: Objects, status: list[int]) -> Fetched:
        buffers: list[SourceBuffer] = []
        rows = np.empty((len(spans), 3), np.int64)
        for i, (name, start, length) in enumerate(spans.tolist()):
            entry = objects[names[name]]
            if status[name] != FOUND or entry is None:
                rows[i] = (MISSING, 0, 0)
                continue
            if entry.whole is not None:
                buffers.append(entry.whole)
                rows[i] = (-len(buffers), *resolve_span(start, length, len(entry.whole)))
            else:
                value = entry.parts[start, length]
                buffers.append(value)
                rows[i] = (-len(buffers), 0, length if start >= 0 and length >= 0 else len(value))
        found = [objects[name] for name in names]
        versions = [None if entry is None else entry.version for entry in found]
        sizes = np.array([-1 if entry is None else entry.size for entry in found], np.int64)
        version_may_repeat = None if self._exact else [entry is not None for entry in found]
        return Fetched(Sources(None, buffers), status, versions, sizes, rows, version_may_repeat, objects)

    def _look(self, requested: Mapping[str, Iterable[Span]], *, sized: bool = True, versioned: bool = True) -> Objects:
        """Objects as they are between two writes of this process. If a writer interferes, they are read again while writers are excluded."""
        before = self._guard.versions(requested.keys())
        if before is not None:
            objects = self._look_now(requested, sized, versioned)
            if self._guard.versions(requested.keys()) == before:
                return objects
        with self._guard.reading(requested):
            return self._look_now(requested, sized, versioned)

    def _look_now(self, requested: Mapping[str, Iterable[Span]], sized: bool, versioned: bool) -> Objects:
        """Versions are read before the values: they may be older than these, never newer, so that an expected old version is noticed."""
        if not versioned:
            return fallbacks.look(self._ops, requested, sized=sized)
        for _ in attempts(READS):
            versions = {key: self._version(key) for key in requested}
            found = fallbacks.look(self._ops, requested, sized=sized)
            if all(versions[key] is not None for key, entry in found.items() if entry is not None):
                return {key: entry and entry._replace(version=versions[key]) for key, entry in found.items()}
        raise StoreError(
            "a value without a version", key=next(iter(requested), None), hint="`version` must know all keys of `get`"
        )

    def _look_again(
        self, requested: Mapping[str, dict[Span, None]], continue_from: Objects
    ) -> tuple[Objects, Collection[str]]:
        """The objects of an earlier answer, with the spans that are requested now, and those that changed since. Without exact versions, the spans read before
        are read again last, and must be the same."""
        if not requested.keys() <= continue_from.keys():
            raise InvalidInputError("the Fetched to hold has other keys")
        objects = {key: continue_from[key] for key in requested}
        pending = {
            key: {**spans, **({} if self._exact else dict.fromkeys(entry.parts))}
            for key, spans in requested.items()
            if (entry := continue_from[key]) is not None and not all(map(entry.has, spans))
        }
        stale: set[str] = set()
        for key, now in self._look(pending, versioned=False).items() if pending else ():
            entry = continue_from[key]
            if (
                entry is None
                or now is None
                or entry.version != self._version(key)
                or now.size != entry.size
                or any(now.has(span) and now.value(span) != part for span, part in entry.parts.items())
            ):
                stale.add(key)
            else:
                objects[key] = now._replace(version=entry.version)
        return objects, stale

    def _versions_after(self, objects: Objects, names: Sequence[str], expect: Versions) -> dict[str, Version]:
        """Versions of the values that were read, once more, if other processes may change them."""
        if self._ops.version is None:
            return {}
        conditional = {name for name, version in zip(names, expect, strict=True) if version is not None}
        return {name: self._version(name) or ABSENT for name in conditional if objects[name] is not None}

    def _version(self, key: str) -> Version | None:
        """The version of an existing key; None if it is known to be missing."""
        if self._ops.version is None:
            return self._guard.version(key)
        try:
            version = self._ops.version(key)
        except MISSING_ERRORS:
            return None
        if version is not None and (not isinstance(version, bytes) or version == ABSENT):
            raise StoreError(
                f"version gave {version!r}",
                key=key,
                hint="it must give bytes, not empty; None for a key that does not exist",
            )
        return version

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> builtins.list[Version | Changed]:
        """As the port says, as far as the object supports it: it may show partly written values to others. If one value fails, others of the call may
        have been stored."""
        self.require("writable")
        values = dict(zip(names, join_pieces(pieces, names), strict=True))
        expected = dict(zip(names, expect, strict=True))
        with self._guard.writing(names) as fresh:
            if self._ops.set_if is not None and self._ops.version is not None:
                return [self._put_if(key, values[key], expected[key]) for key in names]
            changed = self._changed(expected, fresh)
            fallbacks.put(self._ops, {key: values[key] for key in fresh})
            versions = {} if self._ops.version is None else {key: self._version(key) for key in fresh}
        return [changed[key] if key in changed else versions.get(key) or fresh[key] for key in names]

    def _put_if(self, key: str, value: bytes, expected: Version | None) -> Version | Changed:
        if self._ops.set_if is None or expected is ANY:
            fallbacks.put(self._ops, {key: value})
            return self._version(key) or ABSENT
        version = self._ops.set_if(key, value, expected)
        return Changed(self._version(key) or ABSENT) if version is None else version

    def erase_many(self, names: Sequence[str], expect: Versions) -> builtins.list[Changed | None]:
        """As the port says, as far as the object supports it."""
        if is_prefix(names):
            self._erase_below(names[0])
            return [None]
        self.require("erasable")
        expected = dict(zip(names, expect, strict=True))
        with self._guard.writing(names) as fresh:
            if self._ops.erase_if is not None and self._ops.version is not None:
                return [self._erase_if(key, expected[key]) for key in names]
            changed = self._changed(expected, fresh)
            fallbacks.erase(self._ops, list(fresh))
        return [changed.get(key) for key in names]

    def _erase_if(self, key: str, expected: Version | None) -> Changed | None:
        if self._ops.erase_if is None or expected is ANY:
            fallbacks.erase(self._ops, [key])
            return None
        present = self._version(key) or ABSENT
        if expected == present and (present == ABSENT or self._ops.erase_if(key, expected)):
            return None
        return Changed(self._version(key) or ABSENT)

    def _changed(self, expected: Mapping[str, Version | None], fresh: dict[str, Version]) -> dict[str, Changed]:
        """Of keys that no other thread here writes, those that do not have the expected version; they are removed from `fresh`."""
        changed: dict[str, Changed] = {}
        for key, version in expected.items():
            if version is not ANY:
                exists = self._ops.version is not None or fallbacks.has_bytes(self._ops, key, 0)
                present = (self._version(key) or ABSENT) if exists else ABSENT
                if version != present:
                    changed[key] = Changed(present)
                    del fresh[key]
        return changed

    def write_parts(self, writes: Writes) -> None:
        """As the class says, by the object's own operation if it has one, else by a new value (see `update`). An object that cannot be read must itself refuse
        a start beyond the end of a value."""
        if self._ops.set_partial_values is None:
            super().write_parts(writes)
            return
        with self._guard.writing(writes.keys()):
            fallbacks.patch(self._ops, writes)

    def _erase_below(self, prefix: str) -> None:
        """By erase_prefix of the object, if it has it."""
        ops = self._ops
        if ops.erase_prefix is None or (prefix == "" and self._can.erasable and self._can.listable):
            self.require("erasable")
            self.require("listable")
            keys = fallbacks.keys_below(ops, prefix)
            for first in range(0, len(keys), _BATCH):
                part = keys[first : first + _BATCH]
                with self._guard.writing(part):
                    fallbacks.erase(ops, part)
            return
        self.require("writable")
        with self._guard.writing_all(), suppress(*MISSING_ERRORS):
            ops.erase_prefix(prefix)

    # --- listing -------------------------------------------------------------------------------------------------------------------

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        """As the port says; each page lists the object completely."""
        self.require("listable")  # the engine lists chunks by this method, without the checks of `list_prefix`
        list_rows = fallbacks.rows_below if delimited else fallbacks.keys_below
        page = page_of(list_rows(self._ops, prefix), after, limit)
        return with_details(page, self.fetch) if details else page


class StoreWithPartialAccess:
    """A base for stores of your own: implement any workable subset of the ten operations (and of the additional ones of `adapt`), and
    the others are made from them, in both directions. An instance is accepted wherever a location is: frazil.open_array(MyStore()).

        class MyStore(frazil.stores.StoreWithPartialAccess):
            def get_partial_values(self, key_ranges): ...
            def set(self, key, value): ...
            def list(self): ...

    Keys that your methods get are valid. Operations that cannot be made from the subset raise StoreError, or ReadOnlyError."""

    def as_store(self, *, sole_writer: bool = False) -> Store:
        """This object as a store with all features of the port: versions, batches, capabilities. sole_writer: as in `adapt`."""
        return AdaptedStore(self, sole_writer=sole_writer)

    def get(self, key: str, /) -> Buffer | None:
        """The value of a key, or None."""
        return self.as_store().get(key)

    def get_partial_values(
        self, key_ranges: Sequence[tuple[str, tuple[int, int | None]]], /
    ) -> Iterable[Buffer | None]:
        """The bytes of each (key, (start, length)), in that order; None for a missing key."""
        return self.as_store().get_partial_values(key_ranges)

    def set(self, key: str, value: bytes, /) -> None:
        """Stores a value under a key."""
        self.as_store().set(key, value)

    def set_partial_values(self, key_start_values: Sequence[tuple[str, int, bytes]], /) -> None:
        """Stores each (key, start, value) into the key's value."""
        self.as_store().set_partial_values(key_start_values)

    def erase(self, key: str, /) -> None:
        """Removes a key; no error for a missing key."""
        self.as_store().erase(key)

    def erase_values(self, keys: Collection[str], /) -> None:
        """Removes keys."""
        self.as_store().erase_values(keys)

    def erase_prefix(self, prefix: str, /) -> None:
        """Removes all keys that begin with prefix."""
        self.as_store().erase_prefix(prefix)

    def list(self) -> Iterable[str]:
        """All keys."""
        return self.as_store().list()

    def list_prefix(self, prefix: str, /) -> Iterable[str]:
        """All keys that begin with prefix."""
        return self.as_store().list_prefix(prefix)

    def list_dir(self, prefix: str, /) -> tuple[Iterable[str], Iterable[str]]:
        """The keys and the prefixes directly below prefix."""
        return self.as_store().list_dir(prefix)


def adapt(inner: Adaptable | Store, *, sole_writer: bool = False) -> Store:
    """A store over any object that has a workable subset of the ten operations of the Zarr v3 draft ("Abstract store interface"): its methods get,
    get_partial_values, set, set_partial_values, erase, erase_values, erase_prefix, list, list_prefix, list_dir. A dict or another mapping of keys to
    bytes will do. A Store is returned as it is.

    reading  from get or get_partial_values. A missing key is None, or KeyError, FileNotFoundError and the like
    writing  from set, or from set_partial_values with erase, erase_values or a way to read: a value that partial writes alone cannot shorten is erased first,
             and other readers may see it missing for a moment. An empty partial value must create its key
    erasing  from erase or erase_values; erase_prefix is used for prefixes alone
    listing  from any one of list, list_prefix, list_dir, which return whole keys. list_prefix and list_dir are called with "" too
    beyond   `sizes(keys)` and `set_values({key: value})` avoid requests one after the other; `size(key)` avoids reading whole values if only their ends are
             wanted (shard indexes); with `suffix_ranges = True` get_partial_values takes a start < 0, from the end; `version(key)`, `set_if(key, value,
             version)` and `erase_if(key, version)`: see protocols.py

    Conditions: with version, set_if and erase_if, writes are conditional. Without, writers of this process exclude each other, key by key, whichever adapters
    of the object they use (capabilities.guarded). Of other writers, in other processes or without Frazil, the last one wins, and if two change different parts
    of one chunk or shard, the first one's part is lost. sole_writer=True declares that there are no others: then conditions hold, and read values are
    remembered.

    The object must support many threads. The store pickles if the object does; the copy counts as another writer. Raises InvalidInputError for an object
    without any operation, or with asynchronous ones."""
    return inner if isinstance(inner, Store) else AdaptedStore(inner, sole_writer=sole_writer)
