"""A model of the library of the alpha in plain Python: what it reads, what it refuses, and how its commits change a repository. It has its own MessagePack
reader; no file is read with Frazil.

It is stricter than the library in one point: structs must be positional, as the library wrote them."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from frazil.stores import Store
from tests.formats.encoding import Pairs, Single, encoded

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LAST: Final = 1099511627775
INLINE: Final = 512
NUMBERS: Final = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
TYPES: Final = ("bool", *NUMBERS, "float16", "float32", "float64", "complex64", "complex128", "string", "bytes")
Json = Any
Array = np.ndarray[Any, Any]


class Refused(Exception):
    """An input on which that library failed."""


def need(fine: object, what: str) -> None:
    if not fine:
        raise Refused(what)


# --- MessagePack and ids ------------------------------------------------------------------------------------------------------------------


def unpack(data: bytes) -> Any:
    """Lists, dicts with lists as tuples in their keys, str, bytes, numbers (of 32 bits as Single)."""
    value, end = _value(data, 0)
    need(end == len(data), "bytes behind the value")
    return value


def _value(data: bytes, at: int) -> tuple[Any, int]:
    need(at < len(data), "cut short")
    mark = data[at]
    at += 1
    if mark <= 0x7F or mark >= 0xE0:
        return mark - 256 * (mark >= 0xE0), at
    if mark <= 0x8F:
        return _map(data, at, mark & 15)
    if mark <= 0x9F:
        return _list(data, at, mark & 15)
    if mark <= 0xBF:
        return data[at : at + (mark & 31)].decode(), at + (mark & 31)
    if mark in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[mark], at
    if mark == 0xCA:
        return Single(struct.unpack(">f", data[at : at + 4])[0]), at + 4
    if mark == 0xCB:
        return struct.unpack(">d", data[at : at + 8])[0], at + 8
    if 0xCC <= mark <= 0xD3:
        size = 1 << (mark & 3)
        return int.from_bytes(data[at : at + size], "big", signed=mark >= 0xD0), at + size
    for base, kind, first in ((0xC4, "bin", 1), (0xD9, "str", 1), (0xDC, "list", 2), (0xDE, "map", 2)):
        if base <= mark < base + (3 if first == 1 else 2):
            size = first << (mark - base)
            count, at = int.from_bytes(data[at : at + size], "big"), at + size
            if kind == "map":
                return _map(data, at, count)
            if kind == "list":
                return _list(data, at, count)
            body = data[at : at + count]
            return (body if kind == "bin" else body.decode()), at + count
    raise Refused(f"the mark {mark:#x}")


def _list(data: bytes, at: int, count: int) -> tuple[list[Any], int]:
    items = []
    for _ in range(count):
        item, at = _value(data, at)
        items.append(item)
    return items, at


def _map(data: bytes, at: int, count: int) -> tuple[dict[Any, Any], int]:
    items, at = _list(data, at, 2 * count)
    return dict(zip(map(frozen, items[::2]), items[1::2], strict=True)), at


def frozen(value: Any) -> Any:
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def new_id() -> str:
    return id_text(os.urandom(12))


def id_text(value: bytes) -> str:
    bits = int.from_bytes(value, "big") << 4
    return "".join(ALPHABET[bits >> shift & 31] for shift in range(95, -1, -5))


def sequence_file(sequence: int) -> str:
    return "".join(ALPHABET[LAST - sequence >> shift & 31] for shift in range(35, -1, -5)) + ".json"


def fields(value: Any, count: int, what: str) -> list[Any]:
    need(isinstance(value, list) and len(value) == count, what)
    return list(value)


def check_id(text: Any) -> str:
    """An id as in names of files. Small letters, O, I and L are accepted, and bits beyond the 12 bytes."""
    need(isinstance(text, str) and len(text) == 20, f"the id {text!r}")
    letters = str(text).upper().translate(str.maketrans("OIL", "011"))
    need(not letters.strip(ALPHABET), f"the id {text!r}")
    return letters[:-1] + ALPHABET[ALPHABET.index(letters[-1]) & 16]


# --- snapshots ----------------------------------------------------------------------------------------------------------------------------


class Node:
    """One node. attributes: None or a dict; metadata: the 8 members of an array, None for a group; manifests: ids, the first counts."""

    def __init__(self, value: Any) -> None:
        self.id, self.path, attributes, data = fields(value, 4, "a node")
        need(isinstance(self.id, int) and isinstance(self.path, str), "a node")
        self.attributes: dict[str, Json] | None = None
        if attributes is not None:
            ((kind, self.attributes),) = attributes.items()
            need(kind == "Inline", "attributes in a file: todo!()")
        self.metadata: list[Any] | None = None
        self.manifests: list[str] = []
        if data != "Group":
            ((kind, (metadata, manifests)),) = data.items()
            need(kind == "Array", "the kind of a node")
            self.metadata = _metadata(metadata)
            for manifest in manifests:
                identity, extents = fields(manifest, 2, "a reference to a manifest")
                need(isinstance(extents, list), "extents")
                self.manifests.append(check_id(identity))

    def value(self) -> list[Any]:
        attributes = None if self.attributes is None else {"Inline": _sorted(self.attributes)}
        data: Any = "Group"
        if self.metadata is not None:
            data = {"Array": [self.metadata, [[manifest, []] for manifest in self.manifests]]}
        return [self.id, self.path, attributes, data]


def _metadata(value: Any) -> list[Any]:
    """Members of the closed lists; an unknown one makes the whole snapshot unreadable."""
    members = fields(value, 8, "the metadata of an array")
    shape, data_type, chunks, keys, fill, codecs, transformers, names = members
    need(len(shape) == len(chunks) and min(chunks, default=1) > 0, "a chunk length of 0")
    need(min(shape, default=0) >= 0, "a negative length")
    need(data_type in TYPES and keys in ("Slash", "Dot", "Default"), f"{data_type} or {keys}")
    ((kind, value),) = fill.items()
    need(kind.lower() == data_type and value is not None, f"a fill value {kind} of {data_type}")
    for codec in (*codecs, *(transformers or [])):
        name, configuration = fields(codec, 2, "a codec")
        need(isinstance(name, str) and (configuration is None or isinstance(configuration, dict)), "a codec")
    need(names is None or len(names) == len(shape), "names of dimensions")
    return members


def _sorted(value: Json) -> Json:
    """JSON objects as that library kept them, with their keys in order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def zarr_of(metadata: list[Any]) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any], Any, bool]:
    """Shape, chunk shape, data type in little endian, fill value, and whether chunks are gzipped. Only the codecs that tests need."""
    shape, data_type, chunks, _, fill, codecs, _, _ = metadata
    (value,) = fill.values()
    if isinstance(value, list):
        value = complex(*[getattr(part, "value", part) for part in value])
    names = [name for name, _ in codecs]
    need(names in (["bytes"], ["bytes", "gzip"]), f"the codecs {names}")
    dtype = np.dtype(data_type).newbyteorder("<")
    return tuple(shape), tuple(chunks), dtype, getattr(value, "value", value), "gzip" in names


class Library:
    """One repository as that library sees it.

    repaired  without its defect that stores the chunks of higher nodes again under each lower one"""

    def __init__(self, store: Store, *, repaired: bool = True) -> None:
        self.store, self.repaired = store, repaired

    @classmethod
    def create(cls, store: Store) -> Library:
        """A new repository: the id of the snapshot's file differs from the id in the snapshot."""
        now = clock()
        file = new_id()
        store.set(f"snapshots/{file}", encoded([0, {}, [], [], 0, 0, [], [new_id(), now, FIRST], now, {}, {}]))
        store.create("refs/branch.main/ZZZZZZZZ.json", reference(file))
        return cls(store)

    def get(self, key: str) -> bytes:
        data = self.store.get(key)
        need(data is not None, f"{key} is not there")
        return bytes(data or b"")

    def tip(self, branch: str) -> tuple[int, str]:
        """The number and the snapshot of the first entry of the listing, whatever that is."""
        folder = f"refs/branch.{branch}/"
        listing = sorted(self.store.list_prefix(folder))
        need(listing, f"no branch {branch}")
        name = listing[0].removeprefix(folder)
        digits = name.removesuffix(".json")
        need(name.endswith(".json") and len(digits) == 8 and not digits.strip(ALPHABET), f"{name} in a branch")
        number = 0
        for digit in digits:
            number = number * 32 + ALPHABET.index(digit)
        return LAST - number, check_id(json.loads(self.get(listing[0]))["snapshot"])

    def checkout(self, name: str) -> Checkout:
        """A tag or else a branch by its name, or a snapshot by its id."""
        tag = self.store.get(f"refs/tag.{name}/ref.json")
        if tag is not None:
            return Checkout(self, check_id(json.loads(tag)["snapshot"]))
        if self.store.list_prefix(f"refs/branch.{name}/"):
            return Checkout(self, self.tip(name)[1])
        return Checkout(self, check_id(name))

    def manifest(self, identity: str) -> dict[tuple[int, tuple[int, ...]], Any]:
        version, flags, chunks = fields(unpack(self.get(f"manifests/{identity}")), 3, "a manifest")
        need(isinstance(version, int) and isinstance(flags, dict) and isinstance(chunks, dict), "a manifest")
        return chunks

    def payload(self, payload: dict[str, Any]) -> bytes:
        """The bytes of a chunk. A native object is read whole, whatever offset and length are."""
        ((kind, value),) = payload.items()
        if kind == "Inline":
            return bytes(value)
        need(kind == "Ref", f"a chunk that is {kind}")
        identity, _, _ = fields(value, 3, "a native reference")
        return self.get(f"chunks/{check_id(identity)}")


FIRST: Final = "Repository initialized"


def clock() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def reference(snapshot: str) -> bytes:
    return f'{{"snapshot":"{snapshot}"}}'.encode()


class Checkout:
    """A snapshot, and its changes until it is committed."""

    def __init__(self, library: Library, snapshot: str) -> None:
        self.library, self.snapshot = library, snapshot
        self.chunks: dict[tuple[int, tuple[int, ...]], Any] = {}
        file = fields(unpack(library.get(f"snapshots/{snapshot}")), 11, "a snapshot")
        self.total, self.history, self.metadata, self.properties = file[4], file[6], file[7], file[9]
        for _, _, message in (*self.history, self.metadata):
            need(isinstance(message, str), "a message")
        self.nodes = {path: Node(value) for path, value in file[10].items()}
        self.highest = max([node.id for node in self.nodes.values()], default=0)

    # --- reading ---

    def ancestry(self) -> list[str]:
        """Messages, the newest first. Only those that the snapshot lists: longer histories were todo!()."""
        need(self.total == len(self.history), "a history that is not whole")
        return [info[2] for info in (self.metadata, *self.history)]

    def paths(self) -> list[str]:
        return sorted(self.nodes)

    def chunk(self, path: str, coordinates: Sequence[int]) -> bytes | None:
        node, key = self.nodes[path], tuple(coordinates)
        if (node.id, key) in self.chunks:
            payload = self.chunks[node.id, key]
            return None if payload is None else self.library.payload(payload)
        for manifest in node.manifests:
            payload = self.library.manifest(manifest).get((node.id, key))
            if payload is not None:
                return self.library.payload(payload)
        return None

    def array(self, path: str) -> Array:
        shape, chunks, dtype, fill, zipped = zarr_of(self._array(path))
        out = np.full(shape, fill, dtype)
        for key in grid(shape, chunks):
            data = self.chunk(path, key)
            if data is not None:
                data = gzip.decompress(data) if zipped else data
                part = region(key, chunks)
                whole = np.frombuffer(data, dtype).reshape(chunks)
                out[part] = whole[tuple(slice(0, length) for length in out[part].shape)]
        return out

    def chunk_shape(self, path: str) -> tuple[int, ...]:
        return zarr_of(self._array(path))[1]

    def _array(self, path: str) -> list[Any]:
        metadata = self.nodes[path].metadata
        need(metadata is not None, f"{path} is a group")
        return metadata or []

    # --- changing ---

    def create_group(self, path: str, attributes: dict[str, Json] | None = None) -> None:
        self._create(path, attributes, "Group")

    def create_array(self, path: str, shape: Sequence[int], chunks: Sequence[int], *, zipped: bool = False) -> None:
        """Of float32, with NaN as fill value."""
        codecs = [["bytes", {"endian": "little"}], *([["gzip", {"level": 1}]] if zipped else [])]
        fill = {"Float32": Single(math.nan)}
        members = [list(shape), "float32", list(chunks), "Slash", fill, codecs, None, None]
        self._create(path, {}, {"Array": [members, []]})

    def _create(self, path: str, attributes: dict[str, Json] | None, data: Any) -> None:
        self.highest += 1
        inline = None if attributes is None else {"Inline": attributes}
        self.nodes[path] = Node([self.highest, path, inline, data])

    def set_attributes(self, path: str, attributes: dict[str, Json]) -> None:
        self.nodes[path].attributes = attributes

    def delete(self, path: str) -> None:
        """The node, with all nodes below it."""
        for beneath in [one for one in self.nodes if one == path or one.startswith(f"{path}/")]:
            del self.nodes[beneath]

    def set_chunk(self, path: str, key: Sequence[int], data: bytes | None) -> None:
        payload: Any = None
        if data is not None and len(data) <= INLINE:
            payload = {"Inline": data}
        elif data is not None:
            identity = new_id()
            self.library.store.set(f"chunks/{identity}", data)
            payload = {"Ref": [identity, 0, len(data)]}
        self.chunks[self.nodes[path].id, tuple(key)] = payload

    def write(self, path: str, values: Array) -> None:
        """All values of an array, chunk by chunk; chunks that are all fill value too."""
        shape, chunks, dtype, fill, zipped = zarr_of(self._array(path))
        for key in grid(shape, chunks):
            whole = np.full(chunks, fill, dtype)
            part = values[region(key, chunks)]
            whole[tuple(slice(0, length) for length in part.shape)] = part
            data = whole.tobytes()
            self.set_chunk(path, key, gzip.compress(data) if zipped else data)

    def resize(self, path: str, shape: Sequence[int]) -> None:
        """Another shape; chunks outside of it are deleted, as Zarr did."""
        metadata = self._array(path)
        kept = set(grid(shape, metadata[2]))
        for key in grid(metadata[0], metadata[2]):
            if key not in kept:
                self.set_chunk(path, key, None)
        self.nodes[path].metadata = [list(shape), *metadata[1:]]

    # --- committing ---

    def _references(self) -> dict[tuple[int, tuple[int, ...]], Any]:
        """All references of all nodes; of two references to one chunk, the one in the last manifest."""
        merged: dict[tuple[int, tuple[int, ...]], Any] = {}
        for node in self.nodes.values():
            for manifest in node.manifests:
                for (number, key), payload in self.library.manifest(manifest).items():
                    if number == node.id or (number > node.id and not self.library.repaired):
                        merged[node.id, key] = payload
        present = {node.id for node in self.nodes.values()}
        merged |= {key: payload for key, payload in self.chunks.items() if key[0] in present}
        return {key: merged[key] for key in sorted(merged) if merged[key] is not None}

    def commit(self, branch: str, message: str) -> str:
        """All references in one new manifest that all arrays list; no flags, properties, extents and attribute files; then the next branch file."""
        sequence, tip = self.library.tip(branch)
        need(tip == self.snapshot, "somebody else was quicker")
        store, started = self.library.store, clock()
        merged, manifests = self._references(), []
        if merged:
            manifests = [new_id()]
            chunks = Pairs([([number, list(key)], payload) for (number, key), payload in merged.items()])
            store.set(f"manifests/{manifests[0]}", encoded([0, {}, chunks]))
        for node in self.nodes.values():
            node.manifests = [] if node.metadata is None else list(manifests)
        ordered = sorted(self.nodes, key=lambda path: [part for part in path.split("/") if part])
        identity = new_id()
        self.history = [self.metadata, *self.history]
        self.total += 1
        self.metadata = [identity, clock(), message]
        nodes = Pairs([(path, self.nodes[path].value()) for path in ordered])
        listed = [[manifest, 0] for manifest in manifests]
        history = [self.total, len(self.history) & 0xFFFF, self.history]
        store.set(f"snapshots/{identity}", encoded([0, {}, listed, [], *history, self.metadata, started, {}, nodes]))
        key = f"refs/branch.{branch}/{sequence_file(sequence + 1)}"
        need(store.create(key, reference(identity)), "somebody else was quicker")
        self.snapshot, self.chunks = identity, {}
        return identity


def grid(shape: Sequence[int], chunks: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*[range(-(-length // chunk)) for length, chunk in zip(shape, chunks, strict=True)])


def region(key: Sequence[int], chunks: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(at * chunk, at * chunk + chunk) for at, chunk in zip(key, chunks, strict=True))
