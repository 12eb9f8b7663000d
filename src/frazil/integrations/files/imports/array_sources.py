"""The arrays of a scanned file as Arrays that can be read: references to its chunks, or chunks that a library decodes. Nothing is stored permanently.

The decoding by libraries is in decoded_chunks.py."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from threading import Event

from frazil.api.nodes import open_group
from frazil.api.repository import Repository
from frazil.array.array import Array
from frazil.integrations.files.decoded_chunks import DecodedChunks
from frazil.integrations.files.imports.references import set_references
from frazil.integrations.files.scanned import ScannedFile
from frazil.integrations.files.sources.source import Source
from frazil.repository.virtual.prefixes import Prefixes
from frazil.runtime import Runtime
from frazil.stores.memory import MemoryStore
from frazil.stores.operations.adapted_store import adapt


def open_arrays(
    scanned: ScannedFile,
    source: Source,
    prefixes: Prefixes | None,
    runtime: Runtime,
    files: ExitStack,
    ended: Event,
) -> tuple[dict[str, Array], DecodedChunks]:
    """Each array of the file, by path; and the chunks of those that a library decodes. prefixes: of locations that chunks may be read from, beside the folder
    of the file; files: closes the files that libraries open; ended: as for DecodedChunks. Raises InvalidInputError if a library is missing."""
    own = {} if scanned.refers or source.container is not None else {source.prefix: None}
    allowed = {**own, **(prefixes if isinstance(prefixes, Mapping) else dict.fromkeys(prefixes or ()))}
    session = Repository.create(MemoryStore(), virtual_prefixes=allowed, runtime=runtime).writable_session()
    native = [array for array in scanned.arrays if array.library is None]
    found = session.root.create_arrays({array.path: array.arguments() for array in native}) if native else {}
    arrays: dict[str, Array] = dict(found)
    for array in native:
        set_references(session, array, array.path, source, scanned.state)
    by_library = [array for array in scanned.arrays if array.library is not None]
    decoded = DecodedChunks(by_library, source, files, ended)
    if by_library:
        root = open_group(adapt(decoded), runtime=runtime)
        for array in by_library:
            node = root[array.path]
            assert isinstance(node, Array)
            arrays[array.path] = node
    return arrays, decoded
