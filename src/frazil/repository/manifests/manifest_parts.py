"""Pieces of manifests: the rows of one array, extracted, joined, split evenly, and trimmed. Pure.

placement.py decides which pieces a commit makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Octets, offsets_of
from frazil.base.reports import counted
from frazil.errors import FormatError, InvalidInputError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.manifests import (
    INLINE,
    ROW_COLUMNS,
    FileCheck,
    Manifest,
    join_manifests,
    location_columns,
    rows_of_array,
    rows_of_node,
    select_rows,
)
from frazil.repository.manifests.boxes import Extents
from frazil.repository.virtual.file_checks import distinct_location
from frazil.stores.values import Columns


def piece_of(manifest: Manifest, node: int, rank: int) -> Manifest:
    """The rows of one array in an ordered manifest, without rows of other nodes and ranks; the manifest itself if it has no others."""
    rows, _ = rows_of_array(manifest, node, rank)
    return manifest if rows.size == manifest.size else trimmed(select_rows(manifest, rows))


def require_box(manifest: Manifest, node: int, rank: int, box: Extents | None, identity: ObjectId) -> None:
    """Raises FormatError for an ordered manifest with other references of an array than its box in the snapshot says, as the file of another manifest: chunks
    would read as fill value, and a commit would make its references permanent.

    Compares the number of references, the first and the last, as comparing each takes as long as decoding the manifest. box: None, if the snapshot has none"""
    if box is None:
        return
    own, starts = rows_of_node(manifest, node), manifest.starts
    if own.stop - own.start == box.count:
        spans = [slice(starts.item(row), starts.item(row + 1)) for row in (own.start, own.stop - 1)]
        ends = [manifest.coordinates[span].tolist() for span in spans]
        if all(len(end) == rank and box.has(end) for end in ends):
            return
    chunks = rows_of_array(manifest, node, rank)[1]  # without rows of another rank, which readers skip
    if len(chunks) == box.count and box.has_each(chunks).all():
        return
    found = (
        "references of other chunks"
        if len(chunks) == box.count
        else f"{counted(len(chunks), 'reference')} of the array, other"
    )
    raise FormatError(
        f"the manifest {encode_id(identity)} has {found} than the snapshot says",
        key=f"manifests/{encode_id(identity)}",
        hint="verify says what is damaged, repair what can be done about it",
    )


def join_pieces(pieces: Sequence[Manifest]) -> Manifest:
    """All references, sorted. If two have the same key, that of the later piece is used. So are its flags, but each reference keeps the check of its own
    file."""
    if len(pieces) == 1:
        return pieces[0]
    flags = {name: value for piece in pieces for name, value in piece.flags.items()}
    checks: Mapping[str, FileCheck] = pieces[0].checks
    if any(piece.checks != checks for piece in pieces):
        pieces, checks = _with_distinct_checks(pieces)
    return join_manifests(pieces, flags=flags, checks=checks)


def _with_distinct_checks(pieces: Sequence[Manifest]) -> tuple[list[Manifest], dict[str, FileCheck]]:
    """The pieces with locations changed so that each means one state of a file, and the checks of all."""
    locations: set[str] = set()
    joined: dict[str, FileCheck] = {}
    done: list[Manifest] = []
    for piece in reversed(pieces):
        names, own = piece.all_locations(), piece.checks
        distinct: list[str] = []
        for name in names:
            check = own.get(name)
            text = distinct_location(name, check, locations, joined)
            locations.add(text)
            if check is not None:
                joined[text] = check
            distinct.append(text)
        if distinct != names:
            text_column, starts = location_columns(distinct)
            piece = piece._replace(location_text=text_column, location_starts=starts)
        done.append(piece)
    return done[::-1], joined


def split_piece(piece: Manifest, most: int) -> list[Manifest]:
    """The rows in their order, in the fewest pieces of at most `most` rows, with sizes that differ by at most one row. The pieces share
    inline bytes and locations."""
    number = -(-piece.size // most)
    if number < 2:
        return [piece] * number
    bounds = [at * piece.size // number for at in range(number + 1)]
    return [_slice(piece, first, last) for first, last in pairwise(bounds)]


def _slice(piece: Manifest, first: int, last: int) -> Manifest:
    """Rows first to last - 1, without copying."""
    starts = piece.starts[first : last + 1]
    coordinates = piece.coordinates[starts[0] : starts[-1]]
    rows = {name: getattr(piece, name)[first:last] for name in ROW_COLUMNS}
    return piece._replace(starts=starts - starts[0], coordinates=coordinates, **rows)


# --- unused parts ------------------------------------------------------------------------------------------------------------------


def trimmed(piece: Manifest) -> Manifest:
    """The same without inline bytes, locations and checks that no row uses; itself if there are none."""
    if piece.inline.size:
        inline = piece.kinds == INLINE
        if piece.lengths.dot(inline) < piece.inline.size:
            offsets = piece.offsets.copy()
            data, starts = _gather(piece.inline, offsets[inline], piece.lengths[inline])
            offsets[inline] = starts[:-1]
            piece = piece._replace(inline=data, offsets=offsets)
    if piece.location_starts.size > 1:
        piece = _trim_locations(piece)
    return piece


def _trim_locations(piece: Manifest) -> Manifest:
    used = np.zeros(piece.location_starts.size, np.bool_)
    used[piece.locations] = True  # most may be -1, which marks the last place: it is not a location
    used[-1] = False
    if used[:-1].all():
        return piece
    numbers = np.flatnonzero(used)
    begin = piece.location_starts[numbers]
    text, starts = _gather(piece.location_text, begin, piece.location_starts[numbers + 1] - begin)
    new_numbers = np.cumsum(used, dtype=np.int32) - 1
    locations = np.where(piece.locations < 0, np.int32(-1), new_numbers[piece.locations]).astype(np.int32)
    piece = piece._replace(location_text=text, location_starts=starts, locations=locations)
    if piece.checks:
        names = set(piece.all_locations())
        piece = piece._replace(checks={text: check for text, check in piece.checks.items() if text in names})
    return piece


def _gather(data: Octets, offsets: Columns, lengths: Columns) -> tuple[Octets, Columns]:
    """Spans of some bytes, side by side, and where each begins, with the end of the last: int64[n + 1]."""
    starts = offsets_of(lengths)
    out = np.empty(int(starts[-1]), np.uint8)
    rows = np.stack([np.full(lengths.size, -1), offsets, lengths], axis=1)
    for row, _, text in _kernel.read_rows(None, [np.ascontiguousarray(data)], rows, out, starts, 1):
        raise InvalidInputError(f"a manifest's inline chunk or location {row} is outside its bytes: {text}")
    out.flags.writeable = False
    return out, starts
