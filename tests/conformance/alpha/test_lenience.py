"""Files that the library of the alpha did not write: those that it accepted, or refused without a good reason, are read and continued. Only the broken parts of
broken files are refused, by name. Each test changes one thing in a repository."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import FormatError, FrazilError, MetadataError
from frazil.stores import MemoryStore
from tests.conformance.alpha.alpha_repository import LINE, MAIN, MANIFEST, PLANE, SNAPSHOT, Made, check, read
from tests.conformance.alpha.library import Library, Refused, encoded, new_id, reference
from tests.formats.encoding import Pairs, Single, Wide

FIELDS = {
    "snapshot": (
        *("icechunk_snapshot_format_version", "icechunk_snapshot_format_flags", "manifest_files", "attribute_files"),
        *("total_parents", "short_term_parents", "short_term_history", "metadata", "started_at", "properties", "nodes"),
    ),
    "manifest": ("icechunk_manifest_format_version", "icechunk_manifest_format_flags", "chunks"),
    "node": ("id", "path", "user_attributes", "node_data"),
    "array": (
        *("shape", "data_type", "chunk_shape", "chunk_key_encoding", "fill_value", "codecs"),
        *("storage_transformers", "dimension_names"),
    ),
}


# --- manifests ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I61", "I257", "I258")
def test_references_in_several_manifests() -> None:
    made = Made()
    chunks = made.value(made.manifest)[2]
    halves = [made.second_manifest({key: chunks[key] for key in chunks if sum(key[1]) % 2 == odd}) for odd in range(2)]
    for path in ("/plane", "/sub/line"):
        made.listed(path, [[half, []] for half in halves])
    check(made)


def test_of_a_chunk_in_two_manifests_the_first_counts() -> None:
    """Also after a commit, where the library itself used the last one."""
    made = Made()
    old = made.second_manifest({(2, (0, 0)): {"Inline": np.zeros(4, "<f4").tobytes()}})
    made.listed("/plane", [[made.manifest.removeprefix(MANIFEST), []], [old, []]])
    check(made)
    made = Made()
    new = made.second_manifest({(2, (0, 0)): {"Inline": np.full(4, 7, "<f4").tobytes()}})
    made.listed("/plane", [[new, []], [made.manifest.removeprefix(MANIFEST), []]])
    plane = PLANE.copy()
    plane[:2, :2] = 7
    check(made, plane)


@pytest.mark.parametrize("extents", [[[0, 0], [1, 1]], [[9], [7, 7, 7]], [[1, 1], [1, 1], [1]], [[]]])
def test_extents_of_others_are_ignored(extents: list[object]) -> None:
    made = Made()
    made.listed("/plane", [[made.manifest.removeprefix(MANIFEST), extents]])
    check(made)


@pytest.mark.parametrize("files", [[], [["PGFG33J5SJNP38N7NFV0", 0]]])
def test_the_list_of_manifests_is_not_needed(files: list[object]) -> None:
    made = Made()
    made.field(2, files)
    check(made)


def test_offsets_and_lengths_are_looked_at() -> None:
    """Legal, though the library fetched the whole file."""
    made = Made()
    chunks = made.value(made.manifest)[2]
    parts = {key: made.store.get(f"chunks/{payload['Ref'][0]}") for key, payload in chunks.items() if "Ref" in payload}
    pack = new_id()
    made.store.set(f"chunks/{pack}", b"#" + b"-".join(data or b"" for data in parts.values()) + b"#")
    made.put(
        made.manifest, [0, {}, {**chunks, **{key: {"Ref": [pack, 1 + at * 801, 800]} for at, key in enumerate(parts)}}]
    )
    read(made.store, PLANE, LINE)
    with frazil.Repository.open(made.store).transaction(message="ours") as root:
        root["sub/line"][0] = -1
    read(made.store, PLANE, np.array([-1, *LINE[1:]], "f4"))


def test_two_references_to_one_file() -> None:
    made = Made()
    chunks = made.value(made.manifest)[2]
    chunks[4, (1,)] = chunks[4, (0,)]
    made.put(made.manifest, [0, {}, chunks])
    check(made, line=np.concatenate([LINE[:200], LINE[:200], LINE[400:]]))


def test_any_order_and_the_last_of_one_key() -> None:
    made = Made()
    chunks = made.value(made.manifest)[2]
    wrong = (next(iter(chunks)), {"Inline": b"\0" * 16})
    made.put(made.manifest, [0, {}, Pairs([wrong, *reversed(chunks.items())])])
    fields = made.value(made.snapshot)
    nodes = list(fields[10].items())
    made.field(10, Pairs([("/plane", [9, "/plane", None, "Group"]), *reversed(nodes)]))
    check(made)


@pytest.mark.rule("trap 54")
def test_references_that_no_array_has() -> None:
    """References of missing nodes, of another rank, or beyond the grid: not shown, whatever is committed."""
    made = Made()
    chunks = made.value(made.manifest)[2]
    strange = {(77, (0, 0)): {"Inline": b"x"}, (2, (0,)): {"Inline": b"x"}, (2, (0, 5)): {"Inline": b"x"}}
    made.put(made.manifest, [0, {}, {**chunks, **strange}])
    check(made)
    store = frazil.Repository.open(made.store).readonly_session().store
    assert len(store.list_prefix("plane/c/")) == 4


# --- forms -------------------------------------------------------------------------------------------------------------------------------


def named(fields: list[Any], kind: str) -> Pairs:
    """A struct as a map: fields in another order, with an unknown one."""
    pairs = list(zip(FIELDS[kind], fields, strict=True))
    return Pairs([("unheard_of", [1, {}]), *reversed(pairs)])


@pytest.mark.rule("I219", "I260")
def test_structs_by_name() -> None:
    made = Made()
    made.put(made.manifest, named(made.value(made.manifest), "manifest"))
    fields = made.value(made.snapshot)
    for path, node in fields[10].items():
        if node[3] != "Group":
            node[3]["Array"][0] = named(node[3]["Array"][0], "array")
        fields[10][path] = named(node, "node")
    made.put(made.snapshot, named(fields, "snapshot"))
    read(made.store, PLANE, LINE)
    with frazil.Repository.open(made.store).transaction(message="ours") as root:
        root["plane"][0, 0] = 5
    plane = PLANE.copy()
    plane[0, 0] = 5
    read(made.store, plane, LINE)


def test_wide_numbers_and_headers() -> None:
    made = Made()
    fields = made.value(made.snapshot)
    for number in (0, 4, 5):
        fields[number] = Wide(fields[number])
    fields[7][2] = Wide(fields[7][2])
    fields[10] = Wide({path: Wide(node) for path, node in fields[10].items()})
    made.put(made.snapshot, fields)
    chunks = made.value(made.manifest)[2]
    wide = [((Wide(node), [Wide(index) for index in key]), payload) for (node, key), payload in chunks.items()]
    made.put(made.manifest, Wide([Wide(0), {}, Pairs(wide)]))
    check(made)


@pytest.mark.parametrize("more", [True, False])
def test_structs_with_a_field_too_many_or_too_few(more: bool) -> None:
    def cut(value: list[Any]) -> list[Any]:
        return [*value, None] if more else value[:-1]

    made = Made()
    made.put(made.snapshot, cut(made.value(made.snapshot)))
    with pytest.raises(FormatError, match="snapshot") as caught:
        frazil.Repository.open(made.store).readonly_session()
    assert caught.value.key == made.snapshot
    made = Made()
    made.put(made.manifest, cut(made.value(made.manifest)))
    session = frazil.Repository.open(made.store).readonly_session()
    with pytest.raises(FormatError) as caught:
        session.root["plane"][...]
    assert caught.value.key == made.manifest
    made = Made()
    made.node("/plane", cut)
    only_plane_is_broken(made)


@pytest.mark.rule("I224", "I265")
@pytest.mark.parametrize("version", [1, 9, 65535])
@pytest.mark.parametrize("kind", ["snapshot", "manifest"])
def test_other_versions_are_refused_by_name(kind: str, version: int) -> None:
    made = Made()
    key = made.snapshot if kind == "snapshot" else made.manifest
    made.put(key, [version, *made.value(key)[1:]])
    with pytest.raises(FormatError, match=f"version {version}") as caught:
        frazil.Repository.open(made.store).readonly_session().root["plane"][...]
    assert caught.value.key == key


@pytest.mark.rule("I224")
def test_files_of_later_versions_are_refused_by_name() -> None:
    for start, name in (
        ("ICE🧊CHUNK".encode() + b"icechunk", "0.1.0-alpha.10"),
        (b"\x28\xb5\x2f\xfd\0", "0.1.0-alpha.9"),
    ):
        for kind in ("snapshot", "manifest"):
            made = Made()
            key = made.snapshot if kind == "snapshot" else made.manifest
            made.store.set(key, start + b"\0" * 50)
            with pytest.raises(FormatError, match=name) as caught:
                frazil.Repository.open(made.store).readonly_session().root["plane"][...]
            assert caught.value.key == key


@pytest.mark.parametrize(
    ("key", "data", "name"),
    [
        ("refs/branch.main/ref.json", b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}', "Icechunk repository of format 1"),
        ("repo", "ICE🧊CHUNK".encode() + b"ic-2.1.2", "Icechunk repository of format 2"),
    ],
)
def test_repositories_of_later_versions_are_refused_by_name(key: str, data: bytes, name: str) -> None:
    store = MemoryStore()
    store.set(key, data)
    for attempt in (frazil.Repository.open, frazil.Repository.open_or_create):
        with pytest.raises(FormatError, match=name):
            attempt(store)
    assert not frazil.Repository.exists(store)
    assert store.list() == [key]


@pytest.mark.rule("I235")
@pytest.mark.parametrize(
    "time",
    [f"2024-10-13T18:53:45{fraction}Z" for fraction in ("", ".4", ".425022", ".123456789", ".123456789012")]
    + ["2024-10-13T20:53:45+02:00", "2024-10-13t18:53:45z", "2024-10-13T18:53:45.5-00:30"],
)
def test_times_of_other_writers(time: str) -> None:
    made = Made()
    made.field(8, time)
    made.field(7, [made.tip, time, "data"])
    check(made)


@pytest.mark.parametrize("time", ["2024-10-13T18:53:45", "2024-10-13", 1728845625, "yesterday", None])
def test_invalid_times_are_refused(time: object) -> None:
    made = Made()
    made.field(8, time)
    with pytest.raises(FormatError) as caught:
        frazil.Repository.open(made.store).readonly_session()
    assert caught.value.key == made.snapshot


def ids_in(text: str) -> list[str]:
    """Spellings of one id."""
    loose = text.lower().replace("0", "o").replace("1", "l", 1).replace("1", "i")
    tail = text[:-1] + {"0": "F", "G": "Z"}[text[-1]]
    return [text.lower(), loose, tail]


@pytest.mark.rule("I153")
@pytest.mark.parametrize("spelling", range(3))
def test_ids_in_other_spellings(spelling: int) -> None:
    made = Made()
    made.store.set(f"{MAIN}ZZZZZZZX.json", reference(ids_in(made.tip)[spelling]))
    manifest = ids_in(made.manifest.removeprefix(MANIFEST))[spelling]
    for path in ("/plane", "/sub/line"):
        made.listed(path, [[manifest, []]])
    chunks = made.value(made.manifest)[2]
    for payload in chunks.values():
        if "Ref" in payload:
            payload["Ref"][0] = ids_in(payload["Ref"][0])[spelling]
    made.put(made.manifest, [0, {}, chunks])
    check(made)


@pytest.mark.parametrize("identity", ["PGFG33J5SJNP38N7NFV", "UGFG33J5SJNP38N7NFV0", b"\0" * 12, "../../etc/passwd-20"])
def test_invalid_ids_are_refused(identity: object) -> None:
    made = Made()
    made.listed("/plane", [[identity, []]])
    only_plane_is_broken(made)


# --- nodes -------------------------------------------------------------------------------------------------------------------------------


def only_plane_is_broken(made: Made) -> None:
    """That array is refused by name, in every access; the others are read, and commits keep it unchanged."""
    repo = frazil.Repository.open(made.store)
    node = encoded(made.value(made.snapshot)[10]["/plane"])
    for number in range(2):
        session = repo.readonly_session()
        for attempt in (
            lambda session=session: session.root["plane"],
            lambda session=session: session.open("plane"),
            lambda session=session: session.store.get("plane/zarr.json"),
        ):
            with pytest.raises((FormatError, MetadataError)) as caught:
                attempt()
            assert "plane" in f"{caught.value.path}"
        np.testing.assert_array_equal(session.root["sub/line"][number:], LINE[number:])
        with repo.transaction(message="ours") as root:
            root["sub/line"][number] = -1
        assert encoded(made.value(f"{SNAPSHOT}{repo.lookup('main')}")[10]["/plane"]) == node
    with repo.transaction(message="removed") as root:
        del root["plane"]
    assert list(repo.readonly_session().root) == ["sub"]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *((1, "float128"), (1, 7), (2, [2, 0]), (2, [2]), (3, "Comma"), (4, None), (4, {"Float32": None})),
        *((4, {"Int8": 1000}), (4, {"Float99": 1.0}), (5, [["bytes"]]), (0, [-1, 4])),
    ],
)
def test_a_damaged_array_does_not_hide_others(member: int, value: object) -> None:
    """The library could not read the snapshot at all."""
    made = Made()
    made.array("/plane", member, value)
    with pytest.raises((Refused, TypeError, AttributeError, ValueError)):
        Library(made.store).checkout("main")
    only_plane_is_broken(made)


def test_attributes_of_other_writers() -> None:
    made = Made()
    for attributes, expected in (
        (None, {}),
        ({"Inline": {"z": 1, "a": [{"y": 2, "b": None}]}}, {"z": 1, "a": [{"y": 2, "b": None}]}),
    ):
        made.node("/plane", lambda node, attributes=attributes: node.__setitem__(2, attributes))
        attrs = frazil.Repository.open(made.store).readonly_session().root["plane"].attrs
        assert dict(attrs) == expected
        assert list(attrs) == list(expected)
        read(made.store, PLANE, LINE)
    check(made)


def test_invalid_attributes() -> None:
    made = Made()
    made.node("/plane", lambda node: node.__setitem__(2, {"Inline": {"nan": math.nan, "one": Single(1.0)}}))
    check(made)
    attrs = frazil.Repository.open(made.store).readonly_session().root["plane"].attrs
    assert math.isnan(float(attrs["nan"]))  # type: ignore[arg-type]
    assert attrs["one"] == 1.0


def test_attributes_in_a_file() -> None:
    """The library had not implemented that, and crashed."""
    made = Made()
    made.put("attributes/PGFG33J5SJNP38N7NFV0", [{"other": 1}, {"is": "far away"}])
    made.field(3, [["PGFG33J5SJNP38N7NFV0", 0]])
    made.node("/plane", lambda node: node.__setitem__(2, {"Ref": ["PGFG33J5SJNP38N7NFV0", 1]}))
    repo = frazil.Repository.open(made.store)
    with repo.transaction(message="ours") as root:
        assert dict(root["plane"].attrs) == {"is": "far away"}
        root["plane"][0, 0] = 3
    fields = made.value(f"{SNAPSHOT}{repo.lookup('main')}")
    assert fields[3] == [["PGFG33J5SJNP38N7NFV0", 0]]
    assert fields[10]["/plane"][2] == {"Ref": ["PGFG33J5SJNP38N7NFV0", 1]}
    made.store.erase("attributes/PGFG33J5SJNP38N7NFV0")
    session = frazil.Repository.open(made.store).readonly_session()
    np.testing.assert_array_equal(session.root["sub/line"][...], LINE)
    with pytest.raises(FrazilError, match="attributes"):
        dict(session.root["plane"].attrs)


@pytest.mark.parametrize("path", ["/", "/sub"])
def test_groups_that_are_missing(path: str) -> None:
    made = Made()
    fields = made.value(made.snapshot)
    del fields[10][path]
    made.field(10, fields[10])
    read(made.store, PLANE, LINE)
    repo = frazil.Repository.open(made.store)
    assert list(repo.readonly_session().root) == ["plane", *["sub"] * (path == "/")]
    with repo.transaction(message="ours") as root:
        root["sub/line"][0] = 5
    read(made.store, PLANE, np.array([5, *LINE[1:]], "f4"))


def test_a_node_under_another_path() -> None:
    """It was listed, but could not be read."""
    made = Made()
    made.node("/plane", lambda node: node.__setitem__(1, "/elsewhere"))
    np.testing.assert_array_equal(frazil.Repository.open(made.store).readonly_session().root["sub/line"][...], LINE)
    only_plane_is_broken(made)


# --- snapshots, branches ------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I230", "I231", "I232")
@pytest.mark.parametrize(("kept", "count"), [(0, 2), (1, 2), (2, 7), (2, 65535)])
def test_histories_that_are_not_whole(kept: int, count: int) -> None:
    made = Made()
    made.field(6, made.value(made.snapshot)[6][:kept])
    made.field(5, count)
    made.field(4, max(2, count))
    check(made)
    history = frazil.Repository.open(made.store).history()
    assert [commit.message for commit in islice(history, 2)] == ["ours", "data"]
    if kept == 2 < count:  # an ancestor without a record of its expiry is damage
        with pytest.raises(FormatError, match="no record of an expiry"):
            list(history)


@pytest.mark.rule("I121")
def test_a_later_snapshot_of_another_id_than_its_file() -> None:
    """The library writes that for the first snapshot alone. A later one is the file of another snapshot."""
    made = Made()
    other = new_id()
    made.field(7, [other, *made.value(made.snapshot)[7][1:]])
    with pytest.raises(FormatError, match="content of another snapshot"):
        check(made)


@pytest.mark.rule("I232")
def test_the_first_snapshot_is_found_by_both_its_ids() -> None:
    made = Made()
    repo = frazil.Repository.open(made.store)
    first = list(repo.history())[-1]
    assert f"{SNAPSHOT}{first.id}" not in made.store.list()
    session = repo.readonly_session(snapshot=first.id)
    assert list(session.root) == []
    assert f"{SNAPSHOT}{session.snapshot_id}" in made.store.list()
    repo.create_tag("first", first.id)
    assert repo.lookup_tag("first") == session.snapshot_id


@pytest.mark.rule("I152")
@pytest.mark.parametrize("form", ['{{"snapshot":"{}"}}\n', '{{ "by": [1], "snapshot" : "{}" }}'])
def test_branch_files_of_other_writers(form: str) -> None:
    made = Made()
    made.store.set(f"{MAIN}ZZZZZZZX.json", form.format(made.tip).encode())
    check(made)


@pytest.mark.rule("I180", "I320")
def test_a_gap_in_a_branch() -> None:
    made = Made()
    made.store.set(f"{MAIN}ZZZZZZZ0.json", reference(made.tip))
    check(made)
    assert made.store.list_prefix(MAIN)[0] == f"{MAIN}ZZZZZZYZ.json"


@pytest.mark.rule("I194", "I320")
@pytest.mark.parametrize(
    "name", [".DS_Store", "0", "00000000", "README.md", "000/ZZZZZZZZ.json", "#x.json", "00000000.json~"]
)
def test_foreign_files_in_a_branch(name: str) -> None:
    """The library took the first entry of the listing, whatever it was, and could not open the branch."""
    made = Made()
    made.store.set(f"{MAIN}{name}", b"what is this")
    read(made.store, PLANE, LINE)
    repo = frazil.Repository.open(made.store)
    with repo.transaction(message="ours") as root:
        root["plane"][3, 3] = 99
    assert repo.readonly_session().root["plane"][3, 3] == 99
    assert repo.branches == ["main"]
    made.store.erase(f"{MAIN}{name}")
    assert Library(made.store).checkout("main").ancestry()[0] == "ours"


def test_unknown_files_beside_a_repository_are_ignored() -> None:
    made = Made()
    for key in (
        "transactions/PGFG33J5SJNP38N7NFV0",
        "config.yaml",
        "refs/other/ref.json",
        "snapshots/README",
        "chunks/x/y",
    ):
        made.store.set(key, b"?")
    check(made)
