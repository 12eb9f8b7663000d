"""A session with the changes between any two snapshots, as if they had been made in it. A rebase moves them to the tip of a branch: so branches are merged, and
commits applied and reverted, under the rules of every rebase."""

from __future__ import annotations

from frazil.formats.ids import ObjectId
from frazil.metadata.registry import MetadataExtensions
from frazil.repository.format import RepositoryFormat, Tip
from frazil.repository.merge.apply import apply
from frazil.repository.merge.snapshot_delta import snapshot_delta
from frazil.repository.session.branches import Branches
from frazil.repository.session.change_set import ChangeSet
from frazil.repository.session.session_state import Options
from frazil.repository.session.transaction import Transaction


def replayed(
    files: RepositoryFormat,
    old: ObjectId,
    new: ObjectId,
    tip: Tip,
    extensions: MetadataExtensions,
    options: Options,
    branches: Branches,
    *,
    undoes: bool,
) -> Transaction:
    """A session on the snapshot `old` that has the changes from it to `new`. Its chunks stay in the files of `new`. It must be rebased to the tip before
    anything else is done with it. undoes: `new` is the older one, so that no array has grown by an append.

    Raises NotFoundError, FormatError, StoreError; ConflictError if a node that changed cannot be read."""
    before = files.snapshot(old)
    changes = ChangeSet(before.nodes)
    delta = snapshot_delta(files, before, files.snapshot(new), files.match_nodes(old, new), source=changes, exact=True)
    if undoes:
        resizes = {path: change._replace(append=None) for path, change in delta.metadata.items()}
        delta = delta._replace(metadata=resizes)
    apply(delta, changes, changes, changes.key_at)
    transaction = Transaction(files, old, before, tip, extensions, options, changes=changes, branches=branches)
    with transaction.lock:
        transaction.make_room(0)
    return transaction
