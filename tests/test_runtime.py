"""frazil.config: the settings of a call without a runtime."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import frazil
from frazil.errors import InvalidInputError, NotFoundError
from frazil.runtime import DEFAULT, Runtime, in_context


@pytest.fixture(autouse=True)
def _no_settings() -> object:
    yield
    frazil.config.reset()


def runtime_of(node: frazil.Array | frazil.Group) -> Runtime:
    return node._location.runtime


def test_settings_are_the_runtime_of_calls_without_one() -> None:
    held: dict[str, bytes] = {}
    with frazil.config.set({"async.concurrency": 7, "threading.max_workers": 3}) as config:
        assert config.get("async.concurrency") == 7
        inside = frazil.create_group(held)
        array = inside.create_array("x", shape=4, dtype="i4")
        given = frazil.open_group(held, runtime=Runtime(threads=1))
    for node in (inside, array):
        assert runtime_of(node) == DEFAULT._replace(threads=3, requests_in_flight=7)
    assert runtime_of(given) == Runtime(threads=1)
    assert runtime_of(frazil.open(held)) == DEFAULT
    array[...] = 5
    assert array[3] == 5


def test_settings_are_restored_also_after_errors_and_nested() -> None:
    frazil.config.set({"async": {"concurrency": 5}})
    with pytest.raises(KeyError), frazil.config.set(codec_pipeline__max_workers=2):
        with frazil.config.set({"threading.max_workers": 4}):
            assert in_context(DEFAULT) == DEFAULT._replace(threads=4, requests_in_flight=5)
        assert in_context(DEFAULT) == DEFAULT._replace(threads=2, requests_in_flight=5)
        frazil.config.get("nonsense")
    assert in_context(DEFAULT) == DEFAULT._replace(requests_in_flight=5)
    frazil.config.set({"async.concurrency": None})
    assert in_context(DEFAULT) == DEFAULT
    frazil.config.reset()
    assert in_context(DEFAULT) is DEFAULT


def test_settings_count_in_the_thread_that_makes_them() -> None:
    with frazil.config.set({"async.concurrency": 7}), ThreadPoolExecutor(1) as pool:
        assert pool.submit(in_context, DEFAULT).result() is DEFAULT


@pytest.mark.parametrize(
    "settings",
    [
        {"array.order": "F"},
        {"array.write_empty_chunks": True},
        {"array.rectilinear_chunks": True},
        {"default_zarr_format": 3},
        {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.batch_size": 4},
    ],
)
def test_settings_that_change_no_result(settings: dict[str, object]) -> None:
    with frazil.config.set(settings):
        assert {key: frazil.config.get(key) for key in settings} == settings
        assert in_context(DEFAULT) == DEFAULT


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"default_zarr_format": 2}, "zarr_format= is an argument"),
        ({"array.target_shard_size_bytes": 2**20}, "shards="),
        ({"array.rectilinear_chunks": False}, "True"),
        ({"array.rectilinear_chunks": 1}, "True"),
        ({"async.concurrency": 0}, "positive"),
        ({"async.concurrency": True}, "positive"),
        ({"async.timeout": 3}, "None"),
        ({"threading.max_workers": "4"}, "positive"),
        ({"codecs": {"gzip": "mine.Gzip"}}, "codecs.gzip"),
        ({"buffer": "zarr.buffer.gpu.Buffer"}, "no setting"),
        (5, "mapping"),
    ],
)
def test_settings_that_change_results_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        frazil.config.set(settings if settings == 5 else {"threading.max_workers": 2, **settings})
    assert in_context(DEFAULT) is DEFAULT


def test_names_of_settings() -> None:
    assert frazil.config.get("nonsense", None) is None
    with pytest.raises(NotFoundError, match=r"threading\.max_workers"):
        frazil.config.get("nonsense")
    out = io.StringIO()
    frazil.config.pprint(stream=out)
    assert "array.order: 'C'\n" in out.getvalue()


def test_handles_opened_in_the_block_have_its_settings(tmp_path: Path) -> None:
    outside = frazil.create_array(tmp_path / "a", shape=3, dtype="i4")
    with frazil.config.set({"async.concurrency": 5, "threading.max_workers": 2}):
        repo = frazil.Repository.create(tmp_path / "sea.repo")
        for runtime in (frazil.open_array(tmp_path / "a")._location.runtime, repo._options.runtime):
            assert (runtime.threads, runtime.requests_in_flight) == (2, 5)
        frazil.config.set({"codec_pipeline.max_workers": 3})
    assert outside._location.runtime == frazil.Runtime()
    assert frazil.config.get("threading.max_workers") is None
    assert frazil.config.get("codec_pipeline.max_workers") == 3, "which the block did not set"
    frazil.config.reset()
