"""Some of the cases in damages.py; `python -m tests.repository.repair.damages SECONDS SEED` runs more of them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from tests.repository.repair.damages import VARIANTS, build, cases, check, matrix

CASES = 8


@pytest.mark.parametrize("variant", VARIANTS)
def test_damaged_repositories(tmp_path: Path, variant: str) -> None:
    """Each kind of damage to each kind of file in one of the variants, and a sample of all."""
    template, _ = build(tmp_path / "template", variant), build(tmp_path / "other", variant)
    for case in (*islice(matrix(template), VARIANTS.index(variant), None, 3), *islice(cases(template, 1), CASES)):
        try:
            check(template, *case)
        except BaseException as error:
            error.add_note(f"file, damage, operation and seed: {case}")
            raise
