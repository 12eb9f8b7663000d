"""The store of object storage and web servers, over the clients of obstore: ranges are requested together, and objects written, even if an answer is lost.

Clients are created in clients.py, ranges read in range_requests.py and web_reader.py, keys listed in listing.py, answers combined in responses.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from frazil.base.packages import obstore
from frazil.base.retry import READS, attempts, replaced
from frazil.errors import FrazilError, InvalidInputError, StoreError
from frazil.stores.objects.client_errors import failure, is_too_busy, meaning_of
from frazil.stores.objects.clients import clients_of, open_url
from frazil.stores.objects.connections import check_process, client_panics
from frazil.stores.objects.listing import list_below, list_level_below
from frazil.stores.objects.range_requests import MARK, Answer, ObjectReader, RangeRequest
from frazil.stores.objects.redirects import checked_folders, warn_of_redirects
from frazil.stores.objects.responses import are_of_several, put_together
from frazil.stores.objects.versions import update_mode
from frazil.stores.objects.web_client import WebClient
from frazil.stores.objects.web_reader import WebReader
from frazil.stores.store import Store
from frazil.stores.transfer.content import is_large, parts_of, taken
from frazil.stores.transfer.large_buffers import value_buffers
from frazil.stores.transfer.merged_spans import MULTIPART
from frazil.stores.values import (
    ABSENT,
    FOUND,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Page,
    Pieces,
    Version,
    Versions,
)

if TYPE_CHECKING:
    from frazil.stores.objects.connections import ObjectClient
    from frazil.stores.port import StorePort

A = TypeVar("A")
B = TypeVar("B")

_PART: Final = 2**23
_ERASED_AT_ONCE: Final = 1000
_CAPABILITIES: Final = Capabilities(conditional_erase=False, streams=True)
_UNCHECKED_CONDITIONS: Final = _CAPABILITIES._replace(conditions_seen=False)
_WEB: Final = Capabilities(writable=False, erasable=False, listable=False, conditional=False, conditional_erase=False)


class ObjectStore(Store):
    """Objects in S3, GCS or Azure, or files of a web server, which are only read.

    objects             a URL, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, https://host/path; or an object of obstore (S3Store, ...)
    requests_in_flight  how many requests are made at once, by all threads and by all stores of this bucket with the same options: they share clients and
                        threads
    bytes_in_flight     bytes of one answer if it is not known how many are wanted; larger objects are read in parts of this size
    redirects           for a web server: addresses (folders, such as "https://files.example.org/data/") that it may redirect to; None: any other web server.
                        The first answer from each is reported by a RedirectWarning. Redirects from https to http are never followed. The redirects that clients
                        of object stores follow cannot be limited (docs/design/026-web-client.md)
    options             beside a URL, obstore's own: endpoint=, region=, access_key_id=, secret_access_key=, token=, account_name=, skip_signature=, ..., and
                        client_options= (timeout=, read_timeout=, connect_timeout=, proxy_url=, ...), retry_config= (max_retries=, ...). Missing ones are taken
                        from the places that the tools of each cloud use: environment, profile, the machine's own role

    Versions are ETags. A key is erased whatever its version: the servers cannot erase under a condition. Safe to use from many threads; pickles with its
    options. The threads of its client do not survive a fork: in a child of a process that used one, every request raises StoreError; start workers by "spawn"
    or "forkserver".
    Raises InvalidInputError for an invalid URL or invalid options; no request is made yet."""

    __slots__ = (
        "_clients",
        "_reader",
        "_urls",
        "_web",
        "bytes_in_flight",
        "redirects",
        "requests_in_flight",
    )

    def __init__(
        self,
        objects: ObjectClient | str,
        *,
        requests_in_flight: int = 64,
        bytes_in_flight: int = 2**26,
        redirects: Sequence[str] | None = None,
        **options: object,
    ) -> None:
        for name, value in (("requests_in_flight", requests_in_flight), ("bytes_in_flight", bytes_in_flight)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidInputError(f"{name} is {value!r}; it must be a number, 1 or more")
        if options and not isinstance(objects, str):
            raise InvalidInputError(
                f"the option {next(iter(options))!r} is only for a URL", hint="give it to the object of obstore"
            )
        self._clients: Final = (
            open_url(objects, options, requests_in_flight)
            if isinstance(objects, str)
            else clients_of(objects, requests_in_flight)
        )
        self._urls: Final[tuple[ObjectClient | str, dict[str, Any]]] = (objects, options)
        self.requests_in_flight: Final = requests_in_flight
        self.bytes_in_flight: Final = bytes_in_flight
        self.redirects: Final = None if redirects is None else checked_folders(redirects)
        url, connection = self._clients.web, self._clients.connection
        self._web: Final = (
            None if url is None or connection.web is None else WebClient(url, connection.web, self.redirects)
        )
        self._reader: Final = (
            ObjectReader(self._clients, bytes_in_flight) if self._web is None else WebReader(self._web, bytes_in_flight)
        )

    def __repr__(self) -> str:
        return f"ObjectStore({self.url!r})"

    def __str__(self) -> str:
        return self.url

    def __reduce__(self) -> tuple[object, ...]:
        objects, options = self._urls
        if self._clients.kind == "MemoryStore":
            raise InvalidInputError(
                "a store in the memory of this process cannot be sent to another process",
                hint="use a store on a server",
            )
        return partial(ObjectStore, **self._limits(), redirects=self.redirects, **options), (objects,)

    def _limits(self) -> dict[str, Any]:
        return {"requests_in_flight": self.requests_in_flight, "bytes_in_flight": self.bytes_in_flight}

    def redirected_below(self, folders: Sequence[str]) -> ObjectStore:
        """This store, with redirects to these addresses alone; itself if its user chose them, or if it is not a web server's."""
        if self._web is None or self.redirects is not None:
            return self
        objects, options = self._urls
        return ObjectStore(objects, **self._limits(), redirects=folders, **options)

    @property
    def url(self) -> str:
        """Where its objects are, as a URL without secrets."""
        return self._clients.url

    @property
    def identity(self) -> str | None:
        """The URL, and what options and environment define of the server and the account, but no credentials. None for a store in memory."""
        return None if self._clients.kind == "MemoryStore" else " ".join([self.url, *self._clients.server])

    @property
    def server(self) -> str:
        """Identifies the server: the cloud's own without an endpoint; for a store in memory the object."""
        clients = self._clients
        if clients.kind == "MemoryStore":
            return f"{clients.kind} {id(self._urls[0]):x}"
        return " ".join([clients.kind, *clients.server])

    @property
    def capabilities(self) -> Capabilities:
        if self._clients.kind == "HTTPStore":
            return _WEB
        return _CAPABILITIES if self._clients.connection.refused_a_condition else _UNCHECKED_CONDITIONS

    # --- requests ------------------------------------------------------------------------------------------------------------------

    def _all(self, request: Callable[[A], B], arguments: Sequence[A]) -> list[B]:
        """The answers to requests that are made together."""
        check_process(self)
        return self._clients.connection.run_all(request, arguments)

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        expected: list[Version | None] = [None] * len(names) if expect is None else list(expect)
        if continue_from is not None:
            # an object without a version cannot be expected: see responses.py
            expected = [
                wanted if wanted is not None or (version is None and status == FOUND) else version or ABSENT
                for wanted, version, status in zip(expected, continue_from.versions, continue_from.status, strict=True)
            ]
        requests = [
            RangeRequest(names[name], start, 0 if expected[name] == ABSENT else length, expected[name] or None)
            for name, start, length in spans.tolist()
        ]
        of_name: list[list[int]] = [[] for _ in names]
        for i, name in enumerate(spans[:, 0].tolist()):
            of_name[name].append(i)
        for name, rows in enumerate(of_name):
            if not rows and continue_from is None:
                of_name[name] = [len(requests)]
                requests.append(RangeRequest(names[name], 0, 0, expected[name] or None))
        answers = self._answers(requests, of_name)
        warn_of_redirects(() if self._web is None else self._web.take_moved())
        # find the present version of changed objects: it is returned in Changed
        stale = [rows[0] for rows in of_name if any(answers[i].state == "changed" for i in rows)]
        self._read_again(answers, {i: RangeRequest(requests[i].key) for i in stale})
        for i in stale:
            answers[i] = answers[i]._replace(state="changed")
        return put_together(names, spans, answers, of_name, expected, continue_from)

    def _answers(self, requests: Sequence[RangeRequest], of_name: Sequence[Sequence[int]]) -> list[Answer]:
        """The answers to all requests, those of one object from one version of it."""
        answers = self._all(self._reader.answer, requests)
        for _ in attempts(READS):
            again: dict[int, RangeRequest] = {}
            for rows in of_name:
                if len(rows) > 1 and not requests[rows[0]].expect and are_of_several([answers[i] for i in rows]):
                    # of the newest version seen; an earlier answer has it too if only one object was replaced
                    newest = answers[rows[-1]].version
                    again |= {
                        i: requests[i]._replace(expect=newest)
                        for i in rows
                        if newest is None or answers[i].version != newest
                    }
            if not again:
                return answers
            self._read_again(answers, again)
            # do not wait for a version that is replaced already
            lost = [rows for rows in of_name if any(answers[i].state == "changed" and i in again for i in rows)]
            self._read_again(answers, {i: requests[i] for rows in lost for i in rows})
        raise replaced("an object was", requests[0].key)

    def _read_again(self, answers: list[Answer], requests: Mapping[int, RangeRequest]) -> None:
        """Replaces some of the answers by those to other requests."""
        for i, answer in zip(requests, self._all(self._reader.answer, list(requests.values())), strict=True):
            answers[i] = answer

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        """As the port says. Large values without an expected version, whose pieces are in memory or mapped, are sent in parts, one after the other."""
        self.require("writable")
        if pieces.parts is not None and names:
            return [self._put_stream(names[0], pieces.parts)]
        writes = [(key, pieces, value, version) for value, (key, version) in enumerate(zip(names, expect, strict=True))]
        return self._all(self._put_value, writes)

    def _put_value(self, write: tuple[str, Pieces, int, Version | None]) -> Version | Changed:
        key, pieces, number, expect = write
        if "\\" in key and self._clients.kind == "AzureStore":
            raise StoreError(
                "Azure stores no key with a backslash", key=key, hint="Azure treats it as a slash: choose another key"
            )
        value = taken(pieces, number)
        if expect is not None:
            return self._put_if(key, value_buffers(value, key), expect)
        at_once, path = min(8, self.requests_in_flight), self._clients.below + key
        mark = _new_mark() if value.rows[:, 2].sum() >= MULTIPART else None  # of what goes in parts
        try:
            result = obstore.put(
                self._clients.connection.writer,
                path,
                parts_of(value) if is_large(value, MULTIPART) else value_buffers(value, key),
                use_multipart=mark is not None,
                chunk_size=_PART,
                max_concurrency=at_once,
                attributes=None if mark is None else {MARK: mark},
            )
        except (FrazilError, MemoryError):
            raise
        except Exception as error:
            return self._version_after_failure(error, key, mark)
        return self._put_version(key, result)

    def _put_stream(self, key: str, parts: Iterator[bytes]) -> Version:
        """Puts a value in parts, a few of which are in memory. It is not counted as a request, as it may wait for those that bring the parts."""
        check_process(self)
        mark, path = _new_mark(), self._clients.below + key
        with client_panics(key):
            writer, attributes = self._clients.connection.writer, {MARK: mark}
            with self._write_failures(key):
                file = obstore.open_writer(writer, path, attributes=attributes, buffer_size=_PART, max_concurrency=2)
            try:
                for part in parts:
                    with self._write_failures(key):
                        file.write(part)
            except BaseException as error:  # of `parts` too
                with suppress(Exception), client_panics(key):
                    file.__exit__(type(error), error, None)  # removes what was sent
                raise
            try:
                file.close()
            except Exception as error:
                return self._version_after_failure(error, key, mark)
        return mark.encode()  # the client returns no version, and nobody compares it: looking it up would be a request

    @contextmanager
    def _write_failures(self, key: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._write_failure(error, key) from None

    def _write_failure(self, error: Exception, key: str) -> Exception:
        if meaning_of(error) == "exists":
            return self._key_conflict(key)
        return failure(error, "could not be written", key, self.url)

    def _version_after_failure(self, error: Exception, key: str, mark: str | None) -> Version:
        """The version of the value that a failed write stored nevertheless: the answer to the end of its parts was lost, and the client's next attempt was
        refused, as they are no parts any more. Raises StoreError where nothing was stored."""
        if mark is not None and (stored := self._version_with(mark, key)) is not None:
            return stored
        raise self._write_failure(error, key) from None

    def _put_if(
        self, key: str, value: bytes | memoryview | list[bytes | memoryview], expect: Version
    ) -> Version | Changed:
        """A write under a condition. If an answer is lost, the same write is repeated under the same condition; proxies repeat writes, too. If it is refused,
        the mark of the present object says whether an earlier one wrote it. (Versions and bytes do not say that: another process may have written the same.)"""
        mark = _new_mark()
        mode: object = "create" if expect == ABSENT else update_mode(expect)
        failed: Exception | None = None  # the last try without an answer; and whether one of them may have been done
        may_be_done = False
        for _ in attempts(self._clients.backoff):
            try:
                result = obstore.put(
                    self._clients.connection.decider,
                    self._clients.below + key,
                    value,
                    mode=mode,  # type: ignore[arg-type]
                    use_multipart=False,
                    attributes={MARK: mark},
                )
            except Exception as error:
                meaning = meaning_of(error)
                if meaning == "lost":
                    # without the traceback, which has this frame, and with it the value
                    failed, may_be_done = error.with_traceback(None), may_be_done or not is_too_busy(error)
                    continue
                if meaning not in {"exists", "changed", "absent"}:
                    raise failure(error, "could not be written", key, self.url) from None
            else:
                return self._put_version(key, result)
            present = self._reader.answer(RangeRequest(key))
            if present.mark == mark and present.version is not None:
                return present.version
            if (present.version or ABSENT) != expect:
                self._clients.connection.refused_a_condition = True
                return Changed(present.version or ABSENT, may_be_done)
            # refused, and yet the version is the expected one: another writer was active just then, and failed
        if failed is None:
            raise self._key_conflict(key)
        if may_be_done and (stored := self._version_with(mark, key)) is not None:
            return stored
        message = "could not be written, or its answer was lost" if may_be_done else "could not be written"
        raise failure(failed, message, key, self.url) from None

    def _version_with(self, mark: str, key: str) -> Version | None:
        """The version of the present object if it was written with this mark. That it cannot be read now is no error: it is not what went wrong first."""
        with suppress(StoreError):
            present = self._reader.answer(RangeRequest(key))
            return present.version if present.mark == mark else None
        return None

    def _put_version(self, key: str, result: Mapping[str, object]) -> Version:
        tag, generation = result["e_tag"], result["version"]
        if isinstance(tag, str):
            gcs = self._clients.kind == "GCSStore" and isinstance(generation, str)
            return (f"{tag}\0{generation}" if gcs else tag).encode()
        version = self._reader.answer(RangeRequest(key)).version
        if version is None:
            raise StoreError(
                "the server returns no version of what it stored", key=key, hint="use a server that returns ETags"
            )
        return version

    def _key_conflict(self, key: str) -> StoreError:
        return StoreError(
            f"an object of {self.url} could not be written: its key conflicts with that of another object",
            key=key,
            hint="this server cannot store a key together with keys that begin with it and a slash: choose another key",
        )

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        """As the port says, except that an erase with an expected version is a StoreError, and nothing is erased (capabilities.conditional_erase)."""
        self.require("erasable")
        if any(expect):
            raise StoreError(
                f"{self} cannot erase with a condition",
                key=next(name for name, version in zip(names, expect, strict=True) if version),
                hint="erase it without a condition, or overwrite it",
            )
        existing = [name for name, version in zip(names, expect, strict=True) if version is not None]
        answers = self._all(self._reader.answer, [RangeRequest(name) for name in existing])
        versions = {name: answer.version for name, answer in zip(existing, answers, strict=True)}
        unconditional = [name for name, version in zip(names, expect, strict=True) if version is None]
        # except for S3, the first missing key ends the call, and the other keys stay
        each = _ERASED_AT_ONCE if self._clients.kind == "S3Store" else 1
        parts = [unconditional[first : first + each] for first in range(0, len(unconditional), each)]
        self._all(self._erase, parts)
        return [Changed(version) if (version := versions.get(name)) is not None else None for name in names]

    def _erase(self, keys: Sequence[str]) -> None:
        try:
            paths = [self._clients.below + key for key in keys]
            obstore.delete(self._clients.connection.writer, paths if len(paths) > 1 else paths[0])
        except Exception as error:
            if meaning_of(error) != "absent" or (len(keys) > 1 and any(map(self._exists, keys))):
                raise failure(error, "could not be erased", keys[0], self.url) from None

    def _exists(self, key: str) -> bool:
        return self._reader.answer(RangeRequest(key)).state == "found"

    def _copy_from(self, names: Sequence[str], source: StorePort, sources: Sequence[str], limit: int) -> list[int]:
        """As Store says. Within a bucket of S3 the server copies."""
        here, there = self._clients, source._clients if isinstance(source, ObjectStore) else None
        if there is None or here.connection is not there.connection or here.kind != "S3Store":
            return super()._copy_from(names, source, sources, limit)
        return self._copied_by_server(names, there.below, source, sources, limit, sized=True)

    def _share(self, names: Sequence[str], sources: Sequence[str]) -> list[int]:
        """As Store says: copied by the server, except on Azure, which may answer before a copy is complete. The caller then removes the sources."""
        self.require("writable")
        if self._clients.kind == "AzureStore":
            return super()._share(names, sources)
        return self._copied_by_server(names, self._clients.below, self, sources, 2**26, sized=False)

    def _copied_by_server(
        self, names: Sequence[str], below: str, source: StorePort, sources: Sequence[str], limit: int, sized: bool
    ) -> list[int]:
        """copy_in by requests to copy, except for what the server refuses (more than 5 GiB) and for empty or absent results, as of a server that does not know
        copies. below: prefix of the source. sized: sizes are returned; else they are only looked up if the first shows no copy"""
        connection = self._clients.connection

        def copy(pair: tuple[str, str]) -> bool | None:
            with suppress(StoreError):  # what is wrong with a value, the other way says
                return self._copy((below + pair[0], pair[1]))
            return None

        copied = self._all(copy, list(zip(sources, names, strict=True)))
        if not sized and not connection.copied_a_value:  # one shows what the server does
            one = [name for name, done in zip(names, copied, strict=True) if done][:1]
            connection.copied_a_value = bool((self.sizes(one) > 0).any())
        looked_up = sized or not connection.copied_a_value
        sizes = self.sizes(names).tolist() if looked_up else [0] * len(names)
        others = [row for row, done in enumerate(copied) if done is None or (looked_up and done and sizes[row] <= 0)]
        connection.copied_a_value |= any(done and size > 0 for done, size in zip(copied, sizes, strict=True))
        again = super()._copy_from([names[row] for row in others], source, [sources[row] for row in others], limit)
        found = dict(zip(others, again, strict=True))
        return [found.get(row, size if copied[row] else -1) for row, size in enumerate(sizes)]

    def _copy(self, pair: tuple[str, str]) -> bool:
        """Lets the server copy a source in the bucket to a name."""
        source, name = pair
        try:
            obstore.copy(self._clients.connection.writer, source, self._clients.below + name)
        except Exception as error:
            if meaning_of(error) == "absent":
                return False
            raise failure(error, "could not be copied", source, self.url) from None
        return True

    # --- listing -------------------------------------------------------------------------------------------------------------------

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        """As the port says: a request for each page of the server. The level directly below a prefix is listed completely for each page."""
        self.require("listable")
        list_rows = list_level_below if delimited else list_below
        return self._all(self._listed, [partial(list_rows, self._clients, prefix, after, limit, details=details)])[0]

    def _listed(self, list_rows: partial[Page]) -> Page:
        try:
            page = list_rows()
        except Exception as error:
            raise failure(error, "could not be listed", list_rows.args[1], self.url) from None
        if not page.keys and not self._clients.connection.answered_as_a_store:
            # for the client any page of XML is a listing, as of a proxy or for a login; such servers cannot say that a key is absent
            try:
                self._reader.answer(RangeRequest("zarr.json"))
            except StoreError:
                # as it does where listing is permitted, but reading is not
                if not self._clients.connection.answered_as_a_store:
                    raise
        return page


def _new_mark() -> str:
    return os.urandom(12).hex()
