"""The native kernel's functions. Stateless except for pooled codec contexts and buffers; each releases the GIL around its work, unless that takes some
microseconds (docs/design/008-kernel.md).

Columns are C-contiguous int64 NumPy arrays (given through the buffer protocol). Outputs are columns that the caller allocates.
Wrong arguments (a column of another size or type, a box outside its chunk or outside `out`) raise ValueError before anything is
written. They are errors of the engine, not of the user. Errors in the *data* are returned as failures, never raised.

Sources. A blob is a whole object or part of one. `files` holds names beneath a root; `buffers` are bytes in memory. A row
`(blob, start, length)` names bytes: blob >= 0 is a file of `files`, blob < 0 is buffers[-1 - blob], and blob == MISSING is
an object that does not exist (the fill value). start < 0 counts from the object's end (and fails where the object is shorter); length < 0 means up to the
object's end. Two chunks of one call never write the same positions of `out`. threads < 1 counts as 1.

Failures are (row, code, text), in order of row: one for each object that failed, for its first row that failed. Empty if there were none. An object is a
blob, or a chunk that is encoded, so no failure of one object hides that of another. A stale file always fails as stale, even if it has other errors too. Codes:
"""

from collections.abc import Sequence
from typing import Literal

from numpy import generic, int64
from numpy.typing import NDArray
from typing_extensions import Buffer as PlainBuffer

Buffer = PlainBuffer | NDArray[generic]  # NumPy's stubs declare arrays as buffers only from Python 3.12 on
Columns = NDArray[int64]
Failures = list[tuple[int, int, str]]
Elements = tuple[Columns, Columns, Columns] | tuple[Columns, Columns]

MISSING: int  # the blob of a row whose object does not exist: -2**63
FAILED_STALE: int  # 1: the file has another version than `expect`, or changed while it was read
FAILED_RANGE: int  # 2: the row reaches outside its object
FAILED_DECODE: int  # 3: a codec cannot decode the bytes
FAILED_CHECKSUM: int  # 4: a checksum does not match
FAILED_SIZE: int  # 5: decoded to another size than the chunk's
FAILED_IO: int  # 6: a system call failed; the text begins with its errno and a space
FAILED_ENCODE: int  # 7: a codec cannot encode the bytes
FAILED_INDEX: int  # 8: an entry of a shard index is half empty or reaches outside its shard, or the shard is too short for an index
FAILED_INDEX_CHECKSUM: int  # 9: the checksum of a shard index does not match

def kernel_info() -> dict[str, str]:
    """Versions of the kernel and of the codec libraries in it."""

# --- programs ----------------------------------------------------------------------------------------------------------------------

class Program:
    """How one chunk (an inner chunk, where there are shards) is decoded and encoded: a frozen value, made by `program`."""

def program(
    shape: Sequence[int],
    itemsize: int,
    order: Sequence[int],
    swaps: Sequence[tuple[int, int, int]],
    codecs: Sequence[tuple[object, ...]],
    fill: bytes,
) -> Program:
    """Compiles the inner chunk of a codec chain.

    shape     extent of the chunk along each dimension of the array, in elements; all > 0; () is one element
    itemsize  bytes of one element
    order     a permutation: stored dimension j is dimension order[j] of the array; stored bytes are in C order of the stored dimensions
    swaps     (offset, width, count): within each element, `count` consecutive items of `width` bytes from `offset` have the other byte order
    codecs    bytes-to-bytes codecs in the order of encoding:
              ("gzip", level) ("zlib", level) ("zstd", level, checksum) ("crc32c",) ("lz4", acceleration) ("gdeflate", level)
              ("fletcher32",) ("shuffle", bytes of an element)
              ("blosc", cname, clevel, shuffle 0|1|2, typesize, blocksize), cname of blosclz lz4 lz4hc snappy zlib zstd
    fill      the fill value, itemsize bytes in memory order (before swaps)
    """

# --- objects beneath a root folder --------------------------------------------------------------------------------------------------

class Descriptor:
    """The descriptor of a folder, opened here and closed when it is dropped. Raises OSError."""

    def __init__(self, path: str) -> None: ...
    @staticmethod
    def beneath(root: int, path: str) -> Descriptor | None:
        """The folder at a path ("a/b/", "" is `root` itself) below another; None where there is none, or a link is on the path."""

    @property
    def fd(self) -> int: ...

class Files:
    """Objects named beneath a root folder, and the descriptors of those that are open; closed when it is dropped."""

def open_files(root: int, names: Sequence[str], stat: Columns | None) -> Files:
    """Names ("c/0/1") below the folder that the descriptor `root` holds, opened for reading without following links out of it.

    With `stat`, int64[n, 4], every file is opened at once and stays open until the Files is dropped; its row becomes
    (0 or errno, inode, size, mtime in ns). A missing file is errno ENOENT or ENOTDIR; a folder is EISDIR; only regular files open.
    Without `stat`, each file is opened by the thread that reads it and closed after that; a missing file is the fill value then."""

def read_files(root: int, names: Sequence[str]) -> list[bytes | int]:
    """The whole content of each file, opened as in `open_files`, read one after the other; the errno where a file cannot be read. For small files."""

def read_rows(
    files: Files | None, buffers: Sequence[Buffer], rows: Columns, out: Buffer, offsets: Columns, threads: int
) -> Failures:
    """Copies the bytes of each row (int64[n, 3]) to out[offsets[i]:offsets[i + 1]]; a row of another length fails (FAILED_RANGE)."""

def crc32_rows(
    files: Files | None, buffers: Sequence[Buffer], rows: Columns, checksums: Columns, threads: int
) -> Failures:
    """Writes the CRC-32 (of zip archives) of the bytes of each row (int64[n, 3]) to checksums (int64[n]); 0 of a missing one."""

def publish_files(
    root: int,
    names: Sequence[str],
    files: Files | None,
    buffers: Sequence[Buffer],
    rows: Columns,
    offsets: Columns,
    expect: Sequence[bytes | None],
    sync: bool,
    threads: int,
    result: Columns,
) -> None:
    """Replaces each named file by the pieces rows[offsets[i]:offsets[i + 1]], one after the other, under the lock protocol (DESIGN.md, Writing).

    For each name: missing folders are created; an open-file-description write lock is taken on "<name>.__lock" (waits for it; Ctrl-C interrupts) and
    checked to be still on the file of that name; the present version of <name> is compared with expect[i] (None: any; b"": must not
    exist; one byte: see below; else 24 bytes: inode, size, mtime_ns as little-endian int64). The pieces are written into the lock file, which is truncated to
    their length, synced if `sync` (and the folder after the rename), else flushed (a network file system then reports late failures), and renamed over
    <name>. If a step fails, the lock file is removed and the old file stays as it was. Where expect[i] is b"" the rename replaces nothing, even if a writer
    that takes no locks has created the file since (Changed); where the file system has no such rename, the value is written once more and linked, as below.

    Where every expect[i] is one byte long, the names are only created, and no lock is taken: a file has no name while it is written (O_TMPFILE), and is linked
    to its name when it is complete. Where the file system has no such files, it has until then a name in the same folder that begins with "~" and ends in
    ".__lock". With `sync` files of neighbouring names are synced together before they get their names, and then their folders, also the folder of a name that
    exists already.

    result, int64[n, 4]: (0, inode, size, mtime_ns) when published, (-1, ...) with the present version when it is not the expected one (size -1: there is none),
    (errno, 0, 0, 0) when a system call failed, (-2, failure code, 0, 0) when a piece could not be read, (-3, errno, 0, 0) when a name was published and its
    folder could not be synced.
    rows and pieces from `files` are copied inside the kernel of the system where it can (copy_file_range). Names are handled in parallel."""

def change_files(
    root: int,
    names: Sequence[str],
    buffers: Sequence[Buffer],
    rows: Columns,
    offsets: Columns,
    heads: Columns,
    expect: Sequence[bytes | None],
    journal: bool,
    sync: bool,
    result: Columns,
) -> None:
    """Changes each named file in place under its lock, if it has the version expect[i] (as in publish_files), in the steps of
    docs/design/044-shards-in-place.md.

    rows, int64[k, 4]: (buffer, start, length, position in the file); those of file i are rows[offsets[i]:offsets[i + 1]], in the order of writing. With
    `journal` their positions are behind the end of the file, except the last ones, which are within its first heads[i] bytes. The journal keeps these bytes, so
    that restore_files can undo a change that was killed. Without a journal, a kill may leave the bytes half written.
    result, int64[n, 4]: (0, inode, size, mtime_ns) when changed, (-1, ...) as in publish_files, also where an earlier append was undone, (-3, 0, 0, 0) where
    the file is to be replaced whole instead (it has several names, belongs to another user, or may not be written; or stored bytes would be overwritten on a
    disk that does not keep exact times of change), (errno, 0, 0, 0) when a system call failed: with a journal nothing was changed then."""

def birth_time(fd: int) -> int:
    """When an open file was created, in ns since 1970; 0 where the system does not report it. With the inode it distinguishes a file from a later one with the
    same inode."""

def restore_files(
    root: int, names: Sequence[str], look: bool, copies: Literal["keep", "restore", "remove"], result: Columns
) -> None:
    """Undoes appends to files whose writers were killed, and waits for writers that are alive. result, int64[n, 1]: 0 where there was no writer; 1 where there
    was one, and nothing has to be undone; 2 where an append was killed and is now undone (with `look` it is not undone); 3 where one was killed before the file
    was copied: `copies` "keep" leaves the file as it is, "restore" undoes the append (2), "remove" removes the journal (1); -errno if a system call failed."""

def copy_files(
    source: int,
    sources: Sequence[str],
    root: int,
    names: Sequence[str],
    sync: bool,
    threads: int,
    result: Columns,
    link: bool = False,
) -> None:
    """Makes names[i] beneath `root` a copy of the file sources[i] beneath `source` (both descriptors of folders), with its times of change and access. Replaces
    an existing file.

    No locks are taken. Links are neither followed nor replaced, missing folders are created. A copy is made from one open descriptor and has no name until it
    is complete (O_TMPFILE; where the file system has no such files, a name that begins with ".copy-" and ends in ".__lock"). If the size or time of change of
    the source differs afterwards, the copy is repeated, three times at most. With `sync` each file is synced before it gets its name; the caller syncs folders.
    Names are handled in parallel. Ctrl-C takes effect between two files, and in large files.
    result, int64[n, 2]: (0, size) when copied, (-1, 0) where the source is not an existing file (a folder, or below something that is not a folder), (-2, 0)
    where it changed during each attempt, (errno, 0) when it could not be read, (errno, 1) when the copy could not be written; then an existing file of the name
    stays as it was.
    link    each name becomes a hard link to its source instead: (0, 0) when linked, nothing is synced"""

class NewFile:
    """A file that is written part by part beneath the folder `root` (a descriptor): it gets its name when all is written, replacing an existing file, whose
    permissions it gets. Missing folders are created, links are not followed, and no locks are taken. Raises OSError."""

    def __init__(self, root: int, name: str) -> None: ...
    def write(self, part: Buffer) -> None: ...
    def publish(self, sync: bool) -> None:
        """With `sync` the file is synced before it gets its name; the caller syncs its folder."""

    def give_up(self) -> None:
        """Closes and removes a file that is not published. Does nothing to one that is."""

def unlink_files(root: int, names: Sequence[str], result: Columns) -> None:
    """Removes each named file without its lock: for names that are never written again. Ctrl-C takes effect between two. result, int64[n]: 0 when removed, -1
    where it did not exist, else the errno. Folders stay, and the caller syncs them."""

def list_folder(
    folder: int, length: int, suffix: str, sizes: bool, threads: int
) -> tuple[bytes, bytes | None, list[str]]:
    """The names in the open folder `folder`: those of files that have `length` ASCII letters and digits, sorted and concatenated; with `sizes` their sizes,
    int64 each, which this number of threads reads, without files that were removed meanwhile; and in any order the names of other files that end in `suffix`,
    and of folders, with a "/" appended. Links and names that are not UTF-8 are left out. Ctrl-C takes effect. Raises OSError."""

def erase_files(root: int, names: Sequence[str], expect: Sequence[bytes | None], sync: bool, result: Columns) -> None:
    """Removes each named file under the same lock and with the same expect and result (-1 with size -1: it did not exist, which is success with
    expect None). The lock file is removed too; folders stay."""

def await_lock(root: int, name: str) -> None:
    """Waits while another writer has the lock of the named file. Ctrl-C takes effect. No error for files that cannot be opened."""

# --- chunks ---------------------------------------------------------------------------------------------------------------------------

def decode_chunks(
    program: Program,
    files: Files | None,
    buffers: Sequence[Buffer],
    rows: Columns,
    expect: Sequence[bytes | None] | None,
    elements: Elements,
    out: Buffer,
    threads: int,
) -> Failures:
    """Decodes n chunks and scatters the selected elements of each into `out`, any strided, writable buffer whose items have the program's itemsize.

    rows     int64[n, 3], the encoded bytes of each chunk; MISSING is the fill value
    expect   for each file of `files`, the version (24 bytes, as in publish_files) that it must have before and after, or None
    elements (index, entries, runs): a box of each chunk, for `out` of d dimensions; or (first, points): single elements, for `out` of one dimension
    index    int64[n, d]: for each dimension a row of `entries`
    entries  int64[e, 2]: (first run, number of runs); the runs of one chunk along one dimension
    runs     int64[r, 4]: (start, count, step, at): elements start, start + step, ... (count of them, step >= 1, count >= 1) of the chunk go to
             at, at + 1, ... along that dimension of `out`. The box of a chunk is the product of its runs over the dimensions
    first, points  chunk i owns points[first[i]:first[i + 1]], rows (position, at): the element's number in the C order of the chunk's *array* dimensions, and
             its place in `out`

    Where a codec supports it, only as much of a chunk is decoded as its box needs: damage behind these bytes is reported only where a checksum covers it.
    """

def decode_bytes(
    codecs: Sequence[tuple[object, ...]],
    files: Files | None,
    buffers: Sequence[Buffer],
    rows: Columns,
    limits: Columns,
    lengths: Columns,
    threads: int,
) -> tuple[list[Segment], Failures]:
    """Undoes bytes-to-bytes codecs (as in `program`) on each row: one Segment a row, lengths[i] its bytes (-1: the row or its file is MISSING).
    A row that decodes to more than limits[i] bytes fails (FAILED_SIZE); never much more than that is allocated."""

def decode_elements(
    codecs: Sequence[tuple[object, ...]],
    layout: tuple[int, bool, Buffer],
    files: Files | None,
    buffers: Sequence[Buffer],
    rows: Columns,
    limit: int,
    first: int,
    views: Buffer,
    lengths: Columns,
    threads: int,
) -> tuple[list[Segment], Failures]:
    """Decodes n rows as chunks of variable-length elements: bytes-to-bytes codecs, then vlen-utf8, vlen-bytes or vlen-array.

    layout   (elements of a chunk, whether they are UTF-8, the bytes of the fill value)
    limit    the most bytes of a chunk that its codecs may decode to
    first    the number in the heap of the first buffer that is returned; there are never more than `threads`
    views    n x elements of 16 bytes each, filled: (offset: uint64, length: uint32, buffer: uint32) in the machine's byte order. Buffer 0 is the fill
             value's: an element that equals it is (0, its length, 0), an empty one is all zero
    lengths  int64[n]: bytes of the views of a row; -1: the row or its file is MISSING, its views are left as they are"""

def encode_elements(
    codecs: Sequence[tuple[object, ...]],
    heap: Sequence[Buffer],
    buffers: Sequence[Buffer],
    rows: Columns,
    threads: int,
    lengths: Columns,
) -> tuple[list[Segment], list[int], Failures]:
    """Encodes n chunks of views, each where its row gives it in `buffers` (length -1: no chunk, and lengths[i] is -1 then). Returns as encode_chunks."""

def compact_elements(heap: Sequence[Buffer], views: Buffer, buffer: int) -> Segment:
    """Copies the elements of views one after the other into the future buffer `buffer`, and changes the views to point there."""

def elements_of_strings(
    strings: NDArray[generic], fill: Buffer, first: int, views: Buffer, valid: Buffer | None, threads: int
) -> list[Segment]:
    """Copies the strings of a StringDType array in C order into the future buffers of a heap from number `first` on, at most one for each thread, and fills
    their views. valid: set to 0 for each string that is missing, else to 1; without it a missing string is a ValueError."""

def elements_to_strings(heap: Sequence[Buffer], views: Buffer, valid: Buffer | None, strings: NDArray[generic]) -> None:
    """Packs elements into a StringDType array in C order; those whose `valid` is 0 become missing."""

def elements_of_objects(objects: list[object], text: bool, fill: Buffer, buffer: int, views: Buffer) -> Segment:
    """The same as elements_of_strings for str (text) or bytes objects. Raises TypeError for other objects."""

def elements_to_objects(heap: Sequence[Buffer], views: Buffer, text: bool) -> list[object]:
    """Elements as str (text) or bytes."""

class Segment:
    """Bytes produced by the kernel, readable through the buffer protocol; its memory returns to a pool when it is dropped."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...

def encode_chunks(
    program: Program,
    source: Buffer,
    elements: Elements,
    old: tuple[Files | None, Sequence[Buffer], Columns] | None,
    groups: Columns,
    keep_fill: bool,
    threads: int,
    lengths: Columns,
) -> tuple[list[Segment], list[int], Failures]:
    """Gathers n chunks from `source` (elements as in decode_chunks, `at` being places in `source`; of equal positions the last wins) and encodes them.

    Elements of a chunk that are not selected come from the old chunk, old = (files, buffers, rows), or are the fill value where there is none (MISSING) or
    `old` is None; a chunk that is selected whole never reads `old`.
    groups   int64[g + 1]: chunks groups[k]:groups[k + 1] are contiguous in their segments; no segment spans two groups
    lengths  int64[n]: encoded bytes, or -1 where every element equals the fill value bit for bit and keep_fill is false: no bytes are emitted then
    Returns the segments, in order of chunk, and s + 1 numbers: the chunks that each holds (segment k: table[k]:table[k + 1]; they cover 0:n),
    the bytes of a chunk following those of the one before. The bytes do not depend on `threads`."""

def encode_bytes(codecs: Sequence[tuple[object, ...]], values: Sequence[Buffer], threads: int) -> list[Segment]:
    """Applies bytes-to-bytes codecs to each buffer. ValueError for a buffer that a codec cannot encode (blosc: 2 GiB and more)."""

def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC-32C of data, continued from `value`. crc32c(b"123456789") == 0xE3069283."""

def populate(values: Buffer) -> None:
    """Provides the pages of fresh memory (C-contiguous, writable) in one call of the system; no byte changes."""

def indent_json(text: Buffer, indent: int) -> bytes:
    """JSON text in one line (json.dumps with the separators "," and ": ") over several lines: the same bytes as json.dumps with this indent."""

# --- shard indexes ---------------------------------------------------------------------------------------------------------------------

class ShardIndex:
    """The index of the shards of one level: a frozen value, made by `shard_index`.

    The stacked table of g shards is int64[g, total, 2]: start (from the shard's first byte) and length of each inner chunk, -1, -1 where it is empty. Functions
    take it as int64[g * total, 2]."""

def shard_index(
    counts: Sequence[int],
    strides: Sequence[int],
    at_end: bool,
    nbytes: int,
    swapped: bool,
    checksums: int | None,
) -> ShardIndex:
    """Counts     inner chunks of a shard along each dimension of the array; total is their product
    strides    what one step along each dimension adds to the number of an inner chunk in the index
    at_end     whether the index is the last thing in a shard, or the first
    nbytes     of an encoded index
    swapped    whether its integers have the other byte order than the machine's
    checksums  crc32c codecs behind the integers; None: codecs that the kernel does not know. Then the index can only be checked"""

def read_indexes(
    index: ShardIndex,
    files: Files | None,
    buffers: Sequence[Buffer],
    rows: Columns,
    sizes: Columns,
    tables: Columns,
    threads: int,
) -> Failures:
    """Reads the indexes of g shards of `sizes` bytes, whose bytes are at rows (int64[g, 3]), into `tables`. MISSING: the table of a shard that does not exist,
    all empty. Invalid indexes fail (FAILED_INDEX, FAILED_INDEX_CHECKSUM). In a valid one every entry is inside its shard, outside of the index, and not half
    empty."""

def check_indexes(index: ShardIndex, sizes: Columns, tables: Columns) -> Failures:
    """The failures that `read_indexes` returns, for tables that were decoded elsewhere."""

def write_indexes(index: ShardIndex, tables: Columns, out: Buffer) -> None:
    """Encodes tables: uint8[g, nbytes]."""

def assemble_shards(
    index: ShardIndex,
    shard: Columns,
    number: Columns,
    rows: Columns,
    first: Columns | None,
    keys: Columns | None,
    starts: Columns,
    blob: int,
    empty: bool,
    tables: Columns,
    out: Columns,
    offsets: Columns,
) -> int:
    """Lays out n inner chunks in g shards, one after the other, with the index of each before or behind them.

    shard, number  int64[n]: of each chunk; number -1: bytes that the index does not name
    rows, first    int64[p, 3], int64[n + 1]: the bytes of chunk i are rows[first[i]:first[i + 1]]; first None: rows[i]. A chunk with a negative length is left
                   out
    keys           int64[n], the sort keys of the chunks of a shard, as unsigned integers (equal keys keep the given order); None: in the given order
    starts         int64[g]: the position of the first chunk in each shard
    blob           the blob of the indexes, nbytes each, one after the other; without `empty` shards without chunks have none, and no rows
    tables         int64[g * total, 2]; the entries of the chunks are set in it, the others stay
    out, offsets   int64[p + g, 3], int64[g + 1]: shard i becomes out[offsets[i]:offsets[i + 1]]; rows that are adjacent in the same blob are merged
    Returns the number of rows of `out`."""

SHARD_KNOWN: int  # 0: read, with the index that was given; without shards: read
SHARD_FRESH: int  # 1: read, with its own index
SHARD_MISSING: int  # 2: the shard does not exist, so that all its chunks are the fill value
SHARD_STALE: int  # 3: it has another version than the index that was given, or was replaced while it was read: it has to be read again
SHARD_FAILED: int  # 4: see the failures

def read_inner_chunk(
    program: Program,
    index: ShardIndex,
    names: tuple[int, str, str],
    single: tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]],
    tables: Columns,
    versions: Columns | None,
    table: int,
    out: Buffer,
) -> bool:
    """Reads elements of one inner chunk, of a shard whose index is remembered, into `out`. False where read_shards is needed: there is no such file, it has
    another version, is replaced meanwhile, or cannot be read.

    names    as in read_shards
    single   coordinates of the inner chunk; start, number and step of the elements in it along each dimension
    tables, versions, table  stacked tables, the versions of their shards as in read_shards, and the row of this shard in both"""

def read_shards(
    program: Program,
    levels: Sequence[ShardIndex],
    names: tuple[int, str, str] | None,
    files: Files | None,
    buffers: Sequence[Buffer],
    objects: Columns,
    selected: tuple[Sequence[tuple[object, ...]], Columns | None] | tuple[Columns, Columns, Columns, Columns, Columns],
    remembered: Sequence[tuple[Columns, Columns | None]],
    slots: Columns | None,
    fresh: Columns,
    states: Columns,
    out: Buffer,
    threads: int,
) -> tuple[list[tuple[int, int, str, list[int]]], tuple[int, int, int]]:
    """Reads a box or single elements of an array: opens the m chunks of the array that it touches, reads and checks the shard indexes that are not remembered,
    finds the inner chunks in them, decodes these and scatters them into `out`. At most a few hundred files are open at once.

    levels      of sharding, outermost first; empty where chunks have no inner ones
    names       (descriptor of a root folder, text before the first coordinate, text between two): chunks are files below the root, named by coordinates. None:
    files, buffers, objects  a blob for each chunk, its first byte there and its length (-1: up to the end). Files must not be open yet
    selected    (axes, rows): a box; or (shards, offsets, chunks, first, points): single elements
    axes        for each dimension the inner chunks that are touched along it (entries): (chunk int64[k], entries int64[k, 2], runs int64[r, 4]) as in
                decode_chunks, ascending; or, for elements start, start + step, ..., (start, step, size, length of the array, extent of an inner chunk, first
                entry, end of entries)
    rows        which of the chunks of the array that the axes touch, counted in C order; None: all
    shards, offsets, chunks  int64[m, d], coordinates of the shards; int64[m + 1], the inner chunks of each; int64[n, d], their coordinates. first, points: as
                             in decode_chunks
    remembered  stacked tables, int64[g, total, 2], each with the versions of their shards, int64[g, 3] (inode, size, time of change in ns), or None if they do
                not change
    slots       int64[m, 2]: for each shard a number in `remembered` and a row in it; (-1, 0): its index is read. None: all are read
    fresh       int64[k * total, 2], room for the k indexes that are read, in the order of their shards
    states      int64[m, 4], the result for each chunk: (SHARD_..., inode, size, time of change)

    Versions are compared when a file was opened and when all of it was read. Failures are (chunk, code, text, coordinates of the inner chunk with the error; of
    the shard, where the index has it), one for each chunk of the array that failed. They are followed by the numbers of fresh, missing and stale shards."""

# --- manifests ------------------------------------------------------------------------------------------------------------------------

def decode_manifest(data: Buffer) -> tuple[list[Segment], Failures]:
    """The chunk references of a manifest of the Icechunk alpha, in order of node and coordinates; the last of two with the same key.

    Columns are bytes of items in the machine's byte order. For n references and m locations:
    flags            the map of flags, as it is in the file
    nodes            uint32[n]
    starts           int64[n + 1]: the coordinates of row i are coordinates[starts[i]:starts[i + 1]]
    coordinates      int64
    kinds            uint8[n]: 0 inline, 1 native, 2 virtual
    ids              uint8[n, 12], of native ones, else zeros
    offsets          int64[n]: of inline ones into `inline`, else as the file says
    lengths          int64[n]; offset + length is below 2**63
    inline           uint8
    locations        int32[n]: the number of the location of virtual ones, else -1
    location_text    uint8: UTF-8, each location once
    location_starts  int64[m + 1]
    Where the file is broken there are no columns, but one failure, whose row is the position in the file. Memory is bounded by the size of `data`: about four
    times as much, or eight where nearly all of it is coordinates."""

def encode_manifest(columns: Sequence[Buffer]) -> Segment:
    """The manifest of these columns, which are the same as those of `decode_manifest`, but in any order. Encodes in the shortest forms, in order of node and
    coordinates; the last of the rows with the same key. ValueError where columns do not fit each other or the format (a coordinate of 2**32, for example)."""

def join_references(parts: Sequence[Sequence[Buffer]]) -> list[Segment] | None:
    """The columns of several manifests, without flags, as one: in order of node and coordinates, the last of the rows with the same key. All inline bytes and
    locations stay. None for one manifest whose rows are already so. ValueError where columns do not fit each other."""

# --- ids and values of repository files ------------------------------------------------------------------------------------------------

def encode_ids(ids: Buffer) -> list[str]:
    """The texts of ids, 12 bytes each, in Crockford's base 32."""

def decode_id(text: str) -> bytes | None:
    """The id with this text; None where it is not one."""

def pack_value(value: object, packed: type[bytes], depth: int) -> bytes | tuple[str, object]:
    """A value as MessagePack: None, bool, int, float, str, bytes, and lists, tuples and mappings of these with at most `depth` levels; bytes of the class
    `packed` are encoded values. Or why it cannot be written, and the value inside it: "type", "number" (of more than 64 bits), "text" (with lone surrogates),
    "length" (2**32 or more), "name" (a name that is no str) or "depth"."""

# --- snapshots ------------------------------------------------------------------------------------------------------------------------

def skip_values(data: bytes, at: int, count: int) -> int:
    """Where `count` values of MessagePack that begin at `at` end; -1 where the bytes end first, or no value begins there."""

def find_nodes(data: Buffer, at: int, count: int) -> tuple[list[str], Segment | None, int, bool, Failures]:
    """Where the nodes of a snapshot of the Icechunk alpha are: `count` entries of a map, the first at `at`.

    Returns the paths in the order of the file, the position behind the last entry, and rows of 8 int64, one for each entry: where it begins (with its key),
    where its value begins and ends, the node's id, its kind (0 group, 1 array), and where its attributes, the metadata of an array and its list of manifests
    begin; -1 for parts that this scan does not find, and for the parts of a node in which more than attributes and metadata may be wrong; and whether every
    node has an id that is known, and no two nodes have the same. Where the bytes end first, or a key is not text, there are no rows, but one failure, whose row
    is the position in the file."""
