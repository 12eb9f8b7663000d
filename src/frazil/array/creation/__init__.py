"""Creating arrays: from the arguments of create_array to metadata, a stored document and written data.

Not here: documents and nodes (hierarchy/), and how data is encoded and stored (io/)."""

from frazil.base.late import late_modules

late_modules(__name__, "array_creation", "array_metadata", "data_source", "modes", "zarr_arguments")
