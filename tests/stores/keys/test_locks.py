"""guards.py: versions are never used twice, writers exclude each other, busy keys are reported."""

from __future__ import annotations

import pytest

from frazil.stores.keys import locks
from frazil.stores.keys.locks import Guard, guard_of
from frazil.testing.checks import run_threads


def test_versions_are_new_with_every_write() -> None:
    guard = Guard()
    seen = {guard.version("a"), guard.version("b")}
    assert len(seen) == 1, "what was never written has one version"
    for _ in range(5):
        with guard.writing(["a"]) as fresh:
            pass
        assert fresh == {"a": guard.version("a")}
        seen.add(guard.version("a"))
    assert len(seen) == 6
    before = guard.version("b")
    with guard.writing_all():
        assert guard.versions(["b"]) is None
    assert guard.version("b") not in {before, *seen}
    assert Guard().version("b") != Guard().version("b"), "nor do two guards have one version"


def test_a_key_is_busy_while_it_is_written() -> None:
    guard = Guard()
    with guard.writing(["a"]):
        assert guard.versions(["a"]) is None
        assert guard.versions(["b", "a"]) is None
        assert guard.versions(["b"]) == [guard.version("b")]
    assert guard.versions(["a"]) == [guard.version("a")]


def test_failed_writes_keep_the_version() -> None:
    guard = Guard()
    before = guard.version("a")
    with guard.writing(["a", "b"]) as fresh:
        del fresh["a"]
    assert guard.version("a") == before
    assert guard.version("b") == fresh["b"] != before


def test_a_write_that_fails_counts() -> None:
    guard = Guard()
    before = guard.version("a")
    with pytest.raises(RuntimeError), guard.writing(["a"]):
        raise RuntimeError
    assert guard.versions(["a"]) not in (None, [before])


def test_keys_beyond_those_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_REMEMBERED", 3)
    guard = Guard()
    seen = {guard.version("a")}
    for i in range(10):
        with guard.writing([f"k{i}", "a"]):
            pass
        assert guard.version("a") not in seen
        seen.add(guard.version("a"))
    assert len(guard.state()[3]) <= 3


def test_writers_exclude_each_other() -> None:
    guard, held, most = Guard(), set[str](), list[bool]()

    def write(key: str) -> None:
        for _ in range(200):
            with guard.writing([key, "b"]):
                most.append(key in held or "b" in held)
                held.update((key, "b"))
                held.difference_update((key, "b"))

    run_threads([lambda key=key: write(key) for key in "aacd"])  # type: ignore[misc]
    assert len(most) == 800
    assert not any(most)


def test_an_object_has_one_guard_while_it_is_referenced() -> None:
    inner = object()
    guard = guard_of(inner)
    assert guard_of(inner) is guard
    assert guard_of(object()) is not guard
    version = guard.version("a")
    state = guard.state()
    del guard
    assert guard_of(inner, state).version("a") == version
    assert guard_of(inner).version("a") != version
