"""Checks the arguments of Repository.verify, and decodes the chunks of branches and tags through the engine.

Checks without decoding are in repository/verification/."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil.array.arguments import check_flag
from frazil.array.array import Array, with_limit
from frazil.base.arrays import Flags, distinct
from frazil.base.record import Record
from frazil.errors import AccessError, ChunkDecodeError, DataError, FrazilError, InvalidInputError, StoreError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.nodes import NodeSnapshot
from frazil.repository.format import RepositoryFormat
from frazil.repository.manifests.coordinates import among, grid_of, sorted_coordinates, within
from frazil.repository.manifests.references import BaseReferences
from frazil.repository.session.transaction import Options
from frazil.repository.verification.histories import UNREADABLE
from frazil.repository.verification.report import Findings, Kind, Problem, Subject, Verification
from frazil.repository.verification.verify import Depth, check
from frazil.repository.verification.virtual_files import VirtualFiles
from frazil.stores.values import Columns

if TYPE_CHECKING:
    from frazil.api.session import Session


class Checks(Record):
    """The checks that a user requests in addition to those of files and references. See Repository.verify."""

    decode: bool
    digests: bool
    virtual: bool = False
    history: bool = True

    def depth(self, options: Options, report: Callable[[str, int], object]) -> Depth:
        """The checks in the form of the verification. Raises InvalidInputError for a value that is not a flag."""
        for name, value in self._asdict().items():
            check_flag(value, name)
        threads = options.runtime.checked().threads if self.digests else 0
        return Depth(self.history, threads, VirtualFiles(options.virtual, report) if self.virtual else None)


def verify(
    files: RepositoryFormat,
    open_session: Callable[[RepositoryFormat, ObjectId], Session],
    options: Options,
    checks: Checks,
    progress: Callable[[str, int], object] | None,
) -> Verification:
    """As Repository.verify. open_session: opens a snapshot of the given repository for reading."""
    report = check_progress(progress)
    depth = checks.depth(options, report)
    fresh = files.uncached()
    found, tips, *_ = check(fresh, report, depth)
    if not checks.decode:
        return found
    run = _Decoding(fresh, found.problems, depth.virtual_files or VirtualFiles(options.virtual, report), report, {})
    for ref, snapshot in tips:
        run.decode_tip(ref, snapshot, open_session)
    return found._replace(decoded=run.decoded, problems=tuple(run.found.problems))


def check_progress(progress: Callable[[str, int], object] | None) -> Callable[[str, int], object]:
    """The function that receives progress. Raises InvalidInputError."""
    if progress is not None and not callable(progress):
        raise InvalidInputError(f"progress is {progress!r}; it must be a function")
    return progress or _ignore_progress


def decoder(
    files: RepositoryFormat,
    open_session: Callable[[RepositoryFormat, ObjectId], Session],
    options: Options,
    report: Callable[[str, int], object],
) -> Callable[[Sequence[tuple[str, ObjectId]], tuple[Problem, ...]], tuple[Problem, ...]]:
    """Adds to the problems of snapshots, each with the "branch NAME" or "tag NAME" that leads to it, their chunks that cannot be decoded, as `verify` does. An
    array is decoded once, however many calls there are, unless its chunks may be intact."""
    virtual = VirtualFiles(options.virtual, report)
    results: Results = {}

    def decode(tips: Sequence[tuple[str, ObjectId]], problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        run = _Decoding(files, problems, virtual, report, results)
        for ref, snapshot in tips:
            run.decode_tip(ref, snapshot, open_session)
        return tuple(run.found.problems)

    return decode


Identity: TypeAlias = "tuple[object, ...]"  # of an array: the same id, path, manifests and grid, so the same values
Results: TypeAlias = "dict[Identity, list[Problem]]"  # the chunks that cannot be decoded, by array


class _Decoded(Record):
    """An array of a tip whose chunks are decoded. shape: of a chunk"""

    array: Array
    node: NodeSnapshot
    references: BaseReferences
    shape: tuple[int, ...]
    subject: Subject


class _Decoding:
    """Decodes the arrays of tips, each array once, even if several tips have it."""

    __slots__ = ("_bad", "_decoded_arrays", "_files", "_report", "_results", "_virtual", "decoded", "found")

    def __init__(
        self,
        files: RepositoryFormat,
        problems: tuple[Problem, ...],
        virtual: VirtualFiles,
        report: Callable[[str, int], object],
        results: Results,
    ) -> None:
        self._files, self._virtual, self._report, self._results = files, virtual, report, results
        self.found, self.decoded = Findings(problems), 0
        self._decoded_arrays: set[Identity] = set()
        self._bad: dict[
            tuple[str, str], list[Columns]
        ] = {}  # by path and key of the manifest: chunks with a known problem
        for problem in problems:
            if problem.chunks is not None and problem.key is not None:
                self._bad.setdefault((problem.path, problem.key), []).append(problem.chunks)

    def decode_tip(
        self, ref: str, snapshot: ObjectId, open_session: Callable[[RepositoryFormat, ObjectId], Session]
    ) -> None:
        try:
            own = self._files.snapshot(snapshot)
            session = open_session(self._files, snapshot)
        except UNREADABLE as error:
            self.found.unreadable("snapshot", error, Subject(ref, encode_id(snapshot)))
            return
        trusted = self._files.rules(own).extents
        for path in own.nodes:
            node = own.nodes.get(path)
            if not isinstance(node, NodeSnapshot) or node.array is None:
                continue
            identity = (
                node.id,
                path,
                tuple(reference.id for reference in node.array.manifests),
                grid_of(node.array.metadata),
            )
            if identity not in self._decoded_arrays:
                self._decoded_arrays.add(identity)
                self._add_problems(identity, session, node, Subject(ref, encode_id(snapshot), path), trusted=trusted)

    def _add_problems(
        self, identity: Identity, session: Session, node: NodeSnapshot, subject: Subject, *, trusted: bool
    ) -> None:
        """Decodes an array, or takes the result of an earlier call."""
        if identity in self._results:
            ref, snapshot, path = subject
            self.found.problems += [
                problem._replace(ref=ref, snapshot=snapshot, path=path) for problem in self._results[identity]
            ]
            return
        before = len(self.found.problems)
        self._decode_array(session, node, subject, trusted=trusted)
        new = self.found.problems[before:]
        if all(problem.kind == "decode" and problem.chunks is not None for problem in new):
            self._results[identity] = new

    def _decode_array(self, session: Session, node: NodeSnapshot, subject: Subject, *, trusted: bool) -> None:
        assert node.array is not None
        metadata = node.array.metadata
        try:
            array = session.open(node.path.strip("/"))
            references = BaseReferences(self._files, node, node.array, trusted=trusted)
            chunks = references.coordinates()
            chunks = sorted_coordinates(chunks[within(chunks, grid_of(metadata))])
            chunks = chunks[~self._is_known_bad(node, chunks, references.find(chunks)[0])]
            chunks = chunks[~self._are_out_of_reach(node, references, chunks, subject)]
        except FrazilError as error:
            if isinstance(error, StoreError) and not isinstance(error, AccessError):
                raise
            self._add_once(error, subject)
            return
        if not isinstance(array, Array):
            self.found.add("decode", "the array cannot be opened", subject)
            return
        budget = array._location.runtime.checked().bytes_in_flight
        array = with_limit(array, budget // 2)
        together = max(1, budget // 4 // max(1, array.dtype.itemsize * prod(metadata.chunk_shape)))
        decoded = _Decoded(array, node, references, metadata.chunk_shape, subject)
        for run in _runs(chunks, together):
            self._read(decoded, run)
            self.decoded += len(run)
            self._report("chunks decoded", len(run))

    def _is_known_bad(self, node: NodeSnapshot, chunks: Columns, parts: Columns) -> Flags:
        """The chunks with a known problem. parts: the number of the manifest in which readers find each chunk"""
        assert node.array is not None
        found = np.zeros(len(chunks), np.bool_)
        for number in range(len(node.array.manifests)):
            for bad in self._bad.get((node.path, self._manifest_key(node, number)), []):
                if bad.shape[1] == chunks.shape[1]:
                    found |= (parts == number) & among(chunks, bad[(bad >= 0).all(axis=1)])
        return found

    def _are_out_of_reach(
        self, node: NodeSnapshot, references: BaseReferences, chunks: Columns, subject: Subject
    ) -> Flags:
        """The virtual chunks whose file is missing, has changed, or may not be read. They are not in the repository, so no repair may give them up."""
        assert node.array is not None
        found = np.zeros(len(chunks), np.bool_)
        parts, rows = references.find(chunks)
        for number in distinct(parts[parts >= 0]).tolist():
            of_part, key = np.flatnonzero(parts == number), self._manifest_key(node, number)
            for text, affected in self._virtual.faults(references.manifest(number), rows[of_part]):
                if affected.any():
                    self.found.add("virtual", text, subject, key, chunks[of_part[affected]])
                    found[of_part[affected]] = True
        return found

    def _manifest_key(self, node: NodeSnapshot, number: int) -> str:
        assert node.array is not None
        return self._files.key(f"manifests/{encode_id(node.array.manifests[number].id)}")

    def _read(self, of: _Decoded, chunks: Columns) -> None:
        """Reads adjacent chunks; if that fails, each half of them."""
        box = tuple(
            slice(low * length, min((high + 1) * length, extent))
            for low, high, length, extent in zip(
                chunks[0].tolist(), chunks[-1].tolist(), of.shape, of.array.shape, strict=True
            )
        )
        try:
            of.array.read(box)
        except (DataError, AccessError) as error:
            if len(chunks) == 1:
                self._add_unreadable(error, of, chunks)
                return
            middle = len(chunks) // 2
            self._read(of, chunks[:middle])
            self._read(of, chunks[middle:])
        except StoreError:  # the chunk may be intact
            raise
        except (FrazilError, MemoryError) as error:  # of the array, or too little memory: the chunks may be intact
            self._add_once(error, of.subject)

    def _add_unreadable(self, error: FrazilError, of: _Decoded, chunk: Columns) -> None:
        """Adds a chunk that cannot be read. If it is virtual and its file is out of reach or changes, it may be intact."""
        parts, row = of.references.find(chunk)
        number = parts.item(0)
        fault = self._virtual.fault_now(of.references.manifest(number), row)
        if fault is not None:
            self.found.add("virtual", fault, of.subject, self._manifest_key(of.node, number), chunk)
        else:
            self.found.add(_kind_of(error), error.message, of.subject, error.key, chunk)

    def _add_once(self, error: FrazilError | MemoryError, subject: Subject) -> None:
        """Adds the problem of an array or its manifests, unless it was added before. Without chunks: a repair gives up none."""
        text, key = (error.message, error.key) if isinstance(error, FrazilError) else (f"MemoryError: {error}", None)
        if not any(text == problem.text and problem.path == subject.path for problem in self.found.problems):
            self.found.add(_kind_of(error), text, subject, key)


def _kind_of(error: FrazilError | MemoryError) -> Kind:
    if isinstance(error, ChunkDecodeError) and error.codec_failed:
        return "codec"
    return "access" if isinstance(error, AccessError) else "decode"


def _runs(chunks: Columns, together: int) -> Iterator[Columns]:
    """Chunks in order, cut into runs that are contiguous along the last dimension."""
    if chunks.shape[1] == 0:
        yield from [chunks[:1]] if len(chunks) else []
        return
    breaks = (chunks[1:, :-1] != chunks[:-1, :-1]).any(axis=1) | (chunks[1:, -1] != chunks[:-1, -1] + 1)
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(chunks)]
    for start, stop in itertools.pairwise(starts):
        for low in range(start, stop, together):
            yield chunks[low : min(low + together, stop)]


def _ignore_progress(_what: str, _count: int) -> None:
    """Progress is not reported."""
