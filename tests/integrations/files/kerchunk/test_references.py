"""References of kerchunk become virtual chunks."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import frazil
from frazil.errors import FormatError, InvalidInputError
from frazil.integrations.files.kerchunk import references
from frazil.integrations.files.kerchunk.reference_columns import Targets, url_of
from frazil.integrations.files.scanner import scan_file
from frazil.integrations.files.sources.source import source_of

VALUES = np.arange(10 * 12, dtype="<f4").reshape(10, 12)


def write(folder: Path, *, version: int = 1, separator: str = ".", order: str = "C", **changes: object) -> Path:
    """data.bin has chunks of 5 x 6, each compressed; one of them is inline in the references."""
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


@pytest.mark.parametrize("mode", ["virtual", "copy"])
def test_text_of_any_length(mode: Literal["virtual", "copy"], tmp_path: Path) -> None:
    texts = ["north", "", "süd"]
    encoded = len(texts).to_bytes(4, "little")
    encoded += b"".join(len(text.encode()).to_bytes(4, "little") + text.encode() for text in texts)
    document = {
        "zarr_format": 2, "shape": [6], "chunks": [3], "dtype": "|O", "compressor": None, "filters": [{"id": "vlen-utf8"}],
        "fill_value": None, "order": "C",
    }  # fmt: skip
    (tmp_path / "data.bin").write_bytes(b"head" + encoded)
    chunks = {"name/0": "base64:" + b64encode(encoded).decode(), "name/1": ["data.bin", 4, len(encoded)]}
    refs = {".zgroup": {"zarr_format": 2}, "name/.zarray": document, "name/.zattrs": {"_ARRAY_DIMENSIONS": ["x"]}}
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": {**refs, **chunks}}))
    prefixes = [tmp_path.as_uri() + "/"]
    done = frazil.import_file(tmp_path / "refs.json", tmp_path / "sea.repo", mode, virtual_prefixes=prefixes)
    assert not done.skipped
    repo = frazil.Repository.open(tmp_path / "sea.repo", virtual_prefixes=prefixes)
    assert repo.readonly_session().root.open_array("name")[...].tolist() == texts * 2


@pytest.mark.parametrize(("fill", "attributes"), [("x", {}), (None, {"_FillValue": "x"})])
def test_the_missing_value_of_text_is_named(fill: str | None, attributes: dict[str, str], tmp_path: Path) -> None:
    document = {
        "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "compressor": None, "filters": [{"id": "vlen-utf8"}],
        "fill_value": fill, "order": "C",
    }  # fmt: skip
    refs = {
        ".zgroup": {"zarr_format": 2},
        "v/.zarray": document,
        "v/.zattrs": {"_ARRAY_DIMENSIONS": ["x"], **attributes},
    }
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    done = frazil.import_file(tmp_path / "refs.json", tmp_path / "sea.zarr")
    assert [part.reason[:70] for part in done.skipped] == [
        "xarray opens no Zarr array of text that has one; it was 'x', and eleme"
    ]


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
        ({"compressor": {"id": "jpeg"}}, "jpeg"),
        ({"dtype": "|O"}, "codec of objects"),
        ({"dtype": "|O", "filters": [{"id": "vlen-bytes"}], "fill_value": None}, "data type is object"),
        ({"shape": [10]}, "chunks must be"),
        ({"chunks": [0, 6]}, "chunks"),
        ({"fill_value": "none"}, "fill_value"),
    ],
)
def test_invalid_references_are_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "changes",
    [
        {"deep/temp/.zattrs": "[" * 100_000},
        {"deep/temp/.zattrs": '{"a": ' + "9" * 5000 + "}"},
        {"deep/temp/0.0": "\ud800"},
        {"deep/temp/0.0": ["/data.bin", 10**30, 1]},
        {"deep/temp/0.0": "base64:?"},
    ],
)
def test_hostile_references(changes: dict[str, object], tmp_path: Path) -> None:
    file = write(tmp_path)
    document = json.loads(file.read_text())
    document["refs"].update(changes)
    file.write_text(json.dumps(document))
    with pytest.raises(FormatError):
        scan_file(file)


def test_templates_that_multiply(tmp_path: Path) -> None:
    """A few bytes insert a template of a million: refused before the memory is taken."""
    file = write(tmp_path)
    document = json.loads(file.read_text())
    document["templates"]["t"] = "x" * 2**20
    document["refs"]["deep/temp/0.0"] = ["{{t}}" * 2**12, 0, 1]
    file.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="its templates make URLs of more than"):
        scan_file(file)


def test_many_references_share_the_text_of_a_template(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The limit is one of memory: references with the same URL count once."""
    file = write(tmp_path)
    document = json.loads(file.read_text())
    document["templates"]["t"] = "x" * 2**12
    document["refs"].update({f"deep/temp/9.{number}": ["{{t}}.nc", 0, 1] for number in range(1000)})
    file.write_text(json.dumps(document))
    monkeypatch.setattr(references, "_MOST", file.stat().st_size)
    assert scan_file(file).arrays


@pytest.mark.parametrize("last", [".zgroup", ".zarray"])
def test_thousands_of_levels(last: str, tmp_path: Path) -> None:
    """Each level would be a group."""
    file = write(tmp_path)
    document = json.loads(file.read_text())
    document["refs"]["a/" * 20_000 + last] = document["refs"]["deep/" + ("temp/.zarray" if last == ".zarray" else last)]
    file.write_text(json.dumps(document))
    with pytest.raises(InvalidInputError, match="100 levels"):
        frazil.import_file(file, tmp_path / "new.repo")
    assert not (tmp_path / "new.repo").exists()


@pytest.mark.parametrize("key", ["00.0", "\u0660.0", "/" * 10**6 + "0.0", "9" * 5000 + ".0", "0.0.0", "7.7"])
def test_keys_that_no_chunk_has_are_left_out(key: str, tmp_path: Path) -> None:
    file = write(tmp_path)
    document = json.loads(file.read_text())
    document["refs"][f"deep/temp/{key}"] = ["/other.bin", 0, 1]
    file.write_text(json.dumps(document))
    assert not any("other" in url for url in scan_file(file).arrays[0].urls)


def test_references_cannot_name_other_servers(tmp_path: Path) -> None:
    file = write(tmp_path)
    document = json.loads(file.read_text())
    document["refs"]["deep/temp/0.0"] = ["http://127.0.0.1:9/x"]
    file.write_text(json.dumps(document))
    assert "virtual_prefixes" in scan_file(file).skipped[0].reason


def test_empty_parts_of_remote_names_are_refused() -> None:
    """They were dropped: a reference to a//b named the object a/b."""
    targets = Targets(source_of("s3://bucket/folder/refs.json"), None)
    assert targets.url("a/b") == "s3://bucket/folder/a/b"
    assert url_of("/a//b").endswith("a//b")  # one file on this machine
    for name in (lambda: targets.url("a//b"), lambda: url_of("gs://bucket//b"), lambda: targets.url("s3://bucket/a//")):
        with pytest.raises(InvalidInputError, match="with // in their names"):
            name()


@pytest.mark.parametrize("target", ["data.bin", "./data.bin", "../{}/data.bin", "a/../data.bin"])
@pytest.mark.parametrize("whole", [False, True])
def test_relative_targets_begin_at_the_folder_of_the_references(
    target: str, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, version=0)
    document = json.loads(file.read_text())
    if whole:
        chunk = document["deep/temp/0.0"]
        stored = (tmp_path / "data.bin").read_bytes()
        (tmp_path / "data.bin").write_bytes(stored[chunk[1] : chunk[1] + chunk[2]])
        del document["deep/temp/1.0"]
    document = {
        key: [target.format(tmp_path.name), *([] if whole else value[1:])] if isinstance(value, list) else value
        for key, value in document.items()
    }
    file.write_text(json.dumps(document))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    frazil.import_file("../refs.json", "a.zarr", "copy", virtual_prefixes=[tmp_path.as_uri() + "/"])
    temp = frazil.open_array("a.zarr/deep/temp")
    np.testing.assert_array_equal(temp[:5], VALUES[:5])
    assert np.isnan(temp[5:, :6]).all() == whole  # type: ignore[arg-type, call-overload]


@pytest.mark.parametrize(
    "target", ["memory://a/b", "ftp://host/data.bin", "://", "s3://bucket/a//b", "https://host//b"]
)
def test_errors_name_targets_that_cannot_be_read(target: str, tmp_path: Path) -> None:
    file = write(tmp_path)
    document = json.loads(file.read_text())
    document["refs"]["deep/temp/0.0"] = [target, 0, 5]
    file.write_text(json.dumps(document))
    with pytest.raises(InvalidInputError, match="a reference names"):
        frazil.import_file(file, tmp_path / "sea.repo")


@pytest.mark.parametrize(
    ("dtype", "stored", "fill"), [("|S4", "YWJjZA==", b"abcd"), ("<c8", [1.0, "NaN"], complex(1, np.nan)), ("<u8", 2**64 - 1, 2**64 - 1)]
)  # fmt: skip
def test_fill_values_are_those_of_zarr_v2(dtype: str, stored: object, fill: object, tmp_path: Path) -> None:
    document = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": dtype, "compressor": None, "filters": None,
                "fill_value": stored, "order": "C"}  # fmt: skip
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": {"a/.zarray": json.dumps(document)}}))
    frazil.import_file(tmp_path / "refs.json", tmp_path / "a.repo")
    np.testing.assert_equal(frazil.open_array(f"{tmp_path / 'a.repo'}@main/a")[0], np.array(fill, dtype)[()])


def test_xarray_sees_the_same_missing_values(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    file = write(tmp_path, fill_value=3.0)
    path = tmp_path / "a.zarr"
    frazil.import_file(file, path, "copy", virtual_prefixes=[tmp_path.as_uri() + "/"])
    temp = xarray.open_dataset(path, engine="frazil", group="deep").temp.values
    np.testing.assert_array_equal(temp[:5], np.where(VALUES[:5] == 3, np.nan, VALUES[:5]))
    assert np.isnan(temp[5:, 6:]).all()


@pytest.mark.parametrize("url", ["{{v}}", '{{u(name="a")}}', "{{u}}/{{i * 2}}"])
def test_a_template_that_is_not_replaced(url: str, tmp_path: Path) -> None:
    """Its text is not the name of a file."""
    file = write(tmp_path)
    document = json.loads(file.read_text())
    document["refs"]["deep/temp/0.0"][0] = url
    file.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="the template in the URL of deep/temp"):
        scan_file(file)
