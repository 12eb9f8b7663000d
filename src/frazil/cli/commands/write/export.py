"""`frazil export`: an array or a group as a file of another format, or as plain Zarr. integrations/files/exports/ writes it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.array.array import Array
from frazil.base.reports import counted, human
from frazil.cli.arguments.layout import memory
from frazil.cli.arguments.locations import add_virtual_prefix, open_node
from frazil.cli.command import Command, list_of_names
from frazil.cli.output import ended_by_signals, print_result
from frazil.cli.progress import Progress
from frazil.integrations.files.exports import export_file
from frazil.runtime import Runtime

_FORMATS = ("netcdf4", "hdf5", "npy", "npz", "tiff", "zarr", "zarr2")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="an array or a group: a folder, zip archive or URL, or a node below it, as in sea.zarr/level1; or one in a repository, as in sea.repo@v1/level1",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="the file to write; its ending gives the format: .nc, .h5, .npy, .npz, .tif, .zarr (a folder or URL)",
    )
    parser.add_argument(
        "--format", choices=_FORMATS, help="the format, if the ending does not give it; zarr2 is Zarr v2"
    )
    parser.add_argument(
        "--variables",
        metavar="NAMES",
        type=list_of_names,
        help="export only these arrays, as in level1/temp,salt or 'level1/*'",
    )
    parser.add_argument(
        "--skip", metavar="VARIABLE", action="append", default=[], help="leave out an array; may be repeated"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=memory,
        default=2**28,
        help="bytes of memory for elements, as in 512MiB (default: 256MiB)",
    )
    add_virtual_prefix(parser)


def run(options: Namespace) -> None:
    node = open_node(options.source, "", options.virtual_prefix)
    total = node.nbytes if isinstance(node, Array) else None
    with ended_by_signals(), Progress("exporting", total) as report:
        done = export_file.export_file(
            node,
            options.file,
            options.format,
            variables=options.variables,
            skip=options.skip,
            overwrite=options.overwrite,
            progress=report,
            runtime=Runtime(bytes_in_flight=options.memory),
        )
    count = counted(len(done.arrays), "array")
    document = {"path": options.file, "format": done.format, "arrays": list(done.arrays), "nbytes": done.nbytes}
    print_result(options, document, f"{options.file}: {done.format}, {count}, {human(done.nbytes)}")


COMMAND = Command(
    "export",
    "an array or a group, as a file of NetCDF, HDF5, NumPy or TIFF, or as plain Zarr",
    "Writes an array, or a group and everything below it, as a file, with attributes and dimension names. "
    "SOURCE may be a snapshot of a repository. The file appears when it is complete. Memory is bounded by "
    "--memory. Chunks of plain Zarr are copied without decoding. NetCDF4 and HDF5 need h5py, TIFF needs "
    "tifffile.",
    (
        ("frazil export ocean.zarr all.nc", "a group and everything below it, as NetCDF4"),
        ("frazil export sea.repo@v1 v1.zarr", "what a tag of a repository has, as plain Zarr"),
        ("frazil export ocean.zarr old.zarr --format zarr2", "a group as plain Zarr v2"),
        ("frazil export ocean.zarr/level1/temp temp.npy", "one array, for NumPy"),
        ("frazil export ocean.zarr part.h5 --skip flat --json", "all but one array, as HDF5; as JSON"),
    ),
    add_arguments,
    run,
)
