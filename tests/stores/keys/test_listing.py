"""listing.py: pages of rows, and names directly below a prefix."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.stores.keys.listing import first_level, page_of, with_details
from frazil.stores.memory import MemoryStore

KEYS = st.sets(st.lists(st.text("ab!0", min_size=1, max_size=2), min_size=1, max_size=4).map("/".join))


@given(KEYS)
def test_the_first_level(keys: set[str]) -> None:
    for prefix in ("", "a/", "b/a/"):
        below = sorted(key for key in keys if key.startswith(prefix))
        parts = [key[len(prefix) :].partition("/") for key in below]
        assert list(first_level(below, prefix)) == sorted({prefix + name + slash for name, slash, _ in parts})


@given(KEYS, st.integers(1, 5))
def test_pages_go_on_where_the_last_one_ended(keys: set[str], limit: int) -> None:
    rows, found = sorted(keys), list[str]()
    after: str | None = ""
    while after is not None:
        page = page_of(rows, after, limit)
        assert len(page.keys) <= limit
        found += page.keys
        after = page.next
    assert found == rows
    assert page_of(rows, "", None).keys == rows


def test_details_that_a_listing_does_not_have_are_looked_up() -> None:
    store = MemoryStore()
    keys = [f"{i:04}" for i in range(300)]
    for i, key in enumerate(keys):
        store.set(key, bytes(i))
    page = with_details(page_of([*keys, "a/", "gone"], "", None), store.fetch)
    assert page.sizes is not None and page.versions is not None and page.modified is not None
    assert page.sizes.tolist() == [*range(300), -1, -1]
    assert page.versions[-2:] == [None, None]
    assert set(map(type, page.versions[:-2])) == {bytes}
    assert page.modified.tolist() == [-1] * 302
    assert page.prefixes().tolist() == [False] * 300 + [True, False]
