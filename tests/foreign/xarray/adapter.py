"""Runs xarray's own tests of the engine "zarr" against the engine "frazil": Dataset.to_zarr is ds.frazil.write, open_zarr and engine="zarr" open with Frazil.

Arguments that have no meaning here (consolidated, write_empty_chunks, zarr_format=3) are dropped. Our errors become the Python errors that the tests expect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import xarray as xr
from xarray.backends import plugins

import frazil.xarray
from frazil.errors import AlreadyExistsError, MetadataError, NotFoundError
from frazil.integrations.xarray.entrypoint import FrazilBackendEntrypoint

__all__ = ["redirected"]

_DROPPED = ("consolidated", "write_empty_chunks", "zarr_format", "storage_options", "chunkmanager_store_kwargs")
_get_backend = plugins.get_backend


@contextmanager
def as_python() -> Iterator[None]:
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(str(error)) from error
    except MetadataError as error:
        if (error.path or "").startswith("attributes."):
            raise TypeError(f"Invalid attribute in Dataset.attrs. {error}") from error
        raise
    except NotFoundError as error:
        if "there is no array or group in" in error.message:
            raise FileNotFoundError(f"No such file or directory: {error}") from error
        raise


def to_zarr(self: Any, store: Any = None, mode: Any = None, *args: Any, **options: Any) -> Any:
    names = ("group", "encoding") if not isinstance(self, xr.DataTree) else ("encoding",)
    options |= dict(zip(names, args, strict=False))
    kept = {name: value for name, value in options.items() if name not in _DROPPED}
    kept.setdefault("align_chunks", False)
    with as_python():
        return self.frazil.write(store, mode, **kept)


def open_zarr(store: Any, chunks: Any = "default", **options: Any) -> Any:
    kept = {name: value for name, value in options.items() if name not in ("consolidated", "zarr_format")}
    return xr.open_dataset(store, engine="zarr", chunks={} if chunks == "default" else chunks, **kept)


class Entrypoint(FrazilBackendEntrypoint):
    """With the arguments of the zarr engine."""

    open_dataset_parameters = plugins.detect_parameters(FrazilBackendEntrypoint.open_dataset)

    def open_dataset(self, filename_or_obj: Any, **options: Any) -> xr.Dataset:  # type: ignore[override]
        with as_python():
            return super().open_dataset(filename_or_obj, **_kept(options))

    def open_groups_as_dict(self, filename_or_obj: Any, **options: Any) -> dict[str, xr.Dataset]:  # type: ignore[override]
        with as_python():
            return super().open_groups_as_dict(filename_or_obj, **_kept(options))

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:  # type: ignore[override]
        with as_python():
            return super().open_datatree(filename_or_obj, **_kept(options))


def _kept(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("mode", "zarr_format", "cache_members")}


def get_backend(engine: Any) -> Any:
    return Entrypoint() if engine == "zarr" else _get_backend(engine)


@contextmanager
def redirected() -> Iterator[None]:
    replaced: list[tuple[object, str, Callable[..., Any]]] = [
        (xr.Dataset, "to_zarr", to_zarr),
        (xr.DataArray, "to_zarr", to_zarr),
        (xr.DataTree, "to_zarr", to_zarr),
        (xr, "open_zarr", open_zarr),
        (plugins, "get_backend", get_backend),
    ]
    assert frazil.xarray
    patches = [patch.object(owner, name, new) for owner, name, new in replaced]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
