"""Scans of files of other formats: the result is what their own libraries read."""
