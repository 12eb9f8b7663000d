"""Checks the project's layers, sizes and habits. tests/rules has the rules; this file applies them to the sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.rules import contents, imports, sizes

ROOT = Path(__file__).parent.parent

# A file ("path") or a function ("path function") that may be longer than the limit, and the reason.
TOO_LONG: dict[str, str] = {}

# Modules that are imported on first use (src/frazil/base/late.py), by the reason: `import frazil` loads only what most programs need.
_LATE_BY_REASON: dict[str, tuple[str, ...]] = {
    "needed to open or create nodes, not to import frazil": (
        "frazil.api.destinations",
        "frazil.api.node_locations",
        "frazil.array.creation.modes",
        "frazil.array.hierarchy.root",
    ),
    "needed to create nodes, not to read them": (
        "frazil.array.creation.array_creation",
        "frazil.array.creation.array_metadata",
        "frazil.array.creation.data_source",
        "frazil.array.hierarchy.hidden_nodes",
        "frazil.array.hierarchy.node_changes",
        "frazil.array.hierarchy.repository_locations",
        "frazil.stores.local.case_folding",
        "frazil.stores.location_overlap",
    ),
    "for arrays and groups that were opened or created": (
        "frazil.array.array",
        "frazil.array.group",
        "frazil.codecs.chain.compilation",
        "frazil.codecs.sharding.shard",
        "frazil.stores.array_storage.chunk_storage",
    ),
    "needed to read or write several chunks at once": (
        "frazil.array.interface.indexer",
        "frazil.array.io.read",
        "frazil.array.io.write",
        "frazil.indexing.selection",
    ),
    "for repositories; arrays in plain stores do not need it": (
        "frazil.api.ref_locations",
        "frazil.api.repository",
        "frazil.api.repository_arguments",
        "frazil.api.session",
        "frazil.repository.format",
        "frazil.stores.array_storage.node_store",
    ),
    "for methods and options that few programs use": (
        "frazil.api.consolidated",
        "frazil.array.hierarchy.consolidated",
        "frazil.array.hierarchy.members",
        "frazil.array.hierarchy.move",
        "frazil.array.hierarchy.tree",
        "frazil.array.info",
        "frazil.array.interface.lazy_view",
        "frazil.array.io.chunk_count",
        "frazil.array.io.shard_writer",
        "frazil.array.shape.resize",
        "frazil.array.shards.shard_append",
        "frazil.stores.operations.partial_values",
        "frazil.stores.transfer.composed_values",
        "frazil.stores.wrappers",
    ),
    "for notebooks": (
        "frazil.array.interface.html",
        "frazil.array.interface.html_table",
    ),
    "for error messages": ("frazil.base.missing_names",),
    "for hierarchies of the draft of Zarr v3": tuple(
        f"frazil.metadata.draft.{name}" for name in ("emitter", "entry_point", "extensions", "layout", "transformers")
    ),
    "for hierarchies of Zarr v2": (
        "frazil.codecs.array_to_array.categorize",
        "frazil.codecs.array_to_bytes.objects",
        "frazil.metadata.types.objects",
        "frazil.metadata.v2.documents",
        "frazil.metadata.v2.layout",
        "frazil.metadata.v2.objects",
    ),
    "for the names and objects of zarr-python": (
        "frazil.api.constructors",
        "frazil.array.creation.zarr_arguments",
        "frazil.codecs.numcodecs",
        "frazil.codecs.zarr_names",
        "frazil.dtype",
        "frazil.storage",
        "frazil.stores.objects.storage_options",
    ),
    "for arrays with chunks of several shapes": (
        "frazil.array.shape.rectilinear",
        "frazil.metadata.grids.rectilinear",
    ),
    "for elements of variable length": (
        "frazil.codecs.array_to_bytes.vlen",
        "frazil.codecs.array_to_bytes.zarrs_vlen",
        "frazil.codecs.chain.element_stage",
    ),
    "for data types other than numbers of NumPy": tuple(
        f"frazil.metadata.types.{name}"
        for name in (
            "datetimes",
            "heap",
            "optional",
            "registered_complex",
            "small_numbers",
            "strings",
            "structs",
            "variable_length",
        )
    ),
    "a codec that few arrays have": (
        *(
            f"frazil.codecs.array_to_array.{name}"
            for name in (
                "bitround",
                "cast_value",
                "filters",
                "morton",
                "packbits",
                "reshape",
                "scale_offset",
                "transpose",
            )
        ),
        *(
            f"frazil.codecs.array_to_bytes.{name}"
            for name in ("n5_default", "packbits", "pcodec", "zarrs_optional", "zfp")
        ),
        *(
            f"frazil.codecs.bytes_to_bytes.{name}"
            for name in (
                "base64",
                "blosc",
                "checksums",
                "compressors",
                "conditional",
                "gdeflate",
                "gzip",
                "on_bytes",
                "shuffle",
            )
        ),
    ),
    "for codecs that run in Python": (
        "frazil.codecs.chain.python_chain",
        "frazil.codecs.chain.python_stage",
        "frazil.codecs.sharding.whole_shard",
    ),
    "for calls that start threads": ("frazil.base.threads",),
    "a store, or a module of stores, that few programs use": (
        "frazil.stores.caches.cache_folder",
        "frazil.stores.caches.caching_store",
        "frazil.stores.caches.disk_cache",
        "frazil.stores.local.leftovers",
        "frazil.stores.local.new_files",
        "frazil.stores.memory",
        "frazil.stores.objects.clients",
        "frazil.stores.objects.object_store",
        "frazil.stores.objects.timed_pools",
        "frazil.stores.transfer.merged_spans",
        "frazil.stores.operations.adapted_store",
        "frazil.stores.operations.foreign_stores",
        "frazil.stores.operations.fsspec_operations",
        "frazil.stores.operations.zarr_operations",
        "frazil.stores.transfer.value_copies",
        "frazil.stores.transformer.sharding_store",
        "frazil.stores.zip.zip_store",
    ),
    "an operation that few programs run": (
        "frazil.integrations.files.exports.export_file",
        "frazil.integrations.files.scanner",
        *(f"frazil.integrations.files.imports.{name}" for name in ("import_file", "importer", "layout", "selection")),
        "frazil.operations.checksum",
        "frazil.operations.convert.convert",
        "frazil.operations.copy.copy",
        "frazil.operations.rechunk.rechunk",
        "frazil.operations.serve.server",
        "frazil.operations.shards.shards",
        "frazil.operations.validate.validate",
    ),
    "a public module for one integration": (
        "frazil.dask",
        "frazil.extensions",
        "frazil.integrations.xarray.decoded_array",
        "frazil.xarray",
        "frazil.zarr",
    ),
}
LATE: dict[str, str] = {module: reason for reason, modules in _LATE_BY_REASON.items() for module in modules}

# A path of a module whose public signatures may contain `Any`, and the reason.
ANY_ALLOWED: dict[str, str] = {}


def read(pattern: str) -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.glob(pattern))}


SOURCES = read("src/frazil/**/*.py")
MODULES = {**SOURCES, **read("src/frazil/**/*.pyi")}
EVERYTHING = {
    **SOURCES,
    **{
        k: v
        for pattern in ("rust/src/**/*.rs", "tests/**/*.py", "benchmarks/**/*.py", "examples/*.py")
        for k, v in read(pattern).items()
    },
}


@pytest.mark.parametrize(
    "rule",
    [
        imports.layer_breaks,
        imports.order_breaks,
        imports.foreign_imports,
        imports.cycles,
        imports.hidden_imports,
        contents.missing_docstrings,
        contents.stray_exceptions,
        contents.bare_raises,
        contents.late_imports_of_numpy,
        contents.repeated_names,
    ],
)
def test_sources_keep_the_rule(rule: Callable[[Mapping[str, str]], list[str]]) -> None:
    assert SOURCES
    assert rule(MODULES) == []


def test_late_imports_are_listed_with_a_reason() -> None:
    assert imports.late_imports(MODULES, LATE) == []


def test_files_are_short() -> None:
    assert sizes.long_files(EVERYTHING, TOO_LONG) == []


def test_bodies_are_short() -> None:
    assert sizes.long_bodies(EVERYTHING, TOO_LONG) == []


def test_public_signatures_have_no_any() -> None:
    assert contents.public_any({path: text for path, text in SOURCES.items() if path not in ANY_ALLOWED}) == []


def test_every_exception_is_still_needed() -> None:
    stale = [entry for entry in TOO_LONG if not _too_long(without=entry)]
    stale += [path for path in ANY_ALLOWED if not contents.public_any({path: SOURCES.get(path, "")})]
    assert stale == []


def _too_long(without: str) -> list[str]:
    others = {entry: reason for entry, reason in TOO_LONG.items() if entry != without}
    return [*sizes.long_files(EVERYTHING, others), *sizes.long_bodies(EVERYTHING, others)]
