"""The result of a rechunk: the value that users get, and its text. Pure."""

from __future__ import annotations

from frazil.base.record import Record
from frazil.base.reports import counted, extents_text, human
from frazil.errors import one_line
from frazil.metadata.json_text import Json, with_lists


class Rechunked(Record):
    """The result of frazil.rechunk, or of its dry run.

    shape, chunks, shards  of the new array;  nbytes: of its elements
    slabs   the parts that were written, of which an interrupted run had written `found`;  slab_nbytes: of the buffer for one
    reads   how often each chunk of the source is decoded, on average: 1.0 is once; more memory (Runtime.bytes_in_flight) reduces it
    seconds the duration; dry_run: nothing was written"""

    source: str
    destination: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    nbytes: int
    slabs: int
    found: int
    slab_nbytes: int
    reads: float
    seconds: float
    dry_run: bool = False

    def to_json(self) -> dict[str, Json]:
        """The same as JSON."""
        return {name: with_lists(value) for name, value in self._asdict().items()}

    def __repr__(self) -> str:
        chunks = f"chunks {extents_text(self.chunks)}" + (
            f" in shards {extents_text(self.shards)}" if self.shards else ""
        )
        verb = "would be written" if self.dry_run else "written"
        times = "once" if self.reads == 1 else f"{self.reads:.3g} times"
        slabs = f"{counted(self.slabs, 'slab')} of at most {human(self.slab_nbytes)}"
        lines = [
            one_line(f"{self.source} {verb} to {self.destination}, {chunks}"),
            f"  {human(self.nbytes)} in {slabs}; each chunk of the source is decoded {times}",
        ]
        if self.found:
            lines.append(f"  {self.found:,} of the slabs had been written before")
        if not self.dry_run:
            rate = f", {human(self.nbytes / self.seconds)}/s" if self.seconds > 0 and not self.found else ""
            lines.append(f"  {self.seconds:.1f} s{rate}")
        return "\n".join(lines)
