"""The store on a local disk, and its knowledge of files and folders.

Bytes are read and published by the kernel; the port is in stores/store.py."""
