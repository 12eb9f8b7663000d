"""References of kerchunk in Parquet become virtual chunks. The tests write the tables in kerchunk's form, and kerchunk itself does if it is installed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import FormatError, InvalidInputError
from frazil.integrations.files.kerchunk.reference_columns import Targets
from frazil.integrations.files.kerchunk.reference_tables import read_tables
from frazil.integrations.files.scanner import scan_file
from frazil.integrations.files.sources.source import source_of

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'frazil[parquet]'")
pyarrow = pytest.importorskip("pyarrow")

VALUES = np.arange(10 * 12, dtype="<f4").reshape(10, 12)


class Tables(dict[str, Any]):
    """References as tables of this many rows."""

    def __init__(self, target: Path, rows: int) -> None:
        super().__init__()
        self.target, self.rows = target, rows

    def flush(self) -> None:
        documents = {key: json.loads(value) for key, value in self.items() if key.rpartition("/")[2].startswith(".z")}
        (self.target / ".zmetadata").write_text(json.dumps({"metadata": documents, "record_size": self.rows}))
        for key, document in documents.items():
            if not key.endswith(".zarray"):
                continue
            path = key.rpartition("/")[0]
            grid = [-(-n // chunk) for n, chunk in zip(document["shape"], document["chunks"], strict=True)]
            table: dict[int, list[Any]] = {}
            for key, value in self.items():
                if key.startswith(f"{path}/") and not key.rpartition("/")[2].startswith(".z"):
                    place = [int(part) for part in key.rpartition("/")[2].split(".")]
                    number = int(np.ravel_multi_index(place, grid)) if grid else 0
                    table[number] = (
                        [None, 0, 0, value] if isinstance(value, bytes) else [*value, *[0, 0][len(value) - 1 :], None]
                    )
            (self.target / path).mkdir(parents=True)
            for record in {number // self.rows for number in table}:
                rows = [table.get(record * self.rows + i, [None, 0, 0, None]) for i in range(self.rows)]
                types = [pyarrow.string(), pyarrow.int64(), pyarrow.int64(), pyarrow.binary()]
                columns = [pyarrow.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
                made = pyarrow.table(columns, ["path", "offset", "size", "raw"])
                parquet.write_table(made, self.target / path / f"refs.{record}.parq", compression="zstd")


def by_kerchunk(target: Path, rows: int) -> Any:
    pytest.importorskip(
        "kerchunk.df", reason="kerchunk, which writes such tables, is not installed", exc_type=ImportError
    )
    pytest.importorskip("pandas")
    from fsspec import filesystem
    from fsspec.implementations.reference import LazyReferenceMapper

    return LazyReferenceMapper.create(str(target), fs=filesystem("file"), record_size=rows, engine="pyarrow")


def write(folder: Path, rows: int = 3, made: Callable[[Path, int], Any] = Tables) -> Path:
    """data.bin has chunks of 2 x 6 without codecs; one is inline in the references, one is a separate file, one is missing."""
    target = folder / "refs.parq"
    target.mkdir()
    out = made(target, rows)
    out[".zgroup"] = b'{"zarr_format": 2}'
    out[".zattrs"] = b'{"title": "The sea"}'
    out["deep/.zgroup"] = b'{"zarr_format": 2}'
    document = {
        "zarr_format": 2, "shape": [10, 12], "chunks": [2, 6], "dtype": "<f4", "compressor": None, "filters": None, "fill_value": -1.0, "order": "C",
    }  # fmt: skip
    out["deep/temp/.zarray"] = json.dumps(document).encode()
    out["deep/temp/.zattrs"] = json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"}).encode()
    data = b"head"
    for i in range(5):
        for j in range(2):
            chunk = VALUES[2 * i : 2 * i + 2, 6 * j : 6 * j + 6].tobytes()
            key = f"deep/temp/{i}.{j}"
            if (i, j) == (1, 1):
                out[key] = chunk
            elif (i, j) == (2, 0):
                (folder / "one.bin").write_bytes(chunk)
                out[key] = [str(folder / "one.bin")]
            elif (i, j) != (3, 1):
                out[key] = [str(folder / "data.bin"), len(data), len(chunk)]
                data += chunk
    out["scalar/.zarray"] = json.dumps({**document, "shape": [], "chunks": []}).encode()
    out["scalar/.zattrs"] = b"{}"
    out["scalar/0"] = np.float32(7).tobytes()
    out.flush()
    (folder / "data.bin").write_bytes(data)
    return target


def expected() -> Any:
    values = VALUES.copy()
    values[6:8, 6:] = -1
    return values


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("name", ["", ".zmetadata"])
@pytest.mark.parametrize("made", [Tables, by_kerchunk])
def test_chunks_are_read_where_they_are(rows: int, name: str, made: Callable[[Path, int], Any], tmp_path: Path) -> None:
    place = write(tmp_path, rows, made)
    done = frazil.import_file(place / name, tmp_path / "sea.repo")
    assert set(done.arrays) == {"deep/temp", "scalar"}
    shutil.rmtree(place)
    repo = frazil.Repository.open(tmp_path / "sea.repo", virtual_prefixes=[tmp_path.as_uri() + "/"])
    root = repo.readonly_session().root
    assert root.attrs["title"] == "The sea"
    temp = root["deep/temp"]
    assert isinstance(temp, frazil.Array) and temp.dimension_names == ("y", "x")
    np.testing.assert_array_equal(temp[...], expected())
    assert root["scalar"][()] == 7  # type: ignore[index]


def test_values_are_copied_from_places_that_are_allowed(tmp_path: Path) -> None:
    place = write(tmp_path)
    frazil.import_file(place, tmp_path / "a.zarr", "copy", virtual_prefixes=[tmp_path.as_uri() + "/"])
    np.testing.assert_array_equal(frazil.open(tmp_path / "a.zarr/deep/temp")[...], expected())


def test_relative_targets_begin_at_the_folder_that_has_the_tables(tmp_path: Path) -> None:
    place = write(tmp_path)
    for table in (place / "deep/temp").iterdir():
        columns = parquet.read_table(table)
        names = [None if path is None else Path(path).name for path in columns["path"].to_pylist()]
        columns = columns.set_column(0, "path", pyarrow.array(names, pyarrow.string()))
        parquet.write_table(columns, table)
    frazil.import_file(place, tmp_path / "a.zarr", "copy", virtual_prefixes=[tmp_path.as_uri() + "/"])
    np.testing.assert_array_equal(frazil.open(tmp_path / "a.zarr/deep/temp")[...], expected())


def test_a_row_without_offset_and_size_means_the_whole_file(tmp_path: Path) -> None:
    place = write(tmp_path)
    for table in (place / "deep/temp").iterdir():
        columns = parquet.read_table(table)
        for i, name in enumerate(("offset", "size"), 1):
            numbers = [number or None for number in columns[name].to_pylist()]
            columns = columns.set_column(i, name, pyarrow.array(numbers, pyarrow.int64()))
        parquet.write_table(columns, table)
    frazil.import_file(place, tmp_path / "a.zarr", "copy", virtual_prefixes=[tmp_path.as_uri() + "/"])
    np.testing.assert_array_equal(frazil.open(tmp_path / "a.zarr/deep/temp")[...], expected())


def test_bytes_in_a_row_precede_its_path(tmp_path: Path) -> None:
    """As in fsspec, which leaves the path where it overwrites a reference with bytes."""
    place = write(tmp_path)
    for table in (place / "deep/temp").iterdir():
        columns = parquet.read_table(table)
        paths = [path or "gone.bin" for path in columns["path"].to_pylist()]
        raw = [value is not None for value in columns["raw"].to_pylist()]
        kept = [
            path if has_bytes else old
            for path, has_bytes, old in zip(paths, raw, columns["path"].to_pylist(), strict=True)
        ]
        parquet.write_table(columns.set_column(0, "path", pyarrow.array(kept, pyarrow.string())), table)
        assert not any(raw) or "gone.bin" in kept
    frazil.import_file(place, tmp_path / "a.zarr", "copy", virtual_prefixes=[tmp_path.as_uri() + "/"])
    np.testing.assert_array_equal(frazil.open(tmp_path / "a.zarr/deep/temp")[...], expected())


def test_a_missing_table_has_no_references(tmp_path: Path) -> None:
    place = write(tmp_path)
    (place / "deep/temp/refs.0.parq").unlink()
    (array,) = (array for array in scan_file(place).arrays if array.path == "deep/temp")
    assert array.chunks.coordinates.min(axis=0).tolist() == [2, 0]


def _change(change: str, place: Path) -> None:
    table = place / "deep/temp/refs.1.parq"
    columns = parquet.read_table(table)
    if change == "cut":
        table.write_bytes(table.read_bytes()[:-9])
    elif change == "column":
        parquet.write_table(columns.select(["path", "offset", "raw"]), table)
    elif change == "rows":
        parquet.write_table(columns.slice(0, 1), table)
    elif change == "longer":
        parquet.write_table(pyarrow.concat_tables([columns, columns]), table)
    elif change == "type":
        parquet.write_table(columns.set_column(1, "offset", [["a", "b", "c"]]), table)
    elif change == "negative":
        parquet.write_table(columns.set_column(1, "offset", [[-1, -1, -1]]), table)
    elif change == "unsigned":
        parquet.write_table(columns.set_column(1, "offset", [pyarrow.array([2**64 - 1] * 3, pyarrow.uint64())]), table)
    else:
        document = json.loads((place / ".zmetadata").read_text())
        document["record_size"] = {"zero": 0, "text": "3"}[change]
        (place / ".zmetadata").write_text(json.dumps(document))


@pytest.mark.parametrize("change", ["cut", "column", "rows", "type", "negative", "unsigned", "zero", "text", "longer"])
def test_damaged_tables_are_format_errors(change: str, tmp_path: Path) -> None:
    place = write(tmp_path)
    _change(change, place)
    with pytest.raises(FormatError):
        scan_file(place)


@pytest.mark.parametrize("column", ["path", "raw"])
def test_rows_that_share_a_long_value_are_refused(column: str, tmp_path: Path) -> None:
    """A table of a few KiB would need gigabytes of memory."""
    rows = 2000
    (tmp_path / ".zmetadata").write_text("{}")
    (tmp_path / "a").mkdir()
    place = tmp_path / "a" / "refs.0.parq"
    word = "x" * 2**20 if column == "path" else b"x" * 2**20
    columns = {
        "path": pyarrow.nulls(rows, pyarrow.string()),
        "offset": pyarrow.array([0] * rows),
        "size": pyarrow.array([1] * rows),
        "raw": pyarrow.nulls(rows, pyarrow.binary()),
    }
    columns[column] = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0] * rows, pyarrow.int32()), pyarrow.array([word])
    )
    options = {
        "compression": "zstd",
        "dictionary_pagesize_limit": 2**24,
        "write_statistics": False,
        "store_schema": False,
    }
    parquet.write_table(pyarrow.table(columns), place, **options)
    assert place.stat().st_size < 2**15
    with pytest.raises(FormatError, match="more than"):
        read_tables(source_of(tmp_path), "a", (rows,), rows, Targets(source_of(tmp_path), None))
    plain = {"use_dictionary": False, "column_encoding": {column: "DELTA_BYTE_ARRAY"}, "compression": "zstd"}
    short = {**columns, column: pyarrow.array([word[:3]] * rows)}
    parquet.write_table(pyarrow.table(short), place, **plain)
    with pytest.raises(FormatError, match="DELTA_BYTE_ARRAY"):
        read_tables(source_of(tmp_path), "a", (rows,), rows, Targets(source_of(tmp_path), None))
    plain["column_encoding"] = {column: "DELTA_LENGTH_BYTE_ARRAY"}  # whose values each have their own bytes
    short[column] = pyarrow.array(["/x" if column == "path" else b"x"] * rows)
    parquet.write_table(pyarrow.table(short), place, **plain)
    read_tables(source_of(tmp_path), "a", (rows,), rows, Targets(source_of(tmp_path), None))


def test_an_array_of_more_chunks_than_tables_can_have_is_refused(tmp_path: Path) -> None:
    place = write(tmp_path)
    document = json.loads((place / ".zmetadata").read_text())
    document["metadata"]["deep/temp/.zarray"]["shape"] = [2**40, 12]
    (place / ".zmetadata").write_text(json.dumps(document))
    with pytest.raises(InvalidInputError, match="tables"):
        frazil.import_file(place, tmp_path / "sea.repo")


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = write(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InvalidInputError, match="pyarrow") as raised:
        frazil.import_file(place, tmp_path / "sea.repo")
    assert raised.value.hint == "pip install 'frazil[parquet]'"
