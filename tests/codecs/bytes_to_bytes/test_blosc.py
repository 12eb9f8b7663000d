"""Blosc with Snappy inside. The frames are those of c-blosc 1.21 with Snappy 1.3."""

from __future__ import annotations

import base64

import pytest

from frazil.codecs import Blosc
from frazil.errors import ChunkDecodeError

# 600 little-endian numbers of 4 bytes, each 50 times, shuffled; the four planes of the block are separate streams
PLANES = """
AgFBBGAJAABgCQAAyAAAABQAAAA+AAAA2AQAAMIBAAABwgEAAALCAQAAA8IBAAAEwgEAAAXCAQAABsIBAAAHwgEAAAjCAQAACcIBAAAKwgEAAAvCAQAiAAAA2AQAAP4BAP4BAP4BAP4B
AP4BAP4BAP4BAP4BAP4BAFoBACIAAADYBAAA/gEA/gEA/gEA/gEA/gEA/gEA/gEA/gEA/gEAWgEAIgAAANgEAAD+AQD+AQD+AQD+AQD+AQD+AQD+AQD+AQD+AQBaAQA="""
# 500 numbers of 2 bytes, each 40 times, in blocks of 512 bytes
BLOCKS = """
AgFEAugDAADoAwAAiAAAABQAAAA3AAAA9AMAAP4BADoBAAAB/gIAOgIAAAL+AgA6AgAAA/4CADoCAAAE/gIAOgIAAAX+AgA6AgAABkoCADUAAAD0AwQGAOYCAAAH/gIAOgIAAAj+AgA6
AgAACf4CADoCAAAK/gIAOgIAAAv+AgA6AgAADJoCAA=="""
FRAMES = [
    (PLANES, b"".join((n // 50).to_bytes(4, "little") for n in range(600))),
    (BLOCKS, b"".join((n // 40).to_bytes(2, "little") for n in range(500))),
]


@pytest.mark.rule("D99")
@pytest.mark.parametrize(("text", "expected"), FRAMES)
def test_frames_with_snappy_inside_are_read(text: str, expected: bytes) -> None:
    frame = base64.b64decode(text)
    assert frame[2] >> 5 == 2, "the number of Snappy"
    assert Blosc().decode(frame, len(expected)) == expected, "the frame says what is in it"
    with pytest.raises(ChunkDecodeError):
        Blosc().decode(frame, len(expected) - 1)


@pytest.mark.parametrize(("text", "expected"), FRAMES)
def test_damaged_frames_are_refused_or_of_the_right_size(text: str, expected: bytes) -> None:
    frame = base64.b64decode(text)
    for at in range(len(frame)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            damaged = frame[:at] + bytes([value]) + frame[at + 1 :]
            try:
                assert len(Blosc().decode(damaged, len(expected))) <= len(expected)
            except ChunkDecodeError:
                pass


@pytest.mark.parametrize("shuffle", ["noshuffle", "shuffle", "bitshuffle"])
@pytest.mark.parametrize("typesize", [1, 2, 4, 7, 17, 300])
@pytest.mark.parametrize("blocksize", [0, 100, 4096])
def test_frames_with_snappy_inside_are_written(shuffle: str, typesize: int, blocksize: int) -> None:
    codec = Blosc("snappy", 5, shuffle, typesize, blocksize)
    for _, data in FRAMES:
        frame = codec.encode(data)
        assert frame[2] >> 5 == 2
        assert len(frame) <= len(data) + 16
        assert codec.decode(frame, len(data)) == data
