"""Repositories of Icechunk's later formats: told by their files, so that they are refused by name and nothing is created among them. They are not read here."""

from __future__ import annotations

from typing import Final

from frazil.repository.files.file_cache import Files

__all__ = ["later_format"]

_REPOSITORY: Final = "repo"  # the one file that says all since version 2
_MAGIC: Final = "ICE🧊CHUNK".encode()
_MAIN: Final = "refs/branch.main/ref.json"  # where a branch is one file that is replaced


def later_format(files: Files) -> str | None:
    """Which later version of Icechunk wrote the repository that is here, in words; None where there is none of its marks. One request for two short ranges."""
    repository, main = files.store.get_partial_values(
        [(files.key(_REPOSITORY), (0, len(_MAGIC))), (files.key(_MAIN), (0, 1))]
    )
    if repository == _MAGIC:
        return "Icechunk 2"
    return None if main != b"{" else "Icechunk 0.2 to 1"
