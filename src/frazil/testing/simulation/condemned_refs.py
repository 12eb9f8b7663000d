"""Simulated clients that point branches and tags to snapshots that may be condemned, and commit to these branches from sessions that began long before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.array.array import Array
from frazil.errors import AlreadyExistsError, ConflictError, DataError, NotFoundError, StoreError
from frazil.formats.ids import encode_id
from frazil.repository.maintenance.condemned import condemned_ids
from frazil.repository.maintenance.id_columns import id_list

if TYPE_CHECKING:
    from frazil.api.repository import Repository
    from frazil.api.session import Session
    from frazil.testing.simulation.ledger import Ledger
    from frazil.testing.simulation.store import World

_REFUSED: Final = (NotFoundError, ConflictError, AlreadyExistsError, DataError, StoreError)
_PREFIX: Final = "side-"


class Rescuer:
    """One client. An error is not a defect, because condemned objects may be gone; but after a success the objects must exist for ever."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.world, self.ledger, self.random = world, ledger, world.random
        self.session: Session | None = None  # of a side branch; committed later

    def rescue(self, repo: Repository, token: str) -> None:
        """Creates a tag or a branch, resets or deletes a branch, writes to one, or commits an earlier write."""
        try:
            self._rescue(repo, token)
        except _REFUSED as error:
            self.world.scheduler.note(f"refused: {type(error).__name__}")

    def _rescue(self, repo: Repository, token: str) -> None:
        branches = [name for name in repo.branches if name.startswith(_PREFIX)]
        draw = self.random.random()
        if self.session is not None and draw < 0.5:
            session, self.session = self.session, None
            session.commit("on the side", rebase=self.random.choice((None, "disjoint")))
        elif branches and draw < 0.7:
            self.session = repo.writable_session(self.random.choice(branches))
            self._write(self.session)
        elif branches and draw < 0.75:
            repo.delete_branch(self.random.choice(branches))
        elif branches and draw < 0.85:
            repo.reset_branch(self.random.choice(branches), self._snapshot(repo))
        elif draw < 0.93:
            repo.create_branch(f"{_PREFIX}{token}", self._snapshot(repo))
        else:
            snapshot, name = self._snapshot(repo), f"tag-{token}"
            repo.create_tag(name, snapshot)
            if snapshot in self.ledger.states:
                self.ledger.tags[name] = snapshot

    def _snapshot(self, repo: Repository) -> str:
        """A snapshot that is or was condemned; if there is none, any snapshot."""
        found = condemned_ids(repo._files)["snapshots"]
        names = [encode_id(snapshot_id) for snapshot_id in id_list(found)]
        existing = [name for name in names if f"snapshots/{name}" in self.world.medium.values]
        return self.random.choice(sorted(existing or self.ledger.states))

    def _write(self, session: Session) -> None:
        """A chunk file and an attribute."""
        root, value = session.root, self.random.randrange(1, 100)
        root.attrs["side"] = value
        for path, node in root.members(None):
            if isinstance(node, Array) and node.ndim == 1 and node.shape[0] >= 600 and node.dtype == np.uint8:
                self.world.scheduler.note(f"writes {path} on the side")
                node[:600] = value
                return
