"""Tests of xarray's suites that fail here, and why. One that is not listed must pass; one that is listed must fail, and must exist (test_suites.py)."""

from __future__ import annotations

LISTED: dict[str, str] = {}
