"""Statistics of a repository, and the usage of its paths, from one scan. Pure except for the scan itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from frazil.base.arrays import distinct
from frazil.errors import NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.manifests import INLINE, NATIVE, VIRTUAL
from frazil.formats.nodes import NodeSnapshot
from frazil.metadata.paths import ancestors
from frazil.repository.format import ObjectKind, RepositoryFormat
from frazil.repository.inspection.listing import KINDS
from frazil.repository.inspection.report import (
    ArrayBytes,
    CommitBytes,
    Kept,
    LargeObject,
    Packing,
    PathUsage,
    Statistics,
)
from frazil.repository.inspection.scan import NO_OWNER, Scan
from frazil.repository.maintenance.id_columns import id_column, id_list
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.manifests.coordinates import grid_of, sorted_coordinates, within
from frazil.repository.manifests.references import BaseReferences
from frazil.stores.values import Columns


def statistics(files: RepositoryFormat, largest: int, progress: Progress) -> Statistics:
    """As Repository.stats. files: with an empty cache. Raises the errors of Scan."""
    scan = Scan(files, progress)
    commits = {kind: _first_commits(scan, kind) for kind in KINDS}
    live, dead = dict[str, Kept](), dict[str, Kept]()
    for kind, first in commits.items():
        sizes = _sizes(scan, kind)
        live[kind] = Kept(int((first != NO_OWNER).sum()), int(sizes[first != NO_OWNER].sum()))
        dead[kind] = Kept(int((first == NO_OWNER).sum()), int(sizes[first == NO_OWNER].sum()))
    return Statistics(
        live,
        dead,
        scan.listed.other,
        _arrays(scan),
        _commits(scan, commits),
        _packing(scan),
        _largest(scan, commits, largest),
        tuple(scan.found.problems),
    )


def _sizes(scan: Scan, kind: ObjectKind) -> Columns:
    sizes = scan.listed.objects[kind].sizes
    assert sizes is not None
    return sizes


def _first_commits(scan: Scan, kind: ObjectKind) -> Columns:
    """For each object of a kind: the number of the first commit that refers to it, or NO_OWNER."""
    if kind == "chunks":
        return scan.file_commit
    numbers_of: Mapping[ObjectId, int]
    if kind == "snapshots":
        numbers_of = {commit.file: number for number, commit in enumerate(scan.commits)}
    else:
        numbers_of = scan.manifests if kind == "manifests" else scan.attributes
    listed = scan.listed.objects[kind].ids
    first = np.full(len(listed), NO_OWNER, np.int64)
    if numbers_of and len(listed):
        ids, numbers = id_column(list(numbers_of)), np.array(list(numbers_of.values()), np.int64)
        at = np.minimum(listed.searchsorted(ids), len(listed) - 1)
        exists = listed[at] == ids
        first[at[exists]] = numbers[exists]
    return first


def _arrays(scan: Scan) -> tuple[ArrayBytes, ...]:
    owners, nbytes = scan.spans[:, 2], scan.new_bytes()
    chunks = np.bincount(owners, minlength=len(scan.paths))
    sums = np.zeros(len(scan.paths), np.int64)
    np.add.at(sums, owners, nbytes)
    rows = zip(scan.paths, chunks.tolist(), sums.tolist(), scan.inline, scan.virtual, strict=True)
    return tuple(ArrayBytes(*row) for row in sorted(rows))


def _commits(scan: Scan, first: Mapping[ObjectKind, Columns]) -> tuple[CommitBytes, ...]:
    count = len(scan.commits)
    objects, nbytes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for kind, numbers in first.items():
        live = numbers != NO_OWNER
        np.add.at(objects, numbers[live], 1)
        np.add.at(nbytes, numbers[live], _sizes(scan, kind)[live])
    return tuple(
        CommitBytes(
            encode_id(commit.file),
            0 if info is None else info.written_at,
            "" if info is None else info.message,
            commit.ref,
            Kept(*added),
        )
        for commit, info, *added in zip(scan.commits, scan.infos, objects.tolist(), nbytes.tolist(), strict=True)
    )


def _packing(scan: Scan) -> Packing:
    chunks = np.bincount(scan.starts.searchsorted(scan.spans[:, 0], "right") - 1, minlength=len(scan.file_commit) + 1)
    chunks = chunks[: len(scan.file_commit)]
    live, sizes = scan.file_commit != NO_OWNER, _sizes(scan, "chunks")
    used = int(scan.new_bytes().sum())
    packs = chunks > 1
    return Packing(
        int(live.sum()),
        int(packs.sum()),
        int(chunks.sum()),
        int(chunks[packs].sum()),
        used,
        int(sizes[live].sum()) - used,
    )


def _largest(scan: Scan, first: Mapping[ObjectKind, Columns], most: int) -> tuple[LargeObject, ...]:
    found: list[tuple[int, ObjectKind, int]] = []
    for kind in KINDS:
        sizes = _sizes(scan, kind)
        top = sizes.argsort(kind="stable")[::-1][:most].tolist()
        found += [(int(sizes[row]), kind, row) for row in top]
    found.sort(key=lambda pair: -pair[0])
    objects = []
    for nbytes, kind, row in found[:most]:
        identity = id_list(scan.listed.objects[kind].ids[row : row + 1])[0]
        commit = int(first[kind][row])
        owner = int(scan.file_array[row]) if kind == "chunks" else NO_OWNER
        objects.append(
            LargeObject(
                f"{kind}/{encode_id(identity)}",
                nbytes,
                commit != NO_OWNER,
                "" if commit == NO_OWNER else encode_id(scan.commits[commit].file),
                "" if owner == NO_OWNER else scan.paths[owner],
            )
        )
    return tuple(objects)


# --- by path -----------------------------------------------------------------------------------------------------------------------------


def usage(
    files: RepositoryFormat, snapshot: ObjectId, below: str, progress: Progress
) -> tuple[tuple[PathUsage, ...], Scan]:
    """The nodes of a snapshot at and below an absolute path, and former arrays of its history; sorted by path. Raises the errors of Scan, and those of reading
    the snapshot and its manifests."""
    scan = Scan(files, progress)
    own = files.snapshot(snapshot)
    bytes_by_path = {array.path: array.nbytes + array.inline_nbytes for array in _arrays(scan) if array.path}
    found: dict[str, PathUsage] = {}
    trusted = files.rules(own).extents
    for path in own.nodes:
        node = own.nodes.get(path)
        if not _is_below(path, below) or not isinstance(node, NodeSnapshot):
            continue
        if node.array is None:
            found[path] = PathUsage(path, "group", 0, 0, 0, 0)
        else:
            found[path] = PathUsage(
                path, "array", *_referenced(files, node, trusted=trusted), bytes_by_path.get(path, 0)
            )
    for path, nbytes in bytes_by_path.items():
        if _is_below(path, below) and (path not in found or found[path].kind == "group"):  # which replaced the array
            found[path] = PathUsage(path, "group" if path in found else "gone", 0, 0, 0, nbytes)
    if not found and below != "/":
        raise NotFoundError("no commit has a node of this path", path=below, hint="check the path")
    found = found or {below: PathUsage(below, "group", 0, 0, 0, 0)}  # the root of a new repository
    _sum_up(found, below)
    return tuple(found[path] for path in sorted(found, key=lambda path: path.split("/"))), scan


def _is_below(path: str, below: str) -> bool:
    return below in ("/", path) or path.startswith(below + "/")


def _referenced(files: RepositoryFormat, node: NodeSnapshot, *, trusted: bool) -> tuple[int, int, int]:
    """The number of chunks of an array, their bytes in the repository, and their bytes in files elsewhere."""
    assert node.array is not None
    references = BaseReferences(files, node, node.array, trusted=trusted)
    chunks = references.coordinates()
    chunks = sorted_coordinates(chunks[within(chunks, grid_of(node.array.metadata))])
    parts, rows = references.find(chunks)
    nbytes = virtual = 0
    for part in distinct(parts).tolist():
        manifest, of_part = references.manifest(part), rows[parts == part]
        kinds, lengths = manifest.kinds[of_part], manifest.lengths[of_part]
        nbytes += int(lengths[(kinds == NATIVE) | (kinds == INLINE)].sum())
        virtual += int(lengths[kinds == VIRTUAL].sum())
    return len(chunks), nbytes, virtual


def _sum_up(found: dict[str, PathUsage], below: str) -> None:
    """Sets the sums of groups, and adds groups that are gone."""
    for entry in [entry for entry in found.values() if entry.kind != "group" or entry.kept_nbytes]:
        for above in [f"/{path}" for path in ancestors(entry.path[1:])]:
            if not _is_below(above, below):
                continue
            group = found.get(above) or PathUsage(above, "group" if above == "/" else "gone", 0, 0, 0, 0)
            kind = "group" if group.kind == "gone" != entry.kind else group.kind
            sums = [getattr(group, name) + getattr(entry, name) for name in PathUsage._fields[2:]]
            found[above] = PathUsage(above, kind, *sums)
