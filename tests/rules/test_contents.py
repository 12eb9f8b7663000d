"""The rules on contents, on made-up texts."""

from __future__ import annotations

import pytest

from tests.rules.contents import (
    bare_raises,
    late_imports_of_numpy,
    missing_docstrings,
    public_any,
    repeated_names,
    stray_exceptions,
)


def test_docstrings() -> None:
    assert missing_docstrings({"a.py": '"""Here."""\n', "b.py": "# not this\nx = 1\n", "c.py": ""}) == [
        "b.py: no docstring",
        "c.py: no docstring",
    ]


@pytest.mark.parametrize(
    "base", ["Exception", "errors.DataError", "ValueError, Base", "UserWarning", "KeyboardInterrupt"]
)
def test_exceptions_live_in_one_place(base: str) -> None:
    text = f"class Odd({base}):\n    pass\n"
    assert stray_exceptions({"src/frazil/errors.py": text}) == []
    assert len(stray_exceptions({"src/frazil/array/array.py": text})) == 1


def test_other_classes_are_no_exceptions() -> None:
    assert stray_exceptions({"a.py": "class A(NamedTuple): ...\nclass B: ...\nclass C(Generic[T]): ..."}) == []


@pytest.mark.parametrize(
    "text",
    ["raise NotImplementedError", "def f():\n    raise ValueError('x') from error", "raise builtins.KeyError(1)"],
)
def test_bare_raises(text: str) -> None:
    assert len(bare_raises({"src/frazil/array/array.py": text})) == 1


@pytest.mark.parametrize(
    "text", ["raise", "raise SelectionError('x')", "raise error", "raise AttributeError(name)", "x = NotImplemented"]
)
def test_raises_of_our_errors_pass(text: str) -> None:
    assert bare_raises({"src/frazil/array/array.py": text}) == []


def test_suites_may_say_assertion_error() -> None:
    assert bare_raises({"src/frazil/testing/stores.py": "raise AssertionError"}) == []
    assert bare_raises({"src/frazil/array/array.py": "raise AssertionError"}) != []


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: Any) -> None: ...",
        "def f() -> dict[str, typing.Any]: ...",
        "class A:\n    def f(self, *, x: list[Any]) -> None: ...",
        "class A:\n    def __call__(self, *x: Any) -> None: ...",
    ],
)
def test_any_in_a_public_signature(text: str) -> None:
    assert len(public_any({"src/frazil/api/opening.py": text})) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def _f(x: Any) -> None: ...",
        "class _A:\n    def f(self, x: Any) -> None: ...",
        "x: Any = 1",
        "def f(x: object) -> None: ...",
    ],
)
def test_any_in_private_code_passes(text: str) -> None:
    assert public_any({"src/frazil/api/opening.py": text}) == []


def test_private_modules_may_say_any() -> None:
    assert public_any({"src/frazil/api/_opening.py": "def f(x: Any) -> None: ..."}) == []


def test_sets_of_numpy() -> None:
    assert len(late_imports_of_numpy({"a.py": "np.unique(x)\nnp.isin(x, y)\n"})) == 2
    assert late_imports_of_numpy({"a.py": "np.unique(x, return_inverse=True)\nset.unique(x)\nnp.sort(x)\n"}) == []


def test_lists_of_names() -> None:
    own = '__all__ = ["a"]\nfrom b import c\na = 1\n'
    assert repeated_names({"src/frazil/array/array.py": own}) == [
        "src/frazil/array/array.py: __all__ lists only names of this module"
    ]
    assert repeated_names({"src/frazil/array/array.py": own.replace('"a"', '"a", "c"')}) == []
    assert repeated_names({"src/frazil/array/array.py": "a = 1"}) == []
    assert repeated_names({"src/frazil/array/__init__.py": own, "src/frazil/errors.py": own}) == []
