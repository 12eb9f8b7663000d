"""Suites and stores for testing what implements Frazil's ports; importable by third parties, needing nothing but NumPy."""

from __future__ import annotations

from frazil.testing.codec_tests import CodecTests, chunk_spec, random_chunk
from frazil.testing.counting_store import CountingStore, Request
from frazil.testing.faulty_store import Fault, FaultPlan, FaultyStore
from frazil.testing.store_reading import StoreReadingTests
from frazil.testing.store_tests import StoreTests

__all__ = [
    "CodecTests",
    "CountingStore",
    "Fault",
    "FaultPlan",
    "FaultyStore",
    "Request",
    "StoreReadingTests",
    "StoreTests",
    "chunk_spec",
    "random_chunk",
]
