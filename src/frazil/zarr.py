"""Frazil with zarr-python: `pip install 'frazil[zarr]'`. `zarr.open(frazil.zarr.as_store(session))` opens any location that Frazil can read or write.

`zarr.config.set({"codec_pipeline.path": "frazil.zarr.CodecPipeline"})` makes zarr-python read and write its arrays with our kernel. zarr-python knows the
pipeline after an import of this module, or wherever the package is installed, through its entry point."""

from frazil.base.optional_package import missing_package

try:
    from frazil.integrations.zarr.pipeline import CodecPipeline
    from frazil.integrations.zarr.store import FrazilStore
    from frazil.integrations.zarr.targets import as_store
except ImportError as error:
    raise missing_package("zarr", "frazil.zarr needs the package", "zarr", error) from error

__all__ = ["CodecPipeline", "FrazilStore", "as_store"]
