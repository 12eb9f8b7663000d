"""The public class Repository: branches, tags, history, and sessions at any point of the history. session.py has the sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Literal, TypeVar

from frazil.api.destinations import check_destination
from frazil.api.lookup import History, branch_hint, lookup_snapshot, tag_hint, whole_id
from frazil.api.lookup import as_of as find_as_of
from frazil.api.lookup import lookup as lookup_name
from frazil.api.maintenance import cleanup, repair, verification
from frazil.api.maintenance.inspection import Inspected
from frazil.api.merge import Merging
from frazil.api.ref_locations import split_ref
from frazil.api.repository_arguments import (
    check_compatible,
    is_repository,
    no_attribute_files,
    open_files,
    session_options,
)
from frazil.api.session import COMMITS, Session, checked_commit
from frazil.array.group import Group
from frazil.array.interface import html_table
from frazil.base.retry import retry
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry
from frazil.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from frazil.formats.ids import ObjectId, encode_id
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

T = TypeVar("T")
Isolation = Literal["snapshot", "serializable"]


class Repository(Inspected, Merging):
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
        compatible        "alpha-library": uses only what Icechunk's alpha library can read and write, with the limits that docs/repositories.md lists. That
                          library must not open any other repository, as it would read wrong values; a file in refs/branch.main/ stops it
        durable           all files are on the disk before a commit returns
        chunk_packing     "auto": many small chunks of one commit share a file; "off": each chunk has a file of its own
        virtual_prefixes  where virtual chunks may be ("file:///data/", "s3://bucket/"), or a mapping from such prefixes to their sources: a folder, a URL,
                          a Store with its own credentials, or None for the location that the prefix names. The longest prefix applies; other locations are
                          refused
        attributes_file_bytes  larger attributes are stored in separate files; None: never. The alpha library cannot read such files
        chunk_digests     "crc32c": the name of each chunk file, manifest and attribute file ends in the CRC-32C of its bytes. `verify` compares it, of chunk
                          files with `digests=True`. It cannot be changed later. None: no digests
        cache             a folder that keeps encoded chunks and files of the repository, so that none is fetched twice. For object stores and web servers; it
                          has no effect for local folders. Many processes may share it
        cache_limit       size limit of the folder in bytes, by default 10 GiB; the least recently used files are removed first
        Raises AlreadyExistsError, InvalidInputError (also for a location inside another repository), StoreError."""
        check_compatible(compatible, attributes_file_bytes, chunk_digests)
        options = session_options(durable, chunk_packing, virtual_prefixes, attributes_file_bytes, registry, runtime)
        files = open_files(location, durable, runtime, cache, cache_limit)
        check_destination(location, files.store, files.prefix, may_be_repository=True)  # which `files.create` refuses
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
        """Opens the repository at a location; arguments as for `create`. Raises NotFoundError if there is none, and FormatError for a later format. On a remote
        store these errors are raised at first use, to save a request."""
        options = session_options(durable, chunk_packing, virtual_prefixes, attributes_file_bytes, registry, runtime)
        files = open_files(location, durable, runtime, cache, cache_limit)
        if files.store.capabilities.direct:
            try:
                files.require()
            except NotFoundError as error:
                if (named := split_ref(location)) is not None:
                    error.hint = f"a repository is opened without @{named.ref}; frazil.open reads what it has there"
                raise
        return cls(files, options, registry)

    @classmethod
    def open_or_create(
        cls, location: Location, *, compatible: str | None = None, chunk_digests: str | None = None, **options: object
    ) -> Repository:
        """Opens the repository at a location, or creates one if there is none. Arguments as for `create`. InvalidInputError if it is not `compatible`."""
        check_compatible(compatible, options.get("attributes_file_bytes"), chunk_digests)
        try:
            repo = cls.open(location, **options)  # type: ignore[arg-type] # which refuses unknown ones
            if not repo._files.store.capabilities.direct:
                repo._files.require()
        except NotFoundError:
            try:
                return cls.create(location, compatible=compatible, chunk_digests=chunk_digests, **options)  # type: ignore[arg-type]
            except AlreadyExistsError:  # another process created it, or something else is there
                if not cls.exists(location):
                    raise
                repo = cls.open(location, **options)  # type: ignore[arg-type]
        if compatible is not None and not repo._files.rules(repo._files.snapshot(repo._tip(MAIN).snapshot)).foreign:
            raise InvalidInputError(
                f"the repository in {repo._files.store} uses more of the format than {compatible!r} can read",
                hint="copy its arrays to a new repository that is compatible",
            )
        return repo

    @staticmethod
    def exists(location: Location) -> bool:
        """Whether there is a repository, with a branch `main`, at a location."""
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
        """A session that reads one snapshot: the tip of a branch (by default `main`), the snapshot of a tag, or that with an id, which may be abbreviated.

        as_of  reads the newest snapshot in that history that was written at this time or before: a datetime with a time zone, or RFC 3339 text
        Raises NotFoundError, InvalidInputError, FormatError, StoreError."""
        named = [name for name in (branch, tag, snapshot) if name is not None]
        if len(named) > 1:
            raise InvalidInputError("give only one of branch, tag and snapshot")
        if tag is not None:
            identity = self._tagged(tag)
        elif snapshot is not None:
            if as_of is None and (whole := whole_id(snapshot)) is not None:
                with suppress(NotFoundError):  # reading it shows whether it exists
                    return self._session(whole, None, self._options)
            identity = lookup_snapshot(self._files, snapshot)
        else:
            identity = self._tip(MAIN if branch is None else branch).snapshot
        if as_of is not None:
            identity = find_as_of(self._files, identity, as_of)
        return self._session(identity, None, self._options)

    def writable_session(self, branch: str = MAIN, *, isolation: Isolation = "snapshot") -> Session:
        """A session on the tip of a branch. Its changes can be committed to the branch.

        isolation  "snapshot": a commit conflicts with other changes of the same nodes and chunks; "serializable": also with changes to what the session read
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
        extensions = self._registry.metadata
        state = identity, snapshot, tip, extensions, options, self._documents
        transaction = Transaction(self._files, *state, branches=self._branches)
        return Session(transaction, self._registry, self._options.runtime)

    def _tagged(self, tag: str) -> ObjectId:
        identity = self._files.tag(tag)
        if identity is None:
            raise NotFoundError(f"there is no tag {tag!r}", hint=tag_hint(self._files, tag))
        return identity

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
        """The root group of a new session. The session is committed at the end of the block if there are changes; an exception discards it. After the block,
        the group and everything opened from it are read-only.

        with repo.transaction("main", message="second") as root: root["t"].append(rows)
        Raises as Session.commit."""
        _check_commit(message, metadata, rebase)
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
        """Calls change(root) in a new transaction and returns its result. If others commit first, it is called again on the new tip, after a pause that grows
        each time. After the call, everything opened from the group is read-only.

        Raises ConflictError if the last of `retries` repetitions also conflicts."""
        _check_commit(message, metadata, None)
        if not callable(change):
            raise InvalidInputError(f"the change is {change!r}; it must be a function of the root group")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise InvalidInputError(f"retries is {retries!r}; it must be a whole number, 0 or more")

        def attempt() -> T:
            with self.transaction(branch, message=message, metadata=metadata, isolation=isolation) as root:
                return change(root)

        return retry(attempt, COMMITS._replace(attempts=retries + 1), lambda error: isinstance(error, ConflictError))

    def sync(self) -> None:
        """Flushes all commits with durable=False, of all threads and sessions of this Repository object, to the disk at once. Raises StoreError; then none of
        them is certain to be on the disk. If the disk failed, later syncs and durable commits raise, too, as the system reports such a loss only once."""
        self._branches.sync(self._files.store)

    # --- history -------------------------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> str:
        """The id of the snapshot that a name refers to: a tag, else a branch, else an id, which may be abbreviated. Raises NotFoundError, InvalidInputError."""
        return encode_id(lookup_name(self._files, name))

    def history(self, name: str = MAIN) -> History:
        """The snapshots that led to a branch, tag or snapshot, newest first: id, parent, message, written_at, metadata."""
        return History(self._files, lookup_name(self._files, name))

    def diff(self, old: str, new: str) -> Difference:
        """The changes from one branch, tag or snapshot to another. If all that both have in common has expired, nodes are those of the same path, so that a
        renamed one is removed and added. Raises NotFoundError, FormatError."""
        ids = [lookup_name(self._files, name) for name in (old, new)]
        before, after = [self._files.snapshot(identity) for identity in ids]
        return snapshot_delta(self._files, before, after, self._files.match_nodes(*ids, may_be_apart=True)).difference

    # --- branches and tags ---------------------------------------------------------------------------------------------------------

    @property
    def branches(self) -> list[str]:
        """The names of all branches, sorted."""
        return self._files.branches() or self._require_repository()

    def lookup_branch(self, name: str) -> str:
        """The id of the snapshot that a branch points to. Raises NotFoundError, FormatError."""
        return encode_id(self._tip(name).snapshot)

    def create_branch(self, name: str, snapshot: str) -> None:
        """Creates a branch at a snapshot, given by its id, a branch or a tag.

        Raises AlreadyExistsError, NotFoundError; InvalidInputError also for a name that the alpha library cannot open, in a compatible repository."""
        target = lookup_name(self._files, snapshot)
        with pinned(self._files, target):
            self.sync()
            self._files.create_branch(name, target)

    def reset_branch(self, name: str, snapshot: str, *, expect: str | None = None) -> None:
        """Moves a branch to another snapshot. The snapshots that it leaves can still be read by id, until garbage is collected.

        expect  the id that the branch must have before; ConflictError if it has another"""
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
        """Deletes a branch other than `main`. Its snapshots stay until garbage is collected. Open sessions on it can no longer commit.

        Raises NotFoundError, InvalidInputError; the latter also in a compatible repository, as the alpha library would still commit to the branch."""
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
        return self._files.tags() or self._require_repository()

    def _require_repository(self) -> list[str]:
        """No names. Raises NotFoundError if there is no repository, which `open` does not always check."""
        self._files.require()
        return []

    def lookup_tag(self, name: str) -> str:
        """The id of the snapshot that a tag points to. Raises NotFoundError, FormatError."""
        return encode_id(self._tagged(name))

    def create_tag(self, name: str, snapshot: str) -> None:
        """Creates a tag for a snapshot, given by its id, a branch or another tag. Tags are never moved. Raises AlreadyExistsError, NotFoundError."""
        target = lookup_name(self._files, snapshot)
        with pinned(self._files, target):
            self.sync()
            self._files.create_tag(name, target)

    def delete_tag(self, name: str) -> None:
        """Deletes a tag. Its snapshot stays until garbage is collected. Raises NotFoundError; InvalidInputError in formats, such as the alpha, that cannot."""
        self.sync()
        self._files.delete_tag(name, self._tagged(name))

    # --- maintenance ---------------------------------------------------------------------------------------------------------------

    def garbage_collect(
        self,
        *,
        wait: timedelta = cleanup.DEFAULT_WAIT,
        now: bool = False,
        accept_loss: bool = False,
        dry_run: bool = False,
        progress: Callable[[str, int], object] | None = None,
    ) -> Collected:
        """Condemns objects that no branch and no tag reaches, and removes objects that were condemned at least `wait` ago and are still unreachable: chunks of
        killed writers, discarded forks, expired snapshots. Safe with readers and writers. Two runs, `wait` apart, remove all garbage. Interrupts do no harm.
        wait         time between condemning and removing, at least one hour, by the store's clock. In a compatible repository, other programs' sessions must be
                     shorter
        now          removes all garbage at once: only if there is no writer and no open session
        accept_loss  collects also if chunk files that branches or tags lead to are missing. Else that is an error: a damaged manifest may name another
                     file
        dry_run      writes nothing, and reports the planned changes;  progress: called with the kind and number of objects done since the last call
        Raises InvalidInputError, ConflictError during a copy to this location, FormatError for damage (nothing is removed then), StoreError, ReadOnlyError
        (docs/maintenance.md)."""
        self.sync()  # a crash must not lose the commits on which the removal depends
        return cleanup.garbage_collect(self._files, wait, progress, now=now, accept_loss=accept_loss, dry_run=dry_run)

    def expire(
        self,
        *,
        older_than: datetime | timedelta | str,
        keep_last: int = 1,
        keep_tagged: bool = True,
        expire_branches: bool = False,
        dry_run: bool = False,
    ) -> Expired:
        """Shortens history: old snapshots expire. No file is rewritten or removed. A record lists the expired snapshots, and the next garbage collections
        remove objects that only expired snapshots refer to. Branches, tags and the snapshots that they point to stay.

        older_than       a time (as in readonly_session) or an age: snapshots written before it expire;  keep_last: number of newest ones
                         of each branch that stay anyway
        keep_tagged      False also deletes tags of old snapshots; refused in formats that cannot delete tags, such as the alpha
        expire_branches  also deletes branches other than `main` whose last commit is old
        Raises InvalidInputError, FormatError for damaged histories, StoreError, ReadOnlyError."""
        self.sync()
        return cleanup.expire(
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
        """Checks everything that branches and tags reach: refs, snapshots and their history, manifests, attribute files, and every chunk reference against the
        listing. Problems are returned, not raised; `problems` is empty if the repository is sound. Writes nothing; safe beside readers and writers.

        decode    also decodes every chunk of the tips of branches and tags, virtual chunks included, on all cores. Without it, files outside the repository are
                  not read
        digests   also reads every chunk file and compares it with its digest, on all cores; InvalidInputError in a repository without chunk_digests
        virtual   also checks every file that has virtual chunks, with one request each: it exists, is long enough, and has not changed
        history   False: checks only the snapshots that branches and tags point to; orphans are not counted then
        progress  called with the kind and number of objects done since the last call
        Raises NotFoundError, FormatError for a repository of another format, InvalidInputError, StoreError if something cannot be fetched
        (docs/maintenance.md)."""
        checks = verification.Checks(decode, digests, virtual, history)
        return verification.verify(self._files, self._reader, self._options, checks, progress)

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
        """Repairs problems that a verification finds. New commits restore damaged metadata from older snapshots; if a tip cannot be read, a new branch
        NAME-repaired is created at its last complete snapshot. Existing files stay (but `gc/tips/`). The result lists repairs and losses.

        decode       and digests: as in `verify`; also repairs problems that they find
        older        replaces lost chunks by those of the newest older snapshot that has them
        accept_loss  gives up lost data: chunks read as the fill value, attributes become empty, damaged nodes are removed. Else reading them stays an error
        tips         moves a branch back to its last complete snapshot if its tip cannot be read, or has losses (unless accept_loss), or would get older data
                     beside its own (unless older or accept_loss); a readable tip stays as NAME-damaged
        history      ends histories before damaged or missing snapshots, so that garbage can be collected again
        dry_run      writes nothing, and reports the planned changes;  progress: as in `verify`
        A repair may be interrupted at any time and repeated. Raises as `verify`, and FormatError for a tip of another version of the format, ConflictError,
        CommitUnknownError, ReadOnlyError. See docs/maintenance.md."""
        checks = verification.Checks(decode, digests)
        consents = Consents(older, accept_loss, tips, history)
        self.sync()
        try:
            return repair.repair(self._files, self._reader, self._options, checks, consents, progress, dry_run=dry_run)
        finally:
            self._branches.tips.clear()

    def _reader(self, files: RepositoryFormat, identity: ObjectId) -> Session:
        """A read-only session that uses another RepositoryFormat of the same repository."""
        return Repository(files, self._options, self._registry)._session(identity, None, self._options)


def _check_commit(message: object, metadata: Mapping[str, object] | None, rebase: object) -> None:
    """Refuses arguments at the start that the commit would refuse at the end."""
    checked_commit(message, metadata)
    if rebase is not None:
        check_solver(rebase)
