"""The store over object storage (S3, GCS, Azure) and web servers.

Requests are made by the client library obstore; the port is in stores/store.py."""
