"""A sample of the cases in damages.py; `python -m tests.repository.repair.damages SECONDS SEED` runs more of them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from tests.repository.repair.damages import VARIANTS, build, cases, check

CASES = 8


@pytest.mark.parametrize("variant", VARIANTS)
def test_damaged_repositories(tmp_path: Path, variant: str) -> None:
    template = build(tmp_path / "template", variant)
    for case in islice(cases(template, 1), CASES):
        try:
            check(template, *case)
        except BaseException as error:
            error.add_note(f"file, damage, operation and seed: {case}")
            raise
