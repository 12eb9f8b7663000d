"""What a process that reads files and the process that requests it send each other: names of tasks and answers, and how they are sent."""

from __future__ import annotations

import pickle
from multiprocessing.connection import Connection
from typing import Final

READ, STEP, DONE, FAILED, NO_MEMORY = "read", "step", "done", "failed", "no memory"  # answers
SCAN, FIELD, BOX, CLOSE = "scan", "field", "box", "close"  # tasks
HDF5, GRIB, TIFF = "hdf5", "grib", "tiff"  # kinds of files
LIBRARIES: Final = {HDF5: "the HDF5 library", GRIB: "eccodes", TIFF: "tifffile"}


def send(connection: Connection[object, object], message: object) -> None:
    """Not Connection.send, which lends the bytes of an io.BytesIO. If it fails, its error keeps both, and Python 3.13 and newer print one more error when they
    are collected in the wrong order."""
    connection.send_bytes(pickle.dumps(message))
