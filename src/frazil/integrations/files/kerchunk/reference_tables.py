"""kerchunk's references in Parquet: a folder with `.zmetadata`, and tables of references for each array, `temp/refs.0.parq` and so on, with a row for each
chunk in C order.

The documents in `.zmetadata` are read by references.py. pyarrow reads the tables (`pip install 'frazil[parquet]'`)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from math import prod
from types import ModuleType
from typing import Any, Final, TypeGuard

import numpy as np

from frazil.base.arrays import Columns
from frazil.base.optional_package import load_package
from frazil.errors import FormatError, FrazilError, InvalidInputError, NotFoundError
from frazil.integrations.files.kerchunk.reference_columns import ChunkReferences, Targets
from frazil.integrations.files.scanned import ChunkColumns
from frazil.integrations.files.sources.source import Source, open_file, state_of, unreadable

_ROWS: Final = "record_size"
_MOST_ROWS: Final = 2**24  # of one table
_MOST_BYTES: Final = 2**30  # of one table
_MOST_TABLES: Final = 2**16  # of one array
_TEXTS: Final = ("path", "raw")
_COLUMNS: Final[dict[str, tuple[type, ...]]] = {"path": (str,), "offset": (int,), "size": (int,), "raw": (bytes, str)}


def is_table_metadata(document: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a JSON document is the `.zmetadata` beside tables of references."""
    return isinstance(document, dict) and _ROWS in document and isinstance(document.get("metadata"), dict)


def record_size(document: Mapping[str, object], name: str) -> int:
    """Rows of a table. Raises FormatError for a value that is not a number of rows."""
    rows = document[_ROWS]
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 < rows <= _MOST_ROWS:
        raise FormatError(f"{_ROWS} is {rows!r}; tables have 1 to {_MOST_ROWS} rows", key=name)
    return rows


def load_pyarrow() -> ModuleType:
    """pyarrow.parquet. Raises InvalidInputError where it is not installed."""
    return load_package("pyarrow.parquet", "references in Parquet are read with", "parquet")


def read_tables(source: Source, path: str, grid: Sequence[int], rows: int, places: Targets) -> ChunkReferences:
    """The references of the array at a path, whose chunk grid is `grid`, from tables of `rows` rows. A missing table has no references.

    source: of `.zmetadata`. Raises FormatError, StoreError, InvalidInputError without pyarrow, and for a place that is not allowed, if its size is needed."""
    count = prod(grid)
    if count > rows * _MOST_TABLES:
        raise InvalidInputError(f"its {count} chunks are more than {_MOST_TABLES} tables have")
    numbers: list[Columns] = []
    ranges: list[Columns] = []
    urls: list[str] = []
    inline_chunks: list[tuple[tuple[int, ...], bytes]] = []
    for first in range(0, count, rows):
        beside = source.beside(f"{path}/refs.{first // rows}.parq")
        table = _table(beside, min(rows, count - first), rows)
        if table is None:
            continue
        targets, offsets, lengths, texts = (table[name] for name in _COLUMNS)
        for row, text in enumerate(texts):
            if text is not None:  # a row that was overwritten may still have its path: fsspec takes the bytes too
                at = np.unravel_index(first + row, tuple(grid))
                inline_chunks.append(
                    (tuple([int(part) for part in at]), text if isinstance(text, bytes) else text.encode())
                )
        with_target = np.array(
            [i for i, target in enumerate(targets) if target is not None and texts[i] is None], np.int64
        )
        spans = np.array([offsets, lengths], np.int64)[:, with_target]
        whole = np.flatnonzero((spans == 0).all(axis=0))
        spans[1, whole] = [places.size(targets[with_target[i]]) for i in whole]
        if (spans < 0).any():
            raise FormatError("a row has a negative offset or size", key=beside.name)
        nonempty = np.flatnonzero(spans[1] > 0)
        numbers.append(with_target[nonempty] + first)
        ranges.append(spans[:, nonempty])
        named = {target: places.url(target) for target in {targets[row] for row in with_target[nonempty]}}
        urls += [named[targets[row]] for row in with_target[nonempty]]
    flat = np.concatenate([np.zeros(0, np.int64), *numbers])
    spans = np.concatenate([np.zeros((2, 0), np.int64), *ranges], axis=1)
    coordinates = np.stack(np.unravel_index(flat, tuple(grid)), axis=1) if grid else np.zeros((len(flat), 0))
    columns = ChunkColumns(np.ascontiguousarray(coordinates, np.int64), spans[0].copy(), spans[1].copy())
    return ChunkReferences(columns, tuple(urls), tuple(inline_chunks))


def _table(source: Source, rows: int, most: int) -> dict[str, list[Any]] | None:
    """The columns of the first rows of a table of at most `most` rows, with None in `path` or `raw` where there is no value; None if the table does not
    exist."""
    parquet = load_pyarrow()
    try:
        with open_file(source) as file:
            # as much as there is: read(n) takes n bytes of memory first
            content = file.read(min(state_of(file).size, _MOST_BYTES) + 1)
    except NotFoundError:
        return None
    except OSError as error:
        if isinstance(error, FrazilError):
            raise
        raise unreadable(error, source.name) from error
    try:
        metadata = parquet.read_metadata(io.BytesIO(content))
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        if len(content) > _MOST_BYTES or sum(group.total_byte_size for group in groups) > _MOST_BYTES:
            raise FormatError(f"the table has more than {_MOST_BYTES} bytes", key=source.name)
        shares = [name for group in groups for name in _encoded_as("DELTA_BYTE_ARRAY", group)]
        if shares:  # each value repeats the beginning of the previous one, without taking bytes for that
            raise FormatError(
                f"the column {shares[0]!r} is encoded as DELTA_BYTE_ARRAY, which is not read here", key=source.name
            )
        # in these each value takes its own bytes, and pyarrow makes no dictionaries of them
        alone = {name for group in groups for name in _encoded_as("DELTA_LENGTH_BYTE_ARRAY", group)}
        dictionaries = [name for name in _TEXTS if name not in alone]
        opened = parquet.ParquetFile(io.BytesIO(content), read_dictionary=dictionaries)
        missing = [name for name in _COLUMNS if name not in opened.schema_arrow.names]
        if missing:
            raise FormatError(f"the table has no column {missing[0]!r}", key=source.name)
        if not rows <= opened.metadata.num_rows <= most:  # equal rows take few bytes of a file
            raise FormatError(
                f"the table has {opened.metadata.num_rows} rows; {rows} to {most} are expected", key=source.name
            )
        read = opened.read(list(_COLUMNS)).slice(0, rows)
        table = {name: _values(read.column(name), source.name) for name in _COLUMNS}
    except FormatError:
        raise
    except Exception as error:  # pyarrow raises errors of many classes for damaged files
        raise FormatError(f"the table of references is damaged: {error}", key=source.name) from error
    offsets, sizes = table["offset"], table["size"]
    for row, span in enumerate(zip(offsets, sizes, strict=True)):
        if not any(span):  # both null, or 0: the whole file
            offsets[row] = sizes[row] = 0
    for name, kinds in _COLUMNS.items():
        if not all(isinstance(value, kinds) or (value is None and name in ("path", "raw")) for value in table[name]):
            raise FormatError(f"the column {name!r} has values that references cannot have", key=source.name)
    if max([0, *offsets, *sizes]) >= 2**63:
        raise FormatError("a row has an offset or a size of 2**63 or more", key=source.name)
    return table


def _encoded_as(encoding: str, group: Any) -> list[str]:
    """The columns of text of a row group that have this encoding."""
    columns = [group.column(i) for i in range(group.num_columns)]
    return [
        column.path_in_schema for column in columns if column.path_in_schema in _TEXTS and encoding in column.encodings
    ]


def _values(column: Any, name: str) -> list[Any]:
    """The values of a column. Rows share the values of a dictionary; together they may not have more bytes than a table."""
    found: list[Any] = []
    nbytes = 0
    for part in column.chunks:
        if not hasattr(part, "dictionary"):
            found += part.to_pylist()
            continue
        words, rows = part.dictionary.to_pylist(), part.indices.to_pylist()
        nbytes += sum([len(words[row]) for row in rows if row is not None])
        if nbytes > _MOST_BYTES:
            raise FormatError(f"a column of the table has more than {_MOST_BYTES} bytes", key=name)
        found += [None if row is None else words[row] for row in rows]
    return found
