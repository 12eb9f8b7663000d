"""Attempts of requests to web servers: servers that ask to wait. Answers and redirects are in test_web_reader.py."""

from __future__ import annotations

import time
from datetime import timedelta
from email.utils import formatdate
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.scripted import Request, answer, scripted

from frazil.errors import StoreError
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.objects.web_client import _retry_after, http_time

MOMENT = timedelta(milliseconds=1)
ONCE_MORE = {"max_retries": 1, "backoff": {"init_backoff": MOMENT, "max_backoff": MOMENT, "base": 2}}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, none of which is waited for."""
    made: list[float] = []
    clock = SimpleNamespace(**{**vars(time), "sleep": made.append, "monotonic": lambda: time.monotonic() + sum(made)})
    monkeypatch.setattr("frazil.base.retry.time", clock)
    return made


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    "headers",
    [
        {"Retry_After": "7"},
        {"Retry_After": formatdate(1e9 + 7, usegmt=True), "Date": formatdate(1e9, usegmt=True)},
    ],
    ids=["seconds", "date"],
)
def test_a_server_that_asks_to_wait(status: int, headers: dict[str, str], pauses: list[float]) -> None:
    def script(request: Request) -> bytes:
        return answer(200, b"value", ETag='"1"') if len(server.requests) > 1 else answer(status, **headers)

    with scripted(script) as server:
        assert ObjectStore(server.url, retry_config=ONCE_MORE).get("a") == b"value"
    assert pauses == [7.0]


def test_a_server_that_asks_to_wait_longer_than_the_policy_allows(pauses: list[float]) -> None:
    with scripted(lambda _: answer(503, Retry_After=3600)) as server:
        with pytest.raises(StoreError, match="503 and asks to wait 3600 s") as caught:
            ObjectStore(server.url).get("a")
        assert caught.value.key == "a"
        assert len(server.requests) == 1
    assert pauses == []


@given(st.one_of(st.text(max_size=40), st.sampled_from(["-5", "1e3", "0", "Mon, 99 Jan 2024 00:00:00 GMT", "9" * 30])))
def test_invalid_retry_after_values_are_ignored(text: str) -> None:
    wait = _retry_after({"retry-after": text})
    assert wait >= 0
    assert wait == 0 or text.strip().isdecimal() or http_time(text) is not None
