"""Chunk grids: the positions of chunks (Zarr v3.1 core, Chunk grids and Regular grids). indexing/ finds the chunks of a selection.

Grids of chunks of several shapes are in rectilinear.py."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from frazil.base.arrays import Columns
from frazil.errors import MetadataError
from frazil.metadata.extensions import Extension, NamedExtension
from frazil.metadata.grids import rectilinear
from frazil.metadata.json_text import Json, member
from frazil.metadata.members import INT64_MAX, Members, lengths_from_user
from frazil.metadata.value import Value, assign


class ChunkGrid(Protocol):
    """A division of an array into chunks; a value, compared with ==.

    Arrays can be read and written through a RegularGrid and classes derived from it, through any grid with an attribute `chunk_shape` (elements along each
    dimension) whose chunks begin at the origin, and through a RectilinearGrid."""

    def extension(self) -> Extension:
        """The extension that names this grid."""

    def check(self, shape: tuple[int, ...], path: str) -> None:
        """Raises MetadataError if an array of this shape cannot have this grid."""

    def grid_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Chunks along each dimension of an array of this shape."""


class RegularGrid(Value):
    """Chunks of one shape; those at the upper edges may overhang the array.

    chunk_shape  elements along each dimension, each from 1 to 2^63 - 1. One integer, or a sequence of Python or NumPy ones
    Raises MetadataError for anything else."""

    __slots__ = ("chunk_shape",)
    chunk_shape: tuple[int, ...]

    def __init__(self, chunk_shape: object, *, path: str = "chunk_grid.configuration.chunk_shape") -> None:
        assign(self, "chunk_shape", lengths_from_user(chunk_shape, path, low=1))

    def extension(self) -> Extension:
        lengths: list[Json] = list(self.chunk_shape)
        return Extension("regular", {"chunk_shape": lengths})

    def check(self, shape: tuple[int, ...], path: str = "chunk_grid") -> None:
        if len(shape) != len(self.chunk_shape):
            raise MetadataError(
                f"chunk_shape must have one length for each of the {len(shape)} dimensions, found {list(self.chunk_shape)}",
                path=f"{path}.configuration.chunk_shape",
            )

    def grid_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([-(-length // chunk) for length, chunk in zip(shape, self.chunk_shape, strict=True)])

    @property
    def largest(self) -> tuple[int, ...]:
        """As in RectilinearGrid, like the methods below."""
        return self.chunk_shape

    def covering(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        counts = self.grid_shape(shape)
        return tuple([min(count * chunk, INT64_MAX) for count, chunk in zip(counts, self.chunk_shape, strict=True)])

    def corners(self, coords: Columns) -> Columns:
        return coords * np.array(self.chunk_shape, np.int64).reshape(1, -1)


class UserGrid(RegularGrid):
    """A user's grid that is regular, but not a RegularGrid: `grid` has the name, the checks, and the chunk key encoding if there is one."""

    __slots__ = ("grid",)
    grid: ChunkGrid

    def __init__(self, grid: ChunkGrid, chunk_shape: object, *, path: str) -> None:
        """Raises MetadataError for an invalid chunk shape."""
        super().__init__(chunk_shape, path=path)
        self.grid = grid

    @property
    def chunk_key_encoding(self) -> object:
        """The encoding that the grid defines, None if it defines none."""
        return getattr(self.grid, "chunk_key_encoding", None)

    def extension(self) -> Extension:
        return self.grid.extension()

    def check(self, shape: tuple[int, ...], path: str = "chunk_grid") -> None:
        self.grid.check(shape, path)
        super().check(shape, path)
        found, regular = tuple(self.grid.grid_shape(shape)), self.grid_shape(shape)
        if found != regular:
            raise MetadataError(
                f"the chunk grid {self.grid.extension().name} has {list(found)} chunks in an array of shape {list(shape)}, and a regular grid of"
                f" chunks {list(self.chunk_shape)} has {list(regular)}",
                path=path,
                hint="arrays can be read through grids of equal chunks that begin at the origin",
            )


def usable_grid(grid: ChunkGrid, path: str) -> ChunkGrid:
    """The grid itself if it is a RegularGrid, or has no `chunk_shape`; else a UserGrid, through which arrays can be read and written."""
    chunk_shape = getattr(grid, "chunk_shape", None)
    return grid if isinstance(grid, RegularGrid) or chunk_shape is None else UserGrid(grid, chunk_shape, path=path)


def _read_regular(extension: Extension, path: str) -> ChunkGrid:
    members = Members(extension.configuration, member(path, "configuration"))
    chunk_shape = members.integers("chunk_shape", low=1)
    members.finish()
    return RegularGrid(chunk_shape, path=members.at("chunk_shape"))


def _read_rectilinear(extension: Extension, path: str) -> ChunkGrid:
    return rectilinear.read(extension, path)


REGULAR = NamedExtension[ChunkGrid]("regular", _read_regular)
RECTILINEAR = NamedExtension[ChunkGrid]("rectilinear", _read_rectilinear)
RECTANGULAR = NamedExtension[ChunkGrid]("rectangular", _read_rectilinear)
BOUNDED = NamedExtension[ChunkGrid]("zarrs.regular_bounded", _read_rectilinear)
