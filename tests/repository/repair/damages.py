"""Repositories on a disk, every kind of damage to every kind of their files, and every operation on the damaged repository: what must hold afterwards."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import numpy as np
from tests.repository.maintenance.garbage import orphan, values

import frazil
from frazil.base.record import Record
from frazil.errors import FrazilError

DAY: Final = 86_400
KINDS: Final = ("attributes", "chunks", "manifests", "snapshots")
VARIANTS: Final = ("plain", "digests", "library")

Content = dict[str, object]


class Template(Record):
    """A sound repository, and what it contains.

    contents  of each snapshot that a branch or tag leads to, by id
    tips      "branch NAME" or "tag NAME" with the id of its snapshot
    live      files that these snapshots need, and all of refs/
    files     all files, by kind: the folder, and for refs/ and gc/ the next one"""

    location: Path
    contents: dict[str, Content]
    tips: dict[str, str]
    live: frozenset[str]
    files: dict[str, list[str]]


def build(location: Path, variant: str) -> Template:
    repo = frazil.Repository.create(
        location,
        durable=False,
        chunk_packing="off",
        compatible="alpha-library" if variant == "library" else None,
        chunk_digests="crc32c" if variant == "digests" else None,
        attributes_file_bytes=None if variant == "library" else 40,
    )
    codecs = ["bytes"] if variant == "library" else ["bytes", "crc32c"]
    with repo.transaction(message="0") as root:
        root.attrs["title"] = "x" * 60
        for name in ("a", "b"):
            root.create_array(name, data=values(0), chunks=(1, 256), codecs=codecs if name == "a" else ["bytes"])
        root.create_array("small", data=np.arange(8, dtype="i4"), chunks=(2,), codecs=codecs)
    for number in range(1, 6):
        with repo.transaction(message=str(number)) as root:
            root["a"][: 1 + number % 3] = values(number)[: 1 + number % 3]
            root["small"][number] = 100 + number
            if number == 3:
                root["a"].attrs["unit"] = "K" * 60
    ids = [one.id for one in repo.history()]
    repo.create_tag("v1", ids[3])
    repo.create_branch("dev", ids[2])
    with repo.transaction("dev", message="on dev") as root:
        root["b"][0] = 7
    if variant != "library":
        repo.create_branch("gone", "dev")
        repo.delete_branch("gone")
    repo.expire(older_than=timedelta(0), keep_last=5)
    orphan(repo)
    repo.garbage_collect()
    tips = {f"branch {name}": repo.lookup_branch(name) for name in repo.branches}
    tips |= {f"tag {name}": repo.lookup_tag(name) for name in repo.tags}
    contents = {one.id: content(repo, one.id) for name in tips for one in repo.history(name.split()[1])}
    every = tree(location)
    shutil.copytree(location, copy := location.with_name(location.name + "-collected"))
    frazil.Repository.open(copy, durable=False).garbage_collect(now=True)
    live = {name for name in tree(copy).keys() & every.keys() if name.partition("/")[0] in ("refs", *KINDS)}
    shutil.rmtree(copy)
    files: dict[str, list[str]] = {}
    for name in sorted(every):
        first, second, *_ = name.split("/")
        kind = f"{first}/{second}" if first in ("refs", "gc") else first
        files.setdefault(kind if name in live or first == "gc" else f"{kind} (dead)", []).append(name)
    return Template(location, contents, tips, frozenset(live), files)


def tree(location: Path) -> dict[str, bytes]:
    """The files of a repository, and links by where they lead."""
    found = {}
    for folder, folders, names in os.walk(location):
        for path in [Path(folder, name) for name in (*folders, *names)]:
            name = path.relative_to(location).as_posix()
            if path.is_symlink():
                found[name] = os.fsencode(path.readlink())
            elif path.is_file():
                found[name] = path.read_bytes()
    return found


def content(repo: frazil.Repository, identity: str) -> Content:
    root = repo.readonly_session(snapshot=identity).root
    found: Content = {"": dict(root.attrs)}
    for name, array in root.arrays():
        found[name] = array[...].tobytes()
        found[f"{name}@"] = dict(array.attrs)
    return found


# --- damages ------------------------------------------------------------------------------------------------------------------------

Random = np.random.Generator
LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _flip(path: Path, rng: Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)


def _replace_by_sibling(path: Path, rng: Random) -> None:
    others = sorted(one for one in path.parent.iterdir() if one != path and one.is_file())
    if others:
        path.write_bytes(others[int(rng.integers(len(others)))].read_bytes())


def _replace_by_foreign(path: Path) -> None:
    """By a file of the same kind of another repository, which was built in the same way."""
    case = next(one for one in path.parents if one.name == "case")
    folder = case.with_name("other") / path.relative_to(case).parent
    others = sorted(folder.iterdir()) if folder.exists() else []
    if others:
        path.write_bytes(others[-1].read_bytes())


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(path: Path, *, dangling: bool) -> None:
    outside = next(one for one in path.parents if one.name == "case").with_name("outside")
    path.replace(outside)
    path.symlink_to("nothing" if dangling else outside)


def _duplicate(path: Path, rng: Random) -> None:
    """A copy under another name of the same kind."""
    stem, dot, suffix = path.name.partition(".")
    twin = path.with_name(f"{stem[:-1]}{LETTERS[int(rng.integers(32))]}{dot}{suffix}")
    if not twin.exists():
        twin.write_bytes(path.read_bytes())


DAMAGES: Final[dict[str, Callable[[Path, Random], object]]] = {
    "removed": lambda path, _: path.unlink(),
    "emptied": lambda path, _: path.write_bytes(b""),
    "truncated": lambda path, rng: path.write_bytes(path.read_bytes()[: int(rng.integers(path.stat().st_size + 1))]),
    "longer": lambda path, rng: path.write_bytes(path.read_bytes() + rng.bytes(5)),
    "zeros": lambda path, _: path.write_bytes(bytes(path.stat().st_size)),
    "flipped": _flip,
    "replaced": _replace_by_sibling,
    "foreign": lambda path, _: _replace_by_foreign(path),
    "folder": lambda path, _: _folder(path),
    "link": lambda path, _: _link(path, dangling=False),
    "dangling link": lambda path, _: _link(path, dangling=True),
    "small letters": lambda path, _: path.rename(path.with_name(path.name.lower())),
    "renamed": lambda path, _: path.rename(path.with_name(path.name + ".bak")),
    "duplicate": _duplicate,
    "of the future": lambda path, _: os.utime(path, (time.time() + 400 * DAY,) * 2),
}

# --- operations ---------------------------------------------------------------------------------------------------------------------


def _collect_twice(repo: frazil.Repository, location: Path) -> None:
    repo.garbage_collect()
    for path in (location / "gc").rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_mtime < time.time():
            os.utime(path, (path.stat().st_mtime - 3 * DAY,) * 2)
    repo.garbage_collect()


def _commit(branch: str) -> Callable[[frazil.Repository, Path], object]:
    def commit(repo: frazil.Repository, _: Path) -> None:
        with repo.transaction(branch, message="after") as root:
            root["b"][1] = 5
            root.attrs["after"] = True

    return commit


def _fork(repo: frazil.Repository, _: Path) -> None:
    session = repo.writable_session()
    fork = session.fork()
    fork.root["b"][2] = 9
    session.root["b"][3] = 9
    session.merge(fork)
    session.commit("after")


def _repair(**options: bool) -> Callable[[frazil.Repository, Path], object]:
    return lambda repo, _: repo.repair(**options)  # type: ignore[arg-type] # flags


def _read(repo: frazil.Repository, _: Path) -> dict[str, Content]:
    """The content of all tips that can be read, by the id of the snapshot; the others raise an error that says what is wrong."""
    found, errors = dict[str, Content](), list[FrazilError]()
    for name in (*repo.branches, *repo.tags):
        try:
            tip = repo.lookup(name)
            found[tip] = content(repo, tip)
        except FrazilError as error:
            errors.append(error)
    assert all(error.key or error.path for error in errors), errors
    return found


READS: Final[dict[str, Callable[[frazil.Repository, Path], object]]] = {
    "read": _read,
    "verify": lambda repo, _: repo.verify(decode=True),
    "history": lambda repo, _: [list(repo.history(name)) for name in repo.branches + repo.tags],
    "diff": lambda repo, _: repo.diff("v1", "main"),
    "stats": lambda repo, _: repo.stats(),
    "show": lambda repo, _: repo.show("main"),
    "usage": lambda repo, _: repo.usage("main"),
    "copy": lambda _, location: frazil.copy(location, location.with_name("copy")),
    "gc dry": lambda repo, _: repo.garbage_collect(dry_run=True),
    "repair dry": _repair(dry_run=True, older=True, accept_loss=True, tips=True, history=True),
}
CHANGES: Final[dict[str, Callable[[frazil.Repository, Path], object]]] = {
    "commit": _commit("main"),
    "commit dev": _commit("dev"),
    "fork": _fork,
    "tag": lambda repo, _: repo.create_tag("v2", "main"),
    "branch": lambda repo, _: repo.create_branch("new", "dev"),
    "reset": lambda repo, _: repo.reset_branch("dev", "main"),
    "delete": lambda repo, _: repo.delete_branch("dev"),
    "expire": lambda repo, _: repo.expire(older_than=timedelta(0), keep_last=2),
    "gc": _collect_twice,
    "gc now": lambda repo, _: repo.garbage_collect(now=True),
    "gc loss": lambda repo, _: repo.garbage_collect(now=True, accept_loss=True),
    "repair": _repair(),
    "repair older": _repair(older=True),
    "repair loss": _repair(accept_loss=True),
    "repair tips": _repair(tips=True),
    "repair history": _repair(history=True),
    "repair all": _repair(older=True, accept_loss=True, tips=True, history=True, decode=True),
}
OPERATIONS: Final = READS | CHANGES
MOVES: Final = (
    "reset",
    "delete",
    "repair tips",
    "repair history",
    "repair all",
)  # branches may go back, or their histories may end after the former tip
COPIES: Final = ("commit", "commit dev", "fork")
SEEN: Final = ("removed", "emptied", "truncated", "folder", "foreign")  # by readers, who compare no digests
UNSEEN: Final = ("attributes", "chunks", "manifests")  # files that another one can replace, unless digests are compared
NO_TRACE: Final = (
    "removed",
    "renamed",
    "duplicate",
    "replaced",
    "foreign",
)  # of a branch file: as if the branch was reset, or never there

# --- one case ---------------------------------------------------------------------------------------------------------------------------


def check(template: Template, name: str, damage: str, operation: str, seed: int) -> None:
    """Damages a copy of the template, runs an operation, and puts the file back. What Frazil raises has a hint, and then nothing was changed. No file that is
    needed was changed or removed, and all data are there when the file is back."""
    case = template.location.with_name("case")
    for left in (case, case.with_name("copy")):
        shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(template.location, case)
    path = case / name
    DAMAGES[damage](path, np.random.default_rng(seed))
    before, error = tree(case), None
    try:
        result = OPERATIONS[operation](frazil.Repository.open(case, durable=False), case)
        if operation == "read" and damage in SEEN and (damage != "foreign" or not name.startswith(UNSEEN)):
            assert isinstance(result, dict)
            assert all(template.contents[tip] == found for tip, found in result.items())
    except FrazilError as raised:
        error = raised
    after = tree(case)
    changed = {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)}
    if operation in READS:
        assert not changed
    if error is not None:
        assert error.hint, repr(error)
        assert not [one for one in changed if one in before or one.startswith(("refs/", "gc/"))], repr(error)
    if name.startswith("refs/branch") and damage in NO_TRACE:
        return
    lost = [one for one in changed & template.live if one in before]
    assert not lost
    if changed and (name in before or name not in after):
        _put_back(template, path, name)
        _check_content(template, case, operation, damage)


def _put_back(template: Template, path: Path, name: str) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    for other in (path, path.with_name(path.name.lower()), path.with_name(path.name + ".bak")):
        other.unlink(missing_ok=True)
    shutil.copy2(template.location / name, path)


def _check_content(template: Template, case: Path, operation: str, damage: str) -> None:
    repo = frazil.Repository.open(case, durable=False)
    for identity, expected in template.contents.items():
        assert content(repo, identity) == expected
    for ref, tip in template.tips.items():
        kind, name = ref.split()
        if operation not in MOVES or kind == "tag":
            assert tip in [one.id for one in repo.history(name)]
    if damage == "duplicate":
        return
    if operation in COPIES and not repo.verify().ok:  # commits copy damaged nodes that they do not touch
        repo.repair()
        assert repo.verify(decode=True, history=False).problems == ()
    else:
        assert repo.verify(decode=True).problems == ()


def cases(template: Template, seed: int) -> Iterator[tuple[str, str, str, int]]:
    """Names of files, damages and operations, without end: each kind of file is as frequent as the others."""
    rng = np.random.default_rng(seed)
    kinds, damages, operations = list(template.files), list(DAMAGES), list(OPERATIONS)
    while True:
        names = template.files[kinds[int(rng.integers(len(kinds)))]]
        name, damage = names[int(rng.integers(len(names)))], damages[int(rng.integers(len(damages)))]
        yield name, damage, operations[int(rng.integers(len(operations)))], int(rng.integers(2**31))


def matrix(template: Template) -> Iterator[tuple[str, str, str, int]]:
    """Each kind of file with each kind of damage; the operations in turns, in another order for each kind."""
    for row, names in enumerate(template.files.values()):
        for column, damage in enumerate(("removed", "emptied", "truncated", "flipped", "foreign", "folder")):
            number = row * 7 + column
            yield names[-1 - number % len(names)], damage, list(OPERATIONS)[number % len(OPERATIONS)], number
            yield names[-1], damage, "read", number


def main(seconds: float, seed: int) -> int:
    """The long form: python -m tests.repository.repair.damages SECONDS SEED. Prints each case that fails. Returns their number."""
    end, failed = time.monotonic() + seconds, 0
    for number, variant in enumerate(itertools.cycle(VARIANTS)):
        with tempfile.TemporaryDirectory() as folder:
            template = build(Path(folder) / "template", variant)
            for case in itertools.islice(cases(template, seed + number), 200):
                if time.monotonic() > end:
                    return failed
                try:
                    check(template, *case)
                except Exception:  # whatever is not Frazil's is a defect
                    failed += 1
                    print(variant, seed + number, *case, traceback.format_exc(), sep="\n", flush=True)
    raise AssertionError


if __name__ == "__main__":
    sys.exit(min(main(float(sys.argv[1]), int(sys.argv[2])), 1))
