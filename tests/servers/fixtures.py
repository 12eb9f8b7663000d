"""The servers as fixtures, one of each for a session of pytest, started on first use. tests/conftest.py makes them available to every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers import web
from tests.servers.buckets import S3, Azure, running_azure, running_s3
from tests.servers.google import Google, running_gcs

__all__ = ["azure", "gcs", "s3", "web_server"]


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    with running_azure(tmp_path_factory.mktemp("azure")) as server:
        yield server


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    with running_gcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def web_server() -> web.WebServer:
    """The function web_server of tests/servers/web.py, for tests that use fixtures."""
    return web.web_server
