"""Extensions: both forms are read, the object form is written, names and members are checked."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.errors import UnknownExtensionError
from frazil.metadata.extensions import Extension, NamedExtension, is_extension_name, parse_extension, parse_extensions
from frazil.metadata.json_text import Json
from frazil.metadata.registry import pick
from tests.metadata.refusals import refused


@pytest.mark.rule("K7")
@pytest.mark.parametrize(
    ("value", "extension", "written"),
    [
        ("bytes", Extension("bytes"), {"name": "bytes"}),
        ({"name": "bytes"}, Extension("bytes"), {"name": "bytes"}),
        ({"name": "bytes", "configuration": {}}, Extension("bytes"), {"name": "bytes"}),
        (
            {"name": "gzip", "configuration": {"level": 1}, "must_understand": True},
            Extension("gzip", {"level": 1}),
            None,
        ),
        ({"name": "x1", "must_understand": False}, Extension("x1", must_understand=False), None),
        ({"name": "numcodecs.x"}, Extension("numcodecs.x"), {"name": "numcodecs.x", "configuration": {}}),
    ],
)
def test_every_form_is_read_and_the_object_form_written(value, extension, written):
    assert parse_extension(value, "codecs[0]") == extension
    expected = {k: v for k, v in value.items() if (k, v) != ("must_understand", True)} if written is None else written
    assert extension.to_json() == expected
    assert parse_extension(extension.to_json(), "codecs[0]") == extension


@pytest.mark.parametrize(
    "name",
    [
        "r8",
        "r24",
        "zstd",
        "numcodecs.adler32",
        "numpy.datetime64",
        "vlen-utf8",
        "a_",
        "a.",
        "urn:example:datetime",
        "https://example.org/codec/x",
    ],
)
def test_good_names(name):
    assert is_extension_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "r",
        "R8",
        "8r",
        "_a",
        "-a",
        "foo/bar",
        "foo:bar",
        "Zstd",
        "a b",
        "ab\n",
        "é9",
        "https:",
        "https://",
        "urn:",
        ":x",
        "//x",
        "é://x",
        None,
        3,
    ],
)
def test_bad_names(name):
    assert not is_extension_name(name)


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        (3, "codecs[0]", ["an object with a name, or a name alone", "found 3"]),
        (None, "codecs[0]", ["found null"]),
        (["bytes"], "codecs[0]", ['found ["bytes"]']),
        ("foo:bar", "codecs[0]", ["name of an extension", '"foo:bar"']),
        ({}, "codecs[0].name", ["name is required"]),
        ({"configuration": {}}, "codecs[0].name", ["name is required", "'configuration'"]),
        ({"name": 1}, "codecs[0].name", ["must be a string"]),
        ({"name": "Bytes"}, "codecs[0].name", ["lower case letters", '"Bytes"']),
        ({"name": "bytes", "configuration": None}, "codecs[0].configuration", ["must be an object, found null"]),
        ({"name": "bytes", "configuration": []}, "codecs[0].configuration", ["must be an object"]),
        ({"name": "bytes", "must_understand": "no"}, "codecs[0].must_understand", ["true or false"]),
        ({"name": "bytes", "must_understand": 0}, "codecs[0].must_understand", ["true or false"]),
        ({"name": "bytes", "level": 1}, "codecs[0].level", ["not known here", "name, configuration, must_understand"]),
    ],
)
def test_bad_extensions_are_refused(value, path, words):
    with refused(path, *words):
        parse_extension(value, "codecs[0]")


@pytest.mark.rule("K13")
def test_must_understand_false_is_refused_where_nothing_may_be_ignored():
    value: dict[str, Json] = {"name": "float32", "must_understand": False}
    assert not parse_extension(value, "codecs[0]").must_understand
    with refused("data_type.must_understand", "true or absent", "found false"):
        parse_extension(value, "data_type", may_ignore=False)
    assert parse_extension(value | {"must_understand": True}, "data_type", may_ignore=False) == Extension("float32")


def test_lists_of_extensions():
    assert parse_extensions(["bytes", {"name": "crc32c"}], "codecs") == (Extension("bytes"), Extension("crc32c"))
    with refused("codecs[1].name"):
        parse_extensions(["bytes", {}], "codecs")
    with refused("codecs", "an array of extensions"):
        parse_extensions({"name": "bytes"}, "codecs")


def test_configurations_are_copied():
    inner = {"codecs": [{"name": "bytes"}]}
    extension = Extension("sharding_indexed", inner)
    inner["codecs"].clear()
    assert extension.to_json() == {"name": "sharding_indexed", "configuration": {"codecs": [{"name": "bytes"}]}}
    written: Any = extension.to_json()
    written["configuration"]["codecs"].clear()
    assert extension.configuration == {"codecs": [{"name": "bytes"}]}


def test_users_extensions_are_checked():
    with refused("name", "lower case letters"):
        Extension("Zstd")
    with refused("configuration.level"):
        Extension("zstd", {"level": {1}})
    with refused("configuration"):
        Extension("zstd", [1])  # type: ignore[arg-type]


def test_errors_for_unknown_extensions_list_known_ones():
    families = [NamedExtension("one", lambda extension, path: 1), NamedExtension("two", lambda extension, path: 2)]
    assert pick(families, Extension("two"), "x", "thing").parse(Extension("two"), "x") == 2
    with refused("x", 'the thing "three"', "registered: one, two", kind=UnknownExtensionError):
        pick(families, Extension("three"), "x", "thing")
