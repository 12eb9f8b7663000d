"""Which resources of the machine a call may use: a frozen value that is passed in. It never changes what is stored or read.

Where none is passed in, the thread or task takes its limits from frazil.config: the settings of zarr-python that change nothing else, under their names
(docs/design/068-names-of-zarr-python.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from frazil.base.record import Record
from frazil.errors import InvalidInputError, NotFoundError, shown

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["DEFAULT", "Config", "Runtime", "config", "cores", "in_context"]


class Runtime(Record):
    """Limits of one array, group or repository handle.

    threads             threads of the kernel inside one call, which decode, encode, or write files; 0 means one for each core that the process may use. A store
                        that the caller created has limits of its own
    requests_in_flight  requests at once to a remote store
    bytes_in_flight     bytes that one read or write holds beside its result, or one task if that needs more: shard indexes, encoded bytes that are fetched or
                        carried over, and chunks to decode or encode. A task is at least one shard or chunk
    cache_bytes         size of the cache that is shared by everything opened from one location: shard indexes, and of a repository its files, references and,
                        where reading them takes a request, encoded chunks; 0: no cache
    """

    threads: int = 0
    requests_in_flight: int = 64
    bytes_in_flight: int = 2**26
    cache_bytes: int = 2**26

    def checked(self) -> Runtime:
        """Self, with the number of threads filled in. Raises InvalidInputError for a negative or zero limit."""
        threads, requests, nbytes, cache = self
        if type(threads) is type(requests) is type(nbytes) is type(cache) is int:  # true for nearly all calls
            if threads >= 0 and requests > 0 and nbytes > 0 and cache >= 0:
                return Runtime(threads or cores(), requests, nbytes, cache)
        for name, value in zip(self._fields, self, strict=True):
            if not isinstance(value, int) or isinstance(value, bool) or value < (1 if name.endswith("flight") else 0):
                raise InvalidInputError(f"Runtime.{name} is {value!r}; it must be a positive whole number")
        return self._replace(threads=self.threads or cores())


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS does not report which cores a process may use


DEFAULT = Runtime()


# --- settings by the names of zarr-python ------------------------------------------------------------------------------------------


class _Setting(Record):
    """default: the value where it is not set; allowed: the values that are allowed, as a function and in words."""

    default: object
    allows: Callable[[object], bool]
    allowed: str


def _limit(default: object) -> _Setting:
    def allows(value: object) -> bool:
        return value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0)

    return _Setting(default, allows, "a positive whole number, or None")


def _one_of(*values: object, hint: str = "") -> _Setting:
    words = " or ".join(map(repr, values))
    return _Setting(
        values[0], lambda value: any(type(value) is type(choice) and value == choice for choice in values), words + hint
    )


_ALLOWED: Final[Mapping[str, _Setting]] = {
    "async.concurrency": _limit(DEFAULT.requests_in_flight),
    "threading.max_workers": _limit(None),
    "codec_pipeline.max_workers": _limit(None),
    # without effect: they affect only speed or memory order
    "codec_pipeline.path": _Setting("frazil", lambda value: isinstance(value, str), "the name of a class"),
    "codec_pipeline.batch_size": _limit(None),
    "array.order": _one_of("C", "F"),
    "array.write_empty_chunks": _one_of(False, True),
    "array.sharding_coalesce_max_gap_bytes": _limit(None),
    "array.sharding_coalesce_max_bytes": _limit(None),
    # Frazil always does this
    "array.rectilinear_chunks": _one_of(True),
    "array.read_missing_chunks": _one_of(True),
    "array.target_shard_size_bytes": _one_of(None, hint="; shards= is the shape of shards"),
    "async.timeout": _one_of(None),
    "default_zarr_format": _one_of(3, hint="; zarr_format= is an argument of the functions that create"),
}
_SETTINGS: Final[ContextVar[Mapping[str, object] | None]] = ContextVar("frazil.config", default=None)


class Config:
    """frazil.config: the limits for arrays and repositories that are opened or created without runtime=, under the names of zarr-python's settings. A setting
    applies to what the same thread or task opens; in `with frazil.config.set({...})` until the end of the block. Open arrays and repositories keep the limits
    that they were opened with.

    async.concurrency is Runtime.requests_in_flight; threading.max_workers, or else codec_pipeline.max_workers, is Runtime.threads. The others are without
    effect, or have one value only: everything that changes what is read or stored is an argument of the functions that open and create."""

    __slots__ = ()

    def get(self, key: str, *default: object) -> object:
        """The value of a setting, or `default` (if given) where no setting has this name. Raises NotFoundError."""
        setting = _ALLOWED.get(key)
        if setting is not None:
            return (_SETTINGS.get() or {}).get(key, setting.default)
        if default:
            return default[0]
        raise NotFoundError(f"there is no setting {key!r}", hint=f"known names: {', '.join(_ALLOWED)}")

    def set(self, settings: Mapping[str, object] | None = None, **named: object) -> _Restoring:
        """Changes settings, by their names ("async.concurrency", or async__concurrency=) or in groups ({"async": {"concurrency": 8}}). As a context manager it
        restores them.
        Raises InvalidInputError for unknown settings and values that are not allowed; nothing is changed then."""
        changes = {**_flat(settings or {}), **{name.replace("__", "."): value for name, value in named.items()}}
        for key, value in changes.items():
            setting = _ALLOWED.get(key)
            if setting is None:
                raise InvalidInputError(
                    f"there is no setting {key!r}",
                    hint=f"others are arguments of the functions that open and create, such as registry=; known names: {', '.join(_ALLOWED)}",
                )
            if not setting.allows(value):
                raise InvalidInputError(f"{key} is {shown(value)}; it must be {setting.allowed}")
        before = _SETTINGS.get() or {}
        _SETTINGS.set({**before, **changes})
        return _Restoring(before, changes)

    def reset(self) -> None:
        """Resets all settings of this thread or task to their defaults."""
        _SETTINGS.set(None)

    def enable_gpu(self) -> None:
        """Raises InvalidInputError: zarr-python would read into the memory of a GPU."""
        raise InvalidInputError(
            "arrays are read into the memory of the CPU", hint="cupy.asarray(array[...]) copies them"
        )

    def pprint(self, stream: TextIO | None = None, **_: object) -> None:
        """Prints all settings, one a line."""
        print("\n".join(f"{key}: {self.get(key)!r}" for key in _ALLOWED), file=stream)

    def __repr__(self) -> str:
        return "frazil.config"


config: Final = Config()


class _Restoring:
    """Puts back what a call of Config.set changed, at the end of a `with` block.

    before  the settings that were in force;  changed: their names"""

    __slots__ = ("_before", "_changed")

    def __init__(self, before: Mapping[str, object], changed: Iterable[str]) -> None:
        self._before, self._changed = before, frozenset(changed)

    def __enter__(self) -> Config:
        return config

    def __exit__(self, *_: object) -> None:
        now = {key: value for key, value in (_SETTINGS.get() or {}).items() if key not in self._changed}
        _SETTINGS.set(now | {key: value for key, value in self._before.items() if key in self._changed})


def _flat(settings: Mapping[str, object], group: str = "") -> dict[str, object]:
    if not isinstance(settings, Mapping):
        raise InvalidInputError(f"settings are {shown(settings)}; they must be a mapping")
    flat: dict[str, object] = {}
    for name, value in settings.items():
        flat.update(_flat(value, f"{group}{name}.") if isinstance(value, Mapping) else {f"{group}{name}": value})
    return flat


def in_context(runtime: Runtime) -> Runtime:
    """The given runtime; if it is the default, one with the settings of frazil.config."""
    settings = _SETTINGS.get() if runtime is DEFAULT else None
    if not settings:
        return runtime
    threads = settings.get("threading.max_workers") or settings.get("codec_pipeline.max_workers") or DEFAULT.threads
    requests = settings.get("async.concurrency") or DEFAULT.requests_in_flight
    return DEFAULT._replace(threads=threads, requests_in_flight=requests)  # type: ignore[arg-type] # checked by `set`
