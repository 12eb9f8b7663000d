"""The two repositories that the library of the alpha wrote, file by file."""

from __future__ import annotations

import functools
import tarfile

from tests.external_data import data

# name of the archive, the folder in it with the repository
ARCHIVES = {"icechunk-alpha-repo": "alpha-test-repo", "icechunk-alpha-varied": "icechunk-alpha-varied/repo"}
NAMES = tuple(ARCHIVES)


@functools.cache
def repository(name: str) -> dict[str, bytes]:
    """The files of a repository by their keys."""
    files: dict[str, bytes] = {}
    start = ARCHIVES[name] + "/"
    with tarfile.open(data(f"{name}.tar.gz")) as archive:
        for entry in archive:
            path = entry.name.removeprefix("./")
            if entry.isfile() and path.startswith(start):
                opened = archive.extractfile(entry)
                assert opened is not None
                files[path.removeprefix(start)] = opened.read()
    return files


def files_in(name: str, folder: str) -> dict[str, bytes]:
    found = {key: value for key, value in repository(name).items() if key.startswith(f"{folder}/")}
    assert found
    return found


def beside(name: str, file: str) -> bytes:
    """A file of an archive that is not in the repository, such as "expected.json"."""
    with tarfile.open(data(f"{name}.tar.gz")) as archive:
        for entry in archive:
            if entry.isfile() and entry.name.endswith(f"/{file}"):
                opened = archive.extractfile(entry)
                assert opened is not None
                return opened.read()
    raise AssertionError(file)
