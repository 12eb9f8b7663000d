"""Objects that are written part by part, so that no more than a few parts are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final

from frazil.base.late import LateModule
from frazil.base.threads import Threads
from frazil.errors import StoreError
from frazil.stores.objects.range_requests import MARK

if TYPE_CHECKING:
    import obstore
    from obstore import PutResult

    from frazil.stores.objects.connections import ObjectClient
else:
    obstore = LateModule("obstore")

_PART: Final = 2**23  # bytes


def put_parts(
    client: ObjectClient, key: str, parts: Iterator[bytes], mark: str, broken: list[BaseException], at_once: int = 2
) -> PutResult:
    """mark: of the writer (MARK); at_once: parts that are in memory; broken: gets the error of `parts`. Raises what the client raises, and errors of `parts`
    unchanged; then the key has its old object or none."""

    def prefetched() -> Iterator[bytes]:
        try:
            pending = elsewhere.submit(next, parts, None)
            while (part := pending.result()) is not None:
                pending = elsewhere.submit(next, parts, None)
                yield part
        except GeneratorExit:  # the client gave up, and raises its own error
            raise
        except BaseException as error:  # the client would replace it by another error
            broken.append(error)
            raise

    # The client requests parts from within its own loop, where it cannot make other requests, such as those for the parts of another object: so another thread
    # makes them. If none can be started, all are in a temporary file before the client begins.
    with ExitStack() as files, Threads(1, "frazil parts") as elsewhere:
        if not elsewhere.start():
            parts = _from_file(files, key, parts)
        try:
            return obstore.put(
                client, key, prefetched(),
                use_multipart=True, chunk_size=_PART, max_concurrency=at_once, attributes={MARK: mark},
            )  # fmt: skip
        except BaseException:
            if broken:
                raise broken[0] from None
            raise


def _from_file(files: ExitStack, key: str, parts: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of all parts, once they are in a temporary file, which `files` closes."""
    with _file_errors(key):
        file: IO[bytes] = files.enter_context(TemporaryFile(buffering=0))  # noqa: SIM115 # closed by `files`
    for part in parts:
        view = memoryview(part)
        with _file_errors(key):
            while view:
                view = view[file.write(view) :]
    return _read_parts(file, key)


def _read_parts(file: IO[bytes], key: str) -> Iterator[bytes]:
    with _file_errors(key):
        file.seek(0)
        while part := file.read(_PART):
            yield part


@contextmanager
def _file_errors(key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"the parts of the value could not be kept in a temporary file: {error.strerror}",
            errno=error.errno,
            key=key,
            hint="free space in TMPDIR, or allow more threads (ulimit -u): then no file is needed",
        ) from error
