"""A bucket with direct access, and access through a proxy that injects faults."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.servers.buckets import Buckets
from tests.servers.proxy import FaultProxy

from frazil.errors import FrazilError
from frazil.stores.objects.object_store import ObjectStore

QUICK = {
    "retry_config": {
        "max_retries": 2,
        "backoff": {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2},
        "retry_timeout": timedelta(seconds=20),
    },
    "client_options": {"timeout": "20s"},
}


class FaultyBucket:
    """One bucket, reached directly and through the proxy."""

    def __init__(self, server: Buckets, proxy: FaultProxy) -> None:
        self.server, self.proxy, self.bucket = server, proxy, server.new_bucket()
        self.direct = server.store(self.bucket, "x")
        self.through = self.reached()

    def reached(self, **options: object) -> ObjectStore:
        return self.server.store(self.bucket, "x", endpoint=self.proxy.url, **{**QUICK, **options})

    def refused(self, call: Callable[[], object]) -> FrazilError:
        """The error of a call: one of ours, in one line, without a secret, as a user would see it."""
        with pytest.raises(FrazilError) as caught:
            call()
        error = caught.value
        assert "\n" not in error.args[0]
        text = "".join(traceback.format_exception(error)) + repr(error) + repr(self.through)
        assert self.server.secret not in text
        for request in self.proxy.requests:
            signature = request.headers["authorization"].rpartition("=" if self.server.scheme == "s3" else ":")[2]
            assert signature not in text
        return error
