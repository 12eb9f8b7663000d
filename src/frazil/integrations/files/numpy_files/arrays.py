"""NumPy's files, scanned: the positions of the elements of their arrays. The zip library decodes compressed members of a .npz.

The header is read by numpy.lib.format, which evaluates no code; objects are pickles, and refused."""

from __future__ import annotations

import lzma
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import urlsplit

import numpy as np
from numpy.lib import format as npy

from frazil.errors import ChecksumError, ChunkDecodeError, FormatError, FrazilError, InvalidInputError
from frazil.integrations.files.contiguous import split_contiguous
from frazil.integrations.files.runs import check_dtype, scan_run
from frazil.integrations.files.scanned import (
    Library,
    ScannedArray,
    ScannedFile,
    Skipped,
    bytes_codec,
    check_shape,
    no_chunks,
)
from frazil.integrations.files.sources.source import open_file, state_of
from frazil.metadata.paths import check_name
from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.integrations.files.sources.source import Source
    from frazil.metadata.json_text import Json

KIND: Final = "NumPy (.npz)"
NPY: Final = npy.MAGIC_PREFIX
ZIP: Final = b"PK\x03\x04"

_ENDING: Final = ".npy"
_HEADERS: Final[dict[tuple[int, int], Any]] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_DAMAGED: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, ValueError, struct.error,
)  # fmt: skip # errors of zipfile
_LONGEST_TEXT: Final = 200  # characters of an error message
_PIECE: Final = 2**20  # bytes
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")  # of a member; lengths of the name and the extra field come last


class NpyHeader(Record):
    """begin: bytes of the header, before the elements"""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[np.generic]
    begin: int


def scan_npy(file: BinaryIO, name: str) -> ScannedFile:
    """The array of a .npy file that is open for reading, named after the file. Raises FormatError if it is damaged."""
    state = state_of(file)
    path = array_name(name)
    arrays, skipped = _scanned(file, state.size, path, 0, name)
    return ScannedFile("NumPy", state, {"": {}}, arrays, skipped)


def scan_npz(file: BinaryIO, name: str) -> ScannedFile:
    """The arrays of a .npz file that is open for reading. Raises FormatError if it is damaged or contains no arrays."""
    state = state_of(file)
    arrays: list[ScannedArray] = []
    skipped: list[Skipped] = []
    try:
        with zipfile.ZipFile(file) as members:
            for member in members.infolist():
                path = member.filename.removesuffix(_ENDING)
                if path == member.filename:
                    skipped.append(Skipped(path, None, "it is not an array of NumPy", loses_values=False))
                    continue
                if member.header_offset < 0 or any(array.path == path for array in arrays):
                    raise zipfile.BadZipFile(f"its directory is wrong at {member.filename!r}")
                found, left = _member(file, members, member, state.size, path, name)
                arrays += found
                skipped += left
    except FrazilError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        raise FormatError(f"the zip file is damaged: {error}", key=name) from error  # bz2 reports damage like this
    except _DAMAGED as error:
        raise FormatError(f"the zip file is damaged: {error}", key=name) from error
    if not arrays and all(not part.loses_values for part in skipped):
        raise FormatError("the zip file has no arrays of NumPy", key=name)
    groups: dict[str, dict[str, Json]] = {
        "": {},
        **{"/".join(array.path.split("/")[:n]): {} for array in arrays for n in range(1, array.path.count("/") + 1)},
    }
    return ScannedFile(KIND, state, dict(sorted(groups.items())), tuple(arrays), tuple(skipped))


def check_stored(source: Source, arrays: Sequence[ScannedArray]) -> None:
    """Reads the members of a .npz file that are stored without compression, and compares their checksums, because their elements are read as parts of the file,
    which have no checksum.

    Raises ChecksumError, FormatError if the directory is damaged, StoreError."""
    stored = [array.path for array in arrays if array.library is None]
    if not stored:
        return
    try:
        with open_file(source) as file, zipfile.ZipFile(file) as members:
            for path in stored:
                try:
                    with members.open(path + _ENDING) as member:
                        while member.read(_PIECE):
                            pass
                except zipfile.BadZipFile as error:
                    raise ChecksumError(
                        f"a member of the zip file is damaged: {error}", key=source.name, path=path
                    ) from error
    except FrazilError:
        raise
    except (KeyError, *_DAMAGED) as error:
        raise FormatError(f"the zip file is damaged: {error}", key=source.name) from error


def array_name(name: str) -> str:
    """The name of the array of a file that contains only one: that of the file, without its ending."""
    path = urlsplit(name).path if "://" in name else name
    stem = PurePath(path).name.split(".")[0]
    try:
        check_name(stem)
    except InvalidInputError:
        return "values"
    return stem


def _member(
    file: BinaryIO, members: zipfile.ZipFile, member: zipfile.ZipInfo, size: int, path: str, name: str
) -> tuple[tuple[ScannedArray, ...], tuple[Skipped, ...]]:
    if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1:
        file.seek(member.header_offset)
        *_, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        begin = member.header_offset + _LOCAL_HEADER.size + name_length + extra_length
        return _scanned(file, min(size, begin + member.file_size), path, begin, name)
    try:
        for part in path.split("/"):
            check_name(part)
        with members.open(member) as opened:
            header = read_header(opened, name)
        check_dtype(header.dtype)
        check_shape(header.shape)
    except InvalidInputError as error:
        return (), (Skipped(path, None, error.message),)
    axis_order = slice(None, None, -1 if header.fortran else 1)
    chunk_shape = split_contiguous(header.shape[axis_order], header.dtype.itemsize)[axis_order]
    library = Library("zip", member.filename, "it is compressed as a whole")
    array = ScannedArray(
        path,
        header.shape,
        header.dtype,
        chunk_shape,
        (bytes_codec(header.dtype),),
        np.zeros(1, header.dtype)[0],
        {},
        None,
        no_chunks(len(header.shape)),
        library=library,
    )
    return (array,), ()


def _scanned(
    file: BinaryIO, size: int, path: str, at: int, name: str
) -> tuple[tuple[ScannedArray, ...], tuple[Skipped, ...]]:
    """The array whose header begins at a byte of the file; or the reason why there is none."""
    file.seek(at)
    header = read_header(file, name)
    try:
        for part in path.split("/"):
            check_name(part)
        array = scan_run(file, size, path, header.dtype, header.shape, at + header.begin, fortran=header.fortran)
    except InvalidInputError as error:
        return (), (Skipped(path, None, error.message),)
    return (array,), ()


def read_header(file: IO[bytes], name: str) -> NpyHeader:
    """The header of an array, at the position of the file. Raises FormatError."""
    start = file.tell()
    try:
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise FormatError(f"its version {version} is not supported here", key=name)
        shape, fortran, dtype = _HEADERS[version](file)
    except (OSError, FrazilError, *_DAMAGED[:3]):
        raise
    except Exception as error:  # NumPy evaluates a Python literal, which fails in many ways
        text = f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]
        raise FormatError(f"the header of the NumPy file is damaged: {text}", key=name) from error
    return NpyHeader(tuple(map(int, shape)), bool(fortran), dtype, file.tell() - start)


def open_members(
    source: Source, arrays: Sequence[ScannedArray], files: ExitStack
) -> Mapping[str, Callable[[tuple[slice, ...]], NDArray[np.generic]]]:
    """Readers of compressed members, by path. files: closes them at the end. Each is decoded to a temporary file when it is first read."""

    def reader(array: ScannedArray) -> Callable[[tuple[slice, ...]], NDArray[np.generic]]:
        found: list[NDArray[np.generic]] = []
        files.callback(found.clear)

        def read(box: tuple[slice, ...]) -> NDArray[np.generic]:
            if not found:
                found.append(_decoded(source, array))
            return found[0][box]

        return read

    return {array.path: reader(array) for array in arrays}


def _decoded(source: Source, array: ScannedArray) -> NDArray[np.generic]:
    """The elements of a compressed member, mapped from a temporary file without a name."""
    assert array.library is not None
    expected = int(np.prod(array.shape, dtype=np.int64)) * array.dtype.itemsize
    try:
        with open_file(source) as file, zipfile.ZipFile(file) as members, members.open(array.library.address) as member:
            header = read_header(member, source.name)
            if not expected:
                return np.empty(array.shape, array.dtype)
            with tempfile.TemporaryFile() as spooled:
                while spooled.tell() <= expected and (piece := member.read(_PIECE)):
                    spooled.write(piece)
                if spooled.tell() != expected or (header.shape, header.dtype) != (array.shape, array.dtype):
                    raise ChunkDecodeError("its size is not the one in its header", key=source.name, path=array.path)
                spooled.flush()
                order = "F" if header.fortran else "C"
                values: NDArray[np.generic] = np.memmap(spooled, header.dtype, "r", 0, header.shape, order)  # type: ignore[call-overload] # it needs only a file
                return values
    except FrazilError:
        raise
    except (OSError, *_DAMAGED) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ChunkDecodeError(f"it cannot be decoded: {error}", key=source.name, path=array.path) from error
