"""Counts the lines of the packages that the redesign of the array engine and the stores rebuilt, before the redesign and now. targets.py compares the number
with its target.

    python source_lines.py

Files with a new purpose are left out, each kind with its reason. Files that only moved between these packages count."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REBUILT = (
    "src/frazil/array",
    "src/frazil/indexing",
    "src/frazil/codecs",
    "src/frazil/stores",
    "rust/src/chunks",
    "rust/src/files",
)
BEFORE = 22_755  # of these packages at commit 7da3481, where the redesign began

NOT_COUNTED: Mapping[str, tuple[str, ...]] = {
    "how shards are written: append, in place, shard writer, orders, data of new arrays": (
        "rust/src/files/append.rs",
        "rust/src/files/append_files.rs",
        "rust/src/files/append_journal.rs",
        "src/frazil/array/creation/data_source.py",
        "src/frazil/array/io/encoded_chunks.py",
        "src/frazil/array/io/shard_writer.py",
        "src/frazil/array/shards/shard_append.py",
        "src/frazil/array/shards/shard_options.py",
        "src/frazil/codecs/sharding/inner_order.py",
        "src/frazil/stores/local/appended_shards.py",
    ),
    "names, views and tables of zarr-python and notebooks, its stores, and its codec pipeline": (
        "src/frazil/array/foreign_array.py",
        "src/frazil/array/creation/zarr_arguments.py",
        "src/frazil/array/interface/[!i]*.py",  # indexer.py was there before
        "src/frazil/stores/operations/foreign_stores.py",
        "src/frazil/stores/operations/fsspec_operations.py",
        "src/frazil/stores/operations/zarr_operations.py",
    ),
    "Zarr v2, consolidated metadata, rectilinear grids": (
        "src/frazil/array/hierarchy/consolidated.py",
        "src/frazil/array/hierarchy/hidden_nodes.py",
        "src/frazil/array/shape/rectilinear.py",
        "src/frazil/indexing/rectilinear.py",
    ),
    "zip archives": ("src/frazil/stores/zip/*.py",),
    "codecs and data types of the registry": (
        "src/frazil/codecs/array_to_array/cast_value.py",
        "src/frazil/codecs/array_to_array/categorize.py",
        "src/frazil/codecs/array_to_array/reshape.py",
        "src/frazil/codecs/array_to_array/scale_offset.py",
        "src/frazil/codecs/array_to_bytes/n5_default.py",
        "src/frazil/codecs/array_to_bytes/objects.py",
        "src/frazil/codecs/array_to_bytes/packbits.py",
        "src/frazil/codecs/array_to_bytes/pcodec.py",
        "src/frazil/codecs/array_to_bytes/vlen.py",
        "src/frazil/codecs/array_to_bytes/zarrs_optional.py",
        "src/frazil/codecs/array_to_bytes/zarrs_vlen.py",
        "src/frazil/codecs/array_to_bytes/zfp.py",
        "src/frazil/codecs/bytes_to_bytes/base64.py",
        "src/frazil/codecs/bytes_to_bytes/conditional.py",
        "src/frazil/codecs/bytes_to_bytes/gdeflate.py",
        "src/frazil/codecs/chain/element_stage.py",
        "src/frazil/codecs/number_types.py",
    ),
    "garbage collection of repositories": ("src/frazil/stores/local/leftovers.py",),
    "the keys of nodes and sessions, which were in repository/session/ before": (
        "src/frazil/stores/array_storage/node_fetch.py",
        "src/frazil/stores/array_storage/node_keys.py",
        "src/frazil/stores/array_storage/node_store.py",
    ),
}


def all_lines(root: Path) -> int:
    """Lines of src/frazil/**/*.py and rust/src/**/*.rs."""
    return sum(map(_lines, [*(root / "src/frazil").rglob("*.py"), *(root / "rust/src").rglob("*.rs")]))


def rebuilt_lines(root: Path) -> int:
    """Lines of the rebuilt packages, without the files that are left out."""
    left_out = {file for patterns in NOT_COUNTED.values() for pattern in patterns for file in root.glob(pattern)}
    files = {file for folder in REBUILT for end in ("py", "rs") for file in (root / folder).rglob(f"*.{end}")}
    return sum(map(_lines, files - left_out))


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")


if __name__ == "__main__":
    print(f"rebuilt packages: {BEFORE:,} lines before, {rebuilt_lines(ROOT):,} now; not counted:")
    for reason, patterns in NOT_COUNTED.items():
        print(f"  {sum(_lines(file) for pattern in patterns for file in ROOT.glob(pattern)):6,}  {reason}")
    print(f"all sources: {all_lines(ROOT):,}")
