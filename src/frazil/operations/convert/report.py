"""The result of a conversion or of a dry run: the value that users get, and its text. Pure."""

from __future__ import annotations

from frazil.base.record import Record
from frazil.base.reports import counted, human
from frazil.metadata.json_text import Json
from frazil.metadata.model import ZarrFormat
from frazil.operations.convert.plan import Way

_WAY_TEXTS: dict[Way, str] = {
    "bytes": "bytes as they are",
    "shard index": "bytes as they are, with another shard index",
    "recoded": "decoded and encoded again",
}


class ConvertedArray(Record):
    """path: from the root of the hierarchy; way: "bytes", "shard index" (shards that keep all bytes except the index) or "recoded"; objects, nbytes: of the old
    stored chunks (shards, where there are shards); found: objects that an earlier run had already moved."""

    path: str
    way: Way
    objects: int
    nbytes: int
    found: int = 0


class Conversion(Record):
    """The result of frazil.convert; with dry_run, the planned conversion.

    groups       groups of the hierarchy, also those without a document;  documents: metadata documents written
    arrays       sorted by path
    left_behind  keys outside the hierarchy (chunks of removed arrays, `.zmetadata`): not copied, and in place not changed
    removed      keys of the old dialect that were removed (in place)"""

    source: str
    destination: str
    source_format: ZarrFormat
    target_format: ZarrFormat
    in_place: bool
    dry_run: bool
    groups: int
    documents: int
    arrays: tuple[ConvertedArray, ...]
    left_behind: int
    removed: int

    @property
    def objects(self) -> int:
        return sum(array.objects for array in self.arrays)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    @property
    def nbytes_recoded(self) -> int:
        """Bytes of chunks that were decoded and encoded again; all others were kept as bytes."""
        return sum(array.nbytes for array in self.arrays if array.way == "recoded")

    def to_json(self) -> dict[str, Json]:
        arrays: list[Json] = [dict(array._asdict()) for array in self.arrays]
        return {
            **{name: value for name, value in self._asdict().items() if name != "arrays"},
            "objects": self.objects,
            "nbytes": self.nbytes,
            "nbytes_recoded": self.nbytes_recoded,
            "arrays": arrays,
        }

    def __str__(self) -> str:
        if self.in_place and not self.documents:
            leftovers = f"what an interrupted conversion left {'would be' if self.dry_run else 'was'} removed"
            idle = self.source_format == self.target_format
            return f"{self.source} is of {_named(self.target_format)}: {'nothing is to be done' if idle else leftovers}"
        verb = "would convert" if self.dry_run else "converted"
        target = "in place" if self.in_place else f"to {self.destination}"
        lines = [
            f"{verb} {self.source} from {_named(self.source_format)} to {_named(self.target_format)}, {target}",
            f"  {counted(self.groups, 'group')}, {counted(len(self.arrays), 'array')}, {counted(self.documents, 'document')}",
        ]
        for way, words in _WAY_TEXTS.items():
            arrays = [array for array in self.arrays if array.way == way]
            if arrays:
                objects, nbytes = sum(array.objects for array in arrays), sum(array.nbytes for array in arrays)
                lines.append(
                    f"  {counted(len(arrays), 'array')}: {counted(objects, 'object')}, {human(nbytes)}, {words}"
                )
        found = sum(array.found for array in self.arrays)
        if found:
            lines.append(f"  {counted(found, 'object')} had been moved by an earlier run")
        if self.removed:
            lines.append(f"  {counted(self.removed, 'old key')} removed")
        if self.left_behind:
            lines.append(f"  {counted(self.left_behind, 'key')} of no node left behind")
        return "\n".join(lines)


def _named(zarr_format: ZarrFormat) -> str:
    return {3: "Zarr v3", 2: "Zarr v2", "draft": "the draft of December 2022", "draft-2021": "the older draft"}[
        zarr_format
    ]
