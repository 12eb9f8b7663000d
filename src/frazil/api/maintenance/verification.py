"""Checks the arguments of Repository.verify, and decodes the chunks of branches and tags through the engine.

Checks without decoding are in repository/verification/."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from frazil.array.arguments import check_flag
from frazil.array.array import Array, with_limit
from frazil.base.record import Record
from frazil.errors import AccessError, DataError, FrazilError, InvalidInputError, StoreError
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
    from numpy.typing import NDArray

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
    found, tips, _ = check(fresh, report, depth)
    if not checks.decode:
        return found
    run = _Decoding(fresh, found.problems, report)
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
    report: Callable[[str, int], object],
) -> Callable[[Sequence[tuple[str, ObjectId]], tuple[Problem, ...]], tuple[Problem, ...]]:
    """Adds to the problems of tips, each "branch NAME" or "tag NAME" with its snapshot, their chunks that cannot be decoded, as `verify` does."""

    def decode(tips: Sequence[tuple[str, ObjectId]], problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        run = _Decoding(files, problems, report)
        for ref, snapshot in tips:
            run.decode_tip(ref, snapshot, open_session)
        return tuple(run.found.problems)

    return decode


class _Decoding:
    """Decodes the arrays of tips, each array once, even if several tips have it."""

    __slots__ = ("_bad", "_decoded_arrays", "_files", "_report", "decoded", "found")

    def __init__(
        self, files: RepositoryFormat, problems: tuple[Problem, ...], report: Callable[[str, int], object]
    ) -> None:
        self._files, self._report = files, report
        self.found, self.decoded = Findings(problems), 0
        self._decoded_arrays: set[tuple[object, ...]] = set()
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
            # the same id, manifests and metadata: the same values
            identity = (
                node.id,
                path,
                tuple(reference.id for reference in node.array.manifests),
                grid_of(node.array.metadata),
            )
            if identity not in self._decoded_arrays:
                self._decoded_arrays.add(identity)
                self._decode_array(session, node, Subject(ref, encode_id(snapshot), path), trusted=trusted)

    def _decode_array(self, session: Session, node: NodeSnapshot, subject: Subject, *, trusted: bool) -> None:
        assert node.array is not None
        metadata = node.array.metadata
        try:
            array = session.root[node.path.strip("/")] if node.path != "/" else session.root
            references = BaseReferences(self._files, node, node.array, trusted=trusted)
            chunks = references.coordinates()
            chunks = sorted_coordinates(chunks[within(chunks, grid_of(metadata))])
            chunks = chunks[~self._is_known_bad(node, chunks, references.find(chunks)[0])]
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
        for run in _runs(chunks, together):
            self._read(array, run, metadata.chunk_shape, subject)
            self.decoded += len(run)
            self._report("chunks decoded", len(run))

    def _is_known_bad(self, node: NodeSnapshot, chunks: Columns, parts: Columns) -> NDArray[np.bool_]:
        """The chunks with a known problem. parts: the number of the manifest in which readers find each chunk"""
        assert node.array is not None
        found = np.zeros(len(chunks), np.bool_)
        for number, reference in enumerate(node.array.manifests):
            for bad in self._bad.get((node.path, self._files.key(f"manifests/{encode_id(reference.id)}")), []):
                if bad.shape[1] == chunks.shape[1]:
                    found |= (parts == number) & among(chunks, bad[(bad >= 0).all(axis=1)])
        return found

    def _read(self, array: Array, chunks: Columns, shape: tuple[int, ...], subject: Subject) -> None:
        """Reads adjacent chunks; if that fails, each half of them."""
        box = tuple(
            slice(low * length, min((high + 1) * length, extent))
            for low, high, length, extent in zip(
                chunks[0].tolist(), chunks[-1].tolist(), shape, array.shape, strict=True
            )
        )
        try:
            array.read(box)
        except (DataError, StoreError) as error:
            if len(chunks) == 1:
                self.found.add(_kind_of(error), error.message, subject, error.key, chunks)
                return
            middle = len(chunks) // 2
            self._read(array, chunks[:middle], shape, subject)
            self._read(array, chunks[middle:], shape, subject)
        except FrazilError as error:  # of the array, such as a missing codec
            self._add_once(error, subject, chunks)

    def _add_once(self, error: FrazilError, subject: Subject, chunks: Columns | None = None) -> None:
        """Adds the problem of an array or its manifests, unless it was added before."""
        if not any(error.message == problem.text and problem.path == subject.path for problem in self.found.problems):
            self.found.add(_kind_of(error), error.message, subject, error.key, chunks)


def _kind_of(error: FrazilError) -> Kind:
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
