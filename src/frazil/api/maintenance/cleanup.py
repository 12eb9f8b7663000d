"""Checks the arguments of Repository.garbage_collect and Repository.expire, and calls the garbage collection and the expiry.

Both are in repository/maintenance/."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from frazil.api.lookup import nanoseconds
from frazil.api.maintenance.verification import check_progress
from frazil.array.arguments import check_flag
from frazil.errors import InvalidInputError, shown
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance import collection, expiry
from frazil.repository.maintenance.condemned import WAIT
from frazil.repository.maintenance.report import Collected, Expired

DEFAULT_WAIT: Final = timedelta(microseconds=WAIT // 1000)


def garbage_collect(
    files: RepositoryFormat,
    wait: timedelta,
    progress: Callable[[str, int], object] | None,
    *,
    now: bool,
    accept_loss: bool,
    dry_run: bool,
) -> Collected:
    """As Repository.garbage_collect."""
    check_flag(now, "now")
    check_flag(accept_loss, "accept_loss")
    check_flag(dry_run, "dry_run")
    if not isinstance(wait, timedelta):
        raise InvalidInputError(f"wait is {wait!r}; it must be a timedelta", hint="wait=timedelta(hours=24)")
    report = check_progress(progress)
    waits = 0 if now else max(_ns(wait), 1)
    return collection.collect(files, waits, report, accept_loss=accept_loss, dry_run=dry_run)


def expire(
    files: RepositoryFormat,
    older_than: datetime | timedelta | str,
    keep_last: int,
    *,
    keep_tagged: bool,
    branches_too: bool,
    dry_run: bool,
) -> Expired:
    """As Repository.expire."""
    check_flag(keep_tagged, "keep_tagged")
    check_flag(branches_too, "expire_branches")
    check_flag(dry_run, "dry_run")
    if isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 1:
        raise InvalidInputError(f"keep_last is {keep_last!r}; it must be a whole number, 1 or more")
    if not isinstance(older_than, datetime | timedelta | str):
        raise InvalidInputError(f"older_than is {shown(older_than)}; it must be a timedelta, or a datetime with tzinfo")
    if isinstance(older_than, timedelta) and older_than < timedelta(0):
        raise InvalidInputError(
            f"older_than is {older_than!r}; it must be zero or more, as a negative age would let everything expire",
            hint="timedelta(0) lets everything expire that is not kept",
        )
    limit = time.time_ns() - _ns(older_than) if isinstance(older_than, timedelta) else nanoseconds(older_than)
    return expiry.expire(files, expiry.Policy(limit, keep_last, keep_tagged, branches_too), dry_run=dry_run)


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
