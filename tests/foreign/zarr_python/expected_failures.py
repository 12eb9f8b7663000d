"""Tests of zarr-python's suites that fail here, and why. An unlisted test must pass; a listed one must fail, and must exist (test_suites.py)."""

from __future__ import annotations

from typing import Final

_NO_NODES: Final = (
    "stores values that are neither metadata of a node nor a chunk of an array, and a repository holds nothing else"
)
_VALUES: Final = (
    "test_with_read_only_store",
    "test_get",
    "test_get_not_open",
    "test_get_raises",
    "test_get_many",
    "test_getsize",
    "test_getsize_prefix",
    "test_set",
    "test_set_not_open",
    "test_set_many",
    "test_exists",
    "test_delete",
    "test_delete_dir",
    "test_is_empty",
    "test_clear",
    "test_list",
    "test_list_prefix",
    "test_list_empty_path",
    "test_list_dir",
    "test_set_if_not_exists",
    "test_get_partial_values[key_ranges1]",
    "test_get_partial_values[key_ranges2]",
    "test_get_partial_values[key_ranges3]",
)
# only in zarr-python later than 3.0; the others are in all versions
LATER: Final = frozenset(
    {
        *("test_get_bytes", "test_get_bytes_sync", "test_get_json", "test_get_json_sync"),
        *("test_get_sync", "test_set_sync", "test_delete_sync"),
        "test_sync_async_set_get_parity",
        "test_delete_sync_visible_to_async_get",
        "test_get_sync_byte_range_parity",
    }
)

LISTED: dict[str, str] = {
    "TestSession::test_serializable_store": "a session that writes does not pickle, as only one place can commit it",
    **{f"TestSession::{name}": _NO_NODES for name in (*_VALUES, *LATER)},
}
