"""xarray's own tests of its engine "zarr", from the installed package, against the engine "frazil": in folders, and in sessions of repositories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("zarr")
pytest.importorskip("xarray.tests")

import zarr
from xarray.tests import test_backends, test_backends_datatree
from xarray.tests.conftest import create_test_datatree, simple_datatree, time_unit, use_dask
from xarray.tests.test_backends_datatree import unaligned_datatree_zarr_factory

import frazil
from frazil.integrations.xarray.data_store import FrazilDataStore
from frazil.integrations.xarray.writer import Writer
from frazil.stores import MemoryStore
from tests.foreign.xarray.expected_failures import LISTED

__all__ = ["create_test_datatree", "simple_datatree", "time_unit", "unaligned_datatree_zarr_factory", "use_dask"]

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(params=[3])
def default_zarr_format(request: pytest.FixtureRequest) -> Iterator[None]:
    with zarr.config.set(default_zarr_format=request.param):
        yield


@pytest.fixture
def tmp_store(tmp_path: Path) -> str:
    return str(tmp_path / "array.zarr")


@pytest.fixture
def zarr_format() -> int:
    return 3


class Store(FrazilDataStore):
    """With the name that the tests use for the group, and written at once."""

    __slots__ = ("ds",)

    def __init__(self, group: frazil.Group) -> None:
        super().__init__(group)
        self.ds = group

    def store(self, *arguments: Any, **options: Any) -> None:
        super().store(*arguments, **options)
        writer = Writer()
        self.make(self.ds, writer)
        writer.sync()
        self._arrays = None


class TestFolder(test_backends.TestZarrDirectoryStore):
    """All of CFEncodedBase, DatasetIOBase and ZarrBase."""

    @contextmanager
    def create_store(self, cache_members: bool = False) -> Iterator[FrazilDataStore]:
        with self.create_zarr_target() as target:
            yield Store(frazil.create_group(target, overwrite=True))


class TestSession(test_backends.ZarrBase):
    """The same in a session, without a commit in between."""

    @contextmanager
    def create_zarr_target(self) -> Iterator[frazil.Session]:
        yield frazil.Repository.create(MemoryStore()).writable_session("main")

    @contextmanager
    def create_store(self, cache_members: bool = False) -> Iterator[FrazilDataStore]:
        with self.create_zarr_target() as target:
            yield Store(target.root)


class TestBranch(test_backends.ZarrBase):
    """The same on a branch: each write is a commit."""

    @contextmanager
    def create_zarr_target(self) -> Iterator[str]:
        with TemporaryDirectory() as folder:
            frazil.Repository.create(f"{folder}/sea.repo", durable=False)
            yield f"{folder}/sea.repo@main"

    @contextmanager
    def create_store(self, cache_members: bool = False) -> Iterator[FrazilDataStore]:
        with self.create_zarr_target() as target:
            yield Store(frazil.Repository.open(target.removesuffix("@main")).writable_session("main").root)


class TestRegionAuto(test_backends.TestZarrRegionAuto):
    pass


class TestDataArray(test_backends.TestDataArrayToZarr):
    pass


class TestTree:
    """Takes its tests from TestZarrDatatreeIO, whose parameter is the format of Zarr."""

    engine = "zarr"


for _name, _test in vars(test_backends_datatree.TestZarrDatatreeIO).items():
    if _name.startswith("test_"):
        setattr(TestTree, _name, _test)

test_key_error = test_backends.test_raises_key_error_on_invalid_zarr_store


def test_the_list_names_tests(request: pytest.FixtureRequest) -> None:
    names: set[str] = set()
    for item in request.session.items:
        cls: Any = getattr(item, "cls", None)
        plain = getattr(item, "originalname", item.name)
        prefix = f"{cls.__name__}::" if cls else ""
        names |= {item.name, plain, prefix + item.name, prefix + plain}
    if {"TestFolder::test_load", "TestTree::test_rplus_mode"} <= names:  # all were collected
        assert set(LISTED) <= names
