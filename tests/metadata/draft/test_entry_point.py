"""The entry point of a hierarchy of the 2022 draft: which dialect it defines, what is refused, and the error messages."""

from __future__ import annotations

import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.draft_arrays import JSON, without
from tests.metadata.refusals import refused

from frazil.codecs import DEFAULT_REGISTRY
from frazil.errors import MetadataError, UnknownExtensionError
from frazil.metadata.draft.entry_point import (
    CORE_URI,
    OLD_CORE_URI,
    Entry,
    HierarchyExtension,
    JsonEncoding,
    check_uri,
    new_entry,
    not_understood,
    parse_entry,
    parse_generic,
)
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json
from frazil.metadata.v3.documents import is_draft_entry, read_document

ENCODING: dict[str, Json] = {"type": "json", "metadata_key_suffix": ".json"}
GENERIC: dict[str, Json] = {"extension": "https://e.org/x", "must_understand": False, "configuration": {"a": 1}}


def entry(**changes: Json) -> dict[str, Json]:
    return {**new_entry(old=False), **changes}


def old_entry(**changes: Json) -> dict[str, Json]:
    return {**new_entry(old=True), **changes}


def parsed(value: Json) -> Entry:
    return parse_entry(value, DEFAULT_REGISTRY)


@pytest.mark.rule("D34", "D35", "D36", "D40", "Z1")
def test_new_entry_points() -> None:
    assert new_entry(old=False) == {"zarr_format": CORE_URI, "metadata_encoding": ENCODING, "extensions": []}
    assert parsed(entry()) == Entry(False, ".json", JsonEncoding(), (), entry())
    assert parsed(old_entry()) == Entry(True, ".json", JsonEncoding(lenient=True), (), old_entry())
    assert old_entry() == {
        "zarr_format": OLD_CORE_URI,
        "metadata_encoding": OLD_CORE_URI,
        "metadata_key_suffix": ".json",
        "extensions": [],
    }


@pytest.mark.rule("K1")
@pytest.mark.parametrize(
    ("value", "draft"),
    [
        ({"zarr_format": CORE_URI}, True),
        ({"zarr_format": "3"}, True),
        ({"zarr_format": 3}, False),
        ({"zarr_format": 2}, False),
        ({}, False),
        ([], False),
        (None, False),
        ("https://purl.org/zarr/spec/core/3.0", False),
    ],
)
def test_the_drafts_are_distinguished_from_the_final_version(value: Json, draft: bool) -> None:
    assert is_draft_entry(value) == draft


@pytest.mark.rule("D35", "X4c", "X8")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("base", ["core", "protocol/core"])
def test_versions(scheme: str, base: str) -> None:
    uri = f"{scheme}://purl.org/zarr/spec/{base}/3."
    assert parsed(entry(zarr_format=f"{uri}0")).old is False
    assert parsed(old_entry(zarr_format=f"{uri}0")).old is True
    later = entry(
        zarr_format=f"{uri}1",
        more=1,
        metadata_encoding={**ENCODING, "indent": 4},
        extensions=[{**GENERIC, "since": 3.1}],
    )
    assert parsed(later).extensions[0].extension == Extension("https://e.org/x", {"a": 1}), "names of later versions"
    assert parsed(later).document == later


@pytest.mark.rule("D35")
@pytest.mark.parametrize(
    "uri",
    [
        "3",
        "",
        "https://purl.org/zarr/spec/core/4.0",
        "https://purl.org/zarr/spec/core/2.0",
        "https://purl.org/zarr/spec/core/3",
        "https://purl.org/zarr/spec/core/3.0/",
        "https://purl.org/zarr/spec/core/3.x",
        "https://example.org/zarr/spec/core/3.0",
    ],
)
def test_versions_that_are_not_read(uri: str) -> None:
    with refused("zarr_format", "the integer 3", CORE_URI):
        parsed(entry(zarr_format=uri))


@pytest.mark.rule("D36", "X5")
@pytest.mark.parametrize(
    ("value", "suffix"),
    [
        (old_entry(), ".json"),
        (without(old_entry(), "metadata_key_suffix"), ".json"),
        (old_entry(metadata_key_suffix=""), ""),
        (old_entry(metadata_encoding="application/json"), ".json"),
        (without(old_entry(metadata_encoding="application/json"), "metadata_key_suffix"), ""),
        (without(old_entry(), "extensions"), ".json"),
        (old_entry(more=1, extensions=[{**GENERIC, "more": 1}]), ".json"),
    ],
)
def test_the_older_dialect_is_read_freely(value: Json, suffix: str) -> None:
    found = parsed(value)
    assert (found.old, found.suffix) == (True, suffix)


@pytest.mark.rule("D34", "D36", "D37", "D40")
@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ([], None, "an object"),
        (without(entry(), "extensions"), "extensions", "required"),
        (without(entry(), "metadata_encoding"), "metadata_encoding", "required"),
        (without(entry(), "zarr_format"), "zarr_format", "required"),
        (entry(more=1), "more", "not known here"),
        (entry(metadata_key_suffix=".json"), "metadata_key_suffix", "not known here"),
        (entry(extensions=None), "extensions", "an array"),
        (entry(extensions=[1]), "extensions[0]", "an object"),
        (entry(extensions=[{**GENERIC, "more": 1}]), "extensions[0].more", "not known here"),
        (entry(metadata_encoding={**ENCODING, "indent": 4}), "metadata_encoding.indent", "not known here"),
        (entry(metadata_encoding={"type": "json"}), "metadata_encoding.metadata_key_suffix", "required"),
        (
            entry(metadata_encoding={**ENCODING, "metadata_key_suffix": ""}),
            "metadata_encoding.metadata_key_suffix",
            '".json"',
        ),
        (entry(metadata_encoding={**ENCODING, "type": "cbor"}), "metadata_encoding.type", '"json"'),
        (entry(metadata_encoding=3), "metadata_encoding", "an object"),
        (old_entry(metadata_key_suffix=3), "metadata_key_suffix", "a string"),
        (old_entry(metadata_key_suffix="/x"), "metadata_key_suffix", "characters that a key may have"),
        (old_entry(extensions={}), "extensions", "an array"),
    ],
)
def test_refusals(value: Json, path: str | None, words: str) -> None:
    with refused(path, words):
        parsed(value)


@pytest.mark.rule("D37", "D38", "D45")
def test_generic_extensions() -> None:
    plain: dict[str, Json] = {"extension": "urn:x:y", "must_understand": True}
    found = parse_generic([GENERIC, plain], "extensions", strict=True)
    assert found == (
        HierarchyExtension(Extension("https://e.org/x", {"a": 1}), False, "extensions[0]"),
        HierarchyExtension(Extension("urn:x:y"), True, "extensions[1]"),
    )
    error = not_understood(found[1], "with_something")
    assert isinstance(error, UnknownExtensionError)
    assert error.path == "extensions[1]"
    assert "urn:x:y" in error.message
    assert "must_understand is true" in error.message
    assert "Registry.with_something" in (error.hint or "")


@pytest.mark.rule("D33", "D37")
@pytest.mark.parametrize("value", ["", "x", "gzip", "https:", "https://", "TODO: unicode array protocol URL", ":x"])
def test_invalid_uris_are_refused(value: str) -> None:
    with refused("extension", "a URI"):
        check_uri(value, "extension")
    assert check_uri("https://purl.org/zarr/spec/codecs/gzip/1.0", "") == "https://purl.org/zarr/spec/codecs/gzip/1.0"


@pytest.mark.rule("D36")
def test_an_encoding_of_the_users() -> None:
    uri = "https://e.org/upper"
    requested: dict[str, Json] = {"extension": uri, "type": "u", "metadata_key_suffix": ".up", "level": 3}
    with refused("metadata_encoding", uri, "(registered: none)", kind=UnknownExtensionError):
        parsed(entry(metadata_encoding=requested))
    registry = DEFAULT_REGISTRY.with_metadata_encoding(uri, Upper)
    found = parse_entry(entry(metadata_encoding=requested), registry)
    assert (found.old, found.suffix) == (False, ".up")
    assert found.encoding.encode({"a": 1}) == b'{"A": 1} {"TYPE": "U", "LEVEL": 3}'
    assert found.encoding.decode(b'{"A": 1}') == {"a": 1}
    again = pickle.loads(pickle.dumps(found))
    assert again.encoding.encode({}) == found.encoding.encode({})
    with refused(None, "failed with JSONDecodeError"):
        found.encoding.decode(b"{")
    with refused(None, "failed with TypeError"):
        found.encoding.encode({"a": object()})  # type: ignore[dict-item]
    with pytest.raises(UnknownExtensionError, match=re.escape(f"Hint: did you mean {uri!r}?")):
        parse_entry(entry(metadata_encoding={**requested, "extension": uri + "/2"}), registry)


class Upper:
    """Documents in capitals, followed by the configuration from the entry point."""

    def __init__(self, extension: Extension) -> None:
        self.configuration = dict(extension.configuration)

    def encode(self, document: dict[str, Json]) -> bytes:
        return f"{json.dumps(document)} {json.dumps(self.configuration)}".upper().encode()

    def decode(self, value: bytes) -> Json:
        made: Json = json.loads(value.decode().lower())
        return made


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_json_is_written_and_read_back(document: dict[str, Json]) -> None:
    encoding = JsonEncoding()
    assert encoding.decode(encoding.encode(document)) == document


@pytest.mark.rule("D34", "D39")
@pytest.mark.parametrize("value", [b"", b"{", b"\xff", b'{"a": 1, "a": 2}'])
def test_errors_for_invalid_json_name_its_key(value: bytes) -> None:
    with pytest.raises(MetadataError) as caught:
        read_document(value, "x/zarr.json")
    assert caught.value.key == "x/zarr.json"
