"""The data of the arrays: deterministic, made once by the driver as .npy files that every worker loads."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from rows import Shape, Spec

# Real input, which is not part of the project: next to the checkout, or at FRAZIL_BENCH_DATA.
FOLDER = Path(os.environ.get("FRAZIL_BENCH_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
ERA = FOLDER / "eraint_uvz.nc"


def file_of(spec: Spec, scratch: Path) -> Path:
    return scratch / "data" / f"{spec.values}-{'x'.join(map(str, spec.shape))}.npy"


def missing(spec: Spec) -> str | None:
    """The input of a spec's values, if it is missing."""
    return None if spec.values != "era" or ERA.is_file() else ERA.name


def ensure(spec: Spec, scratch: Path) -> None:
    """Makes the file of a spec's values unless it exists."""
    path = file_of(spec, scratch)
    if spec.values != "none" and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, MAKERS[spec.values](spec.shape))


def smooth(shape: Shape) -> np.ndarray:
    """uint16: slow waves along each axis and three bits of noise; compresses as microscopy does."""
    waves = [
        f(np.arange(n) / period) for f, n, period in zip((np.sin, np.cos, np.sin), shape, (40, 33, 27), strict=False)
    ]
    out = np.random.default_rng(0).integers(0, 8, shape, dtype=np.uint16)
    inner = waves[1] if len(shape) == 2 else waves[1][:, None] + waves[2]
    for i, wave in enumerate(waves[0]):
        out[i] += (1000 * (wave + inner) + 3000).astype(np.uint16)
    return out


def era(shape: Shape) -> np.ndarray:
    """ERA-Interim z, u, v unpacked to float64 (time, level, latitude, longitude), repeated in time up to shape."""
    fields = np.concatenate(list(packed_variables(ERA.read_bytes())))
    return np.concatenate([fields] * -(-shape[0] // len(fields)))[: shape[0]]


def packed_variables(file: bytes) -> Iterator[np.ndarray]:
    """The packed (scale_factor, add_offset) variables of a classic netCDF file without record variables."""
    at = 8  # after the magic and the record count

    def number(size: int = 4) -> int:
        nonlocal at
        at += size
        return int.from_bytes(file[at - size : at], "big")

    def text(length: int) -> bytes:
        nonlocal at
        at += -(-length // 4) * 4
        return file[at - -(-length // 4) * 4 :][:length]

    def attributes() -> dict[str, bytes]:
        _tag, count = number(), number()
        return {text(number()).decode(): text((0, 1, 1, 2, 4, 4, 8)[number()] * number()) for _ in range(count)}

    _tag, count = number(), number()
    dimensions = [(text(number()), number())[1] for _ in range(count)]
    attributes()
    _tag, count = number(), number()
    for _ in range(count):
        text(number())
        shape = [dimensions[number()] for _ in range(number())]
        notes, _type, _size, begin = attributes(), number(), number(), number(4 if file[3] == 1 else 8)
        if "scale_factor" in notes:
            scale, offset = (struct.unpack(">d", notes[name])[0] for name in ("scale_factor", "add_offset"))
            yield np.frombuffer(file, ">i2", int(np.prod(shape)), begin).reshape(shape) * scale + offset


def random(shape: Shape) -> np.ndarray:
    return np.random.default_rng(0).random(shape)


def fields(shape: Shape) -> np.ndarray:
    """float32 (time, field, latitude, longitude): a moving wave, and noise of a thousandth of it; compresses as forecast fields do."""
    steps, _, height, width = shape
    noise = np.random.default_rng(0)
    wave = np.sin(np.arange(height) / 9)[:, None] * np.cos(np.arange(width) / 17)
    out = np.empty(shape, np.float32)
    for step in range(steps):
        out[step] = np.roll(wave, step, axis=1) + 1e-3 * noise.random(shape[1:])
    return out


MAKERS: dict[str, Callable[[Shape], np.ndarray]] = {"smooth": smooth, "era": era, "fields": fields, "random": random}
