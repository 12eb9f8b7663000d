"""Values in words, files and standard input."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import frazil
from frazil.cli.arguments.values import open_values, parse_value
from frazil.errors import InvalidInputError
from frazil.metadata.types.core import DataType
from frazil.stores import MemoryStore


def data_type(dtype: object) -> DataType:
    return frazil.create_array(MemoryStore(), shape=(1,), dtype=dtype).metadata.data_type


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("7", "u1", np.uint8(7)),
        (" -7", "i2", np.int16(-7)),
        ("18446744073709551615", "u8", np.uint64(2**64 - 1)),
        ("1e3", "i4", np.int32(1000)),
        ("2.5", "f4", np.float32(2.5)),
        ("-inf", "f8", np.float64(-np.inf)),
        ("true", "?", np.True_),
        ("False", "?", np.False_),
        ("0", "?", np.False_),
        ("1+2j", "c8", np.complex64(1 + 2j)),
        ("[1, 2.5]", "c16", np.complex128(1 + 2.5j)),
        ("2026-11-23", "M8[D]", np.datetime64("2026-11-23")),
        ("12", "m8[s]", np.timedelta64(12, "s")),
        ("abc", "S4", np.bytes_(b"abc")),
        ("12", "U4", np.str_("12")),
        ('{"a": 3, "b": 0.5}', [("a", "i2"), ("b", "f4")], np.array((3, 0.5), [("a", "i2"), ("b", "f4")])[()]),
    ],
)
def test_text_of_a_value_is_parsed_as_the_data_type(text: str, dtype: object, value: np.generic) -> None:
    made = parse_value(text, data_type(dtype))
    assert made.shape == ()
    assert made.tobytes() == np.asarray(value, made.dtype).tobytes()


def test_nan() -> None:
    assert np.isnan(parse_value("NaN", data_type("f4")))
    assert np.isnan(parse_value("nan", data_type("f8")))


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("300", "u1"),
        ("-1", "u8"),
        ("2.5", "i4"),
        ("x", "f8"),
        ("2", "?"),
        ("abcde", "S4"),
        ("NaN", "i4"),
        ("soon", "M8[D]"),
    ],
)
def test_words_that_the_type_does_not_have(text: str, dtype: object) -> None:
    with pytest.raises(InvalidInputError, match="is not a value of") as caught:
        parse_value(text, data_type(dtype))
    assert ".npy" in str(caught.value.hint)


def test_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(6).reshape(2, 3)
    for saved in (values, np.asfortranarray(values), values[:0]):
        np.save(tmp_path / "a.npy", saved)
        with open_values(str(tmp_path / "a.npy"), data_type("i8")) as found:
            np.testing.assert_array_equal(found, saved)
        stream = io.BytesIO((tmp_path / "a.npy").read_bytes())
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        with open_values("-", data_type("i8")) as found:
            np.testing.assert_array_equal(found, saved)


def test_invalid_npy_files_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"nonsense", b"\x93NUMPY\x01\x00"):
        (tmp_path / "a.npy").write_bytes(content)
        with (
            pytest.raises(InvalidInputError, match=r"is not a \.npy file"),
            open_values(str(tmp_path / "a.npy"), data_type("i8")),
        ):
            pass
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "z.npz", a=[1])
    (tmp_path / "z.npz").rename(tmp_path / "z.npy")
    for name in ("o.npy", "z.npy"):
        with (
            pytest.raises(InvalidInputError, match=r"is not a \.npy file"),
            open_values(str(tmp_path / name), data_type("i8")),
        ):
            pass
    with pytest.raises(OSError, match=r"missing\.npy"), open_values(str(tmp_path / "missing.npy"), data_type("i8")):
        pass
