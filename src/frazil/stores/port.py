"""The store port: what every store implements. Arrays, groups and chunk storage reach stores through it and through store.py, which is written on top of it.

The values that pass through the port are in values.py, the rules of keys in keys/names.py."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypedDict

from frazil.stores.values import Capabilities, Changed, Columns, Fetched, Page, Pieces, Version, Versions


class KernelRoot(Protocol):
    """An open folder; its descriptor stays open as long as this is kept."""

    @property
    def fd(self) -> int: ...


class FetchOptions(TypedDict, total=False):
    """The named arguments of StorePort.fetch, for functions that pass them on."""

    expect: Versions | None
    continue_from: Fetched | None
    single_read: bool


class StorePort(ABC):
    """Five operations (fetch, put_many, erase_many, list_page, copy_in) and three facts (capabilities, identity, kernel_root).

    The operations get valid keys (keys.check_key) and need not check them again. Safe to use from many threads; pickles (by location, where it has one)."""

    __slots__ = ()

    # --- facts ---------------------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What the store can do: whether it is writable, listable, ..."""

    @property
    def identity(self) -> str | None:
        """Names this store in every process and at any time, such as a URL without credentials: two stores with one identity have the same bytes under one key
        and version. None: it has no such name; then `cache=` keeps nothing of this store on disk."""
        return None

    def kernel_root(self) -> KernelRoot | None:
        """The folder in which the kernel opens keys as files; None where objects must be fetched."""
        return None

    # --- operations ----------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """Byte ranges of objects, in one batch.

        names          may repeat; a name without a span is only looked up (status, version, size)
        spans          int64[n, 3]: (row in names, start, length); start < 0 counts from the end, length < 0 means up to the end. A length of -1 - n means that
                       the caller expects n bytes at most (up_to): a store that downloads refuses more. A suffix longer than the object is the whole object. A
                       range that reaches beyond the end is returned, and reading it fails (FAILED_RANGE)
        expect         for each name the version it must have (None: any). With another version, or no object, the name is STALE and its rows MISSING. ABSENT:
                       the name must not exist
        continue_from  the result of an earlier fetch of the same names: both results then come from one version of each object
        single_read    the caller reads each object only once: the kernel may open it later (status UNKNOWN)
        Raises StoreError when the store fails; a missing object is a status, not an error."""

    @abstractmethod
    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> builtins.list[Version | Changed]:
        """Publishes each value whole: a reader sees the old object or the new one, also after a crash. Names are distinct. The store keeps no buffer of the
        caller's.

        expect[i]  ANY (None); ABSENT; a version; or CREATE_ONLY: as ABSENT, for keys that all writers only create and never replace, such as reference files. A
                   store may then work without locks. Of many creators one gets a version, the others Changed. After an error the value may exist or not. A
                   store that syncs its writes also syncs before it returns Changed: an earlier call may have created the key and failed to sync it"""

    @abstractmethod
    def erase_many(self, names: Sequence[str], expect: Versions) -> builtins.list[Changed | None]:
        """Removes objects; one that is not there is no error with ANY (nor with ABSENT). Names are distinct.

        A store with the capability erases_prefixes also takes prefixes ("", or ending in "/"), with ANY: it removes all keys below, and whatever else it keeps
        there, such as folders."""

    @abstractmethod
    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        """A page of the keys that begin with a prefix, in columns.

        prefix     "" or ending in "/"
        after      rows come after this text; `next` of the page before
        delimited  only the level directly below the prefix: keys, and prefixes in place of the keys below them
        details    also sizes, versions and times. Versions are those of `fetch` where the store lists them: valid for comparing, not for remembering
        limit      the most rows of the page, 1 or more; None: as many as the store finds at once"""

    @abstractmethod
    def copy_in(
        self,
        names: Sequence[str],
        source: StorePort,
        sources: Sequence[str],
        *,
        limit: int = 2**26,
        shares: bool = False,
    ) -> builtins.list[int]:
        """Copies values of another store (or of this one), byte for byte: for each name the size. -1: the source has no value, and the name is not changed.

        Keys are valid, names distinct. Old values are replaced; the caller ensures that no other process writes these names meanwhile. A copy has the bytes of
        one version of its source, even while others replace it; the default implementation retries a few times.
        limit   bytes that may be in memory; for larger values too where the store has the capability `streams`
        shares  source is this store and no source is a name; both keys may share their bytes, like hard links, or the server may copy them. The result is 0
                or more for each source that has a value
        Raises StoreError with the key; others of the call may have been copied."""
