"""What every other package may use, beside errors.py and runtime.py: small frozen tuples (record.py), late imports, optional packages,
weak references without callbacks, locks in forked children, threads, repeated attempts, hints for missing names of zarr-python, text of reports.
Nothing here knows arrays, stores or repositories. This package exports nothing: import from its modules."""

from frazil.base.late import late_modules

late_modules(__name__, "missing_names", "threads")
