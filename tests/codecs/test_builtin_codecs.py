"""Codecs are registered under their names."""

from __future__ import annotations

import frazil.codecs
from frazil.codecs import DEFAULT_REGISTRY, Bytes
from frazil.codecs.builtin_codecs import ALIASES, LATE, LOADED


def test_late_codecs_are_known_by_their_own_name() -> None:
    assert {name: late.load().name for name, late in LATE.items()} == {name: name for name in LATE}
    assert all(late.load().__name__ == late.name for late in LATE.values())


def test_the_registry_shows_classes() -> None:
    codecs = dict(DEFAULT_REGISTRY.codecs)
    assert codecs["endian"] is Bytes
    assert set(codecs) == {*(codec.name for codec in LOADED), *LATE, *ALIASES}
    assert codecs["numcodecs.bz2"] is frazil.codecs.Bz2
    assert DEFAULT_REGISTRY.codec_kind("numcodecs.bz2") == 2
    assert DEFAULT_REGISTRY.codec_kind("numcodecs.delta") == 0
