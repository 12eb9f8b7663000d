"""TIFF and OME-TIFF files, imported."""

from __future__ import annotations

import io
import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest

import frazil
from frazil.errors import ChunkDecodeError, DataError, FormatError, InvalidInputError
from frazil.integrations.files.libraries import scan_process
from frazil.integrations.files.libraries.scan_messages import TIFF
from frazil.integrations.files.libraries.scan_process import scan_in_process
from frazil.integrations.files.scanner import scan_file
from frazil.integrations.files.sources.ranged_file import RangedFile
from frazil.stores.memory import MemoryStore

tifffile = pytest.importorskip("tifffile")

VALUES = np.random.default_rng(0).integers(0, 4000, (3, 5, 200, 300)).astype("u2")


def imported(file: Path) -> dict[str, frazil.Array]:
    store = MemoryStore()
    done = frazil.import_file(file, store)
    return {name: frazil.open_array(store, path=name) for name in done.arrays}


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tile": (64, 96)},
        {"tile": (64, 96), "compression": "zlib"},
        {"compression": "zlib", "rowsperstrip": 40},
        {"compression": "zlib", "rowsperstrip": 33},
        {"bigtiff": True, "rowsperstrip": 20},
    ],
)
def test_a_stack_of_pages(byteorder: str, options: dict[str, object], tmp_path: Path) -> None:
    tifffile.imwrite(
        tmp_path / "a.tif", VALUES, byteorder=byteorder, photometric="minisblack", metadata={"axes": "TZYX"}, **options
    )
    (array,) = imported(tmp_path / "a.tif").values()
    assert np.array_equal(array[...], VALUES)
    assert np.array_equal(array[1:, 2, 60:130, 95:97], VALUES[1:, 2, 60:130, 95:97])
    assert array.path == "a" and array.dimension_names == ("time", "z", "y", "x")


@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize(
    "options", [{}, {"tile": (64, 96), "compression": "zlib"}, {"compression": "zlib", "rowsperstrip": 33}]
)
def test_colours(planar: str, options: dict[str, object], tmp_path: Path) -> None:
    values = VALUES[0, :3].transpose(1, 2, 0).astype("u1") if planar == "contig" else VALUES[0, :3].astype("u1")
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="rgb", planarconfig=planar, **options)
    (array,) = imported(tmp_path / "a.tif").values()
    assert np.array_equal(array[...], values)


def test_a_pyramid_and_series(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as made:
        made.write(VALUES[0], subifds=1, tile=(64, 64), metadata={"axes": "ZYX"})
        made.write(VALUES[0, :, ::2, ::2], subfiletype=1, tile=(64, 64))
        made.write(VALUES[1, 0], metadata={"axes": "YX"})
    found = imported(tmp_path / "a.ome.tif")
    assert scan_file(tmp_path / "a.ome.tif").kind == "OME-TIFF"
    assert np.array_equal(found["series0"][...], VALUES[0])
    assert np.array_equal(found["series0_level1"][...], VALUES[0, :, ::2, ::2])
    assert np.array_equal(found["series1"][...], VALUES[1, 0])


def test_tiles_of_a_file_in_place(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", VALUES[0, 0], tile=(64, 96), compression="zlib")
    frazil.import_file(tmp_path / "a.tif", tmp_path / "new.repo", "adopt")
    assert np.array_equal(frazil.open(tmp_path / "new.repo@main")["a"][...], VALUES[0, 0])  # type: ignore[index]
    tifffile.imwrite(tmp_path / "b.tif", VALUES[0, 0], tile=(64, 96), compression="zlib", predictor=True)
    with pytest.raises(InvalidInputError, match="can only be copied: /b: its tiles have the predictor"):
        frazil.import_file(tmp_path / "b.tif", tmp_path / "new.repo", "adopt")


def test_a_damaged_file(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", VALUES[0, 0], tile=(64, 96), compression="zlib")
    whole = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(frazil.FrazilError):
        frazil.import_file(tmp_path / "a.tif", MemoryStore())
    (tmp_path / "a.tif").write_bytes(b"II*\0" + b"\xff" * 40)
    with pytest.raises((FormatError, InvalidInputError)):
        frazil.import_file(tmp_path / "a.tif", MemoryStore())


def test_messages_of_tifffile_are_in_the_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It logs thousands of messages for a damaged file; the error has the first one."""
    tifffile.imwrite(tmp_path / "a.tif", VALUES[0, 0], tile=(64, 96), compression="zlib")
    damaged = bytearray((tmp_path / "a.tif").read_bytes())
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        place = tiff.pages[0].tags["ImageWidth"].offset
    damaged[place + 2 : place + 4] = b"\xff\xff"  # no type of a value
    (tmp_path / "a.tif").write_bytes(damaged)
    with pytest.raises(FormatError, match=r"tifffile reports first: .*invalid data type"):
        frazil.import_file(tmp_path / "a.tif", MemoryStore())
    assert capfd.readouterr().err == ""


def test_tiles_of_no_extent(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", VALUES[0, 0], tile=(64, 96), compression="zlib", predictor=True)
    damaged = bytearray((tmp_path / "a.tif").read_bytes())
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        tag = tiff.pages[0].tags["TileLength"]
    damaged[tag.valueoffset : tag.valueoffset + 2] = bytes(2)
    (tmp_path / "a.tif").write_bytes(damaged)
    with pytest.raises(InvalidInputError, match=r"its tiles have the shape \(0, 96\)"):
        frazil.import_file(tmp_path / "a.tif", MemoryStore())


def test_without_tifffile_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tifffile.imwrite(tmp_path / "a.tif", VALUES[0, 0])
    monkeypatch.setitem(sys.modules, "tifffile", None)
    with pytest.raises(InvalidInputError) as caught:
        scan_file(tmp_path / "a.tif")
    assert "frazil[tiff]" in str(caught.value.hint)


@pytest.mark.parametrize("tile", [None, (16, 16)])
@pytest.mark.parametrize("other", ["b.ome.tif", "../secret.tif"])
def test_pages_in_other_files_are_refused(tile: tuple[int, int] | None, other: str, tmp_path: Path) -> None:
    names = "".join(
        f'<TiffData FirstT="{i}" IFD="0" PlaneCount="1"><UUID FileName="{name}">urn:uuid:aaaaaaaa-0000-0000-0000-00000000000{i}</UUID></TiffData>'
        for i, name in enumerate(("a.ome.tif", other))
    )
    described = (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:aaaaaaaa-0000-0000-0000-000000000000">'
        '<Image ID="Image:0"><Pixels ID="P:0" DimensionOrder="XYZCT" Type="uint16" SizeX="64" SizeY="64" SizeZ="1" SizeC="1" SizeT="2">'
        f'<Channel ID="C:0" SamplesPerPixel="1"/>{names}</Pixels></Image></OME>'
    )
    folder = tmp_path / "in"
    folder.mkdir()
    page = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    for name in ("a.ome.tif", other):
        tifffile.imwrite(folder / name, page, description=described, metadata=None, tile=tile)
    with pytest.raises(InvalidInputError, match="other files"):
        frazil.import_file(folder / "a.ome.tif", MemoryStore())


def test_pages_with_too_few_offsets_of_tiles(tmp_path: Path) -> None:
    """A header of a few bytes must not make the scan count missing tiles."""
    file = tmp_path / "a.tif"
    tifffile.imwrite(file, np.zeros((64, 64), "u1"), compression="zlib", photometric="minisblack")
    damaged = bytearray(file.read_bytes())
    with tifffile.TiffFile(file) as tiff:
        for name, value in (("ImageWidth", 2**30), ("ImageLength", 2**30), ("RowsPerStrip", 16)):
            place = tiff.pages[0].tags[name].offset
            damaged[place + 2 : place + 12] = b"\4\0\1\0\0\0" + value.to_bytes(4, "little")
    file.write_bytes(damaged)
    with pytest.raises(InvalidInputError, match="does not say where they are"):
        frazil.import_file(file, MemoryStore())


def test_axes_of_one_name_are_numbered(tmp_path: Path) -> None:
    """xarray could not open the array, whose dimensions were "q" twice."""
    tifffile.imwrite(tmp_path / "a.tif", VALUES, photometric="minisblack", metadata=None)
    tifffile.imwrite(tmp_path / "b.tif", VALUES, photometric="minisblack")
    tifffile.imwrite(tmp_path / "c.tif", VALUES, photometric="minisblack", metadata={"axes": "QYQX"})
    names = [array.dimension_names for name in "abc" for array in imported(tmp_path / f"{name}.tif").values()]
    assert all(len(set(each or ())) == len(each or ()) > 0 for each in names)
    assert names[-1] == ("q0", "y", "q1", "x")


def test_colour_maps_and_inverted_images_have_attributes(tmp_path: Path) -> None:
    """They were dropped: elements of a palette looked like measurements, and 0, which was white, like black."""
    values, colours = VALUES[0, 0].astype("u1"), np.random.default_rng(1).integers(0, 2**16, (3, 256)).astype("u2")
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="palette", colormap=colours)
    tifffile.imwrite(tmp_path / "b.tif", values, photometric="miniswhite")
    tifffile.imwrite(tmp_path / "c.tif", values, photometric="minisblack")
    palette, inverted, plain = [array for name in "abc" for array in imported(tmp_path / f"{name}.tif").values()]
    assert palette.attrs["photometric"] == "palette"
    np.testing.assert_array_equal(palette.attrs["colormap"], colours.T)
    assert inverted.attrs["photometric"] == "miniswhite"
    assert not {"photometric", "colormap"} & set(plain.attrs)
    for array in (palette, inverted, plain):
        np.testing.assert_array_equal(array[...], values)
    tifffile.imwrite(tmp_path / "d.tif", VALUES[0, 0], photometric="palette", colormap=np.zeros((3, 2**16), "u2"))
    with pytest.raises(InvalidInputError, match="colour map has 65536 colours"):
        imported(tmp_path / "d.tif")


@pytest.mark.parametrize("nodata", [None, "7", "1e9"])
@pytest.mark.parametrize(
    ("dtype", "options"),
    [("u2", {}), ("f4", {"compression": "zlib"}), ("u2", {"compression": "zlib", "predictor": True})],
)
def test_tiles_that_are_not_stored_have_the_value_for_no_data(
    dtype: str, options: dict[str, object], nodata: str | None, tmp_path: Path
) -> None:
    """GDAL writes such files. The value for no data that the type cannot hold is 0."""
    tile = np.arange(256).astype(dtype).tobytes()
    tiles = [zlib.compress(tile) if options else tile, *[b""] * 15]
    tags = [] if nodata is None else [(42113, "s", 0, nodata, True)]
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(iter(tiles), shape=(60, 64), dtype=dtype, tile=(16, 16), extratags=tags, **options)
    (array,) = imported(tmp_path / "a.tif").values()
    expected = tifffile.imread(tmp_path / "a.tif")
    assert expected[59, 63] == {None: 0, "7": 7, "1e9": 1e9 if dtype == "f4" else 0}[nodata]
    assert np.array_equal(array[...], expected)


@pytest.mark.parametrize(
    ("dtype", "nodata", "expected"),
    [
        ("f4", "-3.4028234663852886e+38", np.finfo(np.float32).min),
        ("f4", "nan", np.nan),
        ("i2", "-9999.0", -9999),
        ("u1", "-9999", 0),
        ("i8", str(-(2**63)), -(2**63)),
        ("u2", "none", 0),
    ],
)
def test_values_for_no_data_that_tifffile_ignores(dtype: str, nodata: str, expected: object, tmp_path: Path) -> None:
    tile = np.ones(256, dtype).tobytes()
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        tags = [(42113, "s", 0, nodata, True)]
        file.write(iter([tile, b"", b"", b""]), shape=(32, 32), dtype=dtype, tile=(16, 16), extratags=tags)
    (array,) = imported(tmp_path / "a.tif").values()
    assert np.array_equal(array[31, 31], np.array(expected, dtype), equal_nan=dtype == "f4")
    assert array[0, 0] == 1


def patch_tags(path: Path, **values: int) -> None:
    """Overwrites values of tags of the first page, by name."""
    with tifffile.TiffFile(path, mode="r+b") as file:
        for name, value in values.items():
            file.pages[0].tags[name].overwrite(value)


@pytest.mark.parametrize("counted", [0, 15])
@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}, {"compression": "zlib", "predictor": True}])
def test_a_strip_that_is_not_stored(counted: int, options: dict[str, object], tmp_path: Path) -> None:
    """GDAL writes sparse files: its offset is 0. The bytes there are the header of the file."""
    path = tmp_path / "a.tif"
    nodata = [(42113, "s", 0, "7", True)]
    values = np.arange(15, dtype="u1").reshape(3, 5)
    tifffile.imwrite(path, values, photometric="minisblack", extratags=nodata, **options)
    patch_tags(path, StripOffsets=0, StripByteCounts=counted)
    (array,) = imported(path).values()
    assert (array[...] == 7).all()


def test_a_page_that_does_not_say_where_its_data_is(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.ones((3, 8), bool), photometric="minisblack")
    data = path.read_bytes()
    assert data.count(b"\x11\x01\x04\x00") == 1  # StripOffsets
    path.write_bytes(data.replace(b"\x11\x01\x04\x00", b"\x12\x01\x04\x00"))
    with pytest.raises(ChunkDecodeError, match="does not say where"):
        imported(path)


def test_a_page_without_tags(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(b"II*\0\x08\0\0\0" + bytes(6))
    with pytest.raises(ChunkDecodeError, match="have the shape"):
        imported(path)


def test_jpeg_in_a_fresh_process(tmp_path: Path) -> None:
    """imagecodecs cannot decode the first JPEG of a process if nothing else refers to its bytes."""
    pytest.importorskip("imagecodecs")
    values = np.random.default_rng(0).integers(0, 255, (512, 512, 3)).astype("u1")
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="rgb", compression="jpeg", tile=(256, 256))
    script = "import sys, frazil; frazil.import_file(sys.argv[1], sys.argv[2])"
    subprocess.run([sys.executable, "-c", script, tmp_path / "a.tif", tmp_path / "a.zarr"], check=True)
    array = frazil.open_array(tmp_path / "a.zarr/a")
    assert np.array_equal(array[...], tifffile.imread(tmp_path / "a.tif"))
    assert array.attrs["photometric"] == "rgb"  # in the file it is ycbcr


OME = """<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><StructuredAnnotations><XMLAnnotation ID="A"
Namespace="openmicroscopy.org/omero/dimension/modulo"><Value><Modulo><ModuloAlongZ Start="0" End="{end}"/></Modulo></Value></XMLAnnotation>
</StructuredAnnotations><Image ID="I"><Pixels DimensionOrder="XYZTC" Type="uint8" SizeX="{x}" SizeY="16" SizeZ="{z}" SizeT="1" SizeC="1">
<TiffData IFD="0" FirstZ="0" PlaneCount="{count}"/></Pixels></Image></OME>"""
SOUND: dict[str, object] = {"x": 16, "z": 1, "count": 1, "end": 0}


@pytest.mark.parametrize("change", [{"z": 10**12}, {"x": 10**12}, {"count": 10**12}, {"end": 1e12}, {"z": 10**8}])
def test_planes_that_no_file_has(change: dict[str, object], tmp_path: Path) -> None:
    """tifffile lists them all."""
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((16, 16), "u1"), description=OME.format(**SOUND), metadata=None)
    scan_file(tmp_path / "a.tif")
    text = OME.format(**{**SOUND, **change})
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((16, 16), "u1"), description=text, metadata=None)
    with pytest.raises(FormatError, match=r"did not finish within 1 seconds|memory|damaged"):
        scan_file(tmp_path / "a.tif", time_limit=1)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("count", [1, 150])
def test_pages_in_a_circle(count: int, byteorder: str, big: bool, tmp_path: Path) -> None:
    """tifffile would follow them for ever. The reads of a remote file do not end the limit."""
    width = 16 if count == 1 else 2**12  # so that the pages do not fit into a cache
    with tifffile.TiffWriter(tmp_path / "a.tif", byteorder=byteorder, bigtiff=big) as made:
        for number in range(count):
            made.write(np.full((16 + number % 2, width), 1, "u1"), metadata=None, contiguous=False)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        first, last = tiff.pages[0].offset, tiff.pages[count - 1].offset
        tags = len(tiff.pages[count - 1].tags)
    assert frazil.import_file(tmp_path / "a.tif", MemoryStore()).arrays
    content = bytearray((tmp_path / "a.tif").read_bytes())
    link = last + (8 + 20 * tags if big else 2 + 12 * tags)
    struct.pack_into(byteorder + ("Q" if big else "I"), content, link, first)
    (tmp_path / "a.tif").write_bytes(content)
    store = MemoryStore()
    store.set("a.tif", bytes(content))
    for file, prefixes in ((tmp_path / "a.tif", None), ("s3://sea/a.tif", {"s3://sea/": store})):
        with pytest.raises(FormatError, match=r"pages form a circle|did not finish within 1 seconds|memory"):
            scan_file(file, time_limit=1, virtual_prefixes=prefixes)


def test_pages_that_share_a_large_list_of_pages(tmp_path: Path) -> None:
    """tifffile reads it for each of them: 400 million pages."""
    count = 20_000
    tags = [(256, 4, 1, 16), (257, 4, 1, 16), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8)]
    tags += [(277, 3, 1, 1), (278, 4, 1, 16), (279, 4, 1, 256)]

    def page(tags: list[tuple[int, ...]], after: int) -> bytes:
        return (
            struct.pack("<H", len(tags)) + b"".join([struct.pack("<HHII", *t) for t in tags]) + struct.pack("<I", after)
        )

    shared = page(tags, 0)
    tags.append((330, 4, count, 264 + len(shared)))
    begin, length = 264 + len(shared) + 4 * count, len(page(tags, 0))
    pages = [page(tags, begin + length * (i + 1) if i + 1 < count else 0) for i in range(count)]
    head = b"II*\0" + struct.pack("<I", begin) + bytes(256) + shared + struct.pack("<I", 264) * count
    (tmp_path / "a.tif").write_bytes(head + b"".join(pages))
    with pytest.raises(FormatError, match=r"did not finish within 1 seconds|memory"):
        scan_file(tmp_path / "a.tif", time_limit=1)


def test_an_array_that_is_decoded_whole_may_take_longer_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is for the time without progress. Its parts are read from what is decoded once."""
    values = np.random.default_rng(1).integers(0, 9, (3, 640, 1024)).astype("u1")
    options: dict[str, object] = {"planarconfig": "separate", "compression": "zlib", "rowsperstrip": 32}
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="rgb", **options)
    slow = "old = p._SteppedFile.readinto; p._SteppedFile.readinto = lambda f, b: (__import__('time').sleep(0.06), old(f, b))[1]"
    start = f"import frazil.integrations.files.libraries.scan_worker as p; {slow}; work("
    monkeypatch.setattr(scan_process, "_START", scan_process._START.replace("work(", start))
    monkeypatch.setattr(scan_process, "_idle", [])
    frazil.import_file(tmp_path / "a.tif", tmp_path / "a.zarr", time_limit=2)
    assert np.array_equal(frazil.load(tmp_path / "a.zarr")["a"], values)
    (process,) = scan_process._idle
    assert scan_file(tmp_path / "a.tif").arrays[0].shape == values.shape
    assert scan_process._idle == [process], "it is used again"
    scan_process._end_all()


@pytest.mark.parametrize("after", [0, 130])
@pytest.mark.parametrize("name", ["a.tif", "a.ndpi"])
def test_a_circle_behind_other_pages(name: str, after: int, tmp_path: Path) -> None:
    """tifffile follows the pages of NDPI before it returns."""
    number = "<Q" if name == "a.ndpi" else "<I"  # a link of NDPI has 8 bytes, and 4 more follow for each tag
    tags = [(256, 4, 1, 16), (257, 4, 1, 16), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (271, 2, 4, 0)]
    tags += [(273, 4, 1, 16), (277, 3, 1, 1), (278, 4, 1, 16), (279, 4, 1, 256), (65420, 4, 1, 1), (65441, 4, 1, 7)]
    body = struct.pack("<H", len(tags)) + b"".join([struct.pack("<HHII", *tag) for tag in tags])
    end = bytes(4 * len(tags)) if name == "a.ndpi" else b""
    length = len(body) + struct.calcsize(number) + len(end)
    links = [272 + length * (i + 1) for i in range(299)] + [272 + length * after]
    pages = b"".join([body + struct.pack(number, link) + end for link in links])
    (tmp_path / name).write_bytes(b"II*\0" + struct.pack("<Q", 272) + bytes(260) + pages)
    with pytest.raises(FormatError, match=r"did not finish within 1 seconds|memory"):
        scan_file(tmp_path / name, time_limit=1)


def test_a_link_to_no_page(tmp_path: Path) -> None:
    """tifffile follows no page of more than 4096 tags, wherever it leads."""
    with tifffile.TiffWriter(tmp_path / "a.tif") as made:
        for _ in range(2):
            made.write(np.ones((16, 16), "u1"), metadata=None, contiguous=False)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        first, last, tags = tiff.pages[0].offset, tiff.pages[1].offset, len(tiff.pages[1].tags)
    content = bytearray((tmp_path / "a.tif").read_bytes())
    struct.pack_into("<I", content, last + 2 + 12 * tags, len(content))
    content += struct.pack("<H", 5000) + bytes(12 * 5000) + struct.pack("<I", first)
    (tmp_path / "a.tif").write_bytes(content)
    assert [array.shape for array in scan_file(tmp_path / "a.tif").arrays] == [(2, 16, 16)]


def test_requests_of_many_pages() -> None:
    """Pages are read as often as tifffile reads them, and no more: they do not fit into the cache together."""
    made = io.BytesIO()
    with tifffile.TiffWriter(made) as writer:
        for number in range(600):
            writer.write(np.full((256, 256), number % 7, "u1"), contiguous=False, metadata=None)
    store = MemoryStore()
    store.set("a.tif", made.getvalue())
    read, scanned = (RangedFile(store, "a.tif", "a.tif") for _ in range(2))
    with tifffile.TiffFile(read) as tiff:
        assert [series.shape for series in tiff.series] == [(600, 256, 256)]
        assert all(page is not None for page in tiff.series[0].pages)
    found = scan_in_process(cast(BinaryIO, scanned), "a.tif", 60, TIFF)
    assert [array.shape for array in found.arrays] == [(600, 256, 256)]
    assert scanned.requests <= read.requests + 10


def test_a_tile_that_decodes_to_far_more_than_its_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tifffile takes the memory for all of it. imagecodecs does not."""
    options: dict[str, object] = {"compression": "zlib", "predictor": True, "metadata": None}
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((64, 64), "u1"), tile=(64, 64), **options)
    bomb = zlib.compress(bytes(2**28), 1)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        places = [tiff.pages[0].tags[name].valueoffset for name in ("TileOffsets", "TileByteCounts")]
        sizes = [tiff.pages[0].tags[name].dtype for name in ("TileOffsets", "TileByteCounts")]
    assert sizes == [4, 4], "unsigned integers of 4 bytes"
    content = bytearray((tmp_path / "a.tif").read_bytes())
    for place, value in zip(places, (len(content), len(bomb)), strict=True):
        struct.pack_into("<I", content, place, value)
    (tmp_path / "a.tif").write_bytes(content + bomb)
    pages = 2**28 // resource.getpagesize()  # half of it is too little
    start = scan_process._START.replace(
        "work(", f"import os; os.sysconf = lambda name: {pages} if 'PHYS' in name else 4096; work("
    )
    monkeypatch.setattr(scan_process, "_START", start)
    monkeypatch.setattr(scan_process, "_idle", [])
    with pytest.raises(DataError, match=r"half of the memory|cannot decode") as caught:
        frazil.import_file(tmp_path / "a.tif", MemoryStore())
    assert caught.value.path == "a"
    scan_process._end_all()
