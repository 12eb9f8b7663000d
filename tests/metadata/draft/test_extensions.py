"""Features that only documents of the 2022 draft can name, as a value."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from tests.metadata.refusals import refused

from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import UnknownExtensionError
from frazil.metadata.draft.extensions import DraftExtensions, look_up
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata

URI = "https://example.org/x"


def layout(entry: Extension, chunk: tuple[int, ...]) -> Sequence[Extension]:
    return [Extension("transpose", {"order": list(range(len(chunk)))})]


def other_layout(entry: Extension, chunk: tuple[int, ...]) -> Sequence[Extension]:
    return []


def extend(entry: Extension, metadata: ArrayMetadata) -> ArrayMetadata:
    return metadata


class Encoding:
    def __init__(self, entry: Extension) -> None:
        self.entry = entry

    def encode(self, document: dict[str, Json]) -> bytes:
        return b""

    def decode(self, value: bytes) -> Json:
        return {}


def test_each_kind_is_kept_apart() -> None:
    none = DraftExtensions()
    registry = DEFAULT_REGISTRY.with_memory_layout(URI, layout).with_array_extension(URI, extend)
    known = registry.with_metadata_encoding(URI, Encoding).draft
    assert known.memory_layout(Extension(URI), "") is layout
    assert known.array_extension(URI) is extend
    assert known.metadata_encoding(Extension(URI), "") is Encoding
    assert none == DraftExtensions(), "which stays as it is"
    assert none.array_extension(URI) is None
    assert pickle.loads(pickle.dumps(known)) == known
    assert hash(known) == hash(pickle.loads(pickle.dumps(known)))


def test_a_later_one_takes_the_place_of_an_earlier_one() -> None:
    known = DEFAULT_REGISTRY.with_memory_layout(URI, layout).with_memory_layout(URI, other_layout).draft
    assert known.memory_layout(Extension(URI), "") is other_layout
    assert look_up(known.memory_layouts, URI) is other_layout
    assert look_up(known.memory_layouts, "https://example.org/y") is None


@pytest.mark.rule("D26", "D36")
def test_unknown_required_extensions_are_refused() -> None:
    known = DEFAULT_REGISTRY.with_memory_layout("urn:a:1", layout).with_memory_layout("urn:a:2", layout).draft
    with refused(
        "here", URI, "(registered: urn:a:2, urn:a:1)", "every reader must support it", kind=UnknownExtensionError
    ):
        known.memory_layout(Extension(URI), "here")
    with pytest.raises(UnknownExtensionError, match=r"metadata encoding .* none") as caught:
        known.metadata_encoding(Extension(URI), "there")
    assert "with_metadata_encoding" in (caught.value.hint or "")
