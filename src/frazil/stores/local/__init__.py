"""The store on a local disk, and what it knows of files and folders.

Bytes are read and published by the kernel; the port is in stores/store.py."""
