"""The files that garbage collections leave under gc/: whether the next one, and those who create tags and branches, can read them. Records of expiry are looked at with histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from frazil.errors import FormatError
from frazil.repository.maintenance.condemned import KINDS
from frazil.repository.maintenance.records import Folder, list_records, read_records
from frazil.repository.verification.report import Findings, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frazil.repository.format import RepositoryFormat

__all__ = ["check_collection_files"]

# lost marks cost time alone, and the files of runs have no content
_NEEDED: Final[Mapping[str, Sequence[str]]] = {"condemned": KINDS, "pins": ("snapshots",)}


def check_collection_files(files: RepositoryFormat, found: Findings) -> None:
    """Reads lists of condemned objects, and pins. A list may name what is live: it was condemned before it was committed or tagged, and the next collection keeps it. Raises
    StoreError."""
    for record in list_records(files):
        names = _NEEDED.get(record.folder)
        if names is not None:
            try:
                read_records(files, [record], names)
            except FormatError as error:
                found.add("collection", f"{error.message}; {error.hint}", Subject(), error.key)
        elif record.folder not in get_args(Folder):
            text = "no collection of this version writes such a file: a later version may be at work here"
            found.add("collection", text, Subject(), files.key(record.name))
