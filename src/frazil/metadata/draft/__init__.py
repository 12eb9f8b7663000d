"""The 2022 draft in both its dialects: documents, keys, and extensions that only its documents can name.

The values that documents become are in metadata/model.py; hierarchies are found in array/hierarchy/."""

from frazil.base.late import late_modules

late_modules(__name__, "emitter", "entry_point", "extensions", "layout", "transformers")
