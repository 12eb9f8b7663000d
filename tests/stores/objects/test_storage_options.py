"""storage_options: names of fsspec to those of obstore."""

from __future__ import annotations

import pytest

import frazil
from frazil.errors import InvalidInputError
from frazil.stores.objects.storage_options import object_options


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"anon": True}, {"skip_signature": True}),
        ({"anon": False, "token": None}, {}),
        (
            {"key": "k", "secret": "s", "token": "t"},
            {"access_key_id": "k", "secret_access_key": "s", "session_token": "t"},
        ),
        (
            {"client_kwargs": {"endpoint_url": "http://h:1", "region_name": "r"}},
            {"endpoint": "http://h:1", "region": "r"},
        ),
        ({"endpoint_url": "http://h:1", "skip_signature": True}, {"endpoint": "http://h:1", "skip_signature": True}),
    ],
)
def test_names_of_fsspec(given: dict[str, object], expected: dict[str, object]) -> None:
    assert object_options("s3://bucket/a", given) == expected


def test_options_of_other_stores_are_their_own() -> None:
    assert object_options("gs://b/a", {"anon": True}) == {"skip_signature": True}
    assert object_options("az://b/a", {"account_name": "n"}) == {"account_name": "n"}


@pytest.mark.parametrize(
    ("location", "options"),
    [("a.zarr", {"anon": True}), ("memory://a", {"anon": True}), ("s3://b", {"anon": 1}), ("s3://b", [1]), ("s3://b", {1: 2}),
     ("s3://b", {"client_kwargs": 5}), ("s3://b", {"client_kwargs": {"verify": False}})],
)  # fmt: skip
def test_invalid_storage_options_are_refused(location: str, options: object) -> None:
    with pytest.raises(InvalidInputError):
        frazil.open(location, storage_options=options)  # type: ignore[arg-type] # which is the point
