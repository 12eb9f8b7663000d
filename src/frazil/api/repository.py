"""Repositories, as users see them: branches, tags, history, and sessions at any point of it. The sessions themselves are in session.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeVar

from frazil.api import maintenance, repair, verification
from frazil.api.destinations import check_destination
from frazil.api.inspection import Inspected
from frazil.api.lookup import History, branch_hint, lookup_snapshot, tag_hint
from frazil.api.lookup import as_of as find_as_of
from frazil.api.lookup import lookup as lookup_name
from frazil.api.references import split_reference
from frazil.api.repository_arguments import (
    check_compatible,
    is_repository,
    no_attribute_files,
    open_files,
    session_options,
)
from frazil.api.session import COMMITS, Session
from frazil.array.group import Group
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry
from frazil.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.late import LateModule
from frazil.repository.format import MAIN, RepositoryFormat, Tip
from frazil.repository.maintenance.pins import pinned
from frazil.repository.maintenance.report import Collected, Expired
from frazil.repository.merge.difference import Difference
from frazil.repository.merge.snapshot_delta import snapshot_delta
from frazil.repository.merge.solvers import Solver, check_solver
from frazil.repository.repair.report import Consents, Repair
from frazil.repository.session.branches import Branches
from frazil.repository.session.transaction import Options, Transaction
from frazil.repository.verification.report import Verification
from frazil.repository.virtual.prefixes import Prefixes
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.locations import Location
from frazil.stores.retry import retry

if TYPE_CHECKING:
    from frazil.array.interface import html_table
    from frazil.stores.caches import disk_cache
else:
    html_table = LateModule("frazil.array.interface.html_table")
    disk_cache = LateModule("frazil.stores.caches.disk_cache")


T = TypeVar("T")
Isolation = Literal["snapshot", "serializable"]


class Repository(Inspected):
    """A Zarr hierarchy with a history: each commit is atomic and kept, branches and tags point to commits. Made by Repository.create and Repository.open.

    Safe to use from many threads; pickles. It keeps nothing open."""

    __slots__ = ("_branches", "_documents", "_files", "_options", "_registry")

    def __init__(self, files: RepositoryFormat, options: Options, registry: Registry) -> None:
        self._files, self._options, self._registry = files, options, registry
        self._branches = Branches()
        self._documents = files.documents(registry.metadata)

    # --- finding one ---------------------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        location: Location,
        *,
        compatible: str | None = None,
        durable: bool = True,
        chunk_packing: str = "auto",
        virtual_prefixes: Prefixes = (),
        attributes_file_bytes: int | None = None,
        chunk_digests: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_limit: int | None = None,
        registry: Registry = DEFAULT_REGISTRY,
        runtime: Runtime = DEFAULT,
    ) -> Repository:
        """A new repository, with an empty branch `main`.

        location          a folder, a URL or a Store
        compatible        "alpha-library": only what Icechunk's alpha library can read and continue, with the limits that docs/repositories.md lists. No other repository may be
                          opened with that library, which would read wrong values; a file in refs/branch.main/ makes it stop
        durable           everything is on the disk before a commit returns
        chunk_packing     "auto": small chunks of one commit go many to a file; "off": each has its own
        virtual_prefixes  where virtual chunks may lie ("file:///data/", "s3://bucket/"), or a mapping from such prefixes to what they are read from: a folder, a URL,
                          a Store with credentials of its own, None for the place that they name. The longest prefix counts; anywhere else is refused
        attributes_file_bytes  attributes that are larger go to a file of their own; None: never. The library of the alpha does not know such files
        chunk_digests     "crc32c": the name of each chunk file ends in the CRC-32C of its bytes, which `verify(digests=True)` compares; for as long as the repository is there. None: no
        cache             a folder in which encoded chunks and files of the repository are kept, so that none is fetched twice: for object stores and web servers, without
                          effect where reading is no request. Many processes may share it
        cache_limit       bytes that the folder may have, 10 GiB where it is left out; what was used least recently goes first
        Raises AlreadyExistsError, InvalidInputError (also for a place inside of another repository), StoreError."""
        check_compatible(compatible, attributes_file_bytes, chunk_digests)
        options = session_options(durable, chunk_packing, virtual_prefixes, attributes_file_bytes, registry, runtime)
        files = open_files(location, durable, runtime, cache, cache_limit)
        # creating the first branch file fails if a repository is there already
        check_destination(location, files.store, files.prefix, may_be_repository=True)
        files.create(compatible=compatible is not None, digests=chunk_digests is not None)
        return cls(files, options, registry)

    @classmethod
    def open(
        cls,
        location: Location,
        *,
        durable: bool = True,
        chunk_packing: str = "auto",
        virtual_prefixes: Prefixes = (),
        attributes_file_bytes: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_limit: int | None = None,
        registry: Registry = DEFAULT_REGISTRY,
        runtime: Runtime = DEFAULT,
    ) -> Repository:
        """The repository at a location; arguments as for `create`. Raises NotFoundError where none is, FormatError for one of a later format: at once where that
        costs no request, else on first use, whose requests show it anyway."""
        options = session_options(durable, chunk_packing, virtual_prefixes, attributes_file_bytes, registry, runtime)
        files = open_files(location, durable, runtime, cache, cache_limit)
        if files.store.capabilities.direct:
            try:
                files.require()
            except NotFoundError as error:
                if (named := split_reference(location)) is not None:
                    error.hint = (
                        f"a repository is opened without @{named.reference}; frazil.open reads what it has there"
                    )
                raise
        return cls(files, options, registry)

    @classmethod
    def open_or_create(
        cls, location: Location, *, compatible: str | None = None, chunk_digests: str | None = None, **options: object
    ) -> Repository:
        """The repository at a location, made where none is. Arguments as for `create`; InvalidInputError where it should be compatible and is not."""
        check_compatible(compatible, options.get("attributes_file_bytes"), chunk_digests)
        try:
            repo = cls.open(location, **options)  # type: ignore[arg-type] # which says what it does not know
            if not repo._files.store.capabilities.direct:
                repo._files.require()
        except NotFoundError:
            try:
                return cls.create(location, compatible=compatible, chunk_digests=chunk_digests, **options)  # type: ignore[arg-type]
            except AlreadyExistsError:  # another process created it
                repo = cls.open(location, **options)  # type: ignore[arg-type]
        if compatible is not None and not repo._files.rules(repo._files.snapshot(repo._tip(MAIN).snapshot)).foreign:
            raise InvalidInputError(
                f"{repo!r} uses more of the format than {compatible!r} can read",
                hint="copy its arrays to a new repository that is compatible",
            )
        return repo

    @staticmethod
    def exists(location: Location) -> bool:
        """Whether a repository is at a location: one with a branch `main`."""
        return is_repository(location)

    def __repr__(self) -> str:
        return f"<frazil.Repository {self._files.store!r}{' ' + self._files.prefix if self._files.prefix else ''}>"

    def _repr_html_(self) -> str:
        names = [("branch", name, self.lookup_branch) for name in self.branches]
        names += [("tag", name, self.lookup_tag) for name in self.tags]
        shown = names[: html_table.MOST_ROWS]
        rows = [(f"{kind} {name}", look_up(name)) for kind, name, look_up in shown]
        return html_table.table(repr(self).strip("<>"), rows, more=len(names) - len(shown))

    def __reduce__(self) -> tuple[object, ...]:
        return Repository, (self._files, self._options, self._registry)

    # --- sessions ------------------------------------------------------------------------------------------------------------------

    def readonly_session(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot: str | None = None,
        as_of: datetime | str | None = None,
    ) -> Session:
        """A session that reads one snapshot: the tip of a branch (`main`, where nothing is named), that of a tag, or one by its id or the beginning of it.

        as_of  the newest snapshot of the branch, or before that named, which was written by then: a datetime with a time zone, or text of RFC 3339
        Raises NotFoundError, InvalidInputError, FormatError, StoreError."""
        named = [name for name in (branch, tag, snapshot) if name is not None]
        if len(named) > 1:
            raise InvalidInputError("a session has one of branch, tag and snapshot")
        if tag is not None:
            identity = self._tagged(tag)
        elif snapshot is not None:
            identity = lookup_snapshot(self._files, snapshot)
        else:
            identity = self._tip(MAIN if branch is None else branch).snapshot
        if as_of is not None:
            identity = find_as_of(self._files, identity, as_of)
        return self._session(identity, None, self._options)

    def writable_session(self, branch: str = MAIN, *, isolation: Isolation = "snapshot") -> Session:
        """A session on the tip of a branch, that can be committed to it.

        isolation  "snapshot": a commit conflicts with changes of the same things; "serializable": also with changes of what the session has read
        Raises NotFoundError, ReadOnlyError, StoreError for a store in which commits would not be safe."""
        if not isinstance(isolation, str) or isolation not in ("snapshot", "serializable"):
            raise InvalidInputError(f"isolation is {isolation!r}; it must be 'snapshot' or 'serializable'")
        self._files.check_commits()
        tip = self._tip(branch)
        return self._session(tip.snapshot, tip, self._options._replace(serializable=isolation == "serializable"))

    def _session(self, identity: ObjectId, tip: Tip | None, options: Options) -> Session:
        snapshot = self._files.snapshot(identity)
        if tip is not None and options.attribute_limit is not None and not self._files.rules(snapshot).attribute_files:
            raise no_attribute_files()
        if tip is not None:
            self._files.check_commits(tip)
        known = self._registry.metadata
        transaction = Transaction(self._files, identity, snapshot, tip, known, options, self._documents)
        transaction.branches = self._branches
        return Session(transaction, self._registry, self._options.runtime)

    def _tagged(self, tag: str) -> ObjectId:
        identity = self._files.tag(tag)
        if identity is None:
            raise NotFoundError(f"there is no tag {tag!r}", hint=tag_hint(self._files, tag))
        return identity

    def _tip(self, branch: str) -> Tip:
        try:
            tip = self._files.tip(branch, self._branches.tips.get(branch) if isinstance(branch, str) else None)
        except NotFoundError as error:
            error.hint = error.hint or branch_hint(self._files, branch)
            raise
        self._branches.tips[branch] = tip
        return tip

    @contextmanager
    def transaction(
        self,
        branch: str = MAIN,
        *,
        message: str,
        metadata: Mapping[str, object] | None = None,
        rebase: Solver | str | None = None,
        isolation: Isolation = "snapshot",
    ) -> Iterator[Group]:
        """The root group of a session that is committed at the end of the block, where something was changed; on an exception nothing is. Afterwards the group
        and all that was opened from it can only be read.

        with repo.transaction("main", message="second") as root: root["t"].append(rows)
        Raises what Session.commit raises."""
        _check_commit(message, rebase)
        session = self.writable_session(branch, isolation=isolation)
        try:
            yield session.root
            if session.has_changes:
                session.commit(message, metadata=metadata, rebase=rebase)
        finally:
            session._transaction.end()

    def run(
        self,
        change: Callable[[Group], T],
        *,
        branch: str = MAIN,
        message: str,
        metadata: Mapping[str, object] | None = None,
        retries: int = 10,
        isolation: Isolation = "snapshot",
    ) -> T:
        """change(root) in a transaction of its own; what it returns. Where others commit first, it is called again on the new tip, after a pause that grows.
        Afterwards what was opened from the group can only be read.

        Raises ConflictError when the last of `retries` repetitions was in vain."""
        _check_commit(message, None)
        if not callable(change):
            raise InvalidInputError(f"the change is {change!r}; it must be a function of the root group")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise InvalidInputError(f"retries is {retries!r}; it must be a whole number, 0 or more")

        def attempt() -> T:
            session = self.writable_session(branch, isolation=isolation)
            try:
                answer = change(session.root)
                if session.has_changes:
                    session.commit(message, metadata=metadata)
                return answer
            finally:
                session._transaction.end()

        return retry(attempt, COMMITS._replace(attempts=retries + 1), lambda error: isinstance(error, ConflictError))

    def sync(self) -> None:
        """Has on the disk, when it returns, what sessions of this Repository object committed with durable=False: the commits of many threads and sessions in one go. Raises
        StoreError: then none of it is certain."""
        self._branches.sync(self._files.store)

    # --- history -------------------------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> str:
        """The id of the snapshot that a tag, a branch, an id or the beginning of one names, in this order. Raises NotFoundError, InvalidInputError."""
        return encode_id(lookup_name(self._files, name))

    def history(self, name: str = MAIN) -> History:
        """The snapshots that led to a branch, tag or snapshot, newest first: id, parent, message, written_at, metadata."""
        return History(self._files, lookup_name(self._files, name))

    def diff(self, old: str, new: str) -> Difference:
        """What changed from one branch, tag or snapshot to another. Raises NotFoundError, FormatError."""
        ids = [lookup_name(self._files, name) for name in (old, new)]
        before, after = [self._files.snapshot(identity) for identity in ids]
        return snapshot_delta(self._files, before, after, self._files.match_nodes(*ids)).difference

    # --- branches and tags ---------------------------------------------------------------------------------------------------------

    @property
    def branches(self) -> list[str]:
        """The names of all branches, sorted."""
        return self._files.branches() or self._none()

    def lookup_branch(self, name: str) -> str:
        """The id of the snapshot that a branch points to. Raises NotFoundError, FormatError."""
        return encode_id(self._tip(name).snapshot)

    def create_branch(self, name: str, snapshot: str) -> None:
        """A new branch that begins at a snapshot (or where a branch or tag is).

        Raises AlreadyExistsError, NotFoundError; InvalidInputError also for a name that the alpha library cannot open, in a compatible repository."""
        target = lookup_name(self._files, snapshot)
        with pinned(self._files, target):
            self.sync()
            self._files.create_branch(name, target)

    def reset_branch(self, name: str, snapshot: str, *, expect: str | None = None) -> None:
        """Lets a branch point to another snapshot; what it had stays where it was, by its id.

        expect  the id that the branch is to have until then: ConflictError where it has another"""
        expected = None if expect is None else lookup_name(self._files, expect)
        target = lookup_name(self._files, snapshot)
        try:
            with pinned(self._files, target):
                self.sync()
                self._files.reset_branch(name, target, expected)
        except NotFoundError as error:
            error.hint = error.hint or branch_hint(self._files, name)
            raise
        finally:
            self._branches.tips.pop(str(name), None)

    def delete_branch(self, name: str) -> None:
        """Deletes a branch, but not `main`; its snapshots stay. Sessions that were on it cannot commit any more.

        Raises NotFoundError; InvalidInputError also in a compatible repository, as the alpha library would go on committing to the branch."""
        self.sync()
        try:
            self._files.delete_branch(name)
        except NotFoundError as error:
            error.hint = error.hint or branch_hint(self._files, name)
            raise
        finally:
            self._branches.tips.pop(str(name), None)

    @property
    def tags(self) -> list[str]:
        """The names of all tags, sorted."""
        return self._files.tags() or self._none()

    def _none(self) -> list[str]:
        """No names; but in what is no repository that is an error, which `open` may not have looked for."""
        self._files.require()
        return []

    def lookup_tag(self, name: str) -> str:
        """The id of the snapshot that a tag points to. Raises NotFoundError, FormatError."""
        return encode_id(self._tagged(name))

    def create_tag(self, name: str, snapshot: str) -> None:
        """A name for a snapshot (or for where a branch is now), for ever: tags are never moved nor deleted. Raises AlreadyExistsError, NotFoundError."""
        target = lookup_name(self._files, snapshot)
        with pinned(self._files, target):
            self.sync()
            self._files.create_tag(name, target)

    def delete_tag(self, name: str) -> None:
        """Deletes a tag; its snapshot stays until it is collected. Raises NotFoundError; InvalidInputError in formats without a way to, as the alpha's."""
        self.sync()
        self._files.delete_tag(name, self._tagged(name))

    # --- maintenance ---------------------------------------------------------------------------------------------------------------

    def garbage_collect(
        self,
        *,
        wait: timedelta = maintenance.DEFAULT_WAIT,
        now: bool = False,
        dry_run: bool = False,
        progress: Callable[[str, int], object] | None = None,
    ) -> Collected:
        """Condemns what no branch and no tag leads to, and removes what was condemned at least `wait` ago and still is not needed: chunks of writers that were killed, discarded
        forks, manifests of commits that came too late, expired snapshots. Safe beside readers and writers; two runs, `wait` apart, remove what is dead.

        wait      from condemning to removing, one hour or more, by the clock of the store. Sessions of other programs (in a compatible repository) must not be open longer
        now       removes all of it at once: only where nobody writes, and no session is open
        dry_run   tells what would be done, and writes nothing;  progress: is called with what was done and how many objects since the last call
        It may be interrupted at any time; the next run goes on. Raises InvalidInputError, ConflictError while a copy to this place is under way, FormatError where something
        is damaged or missing (nothing is removed then), StoreError, ReadOnlyError. See docs/maintenance.md."""
        self.sync()  # a crash must not lose what the removal rests on
        return maintenance.garbage_collect(self._files, wait, now=now, dry_run=dry_run, progress=progress)

    def expire(
        self,
        *,
        older_than: datetime | timedelta | str,
        keep_last: int = 1,
        keep_tagged: bool = True,
        expire_branches: bool = False,
        dry_run: bool = False,
    ) -> Expired:
        """Ends histories before snapshots that are too old. No file is written anew, and none removed: a record says what has expired, and garbage collections remove what
        only that led to. Branches and tags stay, with the snapshots that they point to.

        older_than       a time (as in readonly_session), or an age: what was written before that expires;  keep_last: so many snapshots of each branch stay all the same
        keep_tagged      False also deletes tags of snapshots that are too old; refused in formats in which tags are for ever, as in the alpha
        expire_branches  also deletes branches whose last commit is too old, but not `main`
        Raises InvalidInputError, FormatError for damaged histories, StoreError, ReadOnlyError."""
        self.sync()
        return maintenance.expire(
            self._files, older_than, keep_last, keep_tagged=keep_tagged, branches_too=expire_branches, dry_run=dry_run
        )

    def verify(
        self,
        *,
        decode: bool = False,
        digests: bool = False,
        virtual: bool = False,
        history: bool = True,
        progress: Callable[[str, int], object] | None = None,
    ) -> Verification:
        """Whether all that branches and tags lead to is there: refs, snapshots and those before them, manifests, attribute files, and every chunk reference against the listing.
        Problems are in the answer and no errors; `problems` is empty where the repository is sound. Writes nothing; safe beside readers and writers.

        decode    also decodes every chunk of the tips of branches and of tags, virtual ones too, on all cores; else files elsewhere are not contacted
        digests   also reads every chunk file, and compares it with its digest, on all cores; InvalidInputError in a repository that was made without chunk_digests
        virtual   also asks for the state of every file in which virtual chunks lie, one request each: whether it is there, long enough, and the one that it was
        history   False: only the snapshots that branches and tags point to are looked at; orphans are not counted then
        progress  is called with what was done and how many since the last call
        Raises NotFoundError, FormatError for a repository of another format, InvalidInputError, StoreError where something cannot be fetched. See docs/maintenance.md."""
        asked = verification.Asked(decode, digests, virtual, history)
        return verification.verify(self._files, self._reading, self._options, asked, progress)

    def repair(
        self,
        *,
        decode: bool = False,
        digests: bool = False,
        older: bool = False,
        accept_loss: bool = False,
        tips: bool = False,
        history: bool = False,
        dry_run: bool = False,
        progress: Callable[[str, int], object] | None = None,
    ) -> Repair:
        """Repairs what a verification finds: by new commits, in which what is damaged is as older snapshots have it; where a tip cannot be read, by a new branch NAME-repaired
        at its last complete snapshot. Files that are there are never changed or removed. The answer lists what was repaired, and what is lost, by array and chunk.

        decode       and digests: as in `verify`, what these find is repaired, too
        older        chunks that are lost become what they were in the newest older snapshot that has them
        accept_loss  what is lost is given up: chunks read as fill value, attributes are empty, damaged nodes are removed. Else it is left as it is, and reading it an error
        tips         branches whose tip cannot be read, or not be repaired without loss, go back to their last complete snapshot; one that can be read stays as NAME-damaged
        history      histories end before snapshots that are damaged or missing, so that garbage can be collected again
        dry_run      tells what would be done, and writes nothing;  progress: as in `verify`
        It may be interrupted at any time and repeated. Raises what `verify` raises, FormatError for a tip of another version of the format, ConflictError, CommitUnknownError,
        ReadOnlyError. See docs/maintenance.md."""
        asked = verification.Asked(decode, digests)
        consents = Consents(older, accept_loss, tips, history)
        self.sync()
        try:
            return repair.repair(self._files, self._reading, self._options, asked, consents, progress, dry_run=dry_run)
        finally:
            self._branches.tips.clear()

    def _reading(self, files: RepositoryFormat, identity: ObjectId) -> Session:
        """A session for reading through other files of the same repository."""
        return Repository(files, self._options, self._registry)._session(identity, None, self._options)


def _check_commit(message: object, rebase: object) -> None:
    """Refuses at once what a commit would refuse when all is done."""
    if not isinstance(message, str):
        raise InvalidInputError(f"the message is {message!r}; it must be text")
    if rebase is not None:
        check_solver(rebase)
