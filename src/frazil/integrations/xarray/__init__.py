"""The engine "frazil" of xarray: datasets and trees read from groups and written into them. `frazil.xarray` registers the accessors.

Not here: CF conventions, which xarray decodes and encodes; and chunks of dask, which integrations/dask/ writes."""

from frazil.base.late import late_modules

late_modules(__name__, "decoded_array")
