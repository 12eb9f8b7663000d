"""Copies batches of keys from store to store on several threads: skips keys that are already copied, and can verify copies. plan.py has the order, copy.py
chooses the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Final

from frazil.base.record import Record
from frazil.base.threads import Threads
from frazil.errors import ConflictError, StoreError
from frazil.operations.copy.digests import StoredObject, have_same_digest
from frazil.operations.copy.merge import Pair, with_found
from frazil.operations.copy.plan import is_document, is_reference, is_same, split_batches
from frazil.runtime import Runtime
from frazil.stores.local.appended_shards import restore_all
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store
from frazil.stores.transfer.value_copies import pieces_of_object
from frazil.stores.values import ANY, NO_SPANS

_BATCH: Final = 1024  # keys erased in one call
_REMOTE_WORKERS: Final = 4  # each with its share of the requests: while some wait for reads, others write


class Route(Record):
    """Source and destination. Roots are "" or end in "/". again: the destination has keys of an interrupted copy; verify: the result is compared with the
    source; must_be_there: a key that is removed after it was listed is an error."""

    store: Store
    root: str
    to_store: Store
    to_root: str
    again: bool
    verify: bool
    must_be_there: bool


class Done(Record):
    """keys, nbytes: copied; found: already there."""

    keys: int = 0
    nbytes: int = 0
    found: int = 0

    def plus(self, other: Done) -> Done:
        return Done(self.keys + other.keys, self.nbytes + other.nbytes, self.found + other.found)


class CopyThreads(Threads):
    """Threads that copy, where that is faster, within the limits of a Runtime: `with CopyThreads(route, runtime, report) as threads: threads.copy(pairs)`."""

    __slots__ = ("_limit", "_most", "_report", "_route", "_workers")

    def __init__(self, route: Route, runtime: Runtime, report: Callable[[int], object]) -> None:
        self._route, self._report = route, report
        self._most: int | None
        if isinstance(route.store, LocalStore) and isinstance(route.to_store, LocalStore):
            self._workers, self._most = runtime.threads, None
        elif route.store.capabilities.direct and route.to_store.capabilities.direct:
            self._workers, self._most = 1, None  # the kernel has its own threads, and memory is fast
        else:
            self._workers = min(_REMOTE_WORKERS, runtime.requests_in_flight)
            self._most = max(1, runtime.requests_in_flight // self._workers)
        self._limit = max(1, runtime.bytes_in_flight // self._workers)
        super().__init__(self._workers, "frazil copy")

    def copy(self, pairs: Sequence[Pair], *, listed: bool = False) -> Done:
        """Copies the values of these names, and verifies them if route.verify is set. Raises the first error, when running batches have ended.

        listed  whether the names are sorted, and close enough together to be listed again at the destination"""
        route = self._route
        sizes = self._carry_out(self._copy, pairs)
        if route.verify:
            unchanged = [pair._replace(found=None) for pair in pairs if sizes.get(pair.name, 0) >= 0]
            if listed and unchanged and not route.to_store.capabilities.direct:
                after = route.to_root + unchanged[0].name[:-1]
                unchanged = with_found(
                    unchanged, route.to_store.list_pages(route.to_root, after, details=True), route.to_root
                )
            sizes |= self._carry_out(self._verified, unchanged)
        copied = [size for size in sizes.values() if size >= 0]
        return Done(len(copied), sum(copied), len(pairs) - len(sizes))

    def _carry_out(self, work: Callable[[Sequence[Pair]], dict[str, int]], pairs: Sequence[Pair]) -> dict[str, int]:
        """Does the work in batches, on the threads. Returns the copied names with their bytes; -1 if the source no longer has a name."""
        batches = split_batches(pairs, self._workers, self._most)
        if self._workers == 1 or len(batches) == 1:
            results: Iterator[dict[str, int]] = map(work, batches)
        else:
            ended: SimpleQueue[int] = SimpleQueue()  # so that the first error ends the copy

            def carry_out(number: int) -> dict[str, int]:
                try:
                    return work(batches[number])
                finally:
                    ended.put(number)

            tasks = [self.submit(carry_out, number) for number in range(len(batches))]
            results = (tasks[ended.get()].result() for _ in tasks)
        sizes: dict[str, int] = {}
        for part in results:
            self._report(sum(size for size in part.values() if size >= 0))
            sizes |= part
        return sizes

    def _copy(self, pairs: Sequence[Pair]) -> dict[str, int]:
        missing = [pair.name for pair in pairs if not _is_copied(self._route, pair, self._limit)]
        return dict(zip(missing, self._copied(missing), strict=True))

    def _verified(self, pairs: Sequence[Pair]) -> dict[str, int]:
        """Copies again names with other bytes than the source: such a value may have been there before, or the source has changed."""
        route, limit = self._route, self._limit
        wrong = self._different([pair.name for pair in pairs if not _has_digest(route, pair, limit)])
        sizes = dict(zip(wrong, self._copied(wrong), strict=True))
        refused = self._different([name for name, size in sizes.items() if size >= 0])
        if refused:
            raise StoreError(
                "the copy has other bytes than the source",
                key=route.to_root + refused[0],
                hint="stop all writers of both locations, then copy again",
            )
        return sizes

    def _copied(self, names: Sequence[str]) -> list[int]:
        route = self._route
        if not names:
            return []
        sources = [route.root + name for name in names]
        targets = [route.to_root + name for name in names]
        restore_all(route.store, sources)  # a torn shard would stay torn, as its journal is not copied
        sizes = route.to_store.copy_in(targets, route.store, sources, limit=self._limit)
        if route.must_be_there and -1 in sizes:
            raise StoreError(
                "the file was removed while the repository was copied",
                key=sources[sizes.index(-1)],
                hint="copy it when no process removes anything from it",
            )
        return sizes

    def _different(self, names: Sequence[str]) -> list[str]:
        """The names that have other bytes at the destination."""
        route = self._route
        return [
            name
            for name in names
            if not _have_same_bytes(route.store, route.root + name, route.to_store, route.to_root + name, self._limit)
        ]


def _is_copied(route: Route, pair: Pair, limit: int) -> bool:
    """Whether the destination has a copy of a name at the source. Without a proof it counts as missing."""
    name, source, found = pair
    if found is None:
        return False
    same = is_same(source, found)
    if same is not None:
        return same
    if route.must_be_there and not is_document(name) and not is_reference(name):
        return True  # a file of a repository never changes, and is written whole
    return _has_digest(route, pair, limit)


def _has_digest(route: Route, pair: Pair, limit: int) -> bool:
    """Whether digests prove that the destination has the bytes of the source."""
    name, source, found = pair
    here = StoredObject(route.store, route.root + name, source.version)
    there = StoredObject(route.to_store, route.to_root + name, None if found is None else found.version)
    return have_same_digest(here, there, limit)


def _have_same_bytes(store: Store, key: str, to_store: Store, to_key: str, limit: int) -> bool:
    source_head, target_head = store.fetch([key], NO_SPANS), to_store.fetch([to_key], NO_SPANS)
    if source_head.sizes[0] != target_head.sizes[0]:
        return False
    try:
        return _are_equal(
            pieces_of_object(store, key, source_head, limit // 2),
            pieces_of_object(to_store, to_key, target_head, limit // 2),
        )
    except ConflictError:  # replaced meanwhile
        return False


def _are_equal(ours: Iterator[bytes], theirs: Iterator[bytes]) -> bool:
    """Whether two values are equal that come in pieces, none of them empty, of different lengths."""
    one, other = memoryview(b""), memoryview(b"")
    while True:
        one = one or memoryview(next(ours, b""))
        other = other or memoryview(next(theirs, b""))
        length = min(len(one), len(other))
        if not length or one[:length] != other[:length]:
            return not one and not other
        one, other = one[length:], other[length:]


def names_below(store: Store, root: str) -> Iterator[list[str]]:
    """Names of the keys below a root, sorted, in pages."""
    for page in store.list_pages(root):
        yield [key[len(root) :] for key in page.keys]


def erase_names(store: Store, root: str, names: Sequence[str]) -> int:
    """Removes keys. Returns their number."""
    for low in range(0, len(names), _BATCH):
        part = [root + name for name in names[low : low + _BATCH]]
        store.erase_many(part, [ANY] * len(part))
    return len(names)
