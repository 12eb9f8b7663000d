"""Links, pipes and the like in the place of files and folders of a repository: damage, which a listing does not always show. Links are not followed."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

from frazil.errors import FormatError, StoreError
from frazil.stores.store import Store

_NO_FILES: Final = (errno.ELOOP, errno.EISDIR, errno.ENXIO)  # a link, a folder, or anything else that is not a file


class files_alone:  # noqa: N801 # as contextlib.suppress; every access to a file enters it, and a generator takes five times as long
    """Raises FormatError if something at a key is not a file: that is damage, like an invalid file, and retries are useless."""

    __slots__ = ("_hint",)

    def __init__(self, hint: str | None = None) -> None:
        self._hint = hint

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreError) and error.errno in _NO_FILES:
            raise no_file(error.key, self._hint) from error


def no_file(key: str | None, hint: str | None = None) -> FormatError:
    return FormatError(
        "a file of the repository is replaced by a link, a folder or something else that is not a file",
        key=key,
        hint=hint or "move it away, and restore the file from a copy of the repository",
    )


def refuse_replaced(store: Store, folders: Sequence[str]) -> None:
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
