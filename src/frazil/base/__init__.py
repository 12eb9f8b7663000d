"""What every other package may use, beside errors.py and runtime.py: small frozen tuples (record.py), late imports (late.py), optional packages
(optional_package.py), weak references without callbacks (weak_references.py), threads (threads.py), repeated attempts (retry.py), hints for
missing names of zarr-python (missing_names.py), text of reports (reports.py).
Nothing here knows arrays, stores or repositories. This package exports nothing: import from its modules."""
