"""Conversion of a hierarchy from one dialect to another: finds source and destination and checks them. plan.py plans the conversion, run.py executes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from frazil.api.destinations import check_destination
from frazil.api.repository_arguments import later_format
from frazil.array.arguments import check_flag, check_surroundings, checked_progress
from frazil.array.hierarchy.members import nodes_below
from frazil.array.hierarchy.nodes import NodeLocation, missing
from frazil.array.hierarchy.root import locate
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry
from frazil.errors import AlreadyExistsError, FormatError, FrazilError, InvalidInputError, StoreError
from frazil.metadata.draft.entry_point import parse_entry
from frazil.metadata.draft.layout import DraftLayout, new_layout
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.metadata.layout import Layout
from frazil.metadata.model import FORMATS, GroupMetadata, Metadata, ZarrFormat, parsed_format
from frazil.metadata.v2.layout import V2
from frazil.metadata.v3.documents import read_document
from frazil.metadata.v3.layout import V3
from frazil.operations.convert.hierarchy_keys import ENTRY_NAME, Hierarchy
from frazil.operations.convert.journal import Journal, parse_journal
from frazil.operations.convert.plan import Plan, check_in_place, check_kept_chunks, plan_conversion
from frazil.operations.convert.report import Conversion
from frazil.operations.convert.run import Chain, Conversions, DialectRemoval, Task
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.location_overlap import address_of, check_no_overlap, origin_of
from frazil.stores.locations import Location, resolve
from frazil.stores.store import Store


def convert(
    source: Location,
    destination: Location | None = None,
    *,
    zarr_format: int | str = 3,
    dry_run: bool = False,
    overwrite: bool = False,
    recode: bool = False,
    progress: Callable[[int], object] | None = None,
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
) -> Conversion:
    """Converts a hierarchy to another dialect. Chunks and shards are moved as bytes; attributes, data types and fill values are kept exactly.

    source       the root of the hierarchy: the folder of its zarr.json, or a store
    destination  an empty location, or that of an interrupted conversion of the same hierarchy, which is resumed. Or session.store of a writable session, for
                 final Zarr v3: commit it afterwards. None converts in place: the hierarchy stays complete in the old dialect until zarr.json is replaced at the
                 end (written, from Zarr v2; removed, to Zarr v2), and then is in the new dialect. The same call resumes an interrupted run
    zarr_format  3 (final Zarr v3), 2 (Zarr v2; only from and to final Zarr v3), "draft" (December 2022), "draft-2021" (its older dialect)
    dry_run      writes nothing, and reports the planned conversion
    overwrite    empties the destination first
    recode       decodes arrays whose codecs the new dialect does not have, and encodes them with its default codecs
    progress     called with the bytes of chunks done since the last call
    No process should write to the hierarchy during the conversion. Open the hierarchy again after a conversion in place. Raises ConversionError, before
    anything is written, with everything that the new dialect cannot represent; NotFoundError, AlreadyExistsError, InvalidInputError, DataError for a damaged
    shard index (in place, and before a destination is overwritten: before anything is written), StoreError."""
    check_flag(dry_run, "dry_run")
    report = checked_progress(progress)
    task = prepare(
        source, destination, zarr_format, overwrite=overwrite, recode=recode, registry=registry, runtime=runtime
    )
    return task.preview() if dry_run else task.run(report)


def prepare(
    source: Location,
    destination: Location | None,
    zarr_format: int | str,
    *,
    path: str = "",
    to_path: str = "",
    overwrite: bool = False,
    recode: bool = False,
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
) -> Conversions:
    """All checks before writing. path: of the node below the source; to_path: of the new one below the destination. Other arguments and errors as in
    `convert`."""
    check_flag(overwrite, "overwrite")
    check_flag(recode, "recode")
    check_surroundings(registry, runtime)
    to = parsed_format(zarr_format)
    if to is None:
        raise InvalidInputError(f"zarr_format is {zarr_format!r}; it must be one of {', '.join(map(repr, FORMATS))}")
    registry = registry.without_fallbacks()  # a type that is read as a fallback would be written as the fallback
    runtime = runtime.checked()
    store, root = resolve(source, path)
    if destination is None:
        if overwrite:
            raise InvalidInputError("overwrite has no meaning in place", hint="give a destination")
        if store.capabilities.writable and not store.capabilities.erasable:
            raise StoreError(f"{store} cannot erase, which a conversion in place needs", hint="give a destination")
        return _in_place(store, root, to, registry, runtime, recode)
    to_store, to_root = resolve(destination, to_path)
    check_no_overlap(
        address_of(store, root), address_of(to_store, to_root), "leave the destination out to convert in place"
    )
    if isinstance(to_store, NodeStore) and to != 3:
        raise InvalidInputError("a repository holds only final Zarr v3", hint="leave zarr_format out")
    hierarchy, nodes = read_hierarchy(store, root, registry)
    _check_v2((hierarchy.layout.zarr_format, to))
    target = Hierarchy(to_root, _layout(to_root, to))
    # there chunks have coordinates instead of keys
    keys = DefaultKeys("/") if isinstance(to_store, NodeStore) else None
    plan = plan_conversion(nodes, hierarchy, target, registry, recode=recode, chunk_keys=keys)
    journal = Journal(hierarchy.layout.zarr_format, to, origin_of(store, root))
    if isinstance(to_store, NodeStore):
        _check_session(to_store, plan, overwrite=overwrite)
        return Task(plan, store, to_store, journal, registry, runtime, again=False, replace=overwrite)
    again = _is_interrupted(to_store, target, journal)
    check_destination(destination, to_store, to_root, overwrite=overwrite and not again)
    if not again and not overwrite:
        _require_empty(to_store, target)
    return Task(plan, store, to_store, journal, registry, runtime, again=again, replace=overwrite and not again)


def read_hierarchy(store: Store, root: str, registry: Registry) -> tuple[Hierarchy, dict[str, Metadata | FrazilError]]:
    """The hierarchy at a prefix, with all its nodes; for an unreadable document the error. Raises NotFoundError."""
    location, node = locate(NodeLocation(store, root[:-1], registry), "")
    if node is None:
        raise later_format(store, root) or missing(location)
    hierarchy = Hierarchy(root, location.layout)
    nodes: dict[str, Metadata | FrazilError] = {"": node}
    if isinstance(node, GroupMetadata):
        nodes.update((hierarchy.inside(path), below) for path, below in nodes_below(location, None))
    return hierarchy, nodes


def _check_v2(formats: tuple[ZarrFormat, ZarrFormat]) -> None:
    """Refuses conversions between Zarr v2 and a draft."""
    if 2 in formats and not {*formats} <= {2, 3}:
        raise InvalidInputError(
            "Zarr v2 and a draft of 2022 are not converted into each other", hint="convert to final Zarr v3 first"
        )


def _in_place(
    store: Store, root: str, to: ZarrFormat, registry: Registry, runtime: Runtime, recode: bool
) -> Conversions:
    hierarchy, nodes = read_hierarchy(store, root, registry)
    now = hierarchy.layout.zarr_format
    _check_v2((now, to))
    noted = store.get(hierarchy.journal_key)

    def task(to: ZarrFormat) -> Task:
        journal = Journal(now, to, documents=_texts(store, hierarchy, nodes))
        target = Hierarchy(root, _layout(root, journal.target_format))
        plan = plan_conversion(nodes, hierarchy, target, registry, recode=recode)
        if 2 in journal[:2]:
            check_kept_chunks(plan)
        elif 3 in journal[:2]:
            check_in_place(plan)
        return Task(plan, store, store, journal, registry, runtime, again=noted is not None)

    def rest() -> Conversions:
        return _in_place(store, root, to, registry, runtime, recode)

    if noted is None:
        if to == now:
            return DialectRemoval(store, None, hierarchy, {}, hierarchy, _readable(nodes))
        if 3 in (to, now):
            return task(to)
        # keys of one draft below meta/root look like nodes of the other; a step through final Zarr v3 separates them
        return Chain(task(to), task(3), rest)
    journal = parse_journal(noted, hierarchy.journal_key)
    if now == journal.target_format:
        old, old_nodes = _old_hierarchy(root, journal, registry)
        cleaning = DialectRemoval(store, journal, old, old_nodes, hierarchy, _readable(nodes))
        return cleaning if to == now else Chain(cleaning, cleaning, rest)
    if now != journal.source_format:
        raise FormatError(
            f"this journal is of a conversion from zarr_format {journal.source_format!r}, and the hierarchy is of {now!r}",
            key=hierarchy.journal_key,
            hint="another program has converted it: remove the journal",
        )
    interrupted = task(journal.target_format)
    if to == now:  # the interrupted conversion is undone
        return DialectRemoval(
            store, journal, interrupted.plan.target, interrupted.plan.made, hierarchy, interrupted.plan.nodes
        )
    return interrupted if to == journal.target_format else Chain(task(to), interrupted, rest)


def _readable(nodes: Mapping[str, Metadata | FrazilError]) -> dict[str, Metadata]:
    return {path: node for path, node in nodes.items() if not isinstance(node, FrazilError)}


def _texts(store: Store, hierarchy: Hierarchy, nodes: Mapping[str, Metadata | FrazilError]) -> dict[str, str]:
    """The documents of a hierarchy for its journal. The entry document has the stored bytes."""
    texts = {ENTRY_NAME: (store.get(hierarchy.entry_key) or b"").decode("latin-1")}
    for path, node in _readable(nodes).items():
        if not getattr(node, "implicit", False):
            key = hierarchy.document_key(path, node)[len(hierarchy.root) :]
            texts.setdefault(key, hierarchy.layout.emit(node).decode("latin-1"))
    return texts


def _old_hierarchy(root: str, journal: Journal, registry: Registry) -> tuple[Hierarchy, dict[str, Metadata]]:
    """The hierarchy that was converted, from its documents in the journal. Pure."""
    values = {root + name: text.encode("latin-1") for name, text in journal.documents.items()}
    key = root + ENTRY_NAME
    layout: Layout = V2 if journal.source_format == 2 else V3
    if journal.source_format not in (2, 3):
        layout = DraftLayout(root, parse_entry(read_document(values[key], key), registry))
    hierarchy = Hierarchy(root, layout)
    nodes: dict[str, Metadata] = {}
    paths = {key: path for path in _paths(layout, root, values) for key in layout.document_keys(path)}
    for key, value in values.items():
        if key in paths:
            nodes[hierarchy.inside(paths[key])] = layout.parse(key, value, registry)
    return hierarchy, nodes


def _paths(layout: Layout, root: str, keys: Iterable[str]) -> list[str]:
    """All nodes that have one of these documents."""
    top = root[:-1] if layout.zarr_format in (2, 3) else ""
    below = sorted(key for key in keys if key.startswith(layout.documents_prefix(top)))
    return [top, *(candidate.path for candidate in layout.descendants(top, below))]


def _layout(root: str, zarr_format: ZarrFormat) -> Layout:
    if zarr_format == 2:
        return V2
    return V3 if zarr_format == 3 else new_layout(root, old=zarr_format == "draft-2021")


def _is_interrupted(store: Store, target: Hierarchy, journal: Journal) -> bool:
    """Whether to resume an interrupted run of the same conversion."""
    noted = store.get(target.journal_key)
    return noted is not None and noted == journal.emit()


def _check_session(store: NodeStore, plan: Plan, *, overwrite: bool) -> None:
    """Raises AlreadyExistsError if the path is taken, InvalidInputError for a node that the format of the repository cannot hold, ReadOnlyError."""
    store.require("writable")
    root = plan.target.root
    if not overwrite and not store.is_empty(root):
        raise AlreadyExistsError(
            "something already exists in the repository",
            path=root[:-1] or "/",
            hint="choose another path, or replace it with overwrite=True",
        )
    for path, node in plan.made.items():
        store.nodes.check(plan.target.at(path), node)


def _require_empty(store: Store, target: Hierarchy) -> None:
    if store.is_empty(target.root):
        return
    is_other = store.get(target.journal_key) is not None
    raise AlreadyExistsError(
        "another conversion, which was interrupted, is there" if is_other else f"something already exists in {store}",
        path=target.root or "/",
        hint="choose another location, or replace it with overwrite=True",
    )
