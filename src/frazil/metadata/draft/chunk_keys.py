"""Chunk keys of the draft of 2022: `c` and the coordinates, `c1/0` or `c1.0` (Chunk grids). The final encodings are in grids/chunk_keys.py."""

from __future__ import annotations

from frazil.metadata.grids.chunk_keys import SeparatedKeys

URI = "https://purl.org/zarr/spec/core/3.0"  # no document names this encoding, because it is a part of the draft's core


class DraftKeys(SeparatedKeys):
    """`c1/0`, or `c1.0`. Without dimensions `c`, as the specification requires, or `c0`, as zarr-python 2 wrote it: readers look for both.

    old  write `c0`, which zarr-python 2 looks for"""

    __slots__ = ("old",)
    old: bool
    name = URI
    default_separator = "/"

    def __init__(self, separator: str | None = None, old: bool = False, *, path: str = "chunk_grid.separator") -> None:
        super().__init__(separator, path=path)
        self.old = old

    @property
    def alone(self) -> str:  # type: ignore[override] # of the value here, not of its class
        return "c0" if self.old else "c"

    @property
    def also(self) -> str:
        """The other key that the chunk of an array without dimensions may have."""
        return "c" if self.old else "c0"

    @property
    def lead(self) -> str:
        return "c"

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        return () if not ndim and key == self.also else super().decode(key, ndim)
