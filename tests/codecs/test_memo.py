"""What is remembered for the same objects."""

from __future__ import annotations

import pickle

import pytest

from frazil.codecs.memo import Once
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import MetadataError


def test_the_same_objects_are_asked_for_once() -> None:
    once, part = Once(), (1, 2)
    made = once.get((part, 3), lambda: [1], list)
    assert once.get((part, 3), lambda: [2], list) is made
    assert once.get((tuple([1, 2]), 3), lambda: [2], list) == [2], "an equal object is another one"  # noqa: C409
    assert once.get((part, 3), lambda: "text", str) == "text", "of another kind"


def test_only_so_many_are_remembered() -> None:
    once = Once()
    parts = [(object(),) for _ in range(1000)]
    for at, part in enumerate(parts):
        assert once.get(part, lambda at=at: [at], list) == [at]  # type: ignore[misc]
    assert len(once._made) <= 256


def test_an_error_is_not_remembered() -> None:
    def fail() -> str:
        raise MetadataError("no")

    once, part = Once(), object()
    with pytest.raises(MetadataError):
        once.get((part,), fail, str)
    assert once.get((part,), lambda: "yes", str) == "yes"


def test_it_is_no_part_of_a_registry_s_value() -> None:
    copy = pickle.loads(pickle.dumps(DEFAULT_REGISTRY))
    copy.once.get((copy,), lambda: "made", str)
    assert copy == DEFAULT_REGISTRY
    assert hash(copy) == hash(DEFAULT_REGISTRY)
    assert "once" not in repr(copy)
    assert pickle.loads(pickle.dumps(copy)).once.get((copy,), lambda: "anew", str) == "anew"
