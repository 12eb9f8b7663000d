"""Serves stores and repositories as plain Zarr over HTTP, for reading.

requests.py, served_keys.py and hosts.py are pure; listener.py has sockets and threads, server.py joins both. Not here: the command (cli/commands/serve.py)."""

from frazil.base.late import late_modules

late_modules(__name__, "server")
