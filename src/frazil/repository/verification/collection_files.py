"""The files that garbage collections leave under gc/: whether later collections, and writers of tags and branches, can read them. Records of expiry are checked
in histories.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from frazil.errors import AccessError, FormatError
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.condemned import KINDS
from frazil.repository.maintenance.records import LATER, Folder, list_records, read_records
from frazil.repository.maintenance.tips import COLUMNS
from frazil.repository.verification.report import Findings, Subject

# a lost mark only costs time, and the files of runs have no content
_NEEDED: Final[Mapping[str, Sequence[str]]] = {
    "condemned": KINDS,
    "lost": ("chunks",),
    "pins": ("snapshots",),
    "tips": COLUMNS,
}


def check_collection_files(files: RepositoryFormat, found: Findings) -> None:
    """Reads the lists of condemned objects, and the pins. A list may contain an object that is in use, as it was committed or tagged later: the next collection
    keeps it. Raises StoreError."""
    try:
        records = list_records(files)
    except (FormatError, AccessError) as error:
        found.add("collection", f"{error.message}; {error.hint}", Subject(), error.key)
        return
    for record in records:
        names = _NEEDED.get(record.folder)
        if names is not None:
            try:
                read_records(files, [record], names)
            except (FormatError, AccessError) as error:
                found.add("collection", f"{error.message}; {error.hint}", Subject(), error.key)
        elif record.folder not in get_args(Folder):
            found.add("collection", LATER, Subject(), files.key(record.name))
