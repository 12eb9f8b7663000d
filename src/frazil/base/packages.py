"""Modules of Python and of other packages that are imported on first use, as they take long: `from frazil.base.packages import obstore`.

Not here: packages that may be absent (optional_package.py)."""

from typing import TYPE_CHECKING

from frazil.base.late import LateModule

if TYPE_CHECKING:
    import asyncio
    import json
    import threading
    from http import client as http_client

    import obstore
    import urllib3
else:
    asyncio = LateModule("asyncio")
    http_client = LateModule("http.client")
    json = LateModule("json")
    obstore = LateModule("obstore")
    threading = LateModule("threading")
    urllib3 = LateModule("urllib3")

__all__ = ["asyncio", "http_client", "json", "obstore", "threading", "urllib3"]
