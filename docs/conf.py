"""How Sphinx makes the site (`make docs`). Docstrings are shown as they are written: plain text whose columns line up. Fields of records and methods of
MutableMapping, whose docstrings are Python's, are left out."""

import inspect
import operator
from importlib import metadata

project = "Frazil"
project_copyright = "the Frazil developers"
try:
    release = metadata.version("frazil")
except metadata.PackageNotFoundError:
    release = ""
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Frazil"
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the tests run the notebook
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_mock_imports = ["zarr"]  # which is not installed where the site is made
autodoc_preserve_defaults = True  # "DEFAULT_REGISTRY", not its repr
maximum_signature_line_length = 100  # longer signatures have a line for each parameter
autodoc_default_options = {"members": True, "undoc-members": False}
# Pages link to files of the repository (examples, tests, benchmarks), which the site does not contain.
suppress_warnings = ["myst.xref_missing", "myst.header"]


def as_written(_app: object, _what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Turns a docstring into a literal block. An entry of a module, whose docstring says what its file contains, keeps its first paragraph alone."""
    text = inspect.cleandoc("\n".join(lines)).splitlines()
    lines[:] = ["::", "", *[f"    {line}" for line in text], ""] if text else []


def without_docstring_of_ours(
    _app: object, _what: str, _name: str, member: object, skip: bool, _options: object
) -> bool | None:
    """True for a member that the reference leaves out; None where Sphinx decides."""
    of_collections = getattr(member, "__module__", None) in {"collections.abc", "_collections_abc"}
    return True if skip or of_collections or isinstance(member, operator.itemgetter) else None


def setup(app) -> None:  # type: ignore[no-untyped-def] # Sphinx is not installed where types are checked
    app.connect("autodoc-process-docstring", as_written)
    app.connect("autodoc-skip-member", without_docstring_of_ours)
