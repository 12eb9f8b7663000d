"""Names of zarr-python 2 and 3 that Frazil does not have, and their replacements: for the errors of scripts that only replace `zarr` by `frazil`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SYNCHRONIZER: Final = "leave synchronizer out: threads and processes that write one chunk are safe"
_ASYNC: Final = "nothing is async: use Array, Group and the functions of frazil"
_FOLDER: Final = 'a folder is named by its path: frazil.open("sea.zarr"), or frazil.storage.LocalStore(path)'
_KEYS: Final = "give a mapping of keys to bytes in its place, such as a dict: frazil.open(mapping)"
_BUCKET: Final = 'a bucket is named by its URL: frazil.open("s3://bucket/sea.zarr", storage_options={...})'
_CACHE: Final = 'frazil.stores.CachingStore(store, limit) is a cache in memory; open(..., cache="folder") one on disk'
_CODEC: Final = "frazil.codecs has codecs; objects of the package numcodecs are taken, too"

_STORES: Final[dict[str, str]] = {
    **dict.fromkeys(("DirectoryStore", "NestedDirectoryStore", "TempStore"), _FOLDER),
    **dict.fromkeys(("FSStore", "ABSStore", "N5FSStore"), _BUCKET),
    **dict.fromkeys(
        ("DBMStore", "LMDBStore", "SQLiteStore", "RedisStore", "MongoDBStore", "KVStore", "BaseStore"), _KEYS
    ),
    "N5Store": "N5 is not read here; zarr-python 2 or z5py converts it",
    "LRUStoreCache": _CACHE,
    "ConsolidatedMetadataStore": "frazil.open_consolidated(location) reads consolidated metadata",
    "WrapperStore": "frazil.stores.WrappedStore is a store over a store",
    "LoggingStore": "frazil.stores.WrappedStore is a store over a store, for example to count requests",
    "GpuMemoryStore": "arrays are read into the memory of NumPy",
    "atexit_rmtree": "tempfile.TemporaryDirectory makes a folder that is removed",
    "contains_array": "`path in group`, or frazil.open_array, which raises NotFoundError",
    "contains_group": "`path in group`, or frazil.open_group, which raises NotFoundError",
    "init_array": "frazil.create_array",
    "init_group": "frazil.create_group",
    "rmdir": "del group[path], or shutil.rmtree",
    "listdir": "list(group), or store.list_dir",
    "getsize": "array.nbytes_stored()",
}
_HINTS: Final[Mapping[str, Mapping[str, str]]] = {
    "frazil": {
        **_STORES,  # zarr-python 2 has stores at the top
        **dict.fromkeys(("ThreadSynchronizer", "ProcessSynchronizer"), _SYNCHRONIZER),
        **dict.fromkeys(("AsyncArray", "AsyncGroup"), _ASYNC),
        **dict.fromkeys(
            (
                *("Blosc", "Zlib", "GZip", "Zstd", "BZ2", "LZ4", "LZMA", "Delta", "Quantize", "FixedScaleOffset"),
                *("PackBits", "Categorize", "AsType", "Adler32", "CRC32", "Fletcher32", "Shuffle", "JSON", "MsgPack"),
                *("Pickle", "VLenUTF8", "VLenBytes", "VLenArray", "blosc", "compressors", "filters"),
            ),
            _CODEC,
        ),
        **dict.fromkeys(("MemoryStore", "ZipStore", "LocalStore", "FsspecStore"), "it is in frazil.storage"),
        "copy_store": "frazil.copy(source, destination) copies a hierarchy, or a part of it",
        "copy_all": "frazil.copy(source, destination) copies a hierarchy, or a part of it",
        "abc": "frazil.extensions has what codecs and data types are written with, frazil.stores what stores are",
        "registry": "frazil.Registry is an argument of the functions that open and create",
        "experimental": f"Frazil has no such module; {_CACHE}",
        "buffer": "arrays are read into NumPy arrays",
        "core": "Array and Group are frazil.Array and frazil.Group",
        "hierarchy": "Group is frazil.Group",
        "convenience": "its functions are those of frazil",
        "creation": "its functions are those of frazil",
        "n5": _STORES["N5Store"],
        **dict.fromkeys(("set_format", "set_log_level"), "leave it out: Frazil logs nothing"),
    },
    "frazil.storage": _STORES,
    "frazil.stores": _STORES,
    "frazil.codecs": {
        "register_codec": "pass registry=frazil.codecs.DEFAULT_REGISTRY.with_codec(...) to the function that opens or creates",
    },
    "Array": {
        "async_array": _ASYNC,
        "initialized": "nchunks_initialized",
        "hexdigest": "frazil.checksum(location)",
        "digest": "frazil.checksum(location)",
        "astype": "array[...].astype(dtype); array.lazy[...] selects without reading",
        "view": "array[...].view(dtype); array.lazy[...] selects without reading",
        "is_view": "array.lazy[...] selects without reading",
        "islice": "iterate over array.lazy[start:stop], or over the array",
        "synchronizer": _SYNCHRONIZER,
        "chunk_store": "chunks are in array.store",
        "from_dict": "frazil.create_array takes the members of a document as arguments",
        "create": "frazil.create_array",
        "open": "frazil.open_array",
    },
    "Group": {
        "update_attributes_async": "update_attributes",
        "synchronizer": _SYNCHRONIZER,
        "chunk_store": "chunks are in group.store",
        "from_store": "frazil.create_group",
        "open": "frazil.open_group",
        "visit": "for path, node in group.members(max_depth=None)",
        "visitkeys": "for path, node in group.members(max_depth=None)",
        "visitvalues": "for path, node in group.members(max_depth=None)",
        "visititems": "for path, node in group.members(max_depth=None)",
        "create_groups": "create_group for each, or create_hierarchy",
    },
}


def hint(owner: str, name: str) -> str:
    """The hint to add to the error for a missing name if it is a name of zarr-python; "" for all other names.

    owner  the module by its name, or the class "Array" or "Group"."""
    found = _HINTS.get(owner, {}).get(name)
    return "" if found is None else f". Coming from zarr-python: {found}"
