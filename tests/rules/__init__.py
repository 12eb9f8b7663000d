"""The rules for the project's structure, as pure functions over source texts; tests/test_layers.py applies them to the project.

A rule takes sources (a mapping of path to text) and returns the violations, one line each: "path: what" or "path:line: what"."""
