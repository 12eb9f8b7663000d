"""Copies everything at one location to another, as encoded bytes, never decoded. Checks source and destination, and runs the parts of a copy in order. plan.py
has the order, run.py copies batches."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Final

from frazil.api.destinations import check_destination
from frazil.array.arguments import check_flag, checked_progress
from frazil.array.hierarchy.repository_locations import MAIN_FILES
from frazil.base.record import Record
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, NotFoundError, ReadOnlyError, StoreError
from frazil.operations.copy.draft_documents import complete_documents
from frazil.operations.copy.journal import (
    JOURNAL_NAME,
    Journal,
    empty_destination,
    erase_journal,
    forget_journal,
    parse_journal,
    put_journal,
    require_only_journal,
)
from frazil.operations.copy.merge import Merged, Pair, merge
from frazil.operations.copy.plan import differences, in_order, is_document, is_reference
from frazil.operations.copy.report import Copied, Kind
from frazil.operations.copy.run import CopyThreads, Done, Route, erase_names, names_below
from frazil.repository.alpha.ref_files import REFS
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.local.local_store import LocalStore
from frazil.stores.location_overlap import address_of, check_no_overlap, origin_of, shown
from frazil.stores.locations import Location, resolve
from frazil.stores.store import Store
from frazil.stores.values import ABSENT, ANY, Version, pieces_of

_TIPS: Final = "gc/tips/"

_BATCH: Final = 1024  # references read or written in one call


def copy(
    source: Location,
    destination: Location,
    *,
    path: str = "",
    to: str = "",
    overwrite: bool = False,
    verify: bool = False,
    progress: Callable[[int], object] | None = None,
    runtime: Runtime = DEFAULT,
) -> Copied:
    """Copies an array, a group with everything below it, or a whole repository. Keys and bytes are not changed.

    source       a folder, a URL or a Store. session.store copies one snapshot of a repository; the location of a repository copies its files with the whole
                 history
    destination  an empty location, or that of an interrupted copy of the same source, which is resumed. Or session.store of a writable session: commit it
                 afterwards
    path, to     the path of the node at the source, and at the destination
    overwrite    empties the destination first
    verify       compares the destination with the source at the end. MD5 digests are compared where a store reports them (object stores report them for objects
                 that were uploaded in one part) and the other side reports or can compute them. All other values are read from both sides and compared
    progress     called with the number of bytes copied since the last call
    runtime      bytes_in_flight: bytes in memory; requests_in_flight; threads, between two folders
    Documents are written last, and the branches of a repository after everything else. Documents of arrays of the 2022 draft get the members that the draft
    requires if they lack them, such as a fill value instead of null. A resumed copy skips values that are proven to be copied: between folders by size and
    modification time, which a copy preserves; by the digest of an object store; for the chunks, manifests and snapshots of a repository, which never change, by
    size. No process should write to a hierarchy during the copy. A repository may receive commits; commits made after the copy began are not copied. Raises
    NotFoundError, AlreadyExistsError, InvalidInputError, ReadOnlyError, StoreError."""
    report = checked_progress(progress)
    task = prepare_copy(source, destination, path=path, to=to, overwrite=overwrite, verify=verify, runtime=runtime)
    return task.run(report)


def prepare_copy(
    source: Location,
    destination: Location,
    *,
    path: str = "",
    to: str = "",
    overwrite: bool = False,
    verify: bool = False,
    runtime: Runtime = DEFAULT,
    named: tuple[str | None, str | None] = (None, None),
) -> CopyTask:
    """All checks before writing. named: names of the two locations for messages; other arguments and errors as in `copy`."""
    check_flag(overwrite, "overwrite")
    check_flag(verify, "verify")
    if not isinstance(runtime, Runtime):
        raise InvalidInputError(f"runtime is {runtime!r}; it must be a frazil.Runtime")
    runtime = runtime.checked()
    requests, nbytes = runtime.requests_in_flight, runtime.bytes_in_flight
    store, root = resolve(source, path, requests_in_flight=requests, bytes_in_flight=nbytes)
    to_store, to_root = resolve(destination, to, requests_in_flight=requests, bytes_in_flight=nbytes)
    check_no_overlap(address_of(store, root), address_of(to_store, to_root), "choose another destination")
    into_session = isinstance(to_store, NodeStore)
    _check_stores(store, to_store)
    if store.is_empty(root):
        store.exists(f"{root}zarr.json")  # raises if the server answers every key with a value
        raise NotFoundError(f"nothing is there in {store}", path=root or "/", hint="check the location")
    if store.exists(root + JOURNAL_NAME):
        raise InvalidInputError(
            f"the source is itself a copy that is not finished, in {store}",
            path=root or "/",
            hint="finish that copy first, by the command that began it",
        )
    is_repository = not isinstance(store, NodeStore) and not store.is_empty(root + MAIN_FILES)
    if is_repository and into_session:
        raise InvalidInputError(
            "a repository cannot be copied into another",
            hint="copy what it has at a branch or tag: session.store, or sea.repo@v1",
        )
    origin = named[0] or origin_of(store, root)
    noted = None if into_session else to_store.get_versioned(to_root + JOURNAL_NAME)
    own = None if noted is None else parse_journal(noted[0])
    own = own if own is not None and own.origin == origin else None
    # an interrupted emptying may have left some of the old keys, which are not copies
    again = own is not None and not own.emptying
    is_empty = to_store.is_empty(to_root)
    if not into_session:
        replaces = overwrite and own is None and not is_empty
        check_destination(
            destination,
            to_store,
            to_root,
            overwrite=replaces,
            may_be_repository=is_empty or own is not None or (replaces and is_repository),
        )
    if own is None and not overwrite and not is_empty:
        raise _not_empty(to_store, to_root, is_copy=noted is not None and parse_journal(noted[0]) is not None)
    route = Route(store, root, to_store, to_root, again, verify, is_repository)
    names = named[0] or shown(store, root), named[1] or shown(to_store, to_root)
    replace = not again and not is_empty
    journal = Journal(origin, run=secrets.token_hex(8))
    journal_version = ABSENT if noted is None else noted[1]
    return CopyTask(
        route, runtime, journal, "repository" if is_repository else "hierarchy", names, replace, journal_version
    )


def _check_stores(store: Store, to_store: Store) -> None:
    can = to_store.capabilities
    if not can.writable or not can.erasable:
        raise ReadOnlyError(f"{to_store} can only be read", hint="open it for writing, or choose another destination")
    for checked, hint in ((store, "copy it from a location"), (to_store, "copy to a location")):
        if not checked.capabilities.listable:
            raise StoreError(
                f"{checked!r} cannot be listed, so that its content is unknown", hint=f"{hint} that can be listed"
            )


def _not_empty(store: Store, root: str, *, is_copy: bool) -> AlreadyExistsError:
    message = "an interrupted copy of something else is there" if is_copy else "something already exists"
    return AlreadyExistsError(
        f"{message} in {store}", path=root or "/", hint="choose another location, or replace it with overwrite=True"
    )


class CopyTask(Record):
    """A checked copy, ready to run.

    journal  is written at the destination before anything else
    names    of the two locations
    replace  the destination is emptied first
    journal_version  of the existing journal, ABSENT for none: another version means that another copy has begun meanwhile"""

    route: Route
    runtime: Runtime
    journal: Journal
    kind: Kind
    names: tuple[str, str]
    replace: bool
    journal_version: Version | None

    def run(self, report: Callable[[int], object]) -> Copied:
        """Runs the copy. report is called, by this thread, with the bytes copied since the last call."""
        begun = time.monotonic()
        route, to_store, to_root = self.route, self.route.to_store, self.route.to_root
        into_session = isinstance(to_store, NodeStore)
        if into_session:
            if self.replace:
                route.to_store.erase_prefix(route.to_root)
            with CopyThreads(route, self.runtime, report) as threads:
                done, removed = _into_session(route, threads), 0
        else:
            journal_version = self.journal_version
            if self.replace:
                journal_version = put_journal(to_store, to_root, self.journal._replace(emptying=True), journal_version)
                empty_destination(to_store, to_root)
            put_journal(to_store, to_root, self.journal, journal_version)
            if not route.again:
                require_only_journal(to_store, to_root)
            try:
                with CopyThreads(route, self.runtime, report) as threads:
                    done, removed = _into_store(route, threads, self.kind == "repository", report)
            except FrazilError:
                forget_journal(to_store, to_root, self.journal)
                raise
            erase_journal(to_store, to_root, self.journal)
        seconds = time.monotonic() - begun
        return Copied(*self.names, self.kind, done.keys, done.nbytes, done.found, removed, route.verify, seconds)


def _into_store(
    route: Route, threads: CopyThreads, is_repository: bool, report: Callable[[int], object]
) -> tuple[Done, int]:
    """Copies chunks in listed order, then documents, then references. Returns also the number of removed keys."""
    references = _references(route) if is_repository else {}
    late: dict[str, Pair] = {}
    done, removed = Done(), 0
    for part in _listed(route):
        # keys of an interrupted copy that the source no longer has
        others = [name for name in part.others if name != JOURNAL_NAME and name not in references]
        removed += erase_names(route.to_store, route.to_root, others)
        # the references are copied as they were at the start: a later collection may record tips that they do not have
        pairs = [pair for pair in part.pairs if not (is_repository and pair.name.startswith((REFS, _TIPS)))]
        late |= {pair.name: pair for pair in pairs if is_document(pair.name) or is_reference(pair.name)}
        done = done.plus(threads.copy([pair for pair in pairs if pair.name not in late], listed=True))
    for group in in_order(late):
        done = done.plus(threads.copy([late[name] for name in group]))
    complete_documents(route.to_store, route.to_root, [name for name in late if is_document(name)])
    return done.plus(_write_references(route, references, report)), removed


def _listed(route: Route) -> Iterator[Merged]:
    """The names at the source; when a copy is resumed, with the listed facts about them at the destination. Raises StoreError if there are none any more."""
    timed = isinstance(route.store, LocalStore) and isinstance(route.to_store, LocalStore)
    needs_digests = route.verify and not route.store.capabilities.direct
    pages = route.store.list_pages(route.root, details=route.again or needs_digests)
    existing = route.to_store.list_pages(route.to_root, details=True) if route.again else ()
    found = False
    for part in merge(pages, existing, route.root, route.to_root, timed=timed):
        pairs = [pair for pair in part.pairs if pair.name != JOURNAL_NAME]
        found = found or bool(pairs)
        yield part._replace(pairs=pairs)
    if not found:
        raise StoreError(
            "keys were at the source, but none of them is listed any more",
            path=route.root or "/",
            hint="check its server, and proxies before it, and copy it again",
        )


def _into_session(route: Route, threads: CopyThreads) -> Done:
    """Copies documents first, parents before children, as chunks need their array in a session; all becomes visible with the commit."""
    documents = {pair.name: pair for part in _listed(route) for pair in part.pairs if is_document(pair.name)}
    done = Done()
    for group in reversed(in_order(documents)):
        done = done.plus(threads.copy([documents[name] for name in group]))
    for part in _listed(route):
        done = done.plus(threads.copy([pair for pair in part.pairs if pair.name not in documents]))
    return done


# --- the references of a repository ------------------------------------------------------------------------------------------------------


def _references(route: Route) -> dict[str, bytes]:
    """Branches and tags as they are now: the objects that they refer to are listed later, so all of them are found. Removes other references that an
    interrupted copy wrote."""
    references = _values(route.store, route.root)
    if route.again:
        erase_names(route.to_store, route.to_root, differences(references, _values(route.to_store, route.to_root)))
    return references


def _values(store: Store, root: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for names in names_below(store, root + REFS):
        for low in range(0, len(names), _BATCH):
            part = [REFS + name for name in names[low : low + _BATCH]]
            values = store.get_many([root + name for name in part], largest=None)
            found.update((name, value) for name, value in zip(part, values, strict=True) if value is not None)
    return found


def _write_references(route: Route, references: dict[str, bytes], report: Callable[[int], object]) -> Done:
    done = Done()
    for group in in_order(references):
        for low in range(0, len(group), _BATCH):
            part = group[low : low + _BATCH]
            values = [references[name] for name in part]
            route.to_store.put_many([route.to_root + name for name in part], pieces_of(values), [ANY] * len(part))
            done = done.plus(Done(len(part), sum(map(len, values))))
    report(done.nbytes)
    return done
