"""The result of a copy: the value that users get, and its text. Pure."""

from __future__ import annotations

from typing import Literal

from frazil.base.record import Record
from frazil.base.reports import counted, human
from frazil.metadata.json_text import Json

Kind = Literal["hierarchy", "repository"]


class Copied(Record):
    """The result of frazil.copy.

    kind     "repository": its files, with all history; else "hierarchy"
    keys     keys that were copied, nbytes: their bytes
    found    keys that an interrupted copy had copied before
    removed  keys of an interrupted copy that the source no longer has
    verified whether all bytes were compared;  seconds: the duration"""

    source: str
    destination: str
    kind: Kind
    keys: int
    nbytes: int
    found: int
    removed: int
    verified: bool
    seconds: float

    def to_json(self) -> dict[str, Json]:
        return dict(self._asdict())

    def __str__(self) -> str:
        rate = f", {human(self.nbytes / self.seconds)}/s" if self.seconds > 0 else ""
        lines = [
            f"copied {self.source} to {self.destination}",
            f"  {counted(self.keys, 'key')}, {human(self.nbytes)} in {self.seconds:.1f} s{rate}",
        ]
        if self.kind == "repository":
            lines[0] = f"copied the repository {self.source} to {self.destination}, with all its history"
        if self.found:
            lines.append(f"  {counted(self.found, 'key')} had been copied before")
        if self.removed:
            lines.append(f"  {counted(self.removed, 'key')} removed that the source does not have any more")
        if self.verified:
            lines.append("  all bytes were compared")
        return "\n".join(lines)
