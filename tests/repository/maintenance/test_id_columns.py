"""Columns of ids, against sets of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.ids import encode_id, encode_ids
from frazil.repository.maintenance import id_columns as columns

IDS = st.lists(st.one_of(st.binary(min_size=12, max_size=12), st.sampled_from([bytes(12), b"a" + bytes(11)])))


@given(IDS, IDS)
def test_columns_are_sets(left: list[bytes], right: list[bytes]) -> None:
    ours, theirs = columns.id_column(left), columns.join([columns.id_column(right)])
    assert columns.id_list(columns.join([ours, theirs])) == sorted({*left, *right})
    assert columns.id_list(columns.distinct(ours)) == sorted(set(left))
    assert columns.id_list(columns.without(ours, theirs)) == [one for one in left if one not in right]
    assert columns.among(ours, theirs).tolist() == [one in right for one in left]


@given(st.lists(st.one_of(st.binary(min_size=12, max_size=12).map(encode_id), st.text(max_size=22))))
def test_ids_of_names(names: list[str]) -> None:
    ids, rows = columns.ids_of_names(names)
    assert encode_ids(columns.octets(ids)) == [names[row] for row in rows]
    texts = {encode_id(one) for one in columns.id_list(ids)}
    foreign = [name for row, name in enumerate(names) if row not in rows.tolist()]
    assert not texts & set(foreign)


@given(IDS)
def test_names_keep_the_order_of_ids(ids: list[bytes]) -> None:
    assert sorted(map(encode_id, ids)) == list(map(encode_id, sorted(ids)))
