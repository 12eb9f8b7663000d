"""The journal of a conversion, which has its own key while the conversion runs, so that a later run can continue an interrupted one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.base.record import Record
from frazil.errors import FormatError, MetadataError
from frazil.metadata.json_text import dump_json, parse_json
from frazil.metadata.model import ZarrFormat, parsed_format

_MARK: Final = "frazil_convert"


class Journal(Record):
    """source_format, target_format: the dialects; origin: the source as text, "" in place.

    documents  in place, all documents of the old dialect by their keys below the root, as text with one character for each byte: a new document replaces
               zarr.json, and the others are removed before their chunks"""

    source_format: ZarrFormat
    target_format: ZarrFormat
    origin: str = ""
    documents: Mapping[str, str] = {}

    def emit(self) -> bytes:
        return dump_json(
            {
                _MARK: 1,
                "from": self.source_format,
                "to": self.target_format,
                "origin": self.origin,
                "documents": dict(self.documents),
                "note": "a conversion is under way; run it again with the same arguments to finish it",
            }
        )


def parse_journal(value: bytes, key: str) -> Journal:
    """Raises FormatError for bytes that are not a journal."""
    try:
        document = parse_json(value)
    except MetadataError:
        document = None
    if isinstance(document, dict) and document.get(_MARK) == 1:
        formats = parsed_format(document.get("from")), parsed_format(document.get("to"))
        origin, documents = document.get("origin"), document.get("documents")
        if (
            formats[0] is not None
            and formats[1] is not None
            and isinstance(origin, str)
            and isinstance(documents, dict)
        ):
            texts = {name: text for name, text in documents.items() if isinstance(text, str)}
            return Journal(formats[0], formats[1], origin, texts)
    raise FormatError(
        "this version of Frazil cannot resume the conversion of this journal",
        key=key,
        hint="a newer version may have written it; find out what it is",
    )
