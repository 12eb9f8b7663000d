"""The rules that hold the project's shape, as pure functions over source texts; tests/test_layers.py applies them to the project.

A rule takes sources (a mapping of path to text) and returns what breaks it, a line each; "path: what" or "path:line: what"."""
