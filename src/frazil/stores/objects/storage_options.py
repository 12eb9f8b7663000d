"""Options of a bucket under the names of fsspec, as in zarr-python's storage_options, converted to those of obstore. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.errors import InvalidInputError
from frazil.stores.objects.clients import CLASSES

_S3: Final = {
    "key": "access_key_id",
    "username": "access_key_id",
    "secret": "secret_access_key",
    "password": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "region_name": "region",
}
_NESTED: Final = ("client_kwargs", "config_kwargs")  # of s3fs: arguments of boto's client


def object_options(location: object, options: Mapping[str, object]) -> dict[str, object]:
    """Options of obstore for a location: for S3, names of fsspec are renamed, others stay. Raises InvalidInputError for a location without options, and for a
    name of fsspec without an equivalent."""
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise InvalidInputError("storage_options must be a mapping of names to values", hint='{"anon": True}')
    scheme = location.partition("://")[0].lower() if isinstance(location, str) and "://" in location else ""
    if scheme not in CLASSES:
        raise InvalidInputError(
            "storage_options is for URLs of object stores and web servers",
            hint="s3://bucket/prefix, gs://, az://, https://",
        )
    found: dict[str, object] = {}
    remaining = dict(options)
    is_s3 = CLASSES[scheme] == "S3Store"
    if is_s3:
        for name in _NESTED:
            nested = remaining.pop(name, None)
            if nested is not None and not isinstance(nested, Mapping):
                raise InvalidInputError(f"{name} in storage_options must be a mapping")
            for inner in nested or {}:
                if inner not in ("endpoint_url", "region_name"):
                    raise InvalidInputError(
                        f"{inner!r} is not supported in {name} of storage_options",
                        hint="give endpoint_url or region_name",
                    )
            remaining = {**(nested or {}), **remaining}
    if "anon" in remaining:
        anonymous = remaining.pop("anon")
        if not isinstance(anonymous, bool):
            raise InvalidInputError("anon in storage_options must be True or False")
        if anonymous:
            found["skip_signature"] = True
    names = _S3 if is_s3 else {}
    for name, value in remaining.items():
        if value is not None:  # fsspec's value for an option that is not given
            found[names.get(name, name)] = value
    return found
