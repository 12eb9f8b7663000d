"""Small files beneath a root folder, read whole in one call of the kernel. Which keys these are, and what is in them, is decided elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from frazil import _kernel
from frazil.stores.local.system_errors import NOWHERE, refused

__all__ = ["read_documents"]


def read_documents(root: int, keys: Sequence[str]) -> list[bytes | None]:
    """The values of keys, None where no file is. root: the descriptor of the folder. Raises StoreError."""
    values: list[bytes | None] = []
    for key, value in zip(keys, _kernel.read_files(root, keys), strict=True):
        if isinstance(value, int) and value not in NOWHERE:
            raise refused("cannot be read", value, key)
        values.append(None if isinstance(value, int) else value)
    return values
