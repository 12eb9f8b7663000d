"""Tests of xarray's suites that fail here, and why. An unlisted test must pass; a listed one must fail, and must exist (test_suites.py)."""

from __future__ import annotations

from typing import Final

_ZARR: Final = "opens the target with zarr-python, which cannot open a {}"
_LATER: Final = "on a branch, compute=False cannot be combined with a commit; a session does it"
_FORK: Final = "in a session, what is computed later is a fork to be merged; the test computes it and looks"
_DICTS: Final = "codecs in an encoding are objects of a document, which every engine takes; the test compares them with objects of zarr-python"
_WARNS: Final = "members are read in one batch, with consolidated metadata or without: there is nothing to warn about"

LISTED: dict[str, str] = {
    "test_roundtrip_None_variable": "xarray gives the variable a name with '__', which names of nodes must not begin with",
    "test_invalid_dataarray_names_raise": "the names are refused by the same classes of errors, with a text of ours",
    "test_read_non_consolidated_warning": _WARNS,
    "test_to_zarr_not_consolidated": _WARNS,
    "test_compressor_encoding": _DICTS,
    "test_zarr_encoding": _DICTS,
    "TestSession::test_pickle": "arrays of a session with changes do not pickle; session.fork() does",
    "TestSession::test_pickle_dataarray": "arrays of a session with changes do not pickle; session.fork() does",
    "TestSession::test_to_zarr_compute_false_roundtrip": _FORK,
    "TestSession::test_to_zarr_append_compute_false_roundtrip": _FORK,
    "TestBranch::test_to_zarr_compute_false_roundtrip": _LATER,
    "TestBranch::test_to_zarr_append_compute_false_roundtrip": _LATER,
    "TestBranch::test_write_preexisting_override_metadata": _LATER,
    "TestBranch::test_zarr_fill_value_setting": _LATER,
    **{
        f"TestBranch::test_write_region[3-{kind}-{consolidated}-False-{empty}]": _LATER
        for kind in ("numpy", "dask")
        for consolidated in (True, False, None)
        for empty in (True, False, None)
    },
    **{
        f"TestSession::{name}": _ZARR.format("session")
        for name in (
            "test_cache_members",
            "test_roundtrip_boolean_dtype",
            "test_roundtrip_boolean_dtype_legacy_int8",
            "test_zarr_mode_w_overwrites_encoding",
        )
    },
    **{
        f"TestBranch::{name}": _ZARR.format("branch")
        for name in ("test_roundtrip_boolean_dtype", "test_zarr_mode_w_overwrites_encoding")
    },
}
