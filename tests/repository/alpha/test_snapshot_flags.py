"""Which snapshot properties belong to which writer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.msgpack import pack
from frazil.formats.snapshots import SnapshotInfo
from frazil.repository.alpha.snapshot_flags import commit_metadata, commit_properties

NAMES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=3)


@given(NAMES, st.lists(NAMES, max_size=5))
def test_flags_of_other_programs_are_kept(others: dict[str, int], commits: list[dict[str, int]]) -> None:
    snapshot = SnapshotFile(SnapshotInfo(bytes(12), 0, ""), 0, flags={"theirs": b"\x01"}, properties=others)
    assert commit_metadata(snapshot) == others
    for metadata in commits:
        before = snapshot
        properties, flags = commit_properties(before, metadata)
        snapshot = before._replace(properties=properties, flags=flags)
        assert commit_metadata(snapshot) == metadata
        assert flags["theirs"] == b"\x01"
        own = {name for one in commits for name in one}
        assert {name: value for name, value in properties.items() if name not in own} == {
            name: value for name, value in others.items() if name not in own
        }


def test_a_flag_that_makes_no_sense_is_none() -> None:
    for data in (b"\x01", b"", pack({"a": 1})):
        snapshot = SnapshotFile(SnapshotInfo(bytes(12), 0, ""), 0, flags={"frazil.metadata": data}, properties={"a": 1})
        assert commit_metadata(snapshot) == {"a": 1}


def test_commits_without_properties_have_no_flags() -> None:
    assert commit_properties(SnapshotFile(SnapshotInfo(bytes(12), 0, ""), 0), {}) == ({}, {})
