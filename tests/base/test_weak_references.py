"""Weak references without callbacks: living objects are found, and dead ones take no room."""

from __future__ import annotations

import ast
from contextvars import copy_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.concurrent_calls import in_threads
from tests.faults.interrupted_lines import Interrupts, first_times
from tests.rules.syntax import nodes

from frazil.base.weak_references import Alone, WeakValues, is_alone

SOURCES = Path(__file__).parents[2] / "src" / "frazil"
CALLBACKS = {"WeakSet", "WeakValueDictionary", "WeakKeyDictionary", "WeakMethod", "finalize", "__del__"}


class Held:
    pass


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=400))
def test_living_objects_are_found(steps: list[tuple[int, bool]]) -> None:
    weak: WeakValues[int, Held] = WeakValues()
    held: dict[int, Held] = {}
    for key, keep in steps:
        if keep:
            held[key] = Held()
            weak.put(key, held[key])
        else:
            held.pop(key, None)
        assert weak.get(key) is held.get(key)
    assert {*map(id, weak.values())} == {*map(id, held.values())}


def test_dead_references_are_removed() -> None:
    weak: WeakValues[int, Held] = WeakValues()
    held = [Held() for _ in range(100)]
    for key, value in enumerate(held):
        weak.put(key, value)
    for key in range(100, 10_000):
        weak.put(key, Held())
        assert len(weak._references) <= 256
    assert weak.values() == held


def test_threads_that_put_weak_values_lose_none() -> None:
    weak: WeakValues[tuple[int, int], Held] = WeakValues()
    held: list[Held] = []

    def add(thread: int) -> None:
        for number in range(500):
            value = Held()
            weak.put((thread, number), value)
            if number % 3 == 0:
                held.append(value)

    in_threads(8, add)
    assert {*map(id, weak.values())} == {*map(id, held)}


def named(node: ast.AST) -> str | None:
    return getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None)


def references(text: str) -> list[str]:
    """Code that makes Python run other code when an object dies."""
    found = [name for node in nodes(text) if (name := named(node)) in CALLBACKS]
    calls = [node for node in nodes(text) if isinstance(node, ast.Call) and named(node.func) in {"ref", "proxy"}]
    return found + [ast.unparse(call) for call in calls if len(call.args) + len(call.keywords) > 1]


@pytest.mark.parametrize(
    "text", ["weakref.WeakSet()", "from weakref import finalize", "ref(a, b)", "class A:\n    def __del__(self): ..."]
)
def test_the_rule_finds_what_it_is_to_find(text: str) -> None:
    assert references(text)


def test_no_code_runs_when_an_object_ends() -> None:
    """An interrupt in such code is lost."""
    assert (SOURCES / "base" / "weak_references.py").exists()
    assert {path.name: found for path in SOURCES.rglob("*.py") if (found := references(path.read_text("utf-8")))} == {}


def test_an_interrupt_at_any_line_leaves_no_thread_alone() -> None:
    def act() -> None:
        with Alone():
            assert is_alone()

    whole = Interrupts()
    assert whole.run(act)
    for number in first_times(whole.seen):
        Interrupts(number).run(act)
        assert not is_alone(), whole.seen[number]
    with Alone():
        assert copy_context().run(is_alone)
