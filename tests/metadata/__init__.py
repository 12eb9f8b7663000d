"""Tests of frazil.metadata, one file per module."""
