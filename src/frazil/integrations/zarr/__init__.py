"""Frazil for users of zarr-python: its stores over ours, and a codec pipeline that runs our kernel. Public as `frazil.zarr`.

Not here: stores of zarr-python as locations of ours."""
