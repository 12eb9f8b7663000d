"""The journal at a destination while a copy or a rechunk writes there: the kind of operation, its run, and its progress.

Without it, an unfinished array would look like other data. Not here: which keys are written, and in which order."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from frazil.base.record import Record
from frazil.errors import AlreadyExistsError, FrazilError, MetadataError
from frazil.metadata.json_text import Json, dump_json, parse_json
from frazil.operations.copy.plan import is_document, is_reference
from frazil.operations.copy.run import erase_names, names_below
from frazil.stores.keys.names import COPY_JOURNAL
from frazil.stores.store import Store
from frazil.stores.values import ANY, Changed, Version, pieces_of

JOURNAL_NAME: Final = COPY_JOURNAL

_MARK: Final = "frazil_copy"


class Journal(Record):
    """A journal under its own key at the destination. It exists as long as a copy or a rechunk runs.

    origin    the source as text
    emptying  old keys are being removed
    run       the run that wrote it: of two runs the later one takes over, and the other fails
    state     of a rechunk: its progress, for a run that resumes it
    source    of a rechunk: a digest of the versions of its source"""

    origin: str
    emptying: bool = False
    run: str = ""
    state: Mapping[str, Json] = {}
    source: str = ""

    def emit(self) -> bytes:
        """The bytes of the journal."""
        return dump_json(
            {
                _MARK: 1,
                "origin": self.origin,
                **({"emptying": True} if self.emptying else {}),
                **({"run": self.run} if self.run else {}),
                **({"state": dict(self.state)} if self.state else {}),
                **({"source": self.source} if self.source else {}),
                "note": "a copy is under way; run it again with the same arguments to finish it",
            }
        )


def parse_journal(value: bytes | None) -> Journal | None:
    """The journal; None for any other value."""
    try:
        document = None if value is None else parse_json(value)
    except MetadataError:
        return None
    if isinstance(document, dict) and document.get(_MARK) == 1 and isinstance(document.get("origin"), str):
        state = document.get("state")
        return Journal(
            str(document["origin"]),
            document.get("emptying") is True,
            str(document.get("run", "")),
            state if isinstance(state, dict) else {},
            str(document.get("source", "")),
        )
    return None


def put_journal(store: Store, root: str, journal: Journal, present: Version | None) -> Version | None:
    """Writes the journal in place of one with the version `present` (ABSENT: of none), or of this run: a zip archive that becomes smaller gives its values new
    versions. Returns its new version. Of two runs with one destination, one succeeds. Raises AlreadyExistsError."""
    key = root + JOURNAL_NAME
    expect = present if store.capabilities.expects else ANY  # `put` requires more of the store
    answer = store.put_many([key], pieces_of([journal.emit()]), [expect])[0]
    if isinstance(answer, Changed):
        stored = store.get_versioned(key) if journal.run else None
        found = None if stored is None else parse_journal(stored[0])
        if stored is None or found is None or found.run != journal.run:
            raise _in_use_error(store, root)
        return put_journal(store, root, journal, stored[1])
    return answer


def require_only_journal(store: Store, root: str) -> None:
    """Refuses a destination where other keys were written since it was checked. They are not changed. Raises AlreadyExistsError."""
    keys = store.list_page(root, limit=2).keys
    if any(key != root + JOURNAL_NAME for key in keys):
        store.erase(root + JOURNAL_NAME)
        raise _in_use_error(store, root)


def erase_journal(store: Store, root: str, journal: Journal) -> None:
    """Removes the journal of this run, in any state; the run is then finished. Raises AlreadyExistsError where another run took over: it may have removed keys
    of this run."""
    key = root + JOURNAL_NAME
    stored = store.get_versioned(key)
    found = None if stored is None else parse_journal(stored[0])
    if stored is None or (found is not None and found._replace(state=journal.state) != journal):
        raise _in_use_error(store, root)
    conditional = store.capabilities.expects and store.capabilities.conditional_erase
    if isinstance(store.erase_many([key], [stored[1] if conditional else ANY])[0], Changed):
        raise _in_use_error(store, root)


def forget_journal(store: Store, root: str, journal: Journal) -> None:
    """Removes the journal of a run that failed before anything was written: there is nothing to resume."""
    with contextlib.suppress(FrazilError):
        if list(store.list_page(root, limit=2).keys) == [root + JOURNAL_NAME]:
            erase_journal(store, root, journal)


def _in_use_error(store: Store, root: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"another process writes to the same destination, {store}",
        path=root or "/",
        hint="let it finish, or choose another location",
    )


def empty_destination(store: Store, root: str) -> None:
    """Removes all keys at the destination except the journal. References and documents of all nodes are removed first: a reader then gets an error, and does
    not read missing chunks as fill values."""
    for is_first in (is_reference, is_document):
        for names in names_below(store, root):
            erase_names(store, root, [name for name in names if is_first(name)])
    keys, prefixes = store.list_dir(root)
    erase_names(store, "", [key for key in keys if key != root + JOURNAL_NAME])
    for prefix in prefixes:
        store.erase_prefix(prefix)
