"""The import rules on small made-up trees."""

from __future__ import annotations

import pytest

from tests.rules.imports import (
    cycles,
    find_imports,
    foreign_imports,
    hidden_imports,
    late_imports,
    layer_breaks,
    module_of,
    order_breaks,
)


def tree(texts: dict[str, str]) -> dict[str, str]:
    """{"array/reading": ...} is src/frazil/array/reading.py."""
    return {f"src/frazil/{name}.py": text for name, text in texts.items()}


def test_modules_are_named_by_their_path() -> None:
    assert module_of("src/frazil/array/reading.py") == "frazil.array.reading"
    assert module_of("src/frazil/array/__init__.py") == "frazil.array"
    assert module_of("src/frazil/_kernel.pyi") == "frazil._kernel"
    assert module_of("src/frazil/__init__.py") == "frazil"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("runtime", "from frazil.errors import InvalidInputError"),
        ("metadata/v3", "from frazil import errors\nimport frazil.runtime"),
        ("codecs/zstd", "from frazil import _kernel\nfrom frazil.metadata import v3"),
        ("codecs/chain", "from frazil.codecs.zstd import Zstd\nimport frazil.codecs.zstd"),
        ("repository/commit", "from frazil.formats.manifests import Manifest"),
        ("api/session", "from frazil.array.group import Group\nfrom frazil.repository import commit"),
        ("operations/copy", "from frazil.api.opening import open_array"),
        ("__init__", "from frazil.api.opening import open_array\nfrom frazil import codecs"),
        ("cli/main", "import frazil\nfrom frazil.operations import copy"),
        ("stores/local", "import numpy, frazilous\nfrom os import path"),
        ("stores/sharding_store", "from frazil.codecs import shard"),
    ],
)
def test_downward_imports_are_allowed(name: str, text: str) -> None:
    assert layer_breaks(tree({name: text})) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("errors", "from frazil.runtime import Runtime"),
        ("runtime", "from frazil.metadata.v3 import parse"),
        ("metadata/v3", "from frazil.indexing import plan"),
        ("codecs/zstd", "from frazil.stores import local"),
        ("stores/local", "if TYPE_CHECKING:\n    from frazil.array.array import Array"),
        ("repository/commit", "from frazil.array.array import Array"),
        ("array/array", "from frazil.repository import refs"),
        ("array/array", "import frazil"),
        ("array/array", "from frazil import open_array"),
        ("api/opening", "from frazil.cli import main"),
        ("api/opening", "from frazil.operations import copy"),
        ("array/array", "def read():\n    from frazil.api import opening"),
        ("array/array", "from frazil.utils import chunked"),
        ("array/array", "from ..api import opening"),
        ("array/array", "from .. import repository"),
        ("utils", "x = 1"),
    ],
)
def test_upward_imports_are_found(name: str, text: str) -> None:
    assert len(layer_breaks(tree({name: text}))) == 1


def test_sub_packages_of_the_repository_are_in_order() -> None:
    up, down = "repository/session/transaction", "repository/merge/rebase"
    assert order_breaks(tree({down: "from frazil.repository.session.transaction import T", up: "x = 1"})) == []
    assert order_breaks(tree({up: "import frazil.errors\nfrom frazil.repository.session import change_set"})) == []
    assert len(order_breaks(tree({up: "from frazil.repository.merge.rebase import f", down: "x = 1"}))) == 1
    assert (
        order_breaks(tree({"repository/__init__": "late_modules(__name__, 'format')", "repository/format": ""})) == []
    )
    assert len(order_breaks(tree({"repository/new/a": "from frazil.repository.alpha.branches import f"}))) == 1
    assert order_breaks(tree({"array/io/read": "from frazil.array.hierarchy.nodes import NodeLocation"})) == []


def test_modules_of_a_format_are_imported_only_by_it() -> None:
    text = "from frazil.formats.alpha.refs import check_name\nimport frazil.formats.ids"
    for name in ("formats/alpha/snapshots", "repository/alpha/branches"):
        assert foreign_imports(tree({name: text})) == []
    for name in ("formats/nodes", "repository/session/transaction", "api/repository", "testing/memory_format"):
        assert len(foreign_imports(tree({name: text}))) == 1
    assert (
        foreign_imports(tree({"api/repository_arguments": "from frazil.repository.alpha.format import AlphaFormat"}))
        == []
    )
    assert len(foreign_imports(tree({"api/session": "from frazil.repository.alpha import branches"}))) == 1


def test_relative_imports_are_resolved() -> None:
    sources = tree(
        {
            "array/__init__": "from .reading import read",
            "array/reading": "from ..indexing.plan import Plan",
            "array/deep/leaf": "from ...errors import DataError\nfrom . import other",
        }
    )
    assert [found.target for found in find_imports(sources)] == [
        "frazil.array.reading",
        "frazil.indexing.plan",
        "frazil.errors",
        "frazil.array.deep",
    ]


def test_a_cycle_is_found() -> None:
    chain = tree({"array/a": "from frazil.array import b", "array/b": "import frazil.array.c", "array/c": "x = 1"})
    assert cycles(chain) == []
    for back in (
        "from frazil.array.a import f",
        "if TYPE_CHECKING:\n    from frazil.array.a import F",
        "def f():\n    import frazil.array.a",
    ):
        (found,) = cycles(chain | tree({"array/c": back}))
        assert all(module in found for module in ("frazil.array.a", "frazil.array.b", "frazil.array.c"))


def test_a_package_that_names_its_modules_is_no_cycle() -> None:
    assert (
        cycles(
            tree(
                {
                    "array/__init__": "from frazil.array.a import A",
                    "array/a": "from frazil.array.b import B",
                    "array/b": "",
                }
            )
        )
        == []
    )
    assert cycles(tree({"array/__init__": "from frazil.array.a import A", "array/a": "from frazil.array import A"}))


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import frazil.errors",
        "class A:\n    def f(self):\n        from frazil.array import a",
        "async def f():\n    from frazil import errors",
        "def f():\n    import importlib\n    importlib.import_module('frazil.errors')",
        "f = lambda: __import__('frazil.errors')",
        "def f():\n    return LateModule('frazil.errors')",
    ],
)
def test_a_hidden_import_is_found(text: str) -> None:
    assert len(hidden_imports(tree({"array/b": text}))) == 1


def test_visible_imports_are_allowed() -> None:
    text = "import frazil.errors\nif True:\n    from frazil import errors\nclass A:\n    import frazil.errors\ndef f():\n    import zarr"
    assert hidden_imports(tree({"array/b": text})) == []


LATE = {
    "array/a": "b = LateModule('frazil.array.b')",
    "array/b": "__getattr__, __dir__ = late_names(__name__, {'C': 'frazil.array.c'})",
    "array/c": "KNOWN = {'frazil.name': LateCodec('frazil.codecs.d', 'D')}",
    "codecs/d": "x = 1",
}
LISTED = {"frazil.array.b": "few need it", "frazil.array.c": "few need it", "frazil.codecs.d": "few need it"}


def test_late_imports_are_imports() -> None:
    assert [found.target for found in find_imports(tree(LATE))] == list(LISTED)
    assert cycles(tree(LATE)) == layer_breaks(tree(LATE)) == hidden_imports(tree(LATE)) == []
    assert len(cycles(tree(LATE | {"array/c": "a = LateModule('frazil.array.a')"}))) == 1
    assert len(layer_breaks(tree(LATE | {"codecs/d": "a = LateModule('frazil.array.a')"}))) == 1


def test_late_imports_are_listed() -> None:
    assert late_imports(tree(LATE), LISTED) == []
    assert len(late_imports(tree(LATE), {"frazil.array.b": "", "frazil.array.c": ""})) == 1
    assert len(late_imports(tree(LATE), {**LISTED, "frazil.array.a": ""})) == 1
    in_package = {"array/__init__": "late_modules(__name__, 'a')", "array/a": "x = 1"}
    assert late_imports(tree(in_package), {"frazil.array.a": ""}) == []
    assert len(late_imports(tree(in_package), {})) == 1
    missing = {"array/a": "x = LateModule('frazil.array.z')"}
    assert len(late_imports(tree(missing), {"frazil.array.z": ""})) == 1
