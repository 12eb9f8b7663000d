"""Pieces of manifests contain exactly the right references."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.repository.models import Model, manifest_of, model_of, payloads, together

from frazil.formats.alpha.manifests import decode_manifest, encode_manifest
from frazil.formats.manifests import NO_FLAGS, FileCheck
from frazil.repository.manifests.manifest_parts import join_pieces, piece_of, split_piece, trimmed

models: st.SearchStrategy[Model] = st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 5)), payloads)


@given(models, st.integers(1, 9))
def test_split_and_joined_again(model: Model, most: int) -> None:
    whole = manifest_of(3, model, 2)
    pieces = [trimmed(piece) for piece in split_piece(whole, most)]
    assert len(pieces) == -(-len(model) // most)
    sizes = [piece.size for piece in pieces]
    assert max(sizes, default=0) <= most
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    for piece in pieces:
        assert piece.inline.size == sum(map(len, filter(is_bytes, model_of(piece, 3).values())))
        used = {payload[0] for payload in model_of(piece, 3).values() if isinstance(payload[0:1], tuple)}
        assert {*piece.all_locations()} == {name for name in used if isinstance(name, str)}
        assert trimmed(piece) is piece
        assert model_of(decode_manifest(memoryview(encode_manifest(piece))), 3) == model_of(piece, 3)
    if pieces:
        assert model_of(join_pieces(pieces), 3) == model


def is_bytes(payload: object) -> bool:
    return isinstance(payload, bytes)


@given(models, models)
def test_the_later_piece_of_a_manifest_replaces_rows(older: Model, newer: Model) -> None:
    joined = join_pieces([manifest_of(3, older, 2), manifest_of(3, newer, 2)])
    assert model_of(joined, 3) == {**older, **newer}


@given(models, models)
def test_a_piece_has_one_array_alone(ours: Model, others: Model) -> None:
    alone = manifest_of(3, ours, 2)
    assert piece_of(alone, 3, 2) is alone
    shared = together(alone, manifest_of(4, others, 2), manifest_of(3, {(1,): b"wrong"}, 1))
    piece = piece_of(shared, 3, 2)
    assert model_of(piece, 3) == ours
    assert not model_of(piece, 4)


def test_flags_are_joined_and_checks_go_with_locations() -> None:
    old, new = FileCheck(1, 2), FileCheck(3, 4)
    first = manifest_of(3, {(0,): ("file:///a", 0, 1), (1,): ("file:///b", 0, 1)}, 1)
    second = manifest_of(3, {(2,): ("file:///b", 0, 1), (3,): ("file:///c", 0, 1)}, 1)
    first = first._replace(flags={b"other": b"1"}, checks={"file:///a": old, "file:///b": old})
    second = second._replace(flags={b"other": b"2"}, checks={"file:///b": new, "file:///c": new})
    joined = join_pieces([first, second])
    checks = joined.checks
    older = next(name for name in checks if name.startswith("file:///b#"))
    assert checks == {"file:///a": old, older: old, "file:///b": new, "file:///c": new}
    assert joined.flags == {b"other": b"2"}
    pieces = [trimmed(piece) for piece in split_piece(joined, 1)]
    assert [list(piece.checks) for piece in pieces] == [
        ["file:///a"],
        [older],
        ["file:///b"],
        ["file:///c"],
    ]
    plain = manifest_of(3, {(9,): b"x"}, 1)
    assert join_pieces([plain, plain]).flags == NO_FLAGS
    assert join_pieces([first, plain]).flags == first.flags
