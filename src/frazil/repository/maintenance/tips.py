"""The tips of branches that collections have seen, in the folder `tips` of gc/. Without this record, a branch whose newest file is lost looks as after a reset,
and the commits that only this file named are garbage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

import numpy as np

from frazil.errors import ConflictError, FormatError, NotFoundError
from frazil.formats.ids import encode_id
from frazil.repository.format import RepositoryFormat, Tip
from frazil.repository.maintenance.id_columns import id_column, id_list
from frazil.repository.maintenance.reachable import heads
from frazil.repository.maintenance.records import (
    NUMBERS,
    RecordFile,
    list_records,
    new_record,
    read_records,
    write_record,
)
from frazil.repository.synced_tips import sync_tips

COLUMNS: Final = ("snapshots", "numbers", "names")
_END: Final = "\0"  # between two names: no branch has it


def record_tips(files: RepositoryFormat, lost: Sequence[Tip] | None = None) -> None:
    """Records the present tips, in the place of earlier ones. lost: earlier ones that stay in the record, beside the present ones that exist; None: none may be
    lost. Raises FormatError, also for a lost tip, and StoreError."""
    old = list_records(files, "tips")  # before the tips are read, so that no newer record is removed
    recorded, now = _recorded(files, old), heads(files)
    if lost is None:
        _refuse(files, _lost(files, recorded, {tip.branch: tip for tip in now}))
    else:  # a damaged branch file may name any snapshot
        now = [tip for tip in now if _exists(files, tip)]
    tips = [*(tip._replace(folder="") for tip in now), *(lost or ())]
    if len(old) == 1 and recorded == tips:
        return
    sync_tips(
        files, [tip for tip in now if tip not in recorded]
    )  # else a crash could lose a branch file, and not its record
    names = np.array([*map(ord, _END.join(tip.branch for tip in tips))], NUMBERS)
    numbers = np.array([tip.sequence for tip in tips], NUMBERS)
    columns = {"snapshots": id_column([tip.snapshot for tip in tips]), "numbers": numbers, "names": names}
    write_record(files, new_record("tips"), columns)
    files.erase([record.name for record in old])


def _exists(files: RepositoryFormat, tip: Tip) -> bool:
    with suppress(NotFoundError):
        files.snapshot_id(tip.snapshot)
        return True
    return False


def _recorded(files: RepositoryFormat, records: list[RecordFile]) -> list[Tip]:
    found: list[Tip] = []
    for columns in read_records(files, records, COLUMNS):
        names = "".join(map(chr, columns["names"].tolist())).split(_END)
        found += map(Tip, names, columns["numbers"].tolist(), id_list(columns["snapshots"]))  # type: ignore[arg-type] # a column of ids
    return list(dict.fromkeys(found))


def lost_tips(files: RepositoryFormat, known: Mapping[str, Tip] = MappingProxyType({})) -> list[Tip]:
    """The recorded tips whose branch file is missing or differs, if the branch does not lead to their snapshots any more. Raises FormatError, StoreError.

    known: present tips, by the names of their branches; the others are read"""
    return _lost(files, _recorded(files, list_records(files, "tips")), known)


def _lost(files: RepositoryFormat, recorded: Sequence[Tip], known: Mapping[str, Tip]) -> list[Tip]:
    return [tip for tip in recorded if _is_lost(files, tip, known.get(tip.branch))]


def _is_lost(files: RepositoryFormat, tip: Tip, now: Tip | None) -> bool:
    try:
        if now is None or now.sequence < tip.sequence:  # the branch may have moved since `now` was read
            now = files.read_tip(tip.branch)
        if now is not None and now.sequence > tip.sequence:
            with suppress(ConflictError):
                files.moved(tip._replace(folder=now.folder))
                return False
        elif now is not None and (now.sequence, now.snapshot) == (tip.sequence, tip.snapshot):
            return False
    except FormatError:  # it is reported as damage, and ends collections
        return False
    if now is None or now.deleted:  # a deletion after it leads nowhere, as intended
        return now is None or now.sequence <= tip.sequence or files.store.exists(files.tip_key(tip))
    with suppress(FormatError, NotFoundError):
        return all(found.snapshot != tip.snapshot for found in files.ancestors(now.snapshot))
    return True


def lost_text(tip: Tip) -> str:
    """The problem of a lost tip."""
    return f"its file number {tip.sequence} is missing or differs: when garbage was collected last, it named the snapshot {encode_id(tip.snapshot)}"


def refuse_lost_tips(files: RepositoryFormat) -> None:
    """Raises FormatError for a branch file that is lost: the commits that only it named would be garbage."""
    _refuse(files, lost_tips(files))


def _refuse(files: RepositoryFormat, lost: Sequence[Tip]) -> None:
    for tip in lost:
        raise FormatError(
            f"the branch {tip.branch!r} is damaged: {lost_text(tip)}",
            key=files.tip_key(tip),
            hint="restore the file from a copy, or repair: a new branch then keeps the commit; nothing was removed",
        )
