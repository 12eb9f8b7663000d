"""The names that users import, the tree of errors, and the imports that an import may load: changes here are changes for users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import frazil
from frazil import errors, extensions

NAMES = {
    "Array", "CommitUnknownError", "ConflictError", "FrazilError", "Group", "Registry", "Repository", "Runtime", "Session", "checksum", "codecs", "config", "consolidate_metadata", "convert", "copy", "create_array", "create_group", "dtype",
    "errors",
    "export_file", "extensions", "import_file", "open",
    "array", "create", "empty", "empty_like", "from_array", "full", "full_like", "group", "load", "ones", "ones_like", "save", "save_array", "save_group", "zeros", "zeros_like",
    "create_hierarchy", "open_like", "print_debug_info", "storage", "tree",
    "open_array", "open_consolidated", "open_group", "rechunk", "shards", "stores", "validate",
}  # fmt: skip
FOR_EXTENSIONS = {
    "ArrayExtension", "ArrayMetadata", "ChunkGrid", "ChunkKeyEncoding", "DataType", "DataTypeFamily", "DraftKeys", "Extension", "FillValue", "Json",
    "MemoryLayout", "MetadataEncoding", "MetadataEncodingReader", "NamedExtension", "RegularGrid", "RuntimeTransformer", "SeparatedKeys",
    "StorageTransformer",
}  # fmt: skip
PARENTS = {
    "FrazilError": {"Exception"},
    "NotFoundError": {"FrazilError", "KeyError", "FileNotFoundError", "ValueError"},
    "AlreadyExistsError": {"FrazilError", "FileExistsError", "ValueError"},
    "InvalidInputError": {"FrazilError", "ValueError"},
    "SelectionError": {"InvalidInputError", "IndexError"},
    "MetadataError": {"InvalidInputError"},
    "ConversionError": {"InvalidInputError"},
    "MissingPackageError": {"InvalidInputError", "ImportError"},
    "UnknownExtensionError": {"InvalidInputError"},
    "NodeKindError": {"InvalidInputError", "AlreadyExistsError"},
    "ReadOnlyError": {"FrazilError", "PermissionError", "ValueError"},
    "ConflictError": {"FrazilError"},
    "CommitUnknownError": {"FrazilError"},
    "StoreError": {"FrazilError", "OSError"},
    "AccessError": {"StoreError"},
    "DataError": {"FrazilError"},
    "ChunkDecodeError": {"DataError"},
    "ChecksumError": {"DataError"},
    "FormatError": {"DataError"},
    "FallbackWarning": {"UserWarning"},
    "RedirectWarning": {"UserWarning"},
}
SLOW = {
    "asyncio",
    "logging",
    "concurrent.futures",
    "tempfile",
    "dataclasses",
    "multiprocessing",
    "urllib.request",
    "random",
    "numpy.typing",  # only for type checkers: import it under TYPE_CHECKING
    "threading",  # its Lock is _thread.allocate_lock
}


def test_public_names() -> None:
    assert set(frazil.__all__) == NAMES
    assert all(hasattr(frazil, name) for name in (*NAMES, "dask", "xarray", "zarr"))


def test_a_star_import_needs_no_extra() -> None:
    refuse = "import sys; sys.modules.update(dict.fromkeys(('dask', 'xarray', 'zarr', 'h5py', 'obstore')))"
    code = f"{refuse}; from frazil import *; assert zeros((2, 2))[:].sum() == 0"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_function_array_has_the_name_of_a_package() -> None:
    code = "import frazil, frazil.array.array, importlib; importlib.reload(frazil); print(frazil.array([1])[:]); import frazil.array.group; print(frazil.array([1])[:])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout.split() == [b"[1]"] * 2


def test_names_for_extensions() -> None:
    assert set(extensions.__all__) == FOR_EXTENSIONS
    assert all(hasattr(extensions, name) and name in (extensions.__doc__ or "") for name in FOR_EXTENSIONS)


def test_the_tree_of_errors() -> None:
    assert set(errors.__all__) == {*PARENTS, "NodeConflict"}
    assert {name: {base.__name__ for base in getattr(errors, name).__bases__} for name in PARENTS} == PARENTS
    assert all(name in (errors.__doc__ or "") for name in PARENTS)


def test_an_import_loads_nothing_slow() -> None:
    code = "import numpy, sys; before = set(sys.modules); import frazil; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "frazil" in loaded
    assert not SLOW & set(loaded)


def test_an_import_loads_few_modules() -> None:
    """Each costs a fraction of a millisecond: rarely used modules are imported late (docs/design/011-done-once.md)."""
    code = "import frazil, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    ours = [name for name in loaded if name.split(".")[0] == "frazil"]
    assert len(ours) <= 76, ours


def test_opening_a_folder_loads_nothing_slow(tmp_path: Path) -> None:
    frazil.create_array(tmp_path / "a", shape=(4, 4), chunks=(2, 2), shards=(4, 4), dtype="f4")
    code = "import numpy, sys; before = set(sys.modules); import frazil; frazil.open_array(sys.argv[1])[:2, :2]; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True, capture_output=True, text=True)
    assert not {*SLOW, "hashlib", "frazil.array.creation.array_metadata"} & set(run.stdout.split())


def test_an_assignment_does_not_import_masked_arrays(tmp_path: Path) -> None:
    """Their import takes as long as all of Frazil's, and files that a process may lack. Older versions of NumPy import them at once."""
    frazil.create_array(tmp_path / "a", shape=4, chunks=2, dtype="f4")
    code = "import numpy, sys; before = set(sys.modules); import frazil; frazil.open_array(sys.argv[1], 'r+')[:2] = numpy.ones(2); print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True, capture_output=True, text=True)
    assert "numpy.ma" not in run.stdout.split()


def test_creating_an_array_loads_nothing_of_repositories(tmp_path: Path) -> None:
    code = "import frazil, sys; frazil.create_array(sys.argv[1], shape=(4, 4), dtype='f4'); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True, capture_output=True, text=True)
    loaded = run.stdout.split()
    assert "frazil.api.ref_locations" in loaded
    assert not [name for name in loaded if name.startswith(("frazil.repository.", "frazil.formats"))]
