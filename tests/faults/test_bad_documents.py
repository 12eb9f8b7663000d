"""Invalid documents, documents of other formats, and documents with wrong content; and keys that leave the store. Each is refused when it is read, or when its
content would be used, before memory is allocated for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import run

import frazil
from frazil.codecs import Bytes, Gzip, ShardingIndexed
from frazil.errors import (
    FormatError,
    FrazilError,
    InvalidInputError,
    MetadataError,
    NotFoundError,
    StoreError,
    UnknownExtensionError,
)
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store

# --- invalid documents -----------------------------------------------------------------------------------------------------------------

OTHERS: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "cut short": b'{"zarr_format": 3, "node_ty',
    "two of them": b'{"zarr_format": 3}{"zarr_format": 3}',
    "web page": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "zeros": bytes(4096),
    "binary": bytes(range(256)) * 8,
    "zip file": b"PK\x03\x04" + bytes(60),
    "utf-16": '{"zarr_format": 3}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"zarr_format": 3}',
    "null": b"null",
    "number": b"3",
    "list": b"[]",
    "text": b'"zarr"',
    "no member": b"{}",
    "deep": b"[" * 10**6,
    "deep object": b'{"a":' * 10**5 + b"1" + b"}" * 10**5,
    "long number": b'{"zarr_format": ' + b"3" * 10**5 + b"}",
    "version 2": b'{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i4", "compressor": null, "fill_value": 0, "order": "C"}',
    "version 4": b'{"zarr_format": 4, "node_type": "group"}',
    "other node": b'{"zarr_format": 3, "node_type": "table"}',
    "draft of another version": b'{"zarr_format": "https://purl.org/zarr/spec/core/4.0", "metadata_encoding": {"type": "json", "metadata_key_suffix": ".json"}, "extensions": []}',
    "draft without a dialect": b'{"zarr_format": "https://purl.org/zarr/spec/core/3.0", "extensions": []}',
    "array of the draft": b'{"shape": [4], "data_type": "<i4", "chunk_grid": {"type": "regular", "chunk_shape": [2], "separator": "/"}, "chunk_memory_layout": "C", "fill_value": 0, "extensions": [], "attributes": {}}',
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("path", ["", "a/b"])
def test_invalid_documents_are_refused(kind: str, path: str) -> None:
    store = MemoryStore()
    key = f"{path}/zarr.json".lstrip("/")
    store.set(key, OTHERS[kind])
    for use in (
        lambda: frazil.open(store, path=path),
        lambda: frazil.open_array(store, path=path),
        lambda: frazil.open_group(store, path=path),
        lambda: frazil.open_array(store, "r+", path=path),
        lambda: frazil.open_array(store, "a", path=path, shape=4, dtype="i4"),
        lambda: frazil.open_group(store, "a", path=path),
        lambda: frazil.create_array(store, path=f"{path}/c", shape=4, dtype="i4"),
    ):
        with pytest.raises(MetadataError) as caught:
            use()
        assert caught.value.key == key
    assert {key: store.get(key) for key in store.list()} == {key: OTHERS[kind]}
    assert frazil.open_array(store, "w", path=path, shape=4, dtype="i4").shape == (4,), "it can be replaced"


@pytest.mark.parametrize("name", [".zattrs", ".zmetadata", "zarr.json~", "Zarr.json", "c/0"])
def test_keys_that_are_not_documents_are_no_nodes(name: str) -> None:
    store = MemoryStore()
    store.set(name, b'{"zarr_format": 2}')
    for use in (frazil.open, frazil.open_array, frazil.open_group):
        with pytest.raises(NotFoundError) as caught:
            use(store)
        assert caught.value.key == "zarr.json"


def test_a_folder_in_place_of_a_document(tmp_path: Path) -> None:
    (tmp_path / "zarr.json").mkdir()
    with pytest.raises((NotFoundError, StoreError)):
        frazil.open(tmp_path)
    with pytest.raises(StoreError):
        frazil.create_group(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError):
        frazil.open(tmp_path / "file")
    with pytest.raises(NotFoundError):
        frazil.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists(), "looking makes nothing"


# --- documents with wrong content -----------------------------------------------------------------------------------------------------


def array_of(**members: object) -> MemoryStore:
    """An array of 8 x 8 elements in raw chunks, whose document is then changed."""
    store = MemoryStore()
    frazil.create_array(store, shape=(8, 8), dtype="u2", chunks=(4, 4), codecs=[])[...] = 7
    change(store, **members)
    return store


def change(store: Store, **members: object) -> None:
    document = json.loads(store.get("zarr.json") or b"")
    store.set("zarr.json", json.dumps({**document, **members}).encode())


def grid(*shape: int) -> dict[str, object]:
    return {"name": "regular", "configuration": {"chunk_shape": list(shape)}}


def sharding(inner: list[int], **more: object) -> list[dict[str, object]]:
    configuration = {"chunk_shape": inner, "codecs": ["bytes"], "index_codecs": ["bytes"], **more}
    return [{"name": "sharding_indexed", "configuration": configuration}]


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
LIES: dict[str, tuple[dict[str, object], str]] = {
    "a chunk of 2**63 elements": ({"chunk_grid": grid(2**62, 2)}, "chunk_grid"),
    "a chunk of 2**62 elements": ({"chunk_grid": grid(2**31, 2**31)}, "chunk_grid"),
    "a chunk that overflows to 0": ({"chunk_grid": grid(2**32, 2**32)}, "chunk_grid"),
    "the largest chunk": ({"chunk_grid": grid(2**63 - 1, 2**63 - 1)}, "chunk_grid"),
    "a longer chunk than there is": ({"chunk_grid": grid(2**63, 1)}, "chunk_grid"),
    "an empty chunk": ({"chunk_grid": grid(0, 4)}, "chunk_grid"),
    "a negative chunk": ({"chunk_grid": grid(-4, 4)}, "chunk_grid"),
    "chunks of another rank": ({"chunk_grid": grid(4)}, "chunk_grid"),
    "a negative length": ({"shape": [-1, 8]}, "shape"),
    "a longer array than there is": ({"shape": [2**63, 8]}, "shape"),
    "a shard of 2**60 inner chunks": (
        {"chunk_grid": grid(2**22, 2**22), "codecs": sharding([1, 1])},
        "codecs[0].configuration.chunk_shape",
    ),
    "inner chunks that do not divide": ({"codecs": sharding([3, 4])}, "codecs[0].configuration.chunk_shape"),
    "inner chunks larger than the shard": ({"codecs": sharding([8, 4])}, "codecs[0].configuration.chunk_shape"),
    "empty inner chunks": ({"codecs": sharding([0, 4])}, "codecs[0].configuration.chunk_shape"),
    "inner chunks of another rank": ({"codecs": sharding([4])}, "codecs[0].configuration.chunk_shape"),
    "a grid of 2**25 chunks": (
        {
            "chunk_grid": {
                "name": "rectilinear",
                "configuration": {"kind": "inline", "chunk_shapes": [[[1, 2**24]]] * 2},
            }
        },
        "chunk_grid.configuration.chunk_shapes",
    ),
    "an index that is compressed": (
        {
            "codecs": sharding(
                [2, 2], codecs=[LITTLE], index_codecs=[LITTLE, {"name": "gzip", "configuration": {"level": 1}}]
            )
        },
        "codecs[0].configuration.index_codecs",
    ),
    "elements of more than 64 MiB": ({"data_type": f"r{2**29 + 8}"}, "data_type"),
    "text of more than 64 MiB": (
        {"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 2**26 + 4}}, "fill_value": ""},
        "data_type.configuration.length_bytes",
    ),
    "elements of 2 EiB": ({"data_type": f"r{2**64}"}, "data_type"),
    "elements of part of a byte": ({"data_type": "r12"}, "data_type"),
    "two codecs that make bytes": ({"codecs": [LITTLE, LITTLE]}, "codecs"),
    "no codec that makes bytes": ({"codecs": [{"name": "gzip", "configuration": {"level": 1}}]}, "codecs"),
    "a codec that nobody has": ({"codecs": [LITTLE, {"name": "lzma9"}]}, "codecs[1]"),
    "a transposition of other axes": (
        {"codecs": [{"name": "transpose", "configuration": {"order": [0, 2]}}, LITTLE]},
        "codecs[0]",
    ),
    "a storage transformer that nobody has": ({"storage_transformers": [{"name": "x"}]}, "storage_transformers"),
    "a fill value that does not fit": ({"fill_value": 2**16}, "fill_value"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_that_are_seen_when_an_array_is_opened(lie: str) -> None:
    members, place = LIES[lie]
    store = array_of(**members)
    before = {key: store.get(key) for key in store.list()}
    for use in (
        lambda: frazil.open_array(store),
        lambda: frazil.open_array(store, "r+"),
        lambda: frazil.open(store),
        lambda: frazil.open_array(store, "a", shape=8, dtype="u2"),
    ):
        with pytest.raises((MetadataError, UnknownExtensionError)) as caught:
            use()
        assert caught.value.key == "zarr.json"
        assert (caught.value.path or "").startswith(place)
    assert {key: store.get(key) for key in store.list()} == before


@pytest.mark.parametrize("shape", [(2**62, 2**62), (2**63 - 1, 2), (2**40, 2**20)])
@pytest.mark.parametrize("shards", [False, True])
def test_arrays_larger_than_anything(shape: tuple[int, int], shards: bool) -> None:
    """Parts of them can be read and written. The whole of one cannot, which is reported before memory is allocated."""
    store = array_of(
        shape=list(shape), **({"codecs": sharding([2, 2], codecs=[LITTLE], index_codecs=[LITTLE])} if shards else {})
    )
    if shards:
        store.erase_prefix("c/")
    array = frazil.open_array(store, "r+")
    assert array.size == shape[0] * shape[1]
    for read in (
        lambda: array[...],
        lambda: array[:, 0],
        lambda: np.asarray(array),
        array.read,
        lambda: array[0:, 1],
    ):
        with pytest.raises(InvalidInputError, match="does not fit into memory") as caught:
            read()
        assert caught.value.path == "/"
    last = shape[0] - 1, shape[1] - 1
    places = [(last[0], last[1]), (last[0], 0), (0, last[1])]
    for at in places:
        assert array[at] == (0 if shards or max(at) >= 8 else 7)
        array[at] = 5
        assert array[at] == 5
    assert array.vindex[[last[0], 0], [last[1], last[1]]].tolist() == [5, 5]
    assert array.oindex[[0, last[0]], [last[1]]].tolist() == [[5], [5]]
    assert array[:: 2**55 if shape[0] > 2**55 else 2**35, 0].shape[0] < 2**9
    stored = {tuple(n // chunk for n, chunk in zip(at, array.chunks, strict=True)) for at in places}
    stored |= set() if shards else {(i, j) for i in range(2) for j in range(2) if 4 * j < shape[1]}
    assert array.nchunks_initialized == len(stored)
    assert array.nbytes_stored() > 0
    assert str(shape[0]) in str(array.info)
    array.resize((8, min(8, shape[1])))
    assert array[1:, 2:].sum() == (0 if shards else 7 * 7 * min(shape[1] - 2, 6))


HUGE = """
import resource, sys
import numpy as np
import frazil
from frazil.errors import StoreError, FormatError, FrazilError
array = frazil.open_array(sys.argv[1], "r+")

def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024

resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + 2**28,) * 2)
before = status("VmHWM")
assert array[0, 0] == 0 and array[...].sum() == 0 and array.vindex[[1], [1]] == 0
for call in (lambda: array.__setitem__((0, 0), 5), lambda: array.__setitem__(..., 5)):
    try:
        call()
    except (FrazilError, MemoryError) as error:
        print(type(error).__name__, getattr(error, "key", None))
array.store.set("c/0/0", b"12345")
for call in (lambda: array[0, 0], lambda: array[...], lambda: array.__setitem__((0, 0), 5)):
    try:
        call()
    except FrazilError as error:
        print(error.key)
assert status("VmHWM") - before < 2**25, status("VmHWM") - before
"""


@pytest.mark.parametrize("shards", [False, True])
def test_chunks_larger_than_memory(tmp_path: Path, shards: bool) -> None:
    """Such an array can be opened, and reads as the fill value; an operation that would need the memory is an error."""
    store = LocalStore(tmp_path)
    if shards:
        codecs = [ShardingIndexed((1, 1), [Bytes()])]
        frazil.create_array(store, shape=(8, 8), dtype="u2", chunks=(2**30, 2), codecs=codecs)
    else:
        frazil.create_array(store, shape=(8, 8), dtype="u2", chunks=(2**38, 2**8), codecs=[Gzip(1)])
    refused = run(HUGE, tmp_path).splitlines()
    assert len(refused) == 5
    assert set(refused[:2]) <= ({"StoreError c/0/0"} if shards else {"StoreError c/0/0", "MemoryError None"})
    assert refused[2:] == ["c/0/0"] * 3
    assert sorted(store.list()) == ["c/0/0", "zarr.json"]


@pytest.mark.parametrize("dtype", ["|S2147483647", "|V2147483647", "<U500000000", "|S67108865", [["a", "|S67108865"]]])
def test_small_documents_of_large_elements(dtype: object) -> None:
    """100 bytes took gigabytes, or ended the process."""
    store = MemoryStore()
    document = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": dtype, "order": "C"}
    nothing = {"compressor": None, "fill_value": None, "filters": None}
    store.set(".zarray", json.dumps({**document, **nothing}).encode())
    with pytest.raises(MetadataError) as caught:
        frazil.open_array(store)
    assert caught.value.key == ".zarray"
    with pytest.raises(MetadataError):
        frazil.create_array(MemoryStore(), shape=4, dtype="S67108865")


def test_elements_of_2_gib(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path, shape=(2**40,), dtype=f"r{8 * 2**20}", chunks=(1,), codecs=[])
    with pytest.raises(InvalidInputError, match="does not fit into memory"):
        array[...]
    document = json.loads((tmp_path / "zarr.json").read_bytes())
    document["data_type"] = f"r{8 * 2**26}"
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(MetadataError) as caught:
        frazil.open_array(tmp_path)
    assert caught.value.path == "fill_value"


def test_metadata_of_another_array() -> None:
    """Chunks of one layout under the document of another: an error, or the same number of bytes in another order, and no other effect."""
    store = array_of(codecs=sharding([2, 2], codecs=[LITTLE], index_codecs=[LITTLE, {"name": "crc32c"}]))
    array = frazil.open_array(store, "r+")
    for read in (lambda: array[...], lambda: array[0, 0], lambda: array.nchunks_initialized):
        with pytest.raises(FormatError) as caught:
            read()
        assert caught.value.key is not None
    change(store, codecs=[LITTLE], data_type="float64", fill_value=0)
    with pytest.raises(FrazilError) as caught2:
        frazil.open_array(store)[0, 0]
    assert caught2.value.key == "c/0/0"


# --- keys that leave the store ----------------------------------------------------------------------------------------------------------

CLIMBING = ("../out", "a/../../out", "/../out", "..", "./a", "a/./b", "a\0b", "\ud800")


@pytest.mark.parametrize("path", CLIMBING)
def test_paths_that_climb(tmp_path: Path, path: str) -> None:
    (tmp_path / "out").mkdir()
    frazil.create_array(tmp_path / "out", shape=4, dtype="i4")[...] = 1
    before = sorted(tmp_path.rglob("*"))
    root = tmp_path / "root"
    frazil.create_group(root)
    uses: list[Callable[[], object]] = [
        lambda: frazil.open(root, path=path),
        lambda: frazil.open_array(root, path=path),
        lambda: frazil.create_array(root, path=path, shape=4, dtype="i4", overwrite=True),
        lambda: frazil.create_group(root, path=path, overwrite=True),
        lambda: frazil.open_group(root, "r+").create_group(path, overwrite=True),
        lambda: frazil.open_group(root)[path],
        lambda: frazil.open_group(root, "r+").__delitem__(path),
        lambda: LocalStore(root).get(path),
        lambda: LocalStore(root).set(path, b"1"),
        lambda: LocalStore(root).erase(path),
        lambda: LocalStore(root).erase_prefix(path + "/"),
        lambda: LocalStore(root).list_prefix(path + "/"),
    ]
    for use in uses:
        with pytest.raises(InvalidInputError):
            use()
    assert sorted(tmp_path.rglob("*")) == sorted([*before, root, root / "zarr.json"])


def test_chunk_keys_do_not_climb() -> None:
    for separator in ("/../", "..", "", "//", "\0", "a"):
        store = array_of(chunk_key_encoding={"name": "default", "configuration": {"separator": separator}})
        with pytest.raises(MetadataError) as caught:
            frazil.open_array(store)
        assert caught.value.key == "zarr.json"


@pytest.mark.parametrize("kind", ["chunk", "folder", "document", "node"])
def test_links_are_not_followed(tmp_path: Path, kind: str) -> None:
    """Neither reads nor writes reach files outside."""
    outside = frazil.create_array(tmp_path / "out", shape=(4, 4), dtype="i4", chunks=(2, 2))
    outside[...] = 1
    inside = frazil.create_array(tmp_path / "root", path="a", shape=(4, 4), dtype="i4", chunks=(2, 2))
    inside[...] = 2
    here, there = {
        "chunk": ("root/a/c/0/0", "out/c/0/0"),
        "folder": ("root/a/c/0", "out/c/0"),
        "document": ("root/a/zarr.json", "out/zarr.json"),
        "node": ("root/b", "out"),
    }[kind]
    if kind != "node":
        os.rename(tmp_path / here, tmp_path / "old")
    (tmp_path / here).symlink_to(tmp_path / there)
    array = inside if kind in ("chunk", "folder") else None
    for use in (
        lambda: (array or frazil.open(tmp_path / "root", "r+", path="b" if kind == "node" else "a"))[...],
        lambda: (array or frazil.open(tmp_path / "root", "r+", path="b" if kind == "node" else "a")).__setitem__(
            (0, 0), 5
        ),
    ):
        with pytest.raises(StoreError) as caught:
            use()
        assert caught.value.key is not None
    assert (outside[...] == 1).all()
    if kind == "node":
        assert [*frazil.open_group(tmp_path / "root")] == ["a"]
        with pytest.raises((StoreError, NotFoundError)):
            del frazil.open_group(tmp_path / "root", "r+")["b"]
        assert (outside[...] == 1).all()
