"""What every other package may use, beside errors.py and runtime.py: small frozen tuples (record.py), modules that are imported at their first use (late.py), weak
references without callbacks (weak_references.py), hints for names of zarr-python that are not here (missing_names.py), and the text of reports
(reports.py). Nothing here knows arrays, stores or repositories. This package exports nothing: import from its modules."""
