"""Late modules and names: on first use, they equal the result of a plain import."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_layers import LATE

import frazil.codecs
import frazil.stores
from frazil.base.late import LateModule, late_modules, late_names


def run(code: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_module() -> None:
    import colorsys

    late = LateModule("colorsys")
    assert late.rgb_to_hls is colorsys.rgb_to_hls
    assert repr(late) == "LateModule('colorsys')"
    with pytest.raises(AttributeError, match="nothing"):
        late.nothing


def test_a_copy_is_the_module() -> None:
    import colorsys

    for late in (LateModule("colorsys"), loaded := LateModule("colorsys")):
        assert copy.copy(late) is copy.deepcopy([late])[0] is pickle.loads(pickle.dumps(late)) is colorsys
        _ = loaded.rgb_to_hls


def test_names_of_an_imported_module_are_found_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    import colorsys

    late = LateModule("colorsys")
    _ = late.rgb_to_hls
    monkeypatch.setattr(LateModule, "__getattr__", None)
    assert late.hls_to_rgb is colorsys.hls_to_rgb
    monkeypatch.setattr(colorsys, "ONE_THIRD", 3)
    assert late.ONE_THIRD == 3, "a change of the module is seen"


def test_a_module_is_imported_when_it_is_used() -> None:
    code = "import sys; from frazil.base.late import LateModule; a = LateModule('colorsys'); b = 'colorsys' in sys.modules; a.rgb_to_hls; print(b, 'colorsys' in sys.modules)"
    assert run(code) == "False True"


def test_modules_of_a_package_are_imported_when_they_are_used() -> None:
    code = (
        "import sys; from frazil.stores.caches import disk_cache; import frazil.stores.caches as package; name = disk_cache.__class__.__name__;"
        "before = 'frazil.stores.caches.disk_cache' in sys.modules; disk_cache.__name__; print(name, before, package.disk_cache is sys.modules['frazil.stores.caches.disk_cache'])"
    )
    assert run(code) == "LateModule False True"
    import xml.dom.minidom

    late_modules("xml.dom", "minidom")
    assert xml.dom.minidom is sys.modules["xml.dom.minidom"], "a module that is imported already is not replaced"


def test_a_failed_import_is_repeated_after_a_signal_handler_saw_a_half_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = LateModule("half_imported")
    attempts: list[int] = []

    def handler() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            _ = late.value

    monkeypatch.setattr(sys, "half_imported_handler", handler, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "half_imported.py").write_text("import sys\nsys.half_imported_handler()\nvalue = 1\n")
    with pytest.raises(AttributeError):
        _ = late.value
    assert late.value == 1
    monkeypatch.delitem(sys.modules, "half_imported")


def test_doctest_reads_packages_with_late_modules() -> None:
    assert run("import doctest, frazil.stores; print(doctest.testmod(frazil.stores).failed)") == "0"


FEW_FILES = """
import os, resource, sys, time
from frazil.base import retry
from frazil.base.late import LateModule, late_names
late = LateModule("colorsys")
get, _ = late_names("frazil.base", {"Fraction": "fractions"})
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []

def open_all():
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass

def close_all(seconds):
    while held:
        os.close(held.pop())

open_all()
if sys.argv[1] == "closed":
    time.sleep = close_all
    late.rgb_to_hls
    open_all()
    print(get("Fraction"), held)
else:
    time.sleep = lambda seconds: None
    time.monotonic = iter(range(10**9)).__next__
    try:
        late.rgb_to_hls
    except retry.StoreError as error:
        print(error.errno, error.hint)
"""


@pytest.mark.parametrize(
    ("files", "output"), [("closed", "<class 'fractions.Fraction'> []"), ("kept", "24 raise the limit (ulimit -n)")]
)
def test_an_import_waits_until_files_are_closed(files: str, output: str) -> None:
    assert run(FEW_FILES, files) == output


def test_late_modules_are_not_loaded_at_import() -> None:
    loaded = run("import frazil, sys; print(*sys.modules)").split()
    assert "frazil" in loaded
    assert set(LATE) & set(loaded) == set()


def test_names_of_a_package() -> None:
    get, names = late_names("frazil.stores", {"rgb_to_hls": "colorsys"})
    assert {"rgb_to_hls", "Store"} <= set(names())
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        get("other")


@pytest.mark.parametrize("package", [frazil.codecs, frazil.stores])
def test_packages_export_the_names_of_their_all(package: object) -> None:
    name: str = package.__name__  # type: ignore[attr-defined]
    exported: list[str] = package.__all__  # type: ignore[attr-defined]
    assert run(f"import {name} as p; print(set(p.__all__) <= set(dir(p)))") == "True"
    assert run(f"from {name} import *; print(set({exported!r}) <= set(globals()))") == "True"
    assert run(f"import {name} as p; print(all(hasattr(p, name) for name in p.__all__), hasattr(p, 'nothing'))") == (
        "True False"
    )


def test_late_classes_are_pickled_by_where_they_are() -> None:
    code = "import frazil, pickle; print(pickle.loads(pickle.dumps(frazil.codecs.Bz2(3))), pickle.loads(pickle.dumps(frazil.codecs.Bz2)).__module__)"
    assert run(code) == "Bz2(level=3) frazil.codecs.bytes_to_bytes.compressors"


FORKED = """
import os, signal, sys, threading
from frazil.base.late import LateModule
begun, forks = threading.Event(), threading.Event()
os.register_at_fork(before=forks.set)  # called before those that were registered earlier
late = LateModule("slow_to_import")
thread = threading.Thread(target=lambda: late.value)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(late.value)
print(os.waitpid(child, 0)[1] >> 8)
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_waits_for_imports_of_other_threads(tmp_path: Path) -> None:
    module = "import sys, threading\nmain = sys.modules['__main__']\nmain.begun.set()\nmain.forks.wait()\nthreading.Event().wait(0.1)\nvalue = 7\n"
    (tmp_path / "slow_to_import.py").write_text(module)
    assert run(f"import sys; sys.path.insert(0, sys.argv[1]){FORKED}", str(tmp_path)) == "7"


WAITING = """
import os, threading
from frazil.base.late import LateModule
lock = threading.Lock()
thread = threading.Thread(target=lambda: late.value)
late = LateModule("waits_for_a_lock")
with lock:
    thread.start()
    begun.wait()
    if os.fork() == 0:
        os._exit(len(sys.modules["frazil.base.late"]._importing))  # a fork of the child waits for nothing
    print(os.wait()[1])
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_does_not_wait_for_an_import_that_waits_for_it(tmp_path: Path) -> None:
    """As when logging was imported later than Frazil: a fork holds its lock, for which imports with a logger wait."""
    module = "import sys\nmain = sys.modules['__main__']\nmain.begun.set()\nwith main.lock:\n    value = 7\n"
    (tmp_path / "waits_for_a_lock.py").write_text(module)
    begin = "import sys, threading; sys.path.insert(0, sys.argv[1]); begun = threading.Event()"
    assert run(f"{begin}{WAITING}", str(tmp_path)) == "0"
