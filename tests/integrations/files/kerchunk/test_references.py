"""References of kerchunk become virtual chunks."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import FormatError, InvalidInputError
from frazil.integrations.files.scanner import scan_file

VALUES = np.arange(10 * 12, dtype="<f4").reshape(10, 12)


def write(folder: Path, *, version: int = 1, separator: str = ".", order: str = "C", **changes: object) -> Path:
    """data.bin has chunks of 5 x 6, each compressed; one of them stands in the references."""
    references: dict[str, object] = {".zgroup": '{"zarr_format": 2}', ".zattrs": json.dumps({"title": "The sea"})}
    references["deep/.zgroup"] = {"zarr_format": 2}
    document = {
        "zarr_format": 2, "shape": [10, 12], "chunks": [5, 6], "dtype": "<f4", "compressor": {"id": "zlib", "level": 3},
        "filters": [{"id": "shuffle", "elementsize": 4}], "fill_value": "NaN", "order": order, "dimension_separator": separator, **changes,
    }  # fmt: skip
    references["deep/temp/.zarray"] = json.dumps(document)
    attributes = {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K", "_FillValue": -1.0}
    references["deep/temp/.zattrs"] = json.dumps(attributes)
    data = b"head"
    url = "{{u}}" if version else (folder / "data.bin").as_uri()
    for i in range(2):
        for j in range(2):
            chunk = np.asarray(VALUES[5 * i : 5 * i + 5, 6 * j : 6 * j + 6], order=order).tobytes(order=order)  # type: ignore[call-overload]
            encoded = zlib.compress(np.frombuffer(chunk, "u1").reshape(-1, 4).T.tobytes())
            key = f"deep/temp/{i}{separator}{j}"
            if (i, j) == (0, 1):
                references[key] = "base64:" + b64encode(encoded).decode()
            elif (i, j) != (1, 1):  # which is not stored
                references[key] = [url, len(data), len(encoded)]
                data += encoded
    (folder / "data.bin").write_bytes(data)
    whole = {"version": 1, "templates": {"u": str(folder / "data.bin")}, "refs": references} if version else references
    (folder / "refs.json").write_text(json.dumps(whole))
    return folder / "refs.json"


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_chunks_are_read_where_they_are(version: int, separator: str, order: str, tmp_path: Path) -> None:
    file = write(tmp_path, version=version, separator=separator, order=order)
    done = frazil.import_file(file, tmp_path / "sea.repo")
    assert done.arrays == ("deep/temp",)
    file.unlink()
    repo = frazil.Repository.open(tmp_path / "sea.repo", virtual_prefixes=[tmp_path.as_uri() + "/"])
    root = repo.readonly_session().root
    temp = root["deep/temp"]
    assert isinstance(temp, frazil.Array)
    assert np.array_equal(temp[:5], VALUES[:5]) and np.array_equal(temp[5:, :6], VALUES[5:, :6])
    assert np.isnan(temp[5:, 6:]).all()
    assert temp.dimension_names == ("y", "x") and temp.attrs["units"] == "K" and root.attrs["title"] == "The sea"
    with pytest.raises(frazil.FrazilError):  # not without permission
        frazil.open(f"{tmp_path / 'sea.repo'}@main/deep/temp")[0, 0]  # type: ignore[index]


def test_values_are_copied_only_from_allowed_places(tmp_path: Path) -> None:
    file = write(tmp_path)
    with pytest.raises(InvalidInputError, match="virtual_prefixes"):
        frazil.import_file(file, tmp_path / "a.zarr", "copy")
    frazil.import_file(file, tmp_path / "a.zarr", "copy", virtual_prefixes=[tmp_path.as_uri() + "/"])
    assert np.array_equal(frazil.open_array(tmp_path / "a.zarr" / "deep" / "temp")[:5], VALUES[:5])
    with pytest.raises(InvalidInputError, match="adopt"):
        frazil.import_file(file, tmp_path / "b.repo", "adopt")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compressor": {"id": "jpeg"}}, "codec jpeg"),
        ({"dtype": "|O"}, "data type"),
        ({"shape": [10]}, "do not fit"),
        ({"chunks": [0, 6]}, "its chunks is"),
        ({"fill_value": "none"}, "fill_value"),
    ],
)
def test_what_no_array_can_be_is_an_error(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=message):
        frazil.import_file(write(tmp_path, **changes), tmp_path / "sea.repo")  # type: ignore[arg-type]
    assert not (tmp_path / "sea.repo").exists()


@pytest.mark.parametrize(
    "text",
    [
        "{", "{}", '{"version": 2, "refs": {}}', '{"version": 1, "refs": {"a/.zarray": 5}}', '{"version": 1, "gen": [1], "refs": {}}',
        '{"version": 1, "refs": []}',
    ],
)  # fmt: skip
def test_damaged_references(text: str, tmp_path: Path) -> None:
    (tmp_path / "refs.json").write_text(text)
    with pytest.raises(FormatError):
        scan_file(tmp_path / "refs.json")


@pytest.mark.parametrize("reference", [["/data.bin", -1, 5], ["/data.bin", 0], [5, 0, 1], {"a": 1}, None])
def test_damaged_chunks(reference: object, tmp_path: Path) -> None:
    file = write(tmp_path)
    document = json.loads(file.read_text())
    document["refs"]["deep/temp/0.0"] = reference
    file.write_text(json.dumps(document))
    with pytest.raises(FormatError):
        scan_file(file)
