"""Suites and stores for testing implementations of Frazil's ports. Third parties can import them; they need only NumPy."""

from __future__ import annotations

from frazil.testing.codec_tests import CodecTests, chunk_spec, random_chunk
from frazil.testing.counting_store import CountingStore, Request
from frazil.testing.faulty_store import Fault, FaultPlan, FaultyStore
from frazil.testing.simulation import Simulation
from frazil.testing.slow_store import SlowStore, StoreCall
from frazil.testing.store_profiles import ANY_KEYS, CHUNK_KEYS, DOCUMENT_KEYS, StoreProfile
from frazil.testing.store_reading import StoreReadingTests
from frazil.testing.store_tests import StoreTests

__all__ = [
    "ANY_KEYS",
    "CHUNK_KEYS",
    "DOCUMENT_KEYS",
    "CodecTests",
    "CountingStore",
    "Fault",
    "FaultPlan",
    "FaultyStore",
    "Request",
    "Simulation",
    "SlowStore",
    "StoreCall",
    "StoreProfile",
    "StoreReadingTests",
    "StoreTests",
    "chunk_spec",
    "random_chunk",
]
