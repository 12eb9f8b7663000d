"""The reproductions of defects that external testing reported: none is there. They use only public names, so they also fail if one of these changes.

The tests of each defect are where its code is tested."""

from __future__ import annotations

import subprocess
import sys

from tests.external_data import defect


def test_no_reported_defect_is_there() -> None:
    script = defect("defects.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
