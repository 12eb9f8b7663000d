"""Times in repository files: all forms are read, one is written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.formats.times import emit_time, parse_time
from tests.formats import strategies

SECOND = 10**9
BASE = int(datetime(2024, 10, 13, 18, 53, 45, tzinfo=UTC).timestamp()) * SECOND


@given(strategies.times)
def test_times_come_back(value: int) -> None:
    text = emit_time(value)
    assert parse_time(text) == value
    assert len(text) in {20, 24, 27, 30}


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_agree_with_datetime(moment: datetime) -> None:
    assert parse_time(moment.isoformat()) == parse_time(moment.isoformat().replace("+00:00", "Z"))
    value = parse_time(moment.isoformat())
    assert value is not None
    assert value // SECOND == (moment.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    assert value % SECOND == moment.microsecond * 1000


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("2024-10-13T18:53:45Z", 0),
        *[(f"2024-10-13T18:53:45.{'1234567891234'[:n]}Z", int("123456789"[:n].ljust(9, "0"))) for n in range(1, 13)],
        ("2024-10-13t18:53:45z", 0),
        ("2024-10-13 18:53:45Z", 0),
        ("2024-10-13T20:53:45+02:00", 0),
        ("2024-10-13T13:23:45.5-05:30", SECOND // 2),
        ("2024-10-13T18:53:60Z", 15 * SECOND),
    ],
)
def test_the_forms_of_a_time(text: str, offset: int) -> None:
    assert parse_time(text) == BASE + offset


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "2024-10-13",
            "2024-10-13T18:53:45",
            "2024-10-13T18:53:45.5",
            "2024-10-13T18:53:45.Z",
            "2024-10-13T18:53Z",
        ),
        *(
            "2024-13-13T18:53:45Z",
            "2024-02-30T18:53:45Z",
            "2024-10-13T24:53:45Z",
            "2024-10-13T18:60:45Z",
            "2024-10-13T18:53:61Z",
        ),
        *("2024-10-13T18:53:45+2", "2024-10-13T18:53:45+24:00", "2024-10-13T18:53:45+02:60", "2024-10-13T18:53:45ZZ"),
        *(
            "0000-01-01T00:00:00+00:01",
            "9999-12-31T23:59:60Z",
            "2024/10/13T18:53:45Z",
            "2024-10-13X18:53:45Z",
            "+024-10-13T18:53:45Z",
            "2024-10-13T18:53:45Z\n",
            "٢٠٢٤-10-13T18:53:45Z",
        ),
    ],
)
def test_invalid_times_are_refused(text: str) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize(
    ("fraction", "text"), [(0, ""), (5 * 10**8, ".500"), (425022000, ".425022"), (1, ".000000001"), (10, ".000000010")]
)
def test_fractions_have_as_few_digits_as_say_all(fraction: int, text: str) -> None:
    assert emit_time(BASE + fraction) == f"2024-10-13T18:53:45{text}Z"


@pytest.mark.parametrize("value", [253402300800 * SECOND, -62167219201 * SECOND, 10**30])
def test_times_beyond_four_digits_of_a_year_are_refused(value: int) -> None:
    with pytest.raises(InvalidInputError, match="years 0 to 9999"):
        emit_time(value)
