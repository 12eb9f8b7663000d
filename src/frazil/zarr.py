"""Frazil with zarr-python: `pip install 'frazil[zarr]'`. `zarr.open(frazil.zarr.as_store(session))` opens what is anywhere that Frazil reads or writes.

`zarr.config.set({"codec_pipeline.path": "frazil.zarr.CodecPipeline"})` lets our kernel read and write zarr-python's arrays; after an import of this module, or where the
package is installed, which tells zarr-python of the pipeline."""

from frazil.integrations.zarr.pipeline import CodecPipeline
from frazil.integrations.zarr.store import FrazilStore
from frazil.integrations.zarr.targets import as_store

__all__ = ["CodecPipeline", "FrazilStore", "as_store"]
