"""Checks the project's layers, sizes and habits. tests/rules has the rules; this file applies them to the sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.rules import contents, imports, sizes

ROOT = Path(__file__).parent.parent

# "path" for a file, "path function" for a body, and why it may be longer than the rest.
TOO_LONG: dict[str, str] = {}

# Modules that are imported on first use (src/frazil/base/late.py), and why: programs that do not need them do not wait for them.
_OLD_CODEC = "a codec that only documents of old data name"
LATE: dict[str, str] = {
    "frazil.api.destinations": "only who creates something asks the guard of destinations",
    "frazil.api.node_locations": "opening needs it, an import does not",
    "frazil.array.creation.modes": "opening needs it, an import does not",
    "frazil.api.references": "only locations with an @ may name a point in a repository",
    "frazil.api.repository": "arrays in plain stores do without repositories",
    "frazil.api.session": "arrays in plain stores do without repositories",
    "frazil.array.creation.array_creation": "reading needs nothing of it",
    "frazil.array.creation.array_metadata": "reading needs nothing of it",
    "frazil.array.creation.zarr_arguments": "only programs that use the names or objects of zarr-python need it",
    "frazil.array.io.chunk_count": "asked for by name",
    "frazil.array.io.selection_parts": "elements of variable length",
    "frazil.base.threads": "only calls that start threads need it",
    "frazil.array.info": "asked for by name",
    "frazil.array.hierarchy.members": "only who lists a group needs it",
    "frazil.array.hierarchy.move": "asked for by name",
    "frazil.array.hierarchy.removal": "asked for by name",
    "frazil.array.hierarchy.consolidated": "only stores that cannot list, and those who ask for it by name, read consolidated metadata",
    "frazil.api.consolidated": "asked for by name",
    "frazil.array.hierarchy.hidden_nodes": "only who creates something asks what it would hide",
    "frazil.metadata.v2.objects": "object arrays of Zarr v2",
    "frazil.metadata.v2.documents": "a dialect that only hierarchies of Zarr v2 have",
    "frazil.metadata.types.objects": "object arrays of Zarr v2",
    "frazil.codecs.array_to_array.categorize": "object arrays of Zarr v2",
    "frazil.codecs.array_to_bytes.objects": "object arrays of Zarr v2",
    "frazil.codecs.bytes_to_bytes.base64": _OLD_CODEC,
    "frazil.metadata.v2.layout": "a dialect that only hierarchies of Zarr v2 have",
    "frazil.array.hierarchy.repository_locations": "only who creates something asks where repositories are, or where nothing was found",
    "frazil.array.shards.shard_append": "only shards that are changed in place need it, and those that were found half changed",
    "frazil.array.interface.html": "only notebooks ask for it",
    "frazil.array.interface.html_table": "only notebooks ask for it",
    "frazil.array.interface.lazy_view": "asked for by name",
    "frazil.array.shape.resize": "asked for by name",
    "frazil.array.shape.rectilinear": "few arrays have chunks of several shapes",
    "frazil.metadata.grids.rectilinear": "few arrays have chunks of several shapes",
    "frazil.array.io.shard_writer": "asked for by name",
    "frazil.array.hierarchy.tree": "asked for by name",
    **dict.fromkeys(
        (
            *(f"frazil.codecs.array_to_array.{name}" for name in ("cast_value", "reshape", "scale_offset")),
            *(f"frazil.codecs.array_to_bytes.{name}" for name in ("n5_default", "packbits", "pcodec", "zfp")),
            *(f"frazil.codecs.bytes_to_bytes.{name}" for name in ("conditional", "gdeflate")),
        ),
        "a codec that few documents name",
    ),
    "frazil.stores.objects.timed_pools": "only web servers need urllib3",
    "frazil.codecs.chain.python_chain": "only arrays with shards, or with a Python codec, have such chains",
    "frazil.codecs.chain.python_stage": "only chains with a Python codec run it",
    "frazil.codecs.array_to_bytes.vlen": "only arrays of variable-length elements use it",
    "frazil.codecs.array_to_bytes.zarrs_vlen": "codecs of one other implementation",
    "frazil.codecs.array_to_bytes.zarrs_optional": "codecs of one other implementation",
    "frazil.codecs.sharding.whole_shard": "only shards behind a codec that the plan cannot see through are run whole",
    **dict.fromkeys(
        (f"frazil.metadata.draft.{name}" for name in ("entry_point", "layout", "transformers", "emitter")),
        "a dialect that only hierarchies of the draft have",
    ),
    "frazil.dask": "only who uses dask needs it",
    "frazil.xarray": "only who uses xarray needs it",
    "frazil.zarr": "only who uses zarr-python needs it",
    "frazil.extensions": "only who writes extensions needs its names",
    "frazil.dtype": "only programs that use the names of zarr-python need it",
    "frazil.storage": "only programs that use the names of zarr-python need it",
    "frazil.base.missing_names": "only errors ask for it",
    "frazil.codecs.zarr_names": "only programs that use the names of zarr-python need it",
    "frazil.codecs.numcodecs": "only programs that use the names of zarr-python need it",
    "frazil.integrations.files.exports.export_file": "few programs export files",
    **dict.fromkeys(
        (f"frazil.integrations.files.imports.{name}" for name in ("import_file", "importer", "layout", "selection")),
        "few programs import files",
    ),
    "frazil.integrations.xarray.decoded_array": "only commands with --decoded need xarray",
    "frazil.integrations.files.scanner": "few programs import files",
    **dict.fromkeys(
        (
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
        "data types that are no numbers are read when a document names one",
    ),
    "frazil.operations.checksum": "few programs need checksums",
    "frazil.operations.convert.convert": "few programs convert anything",
    "frazil.operations.rechunk.rechunk": "few programs rechunk anything",
    "frazil.operations.shards.shards": "asked for by name",
    "frazil.operations.validate.validate": "few programs validate anything",
    "frazil.operations.serve.server": "one command alone serves anything",
    "frazil.operations.copy.copy": "few programs copy anything",
    "frazil.stores.operations.adapted_store": "only stores of users that are none yet need it",
    "frazil.array.creation.data_source": "only what creates arrays with data needs it",
    "frazil.stores.caches.caching_store": "only where reading is a request, or a cache is asked for by name",
    "frazil.stores.operations.foreign_stores": "only objects that are no text, no path and no Store need it",
    "frazil.stores.operations.fsspec_operations": "only file systems of fsspec need it, and it imports fsspec",
    "frazil.stores.operations.zarr_operations": "only stores of zarr-python need it, and it imports zarr-python",
    "frazil.stores.caches.cache_folder": "one command alone looks into the folder of a cache",
    "frazil.stores.caches.disk_cache": "a cache on disk is asked for by its folder",
    "frazil.stores.transfer.append": "asked for by name",
    "frazil.stores.operations.partial_access": "asked for by name: arrays read and write by other means",
    "frazil.stores.transfer.value_copies": "only copies from store to store need it",
    "frazil.stores.local.case_folding": "reads do not need it",
    "frazil.stores.local.leftovers": "only garbage collections look for what writers left",
    "frazil.stores.local.new_files": "only copies make files that nobody else writes",
    "frazil.stores.objects.clients": "only objects of obstore and URLs need it",
    "frazil.stores.objects.storage_options": "only programs written for zarr-python give options so",
    "frazil.stores.objects.object_store": "arrays on local disks do without clients of object stores",
    "frazil.stores.location_overlap": "only where data that is read from an array may be overwritten by a new one",
    "frazil.stores.memory": "for tests, and for arrays that nobody keeps",
    "frazil.stores.zip.zip_store": "few hierarchies are zip archives",
    "frazil.stores.wrappers": "stores over stores are asked for by name",
    "frazil.stores.transformer.sharding_store": "the array engine plans shards itself; this is for who wants a store",
    **dict.fromkeys(
        (
            f"frazil.codecs.array_to_array.{name}"
            for name in ("astype", "bitround", "delta", "fixed_scale_offset", "packbits", "quantize")
        ),
        _OLD_CODEC,
    ),
    **dict.fromkeys(
        (
            f"frazil.codecs.bytes_to_bytes.{name}"
            for name in ("bz2", "checksums", "fletcher32", "lz4", "lzma", "on_bytes", "shuffle", "zlib")
        ),
        _OLD_CODEC,
    ),
}

# "path" and why its public functions may have Any in their signatures.
SAYS_ANY: dict[str, str] = {}


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
        contents.repeated_names,
    ],
)
def test_sources_keep_the_rule(rule: Callable[[Mapping[str, str]], list[str]]) -> None:
    assert SOURCES
    assert rule(MODULES) == []


def test_late_imports_have_a_reason() -> None:
    assert imports.late_imports(MODULES, LATE) == []


def test_files_are_short() -> None:
    assert sizes.long_files(EVERYTHING, TOO_LONG) == []


def test_bodies_are_short() -> None:
    assert sizes.long_bodies(EVERYTHING, TOO_LONG) == []


def test_public_functions_do_not_say_any() -> None:
    assert contents.public_any({path: text for path, text in SOURCES.items() if path not in SAYS_ANY}) == []


def test_every_exception_is_still_needed() -> None:
    stale = [entry for entry in TOO_LONG if not _too_long(without=entry)]
    stale += [path for path in SAYS_ANY if not contents.public_any({path: SOURCES.get(path, "")})]
    assert stale == []


def _too_long(without: str) -> list[str]:
    others = {entry: reason for entry, reason in TOO_LONG.items() if entry != without}
    return [*sizes.long_files(EVERYTHING, others), *sizes.long_bodies(EVERYTHING, others)]
