"""Links, pipes and the like in the place of files and folders of a repository: damage, which a listing does not always show. Links are not followed."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from frazil.errors import FormatError, StoreError

if TYPE_CHECKING:
    from frazil.stores.store import Store

__all__ = ["files_alone", "no_file", "refuse_blocked"]

_NO_FILES: Final = (errno.ELOOP, errno.EISDIR, errno.ENXIO)  # a link, a folder, or anything else that is not a file


@contextmanager
def files_alone(hint: str | None = None) -> Iterator[None]:
    """Raises FormatError if something at a key is not a file: that is damage, like an invalid file, and retries are useless."""
    try:
        yield
    except StoreError as error:
        if error.errno not in _NO_FILES:
            raise
        raise no_file(error.key, hint) from error


def no_file(key: str | None, hint: str | None = None) -> FormatError:
    return FormatError(
        "a file of the repository is replaced by a link, a folder or something else that is not a file",
        key=key,
        hint=hint or "move it away, and restore the file from a copy of the repository",
    )


def refuse_blocked(store: Store, folders: Sequence[str]) -> None:
    """Raises FormatError for something other than a folder, such as a link, in the place of a folder ("gc/pins"). Only disks have it, where a look costs no
    request."""
    if not store.capabilities.local:
        return
    for folder in folders:
        parent, _, name = folder.rpartition("/")
        if name in store.list_names(f"{parent}/" if parent else ""):
            raise FormatError(
                "a folder of the repository is replaced by a link, or something else that is not a folder",
                key=folder,
                hint="links are not followed: put the folder itself there, or restore it from a copy; nothing was changed",
            )
