"""Clients of object stores: from a URL and options, or from an object of obstore, to the clients that a store uses. No request is made here.

The requests are made in object_store.py. Options are those of obstore (endpoint=, region=, access_key_id=, skip_signature=, ...). Missing ones are taken from
the environment, and for S3 from the profiles of the AWS tools (aws_profiles.py)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from frazil.base.record import Record
from frazil.base.retry import REQUESTS, Backoff
from frazil.errors import InvalidInputError
from frazil.stores.objects.aws_profiles import read_profile
from frazil.stores.objects.client_errors import first_line
from frazil.stores.objects.connections import Connection, environment, shared_connection
from frazil.stores.objects.redirects import without_query
from frazil.stores.objects.web_client import WebConnections
from frazil.stores.objects.web_options import backoff_of, request_time, web_options

if TYPE_CHECKING:
    from frazil.stores.objects.connections import ObjectClient

CLASSES: Final = {
    "s3": "S3Store",
    "s3a": "S3Store",
    "gs": "GCSStore",
    "gcs": "GCSStore",
    "az": "AzureStore",
    "azure": "AzureStore",
    "abfs": "AzureStore",
    "http": "HTTPStore",
    "https": "HTTPStore",
}
# the options that replace the cloud's own endpoint; those with the name of the cloud are variables of the environment too, in upper case
_ENDPOINTS: Final = {
    "S3Store": ("aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint"),
    "AzureStore": ("azure_storage_endpoint", "azure_endpoint", "endpoint"),
    "GCSStore": ("google_base_url", "base_url"),
    "HTTPStore": (),
}
_READING: Final = {"connect_timeout": "10s", "read_timeout": "30s", "timeout": "600s"}
_WRITING: Final = {"connect_timeout": "10s", "timeout": "600s"}  # a read time-out would end uploads that take longer


class Clients(Record):
    """A prefix of a bucket, or of a web server, and the clients for it.

    kind      "S3Store", "GCSStore", "AzureStore", "HTTPStore" or "MemoryStore"
    url       of the bucket and prefix, or of the server, for messages: no secrets
    backoff   how a request is repeated whose answer was lost
    whole     seconds for a request with its response
    server    identifies server and account, beside the URL: no secrets
    root      the beginning of keys in lists: "", or ending in "/"
    below     the beginning of keys in all other requests: the same, but "" if the client adds it
    web       for a web server its address, for our own client"""

    connection: Connection
    kind: str
    url: str
    backoff: Backoff = REQUESTS
    server: tuple[str, ...] = ()
    root: str = ""
    below: str = ""
    web: str | None = None
    whole: float = request_time({})


def is_client(value: object) -> TypeGuard[ObjectClient]:
    """Whether a value is an object of obstore, without importing obstore."""
    return type(value).__module__.startswith("obstore") and type(value).__name__.endswith("Store")


def is_supported(client: object) -> TypeGuard[ObjectClient]:
    """Whether clients_of takes an object of obstore of this kind: a bucket, a web server or memory, but not a folder."""
    return is_client(client) and type(client).__name__ in {*CLASSES.values(), "MemoryStore"}


def open_url(url: str, options: Mapping[str, object], requests_in_flight: int) -> Clients:
    """The clients for a URL; equal ones in use are shared. Raises InvalidInputError for a URL without a bucket, for invalid options, and where obstore is
    not installed."""
    scheme, host, prefix = _split_url(url)
    kind = CLASSES[scheme]
    remaining = dict(options)
    client, retry = [_mapping(remaining.pop(name, {}), name) for name in ("client_options", "retry_config")]
    profile = read_profile(remaining) if kind == "S3Store" else None
    if profile is not None:
        remaining = {**profile.options, **remaining}
    for name in [option for option in remaining if option.lower() == "allow_http"]:
        # obstore takes it among the options too, but cannot pickle such a client
        client.setdefault("allow_http", remaining.pop(name))
    endpoint = _endpoint(kind, remaining)
    if scheme == "http" or endpoint.startswith("http://"):
        client.setdefault("allow_http", True)
    if endpoint and not re.match(r"https?://[^/\s]", endpoint):  # the client ends the process for such an endpoint
        raise InvalidInputError(
            "the endpoint is not a URL",
            path=shown_url(endpoint).rpartition("@")[2],
            hint="http://host:port, or https://",
        )
    retry = {"max_retries": REQUESTS.attempts - 1, **retry}
    backoff = backoff_of(retry)
    bucket = f"{scheme}://{host}" if kind == "HTTPStore" else host

    def connected() -> Connection:
        provider = None if profile is None else profile.provider()
        whole = remaining if provider is None else {**remaining, "credential_provider": provider}
        reading, writing = {**_READING, **client}, {**_WRITING, **client}
        reader = _create_client(kind, bucket, whole, reading, retry)
        if kind == "HTTPStore":
            return Connection(
                reader, reader, reader, requests_in_flight, web=WebConnections(web_options(client, retry))
            )
        writer = _create_client(kind, bucket, whole, writing, retry)
        decider = _create_client(kind, bucket, whole, writing, {**retry, "max_retries": 0})
        return Connection(reader, writer, decider, requests_in_flight)

    variables, settings = environment(_BEGINNINGS.get(kind, ())), None if profile is None else profile.settings
    key = [kind, bucket, remaining, client, retry, requests_in_flight, variables, settings]
    connection = shared_connection(key, connected)
    if kind == "HTTPStore":
        return Clients(connection, kind, f"{bucket}/{prefix}".rstrip("/"), backoff, web=url)
    shown, root = f"{_SCHEMES[kind]}://{host}/{prefix}".rstrip("/"), f"{prefix}/" if prefix else ""
    return Clients(
        connection, kind, shown, backoff, _server_of(kind, remaining), root, root, whole=request_time(client)
    )


def _split_url(url: str) -> tuple[str, str, str]:
    """(scheme, bucket or host, prefix) of a URL. Raises InvalidInputError for one that is not of an object store, or has more than a host and a path."""
    scheme, mark, rest = url.partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in CLASSES:
        raise InvalidInputError(
            "this is not a URL of an object store",
            path=shown_url(url),
            hint="s3://bucket/prefix, gs://, az://, https://",
        )
    host, _, prefix = rest.partition("/")
    # without an "@", a colon belongs to a password with a slash in it, which S3 keys often have, or to a port
    secret = ":" in host and not (CLASSES[scheme] == "HTTPStore" and _PORT.search(host))
    if not host or secret or "@" in host or "?" in url or "#" in url:
        raise InvalidInputError(
            "a URL of an object store must have only a bucket (or host) and a path",
            path=f"{scheme}://..." if secret else shown_url(url),
            hint="give credentials as options or in the environment, not in the URL",
        )
    return scheme, host, prefix.strip("/")


def clients_of(client: ObjectClient, requests_in_flight: int) -> Clients:
    """The clients for an object of obstore: the object, and a copy that does not repeat writes under a condition. Raises InvalidInputError for other objects,
    and for obstore's own store of files, where a plain folder is better."""
    kind = type(client).__name__
    if not is_supported(client):
        raise InvalidInputError(
            f"an object store is made from a URL or an object of obstore, not from {kind}",
            hint="give a store of obstore, such as obstore.store.S3Store; for files of this machine give the folder",
        )

    def shared(connect: Callable[[], Connection]) -> Connection:
        return shared_connection([id(client), requests_in_flight], connect)

    if kind == "MemoryStore":
        alone = shared(lambda: Connection(client, client, client, requests_in_flight))
        return Clients(alone, kind, "obstore's MemoryStore")
    positional, again = _constructor_arguments(client)
    retry = dict(again.get("retry_config") or {})
    backoff = backoff_of(retry)
    if kind == "HTTPStore":
        address = client.url  # type: ignore[union-attr]
        options, url = web_options(again.get("client_options") or {}, retry), without_query(address)
        alone = shared(lambda: Connection(client, client, client, requests_in_flight, web=WebConnections(options)))
        return Clients(alone, kind, url.rstrip("/"), backoff, web=address)
    config = dict(again.get("config") or {})
    bucket = config.get("bucket") or config.get("container_name") or config.get("container") or ""
    prefix = again.get("prefix") or ""
    shown = f"{_SCHEMES[kind]}://{bucket}/{prefix}"
    root = prefix.strip("/")

    def connected() -> Connection:
        decider = type(client)(*positional, **{**again, "retry_config": {**retry, "max_retries": 0}})
        lister = type(client)(*positional, **{**again, "prefix": None}) if root else None
        return Connection(client, client, decider, requests_in_flight, lister=lister)

    url, server = shown.rstrip("/"), _server_of(kind, config)
    whole = request_time(again.get("client_options") or {})
    return Clients(shared(connected), kind, url, backoff, server, root and f"{root}/", whole=whole)


def _constructor_arguments(client: ObjectClient) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that create a client again: positional ones, and others by name."""
    try:
        return client.__getnewargs_ex__()  # type: ignore[union-attr, no-any-return] # the arguments that its pickle contains
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # raised by the client, and not an Exception
            raise
        raise InvalidInputError(
            f"this {type(client).__name__} cannot be rebuilt: one of its options is not in its config",
            hint="give allow_http and the like in client_options=",
        ) from None


def _server_of(kind: str, options: Mapping[str, object]) -> tuple[str, ...]:
    """What options, or else the environment, define of server and account. Each value has one name, so that one server has one result however it was given."""
    beginnings = _BEGINNINGS.get(kind, ())
    settings: list[tuple[str, object]] = [
        setting for setting in os.environ.items() if setting[0].lower().startswith(beginnings)
    ]
    for mapping in (options.get("config"), options):
        if isinstance(mapping, Mapping):
            settings += [(f"{name}".lower(), value) for name, value in mapping.items()]
    server: dict[str, str] = {}
    for name, value in settings:
        plain = name.lower()
        for beginning in beginnings:
            plain = plain.removeprefix(beginning)
        if _SERVER.search(plain) and not _SECRET.search(plain):
            server[plain.removesuffix("_url")] = without_query(f"{value}").rstrip("/")
    return tuple(sorted(f"{name}={value}" for name, value in server.items()))


_BEGINNINGS: Final = {"S3Store": ("aws_",), "AzureStore": ("azure_storage_", "azure_"), "GCSStore": ("google_",)}
_SERVER: Final = re.compile("endpoint|base_url|account_name|emulator|fabric")
_SECRET: Final = re.compile("token|secret|key|password|credential")
_PORT: Final = re.compile(r"^(?:[^:]+|\[[0-9a-fA-F:.]+\]):[0-9]*$|^\[[0-9a-fA-F:.]+\]$")
_SCHEMES: Final = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az"}


def _create_client(
    kind: str,
    bucket: str,
    options: Mapping[str, object],
    client: Mapping[str, object],
    retry: Mapping[str, object],
) -> ObjectClient:
    try:
        from obstore import store
    except ImportError:
        raise InvalidInputError(
            "object stores and web servers need the package obstore", hint="pip install obstore"
        ) from None
    try:
        if kind == "HTTPStore":
            if options:
                raise InvalidInputError(
                    f"a web server takes no option {next(iter(options))!r}",
                    hint="only client_options= and retry_config= are possible",
                )
            return store.HTTPStore(bucket, client_options=dict(client), retry_config=dict(retry))  # type: ignore[arg-type]
        built = getattr(store, kind)(bucket, client_options=dict(client), retry_config=dict(retry), **options)
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(
            f"the options of {kind} are not understood: {first_line(str(error))}",
            hint="endpoint, region, access_key_id, secret_access_key, token, skip_signature, ... as obstore calls them",
        ) from None
    return built  # type: ignore[no-any-return]


def _endpoint(kind: str, settings: Mapping[str, object]) -> str:
    names, beginnings = _ENDPOINTS[kind], _BEGINNINGS.get(kind, ())
    found = [value for name, value in settings.items() if name.lower() in names]
    variables = [name.upper() for name in names if name.startswith(beginnings)]
    found += [os.environ[name] for name in variables if name in os.environ]
    return str(found[0]) if found else ""


def _mapping(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} is {type(value).__name__}; it must be a mapping of names to values")
    return dict(value)


def shown_url(url: str) -> str:
    """Any text that was given as a URL, for messages: without possible secrets, also passwords with a slash. Different URLs may become equal."""
    head = url.partition("?")[0].partition("#")[0]
    scheme, mark, rest = head.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if mark else head
