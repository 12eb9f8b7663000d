"""Fallbacks of unregistered data types, and a type that a user registers (draft of 2022, Array metadata, data_type)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.metadata.draft.test_types import BOTH, PURL, entry, read, typed
from tests.metadata.refusals import refused

from frazil.errors import FallbackWarning, MetadataError, UnknownExtensionError
from frazil.metadata.draft.fill_values import emit_fill, parse_fill
from frazil.metadata.draft.types import emit_type, parse_type
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import DataType
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.types.structs import Field, StructType

MINE = "https://example.org/types/bfloat16"


@BOTH
@pytest.mark.rule("D15")
@pytest.mark.parametrize(
    ("fallback", "dtype", "big"),
    [
        ("uint16", "u2", False),
        (">u2", "u2", True),
        (["float24", "x", "r16"], "V2", False),
        (["<M8[ns]", "int64"], "M8[ns]", False),
        ([entry("https://example.org/unknown", 1), entry(PURL + "string", "S2")], "S2", False),
        ([entry(MINE, 1, fallback="r8")], "V1", False),
    ],
)
def test_the_first_known_fallback_is_taken_with_a_warning(fallback: Json, dtype: str, big: bool, old: bool) -> None:
    value = entry(MINE, "bfloat16", fallback=fallback)
    with pytest.warns(FallbackWarning, match="bfloat16"):
        assert parse_type(value, old=old, extensions=CORE_EXTENSIONS) == typed(dtype, big)
    with pytest.raises(UnknownExtensionError, match="without_fallbacks") as caught:
        parse_type(value, old=old, extensions=CORE_EXTENSIONS.without_fallbacks())
    assert "bfloat16" in caught.value.message


@BOTH
@pytest.mark.rule("D16", "Z4")
@pytest.mark.parametrize("fallback", [None, [], "float24", ["x", "y"]])
def test_types_without_a_known_fallback_are_refused(fallback: Json, old: bool) -> None:
    with pytest.raises(UnknownExtensionError, match="bfloat16"):
        read(entry(MINE, "bfloat16", fallback=fallback), old)


def test_a_known_type_needs_no_fallback() -> None:
    value = entry(PURL + "datetime/1.0", "<M8[ns]", fallback="int64")
    assert parse_type(value, old=False, extensions=CORE_EXTENSIONS.without_fallbacks()) == typed("M8[ns]")


def test_registries_keep_whether_fallbacks_are_allowed() -> None:
    assert CORE_EXTENSIONS.fallbacks
    strict = CORE_EXTENSIONS.without_fallbacks()
    assert not strict.fallbacks
    assert not strict.with_data_type(BrainFamily()).fallbacks
    assert strict != CORE_EXTENSIONS


# --- a type of the user's ----------------------------------------------------------------------------------------------------------


class Brain(DataType):
    """The upper half of a float32, as an example of a type that a user adds."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(MINE, np.dtype("uint16"), ((0, 2, 1),))

    def extension(self) -> Extension:
        return Extension(self.name, {"type": "bfloat16"})

    def parse_bytes(self, value: Json, path: str) -> bytes:
        return self.user_bytes(value, path)

    def emit_bytes(self, data: bytes) -> Json:
        bits = int(np.frombuffer(data, self.dtype)[0]) << 16
        return float(np.array(bits, np.uint32).view(np.float32))

    def user_bytes(self, value: object, path: str) -> bytes:
        if not isinstance(value, (int, float)):
            raise MetadataError(f"fill_value must be a number, found {value!r}", path=path)
        return (np.array(value, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()


class BrainFamily:
    """Reads Brain by its URI."""

    names = (MINE,)

    def matches(self, name: str) -> bool:
        return name == MINE

    def parse(self, extension: Extension, path: str) -> Brain:
        if extension.configuration.get("type") != "bfloat16":
            raise UnknownExtensionError(f"no such type: {extension.configuration.get('type')!r}", path=path)
        return Brain()

    def from_numpy(self, dtype: np.dtype[np.generic]) -> Brain | None:
        return None


@BOTH
@pytest.mark.rule("D15", "D57")
def test_a_type_of_the_users(old: bool) -> None:
    extensions = CORE_EXTENSIONS.with_data_type(BrainFamily())
    value = entry(MINE, "bfloat16", fallback="r16")
    assert parse_type(value, old=old, extensions=extensions) == (Brain(), False)
    assert emit_type(Brain(), False, old=old) == value
    with pytest.warns(FallbackWarning, match="int16"):
        assert parse_type(entry(MINE, "other", fallback="int16"), old=old, extensions=extensions) == typed("i2")
    fields: list[Json] = [["a", "<i4"], ["b", value]]
    struct = parse_type(entry(PURL + "struct", fields), old=old, extensions=extensions).data_type
    assert struct == StructType([Field("a", CORE_EXTENSIONS.from_numpy("i4")), Field("b", Brain())])
    assert parse_type(emit_type(struct, False, old=old), old=old, extensions=extensions) == (struct, False)
    with refused("data_type", "big-endian"):
        emit_type(struct, True, old=old)


class Nameless(Brain):
    __slots__ = ()

    def extension(self) -> Extension:
        return Extension("example.brain", {"type": "bfloat16"})


@BOTH
def test_a_type_without_a_uri_cannot_be_written(old: bool) -> None:
    with refused("data_type", "example.brain"):
        emit_type(Nameless(), False, old=old)


@BOTH
@pytest.mark.rule("D57")
def test_types_of_the_users_read_their_own(old: bool) -> None:
    fill = parse_fill(1.5, Brain(), old=old)
    assert fill == FillValue(np.array(0x3FC0, "u2").tobytes(), np.dtype("u2"))
    assert emit_fill(fill, Brain(), old=old) == 1.5
    with refused("fill_value", "must be a number"):
        parse_fill("x", Brain(), old=old)
