"""Versions of objects in an object store: from ETags and generations to versions, and from versions to the conditions of requests. Pure.

The versions of files on web servers are in web_reader.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import InvalidInputError
from frazil.stores.values import Version

if TYPE_CHECKING:
    from obstore import ObjectMeta


def version_of(meta: ObjectMeta, kind: str) -> Version | None:
    """The version in an object's metadata: its ETag, for GCS with the generation, which its conditional writes use. Without a strong ETag, its time and
    size."""
    tag = meta["e_tag"]
    if tag is None or tag.startswith("W/"):
        changed = meta["last_modified"]
        # for servers without times the client returns the first second of 1970: then the version is unknown
        return f"{changed.timestamp()} {meta['size']}".encode() if changed.timestamp() > 0 else None
    generation = meta["version"] if kind == "GCSStore" else None
    return tag.encode() if generation is None else f"{tag}\0{generation}".encode()


def listed_version(meta: ObjectMeta, kind: str) -> Version | None:
    """The version in a listing; None if it has less than a response for the object itself: no strong ETag, or no generation for GCS."""
    tag = meta["e_tag"]
    if tag is None or tag.startswith("W/") or (kind == "GCSStore" and meta["version"] is None):
        return None
    quoted = tag if tag.startswith('"') else f'"{tag}"'  # as in headers; some lists have no quotes
    return version_of({**meta, "e_tag": quoted}, kind)


def condition_of(version: Version) -> str | None:
    """The ETag of a version, for If-Match; None if it has none."""
    tag = version.decode(errors="replace").partition("\0")[0]
    return tag if " " not in tag or tag.startswith('"') else None


def update_mode(version: Version) -> dict[str, str]:
    """The mode by which a client replaces only this version."""
    tag, _, generation = version.decode(errors="replace").partition("\0")
    if condition_of(version) is None:
        raise InvalidInputError(
            "an object store cannot compare this version",
            hint="take it from `fetch`, `put` or `get_versioned`",
        )
    return {"e_tag": tag, "version": generation} if generation else {"e_tag": tag}
