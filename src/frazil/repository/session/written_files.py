"""The files that a session wrote: which of them may be removed, and when.

commit/ writes them; the session's change set refers to them."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

import numpy as np

from frazil.base.arrays import Octets
from frazil.base.record import Record
from frazil.formats.ids import ID_BYTES, ObjectId, encode_ids
from frazil.repository.format import RepositoryFormat, Tip
from frazil.repository.session.change_set import NodeChange

_NONE: Final = np.zeros((0, ID_BYTES), np.uint8)
_KEPT_FILES: Final = 16  # superseded chunk files that are kept for concurrent readers


class Intent(Record):
    """A commit whose branch file may have been sent, and whose outcome is unknown. None of its files is removed.

    snapshot  the id of the commit if it happened
    tip       of the branch at that time: the file after it decides the outcome
    state     of the session at that time
    files     names of the files that were written only for it: manifests, snapshot, attributes"""

    snapshot: ObjectId
    tip: Tip
    state: int
    files: tuple[str, ...]


class WrittenFiles:
    """Removes files of one session that nothing refers to, except those that an intent may refer to. The caller holds the session's lock.

    intents  commits of the session whose outcome is unknown, all with the same tip"""

    def __init__(self, files: RepositoryFormat) -> None:
        self.intents: tuple[Intent, ...] = ()
        self._leaves = False  # a ref may point to a snapshot of a failed commit: nothing is removed any more
        self._files = files
        self._dropped = _NONE  # chunk files that are removed later
        self._held: list[Octets] = []  # chunk files that only an intent may refer to

    def is_unknown(self, base: ObjectId) -> bool:
        """Whether a commit may have happened, or may still happen. base: the snapshot of the session: one that it has happened"""
        return bool(self.intents) and all(intent.snapshot != base for intent in self.intents)

    def superseded(self, ids: Octets) -> None:
        """Removes chunk files that the session no longer refers to. The last few are kept for concurrent readers; all are kept while there are
        intents."""
        if not len(ids):
            return
        if self.intents:
            self._held.append(ids)
            return
        self._dropped = every = np.concatenate((self._dropped, ids))
        self._erase_chunks(every[:-_KEPT_FILES])
        self._dropped = every[-_KEPT_FILES:]

    def sweep(self) -> None:
        """Also removes the files kept for readers."""
        self._erase_chunks(self._dropped)
        self._dropped = _NONE

    def lost(self, intents: Iterable[Intent], reused: Container[str] = (), *, may_be_named: bool = False) -> None:
        """Removes the files of commits that did not happen and never will. reused: names of files that stay

        may_be_named  a collection may have condemned the snapshots long ago, and a branch or a tag may point to one: all files are left to collections"""
        intents = tuple(intents)
        self.intents = tuple(intent for intent in self.intents if intent not in intents)
        names = [name for intent in intents for name in intent.files if name not in reused]
        self._leaves = self._leaves or (may_be_named and bool(names))
        if names and not self._leaves:
            self._files.erase(names)
        if not self.intents:
            waiting, self._held = self._held, []
            for ids in waiting:
                self.superseded(ids)

    def forget(self) -> None:
        """Keeps files that intents may refer to, after the session was discarded: garbage collection removes them if it may."""
        self._held, self.intents = [], ()

    def _erase_chunks(self, ids: Octets) -> None:
        if len(ids) and not self._leaves:
            self._files.erase(f"chunks/{text}" for text in encode_ids(ids))


def own_files(changes: Iterable[NodeChange]) -> Octets:
    """The chunk files that a session wrote for one chunk each, and refers to: uint8[n, 12]."""
    references = [change.references for change in changes if change.references is not None]
    return np.concatenate([_NONE, *(found.whole_files(found.current()) for found in references)])
