"""Retries: how often, with which pauses, and until when. No test here waits."""

from __future__ import annotations

import time
from errno import EMFILE
from itertools import pairwise

import pytest

from frazil.base.retry import FILES, Backoff, attempts, retry, when_files_are_free
from frazil.errors import StoreError


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses made; a clock that they advance."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(made))
    return made


def test_the_first_attempt_does_not_wait_and_pauses_grow(pauses: list[float]) -> None:
    assert list(attempts(Backoff(6, 1.0, 5.0))) == [0, 1, 2, 3, 4, 5]
    assert len(pauses) == 5
    for pause, longest in zip(pauses, (1.0, 2.0, 4.0, 5.0, 5.0), strict=True):
        assert longest / 2 <= pause <= longest


def test_a_single_attempt_has_no_pause(pauses: list[float]) -> None:
    assert list(attempts(Backoff(1))) == [0]
    assert pauses == []


def test_attempts_end_at_the_deadline(pauses: list[float]) -> None:
    count = len(list(attempts(Backoff(1000, 1.0, 1.0, 10.0))))
    assert 10 < count < 24
    assert sum(pauses[:-1]) <= 10.0 < sum(pauses)


def test_a_pause_is_as_long_as_the_other_side_asks(pauses: list[float]) -> None:
    asked = iter([0.0, 7.0, 0.5])
    assert list(attempts(Backoff(4, 1.0, 5.0, 20.0), lambda: next(asked))) == [0, 1, 2, 3]
    assert pauses[0] <= 1.0
    assert pauses[1] == 7.0
    assert 2.0 <= pauses[2] <= 4.0


def test_pauses_do_not_exceed_the_deadline(pauses: list[float]) -> None:
    asked = iter([8.0, 8.0])
    assert list(attempts(Backoff(10, 1.0, 1.0, 10.0), lambda: next(asked))) == [0, 1]
    assert pauses == [8.0]


def test_the_pauses_of_many_attempts_stay_finite(pauses: list[float]) -> None:
    assert len(list(attempts(Backoff(5000, 0.001, 0.01)))) == 5000
    assert max(pauses) <= 0.01
    assert len({round(pause, 9) for pause in pauses}) > 1  # they are not all equal


def test_a_call_is_repeated_while_its_error_calls_for_it(pauses: list[float]) -> None:
    left = [KeyError("a"), KeyError("b"), ValueError("c"), KeyError("d")]

    def call() -> int:
        raise left.pop(0)

    with pytest.raises(ValueError, match="c"):
        retry(call, Backoff(10), lambda error: isinstance(error, KeyError))
    assert len(pauses) == 2
    with pytest.raises(KeyError, match="d"):
        retry(call, Backoff(1), lambda error: True)
    assert len(pauses) == 2


def test_an_interrupt_is_never_repeated(pauses: list[float]) -> None:
    def call() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retry(call, Backoff(10), lambda error: True)
    assert pauses == []


def test_files_are_waited_for_by_time(pauses: list[float]) -> None:
    def call() -> int:
        raise StoreError("too many open files", errno=EMFILE)

    with pytest.raises(StoreError, match="too many"):
        when_files_are_free(call)
    assert sum(pauses[:-1]) <= FILES.within < sum(pauses)
    assert all(before <= 2 * after for before, after in pairwise(pauses))
