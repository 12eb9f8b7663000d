"""HDF5's data types and filters as Zarr's: those that are the same, byte for byte, and errors that name all others. Takes h5py's objects, and reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Final, TypeAlias

import numpy as np

from frazil.base.optional_package import load_package
from frazil.errors import InvalidInputError
from frazil.integrations.files.scanned import bytes_codec, text_of
from frazil.metadata.json_text import Json
from frazil.metadata.types.core import LARGEST_ITEM

_FILTERS: Final = {  # names from HDF5's list of registered filters, by number
    1: "deflate",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scale-offset",
    307: "bzip2",
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32017: "sz",
    32026: "blosc2",
}
# prefix of a variable that has the name of a dimension, but is not its coordinate
NOT_COORDINATE: Final = "_nc4_non_coord_"
TEXT: Final[np.dtype[np.generic]] = np.dtype(object)  # of text of any length
Filter: TypeAlias = tuple[int, int, tuple[int, ...], bytes]  # number, flags, values, name


def load_h5py() -> ModuleType:
    """Raises InvalidInputError where it is not installed."""
    return load_package("h5py", "HDF5 and NetCDF4 files are read with", "hdf5")


def data_type_of(h5py: ModuleType, kind: object) -> np.dtype[np.generic]:
    """The dtype of elements of an h5py.h5t.TypeID, as they are in the file; of compounds the members in their order, without gaps; object for text of any
    length. Raises InvalidInputError, naming the type, for one that no array here can have."""
    found = _data_type(h5py, kind)
    if found.itemsize > LARGEST_ITEM:
        raise InvalidInputError(f"its elements have {found.itemsize} bytes; at most {LARGEST_ITEM} are possible")
    return found


def _data_type(h5py: ModuleType, kind: object) -> np.dtype[np.generic]:
    found = _number(h5py, kind)
    if found is not None:
        return found
    number, size = kind.get_class(), kind.get_size()  # type: ignore[attr-defined]
    if number == h5py.h5t.ENUM:
        base = _number(h5py, kind.get_super())  # type: ignore[attr-defined]
        if base is not None:
            return np.dtype(np.bool_) if kind.dtype == np.bool_ and base.itemsize == 1 else base  # type: ignore[attr-defined]
    if number == h5py.h5t.COMPOUND:
        return _complex(h5py, kind) or _struct(h5py, kind)
    if number == h5py.h5t.STRING:
        if kind.is_variable_str():  # type: ignore[attr-defined]
            return TEXT
        if size:
            return np.dtype(("S", size))
    raise InvalidInputError(
        f"its data type is HDF5's {_CLASSES.get(number, f'class {number}')}, which has no counterpart in arrays here"
    )


AFTER_NUL: Final = "its text ends with a NUL, which any bytes may follow"


def padding_of(h5py: ModuleType, kind: object) -> str:
    """The reason why the bytes of text of a fixed length are not the text; "" if they are, and for other types. NumPy pads with NULs."""
    if kind.get_class() != h5py.h5t.STRING or kind.is_variable_str():  # type: ignore[attr-defined]
        return ""
    padding = kind.get_strpad()  # type: ignore[attr-defined]
    if padding == h5py.h5t.STR_NULLTERM and kind.get_size() > 1:  # type: ignore[attr-defined] # netCDF has characters of this kind
        return AFTER_NUL
    return "its text is padded with spaces" if padding == h5py.h5t.STR_SPACEPAD else ""


def flags_of(h5py: ModuleType, kind: object) -> dict[str, Json]:
    """The names of an enumeration, as attributes of CF conventions; {} for other types."""
    names = h5py.check_enum_dtype(kind.dtype) if kind.get_class() == h5py.h5t.ENUM else None  # type: ignore[attr-defined]
    if not names:
        return {}
    meanings = ["_".join(text_of(name).split()) for name in names]
    return {"flag_values": [int(value) for value in names.values()], "flag_meanings": " ".join(meanings)}


def _struct(h5py: ModuleType, kind: object) -> np.dtype[np.generic]:
    """The dtype of a compound, little-endian."""
    fields: list[tuple[str, np.dtype[np.generic]]] = []
    for i in range(kind.get_nmembers()):  # type: ignore[attr-defined]
        name = kind.get_member_name(i).decode(errors="surrogateescape")  # type: ignore[attr-defined]
        if not name or any("\udc80" <= letter <= "\udcff" for letter in name):  # members are read by their names
            raise InvalidInputError(f"its member {i} has no name in UTF-8")
        try:
            member = data_type_of(h5py, kind.get_member_type(i))  # type: ignore[attr-defined]
        except InvalidInputError as error:
            raise InvalidInputError(f"of its member {name!r}: {error.message}") from None
        if member == TEXT:
            raise InvalidInputError(f"its member {name!r} is text of variable length, which a struct cannot have here")
        fields.append((name, member.newbyteorder("<")))
    return np.dtype(fields)


_CLASSES: Final = {  # H5T_class_t
    0: "integer of odd precision",
    1: "float that is not IEEE 754's",
    2: "time",
    4: "bit field, big-endian or of odd size",
    5: "opaque",
    7: "reference",
    8: "enumeration of odd integers",
    9: "sequence of any length",
    10: "array of arrays",
    11: "complex number",
}


def _number(h5py: ModuleType, kind: object) -> np.dtype[np.generic] | None:
    """The dtype of a plain integer or float, or of a bit field, which h5py reads as an integer too, if it is little-endian; None for all else."""
    h5t = h5py.h5t
    for letter, sizes, names, orders in (
        ("i", (1, 2, 4, 8), "STD_I", ("LE", "BE")),
        ("u", (1, 2, 4, 8), "STD_U", ("LE", "BE")),
        ("f", (2, 4, 8), "IEEE_F", ("LE", "BE")),
        ("u", (1, 2, 4, 8), "STD_B", ("LE",)),
    ):
        for size in sizes:
            for order in orders:
                if getattr(h5t, f"{names}{8 * size}{order}").equal(kind):
                    return np.dtype(f"{'<' if order == 'LE' else '>'}{letter}{size}")
    return None


def _complex(h5py: ModuleType, kind: object) -> np.dtype[np.generic] | None:
    """The dtype of a pair of floats `r` and `i` without gaps, the usual form of complex numbers."""
    if kind.get_nmembers() != 2 or [kind.get_member_name(i) for i in range(2)] != [b"r", b"i"]:  # type: ignore[attr-defined]
        return None
    real, imaginary = (_number(h5py, kind.get_member_type(i)) for i in range(2))  # type: ignore[attr-defined]
    if real is None or real != imaginary or real.kind != "f" or real.itemsize < 4:
        return None
    offsets = [kind.get_member_offset(i) for i in range(2)]  # type: ignore[attr-defined]
    if offsets != [0, real.itemsize] or kind.get_size() != 2 * real.itemsize:  # type: ignore[attr-defined]
        return None
    return np.dtype(f"{real.str[0]}c{2 * real.itemsize}")


def filter_name(number: int, name: bytes) -> str:
    """The name of a filter for messages."""
    text = _FILTERS.get(number) or name.decode(errors="replace").strip("\0")
    return f"{text} (filter {number})" if text else f"filter {number}"


def codecs_of(filters: Sequence[Filter], dtype: np.dtype[np.generic]) -> tuple[Mapping[str, Json], ...] | str:
    """The codecs that do the same as a pipeline of filters, in the order of encoding; or the filter that no codec implements."""
    codecs: list[Mapping[str, Json]] = [bytes_codec(dtype)]
    for number, _, values, name in filters:
        if number == 1 and values and 0 <= values[0] <= 9:
            codecs.append({"name": "numcodecs.zlib", "configuration": {"level": int(values[0])}})
        elif number == 2 and values and values[0] == 1:
            continue  # bytes of elements of one byte need no shuffle
        elif number == 2 and values and 0 < values[0] < 2**31:
            codecs.append({"name": "numcodecs.shuffle", "configuration": {"elementsize": int(values[0])}})
        elif number == 3:
            codecs.append({"name": "numcodecs.fletcher32"})
        elif number == 307 and values and 1 <= values[0] <= 9:
            codecs.append({"name": "numcodecs.bz2", "configuration": {"level": int(values[0])}})
        elif number == 32015:
            codecs.append(
                {
                    "name": "zstd",
                    "configuration": {"level": min(int(values[0]) if values else 3, 22), "checksum": False},
                }
            )
        elif number == 32001 and len(values) >= 4:
            codecs.append(_blosc(values))
        else:
            return f"its chunks are encoded with {filter_name(number, name)}, which no codec here decodes"
    return tuple(codecs)


def _blosc(values: tuple[int, ...]) -> Mapping[str, Json]:
    """The codec for a filter's values: two versions, bytes of an element, bytes of a chunk, level, shuffle, compressor. Decoding needs none of them."""
    level, shuffle, compressor = (*values[4:7], *(5, 1, 0)[max(0, len(values) - 4) :])
    names = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
    cname = names[compressor] if compressor < len(names) else "lz4"
    configuration: dict[str, Json] = {
        "cname": "lz4" if cname == "snappy" else cname,
        "clevel": min(int(level), 9),
        "shuffle": ("noshuffle", "shuffle", "bitshuffle")[min(int(shuffle), 2)],
        "typesize": max(1, min(int(values[2]), 255)),
        "blocksize": 0,
    }
    return {"name": "blosc", "configuration": configuration}
