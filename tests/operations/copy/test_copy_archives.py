"""Copies from zip archives with deflated entries."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.stores import LocalStore, ZipStore
from frazil.testing.buffered_store import BufferedStore


@pytest.mark.parametrize("far", [False, True])
def test_verified_copies_of_deflated_entries(far: bool, tmp_path: Path) -> None:
    """Their bytes come in other pieces than those of the copy."""
    values = {f"c/{size}": np.random.default_rng(size).bytes(size) for size in (0, 1, 1000, 100_000, 2**20, 2**22 + 1)}
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zarr.json", json.dumps({"zarr_format": 3, "node_type": "group"}))
        for key, value in values.items():
            file.writestr(key, value)
    store = ZipStore("a.zip", store=BufferedStore(LocalStore(tmp_path)) if far else LocalStore(tmp_path))
    target = LocalStore(tmp_path / "to")
    frazil.copy(store, target, verify=True, runtime=frazil.Runtime(bytes_in_flight=2**20))
    assert all(target.get(key) == value for key, value in values.items())
