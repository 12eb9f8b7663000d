"""Array-to-array codecs, one in each file; those of numcodecs that view elements as other types in filters.py.

The base class is in codecs/codec.py."""

from frazil.base.late import late_modules

late_modules(__name__, "transpose")
