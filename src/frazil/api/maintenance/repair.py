"""Checks the arguments of Repository.repair, finds undecodable chunks through the engine, and calls the repair.

The repair itself is in repository/repair/."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from frazil.api.maintenance.verification import Checks, check_progress, decoder
from frazil.array.arguments import check_flag
from frazil.formats.ids import ObjectId
from frazil.repository.format import RepositoryFormat
from frazil.repository.repair import repair as repairs
from frazil.repository.repair.report import Consents, Repair
from frazil.repository.session.transaction import Options

if TYPE_CHECKING:
    from frazil.api.session import Session


def repair(
    files: RepositoryFormat,
    open_session: Callable[[RepositoryFormat, ObjectId], Session],
    options: Options,
    checks: Checks,
    consents: Consents,
    progress: Callable[[str, int], object] | None,
    *,
    dry_run: bool,
) -> Repair:
    """As Repository.repair. open_session: opens a snapshot of the given repository for reading."""
    for name, value in (*consents._asdict().items(), ("dry_run", dry_run)):
        check_flag(value, name)
    report = check_progress(progress)
    depth = checks.depth(options, report)
    fresh = files.uncached()
    decode = decoder(fresh, open_session, options, report) if checks.decode else None
    return repairs.repair(fresh, consents, depth, decode, report, dry_run=dry_run)
