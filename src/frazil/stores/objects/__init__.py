"""The store over object storage (S3, GCS, Azure), read through the client library obstore, and over web servers, read by our own client (web_client.py).

Not here: the port (stores/store.py), and virtual chunks (repository/virtual/)."""

from frazil.base.late import late_modules

late_modules(__name__, "clients", "object_store", "storage_options", "timed_pools")
