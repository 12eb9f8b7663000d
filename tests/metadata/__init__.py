"""Tests of frazil.metadata, a file a module."""
