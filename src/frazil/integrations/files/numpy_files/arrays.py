"""NumPy's files, scanned: the positions of the elements of their arrays. The zip library decodes compressed members of a .npz.

The header is read by numpy.lib.format, which evaluates no code; objects are pickles, and refused."""

from __future__ import annotations

import io
import lzma
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import PurePath
from typing import Any, BinaryIO, Final, Protocol
from urllib.parse import urlsplit

import numpy as np
from numpy.lib import format as npy

from frazil.base.arrays import Values
from frazil.base.record import Record
from frazil.base.threads import to_its_end
from frazil.errors import ChecksumError, ChunkDecodeError, DataError, FormatError, FrazilError, InvalidInputError
from frazil.integrations.files.contiguous import split_contiguous
from frazil.integrations.files.numpy_files.members import PIECE, Member, data_offset
from frazil.integrations.files.runs import check_dtype, scan_run, unwritten
from frazil.integrations.files.scanned import (
    Library,
    ScannedArray,
    ScannedFile,
    Skipped,
    bytes_codec,
    check_path,
    check_shape,
    no_chunks,
)
from frazil.integrations.files.sources.source import Source, open_file, state_of
from frazil.metadata.json_text import Json
from frazil.metadata.paths import check_name

KIND: Final = "NumPy (.npz)"
NPY: Final = npy.MAGIC_PREFIX
ZIP: Final = b"PK\x03\x04"

_ENDING: Final = ".npy"
# by version: the function for a header, and the bytes of its length, which comes first
_HEADERS: Final[dict[tuple[int, int], tuple[Any, int]]] = {
    (1, 0): (npy.read_array_header_1_0, 2),
    (2, 0): (npy.read_array_header_2_0, 4),
}
_LONGEST_HEADER: Final = 2**16  # bytes
_DAMAGED: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, ValueError, struct.error,
)  # fmt: skip # errors of zipfile
_LONGEST_TEXT: Final = 200  # characters of an error message


class Readable(Protocol):
    """A file, or a member of one, as far as headers need it."""

    def read(self, size: int = ..., /) -> bytes: ...
    def tell(self) -> int: ...


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
    paths: set[str] = set()
    try:
        with zipfile.ZipFile(file) as members:
            for member in members.infolist():
                path = member.filename.removesuffix(_ENDING)
                if path == member.filename:
                    skipped.append(Skipped(path, None, "it is not an array of NumPy", loses_values=False))
                    continue
                if member.header_offset < 0 or path in paths:
                    raise zipfile.BadZipFile(f"its directory is wrong at {member.filename!r}")
                found, skipped_part = _member(file, member, state.size, path, name)
                arrays += found
                paths.update(array.path for array in found)
                skipped += skipped_part
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
                        while member.read(PIECE):
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
    file: BinaryIO, member: zipfile.ZipInfo, size: int, path: str, name: str
) -> tuple[tuple[ScannedArray, ...], tuple[Skipped, ...]]:
    if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1:
        begin = data_offset(file, member, name)
        return _scanned(file, min(size, begin + member.file_size), path, begin, name)
    try:
        check_path(path)
        header = read_header(Member(file, member, name), name)
        check_dtype(header.dtype)
        check_shape(header.shape)
        if header.begin + prod(header.shape) * header.dtype.itemsize != member.file_size:
            raise FormatError("the size of a member is not the one in its header", key=name, path=path)
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
        unwritten(header.dtype),
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
        check_path(path)
        array = scan_run(file, size, path, header.dtype, header.shape, at + header.begin, fortran=header.fortran)
    except InvalidInputError as error:
        return (), (Skipped(path, None, error.message),)
    return (array,), ()


def read_header(file: Readable, name: str) -> NpyHeader:
    """The header of an array, at the position of the file. Raises FormatError."""
    start = file.tell()
    try:
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise FormatError(f"its version {version} is not supported here", key=name)
        parse, nbytes = _HEADERS[version]
        length = file.read(nbytes)
        if int.from_bytes(length, "little") > _LONGEST_HEADER:  # NumPy would read it all before it refuses it
            raise FormatError(f"its header has more than {_LONGEST_HEADER} bytes", key=name)
        shape, fortran, dtype = parse(io.BytesIO(length + file.read(int.from_bytes(length, "little"))))
    except (OSError, FrazilError, *_DAMAGED[:3]):
        raise
    except Exception as error:  # NumPy evaluates a Python literal, which fails in many ways
        text = f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]
        raise FormatError(f"the header of the NumPy file is damaged: {text}", key=name) from error
    return NpyHeader(tuple(map(int, shape)), bool(fortran), dtype, file.tell() - start)


def open_members(
    source: Source, arrays: Sequence[ScannedArray], files: ExitStack
) -> Mapping[str, Callable[[tuple[slice, ...]], Values]]:
    """Readers of compressed members, by path. files: closes them at the end."""
    return {array.path: _Elements(source, array, files).read for array in arrays}


class _Elements:
    """The elements of a compressed member, decoded while they are read. If a box is before the last one, the member is decoded once more, to a temporary
    file."""

    def __init__(self, source: Source, array: ScannedArray, files: ExitStack) -> None:
        self._source, self._array, self._files = source, array, files
        self._opened: tuple[Member, NpyHeader] | None = None
        self._values: Values | None = None

    def read(self, box: tuple[slice, ...]) -> Values:
        """A chunk, whose elements are one run in the member. Raises ChunkDecodeError, StoreError."""
        try:
            return self._read(box)
        except DataError as error:
            error.path = error.path or self._array.path
            raise
        except FrazilError:
            raise
        except (OSError, *_DAMAGED) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ChunkDecodeError(
                f"it cannot be decoded: {error}", key=self._source.name, path=self._array.path
            ) from error

    def _read(self, box: tuple[slice, ...]) -> Values:
        if self._values is not None:
            return self._values[box]
        if self._opened is None:
            self._opened = self._open()
        member, header = self._opened
        turn = slice(None, None, -1 if header.fortran else 1)
        extents = [part.stop - part.start for part in box]
        if not prod(extents):
            return np.empty(extents, header.dtype)
        first = [part.start for part in box]
        start = (
            header.begin + int(np.ravel_multi_index(first[turn], header.shape[turn])) * header.dtype.itemsize
            if first
            else header.begin
        )
        if start < member.tell():
            self._opened = None
            self._values = self._spooled()
            return self._values[box]
        member.skip(start - member.tell())
        values = np.frombuffer(member.read(prod(extents) * header.dtype.itemsize), header.dtype)
        if member.tell() - header.begin == prod(header.shape) * header.dtype.itemsize:
            member.skip(1)  # compares the checksum
        return values.reshape(extents[turn]).transpose(range(len(extents))[turn])

    def _open(self) -> tuple[Member, NpyHeader]:
        """The member, at its first element."""
        assert self._array.library is not None
        file = self._files.enter_context(open_file(self._source))
        with zipfile.ZipFile(file) as members:
            member = Member(file, members.getinfo(self._array.library.address), self._source.name)
        header = read_header(member, self._source.name)
        if (header.shape, header.dtype) != (self._array.shape, self._array.dtype):
            raise ChunkDecodeError("its header is not the scanned one", key=self._source.name, path=self._array.path)
        return member, header

    def _spooled(self) -> Values:
        """All elements, mapped from a temporary file without a name."""
        member, header = self._open()
        with to_its_end(tempfile.TemporaryFile) as spooled:  # an interrupt in tempfile would leave its descriptor open
            while piece := member.read(PIECE):
                spooled.write(piece)
            spooled.flush()
            order = "F" if header.fortran else "C"
            values: Values = np.memmap(spooled, header.dtype, "r", 0, header.shape, order)  # type: ignore[call-overload] # it needs only a file
            self._files.callback(self._forget)
            return values

    def _forget(self) -> None:
        self._values = None
