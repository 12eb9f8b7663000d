"""What is said of nodes of Zarr v2, which are found and named but cannot be opened. Reading their documents is no part of this."""

from __future__ import annotations

from frazil.array.hierarchy.nodes import Place
from frazil.errors import NotFoundError


def v2_refusal(place: Place) -> NotFoundError | None:
    """The error for a place where no node was found, but a document of Zarr v2 is; None where none is. One batch of requests."""
    keys = [f"{place.path}/{name}".lstrip("/") for name in (".zarray", ".zgroup")]
    there = place.store.sizes(keys) if place.nodes is None else ()
    for key, kind, size in zip(keys, ("array", "group"), there, strict=False):
        if size >= 0:
            return NotFoundError(
                f"a Zarr v2 {kind} is there in {place.store!r}, and this version reads Zarr v3 alone",
                key=key,
                path=place.path or "/",
                hint="zarr-python 3 converts it: `zarr migrate v3 LOCATION`",
            )
    return None
