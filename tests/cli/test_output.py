"""Output of untrusted names and attributes: no terminal takes a part of it for a command."""

from __future__ import annotations

import json
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.cli.main import main
from frazil.cli.output import binary_output, print_json, print_text
from frazil.errors import one_line
from frazil.integrations.files.exports import export_file

EVIL = "a\x1b]0;title\x07\x1b[2J\x9b31m\u202eb\r"  # sets the title, clears the screen, reverses the text direction
HARMLESS = "é \N{SNOWMAN} 𝄞 -_."


def assert_harmless(text: str) -> None:
    assert [sign for sign in text if not sign.isprintable() and sign != "\n"] == []


@pytest.fixture
def places(tmp_path: object) -> tuple[str, str]:
    """A hierarchy and a repository with such names and attributes."""
    folder, repository = f"{tmp_path}/h.zarr", f"{tmp_path}/r.repo"
    group = frazil.create_group(folder, attributes={EVIL: EVIL})
    fill(group)
    repo = frazil.Repository.create(repository)
    session = repo.writable_session()
    session.root.attrs[EVIL] = EVIL
    fill(session.root)
    session.commit(f"{EVIL}\n{EVIL}", metadata={EVIL: EVIL})
    with repo.transaction(message="more") as root:
        root.create_array(f"{EVIL}2", data=np.zeros(2))
    for name in (EVIL, HARMLESS):
        try:
            repo.create_tag(name, "main")
            repo.create_branch(f"{name}2", "main")
        except frazil.errors.InvalidInputError:  # impossible names
            assert name == EVIL
    return folder, repository


def fill(group: frazil.Group) -> None:
    group.create_array(
        EVIL, shape=4, dtype="i4", attributes={EVIL: [EVIL, {EVIL: EVIL}]}, dimension_names=[EVIL], chunks=2
    )[:] = 1
    group.create_group(f"{EVIL}g/{HARMLESS}")


COMMANDS = [
    ["info", "{h}"],
    ["info", "{h}", EVIL],
    ["info", "{r}", EVIL],
    ["tree", "{h}"],
    ["tree", "{h}", EVIL],
    ["tree", "{r}"],
    ["ls", "{h}"],
    ["ls", "{h}", "--long", "--recursive"],
    ["ls", "{r}", "--recursive"],
    ["ls", "{h}/.."],
    ["get", "{h}", EVIL],
    ["repo log", "{r}"],
    ["repo log", "{r}", "--graph"],
    ["repo branch", "{r}"],
    ["repo tag", "{r}"],
    ["repo diff", "{r}", "{old}"],
]
FAILING = [
    ["info", f"{EVIL}.zarr"],
    ["info", "{h}", f"{EVIL}/missing"],
    ["tree", "{h}", f"{EVIL}missing"],
    ["get", "{h}", EVIL, EVIL],
    ["repo log", f"{{r}}@{EVIL}missing"],
    ["repo tag", "{r}", EVIL, "--at", EVIL],
    ["copy", "{h}", f"{{h}}/{EVIL}"],
]


def called(words: list[str], places: tuple[str, str], *more: str) -> int:
    old = str(list(frazil.Repository.open(places[1]).history("main"))[1].id)
    found = [word.replace("{h}", places[0]).replace("{r}", places[1]).replace("{old}", old) for word in words]
    return main([*found[0].split(), *found[1:], *more])


@pytest.mark.parametrize("words", COMMANDS, ids=[f"{i} {words[0]}" for i, words in enumerate(COMMANDS)])
def test_control_characters_are_escaped(
    words: list[str], places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(words, places) == 0
    shown = capsys.readouterr()
    assert shown.out
    assert_harmless(shown.out)
    assert_harmless(shown.err)
    if "get" not in words and "ls" not in words[0] and "--graph" not in words:
        assert called(words, places, "--json") == 0
        text = capsys.readouterr().out
        assert_harmless(text)
        json.loads(text)


@pytest.mark.parametrize("words", FAILING, ids=[f"{i} {words[0]}" for i, words in enumerate(FAILING)])
def test_errors_print_no_control_characters(
    words: list[str], places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(words, places) in {1, 2}
    shown = capsys.readouterr()
    assert shown.err
    assert_harmless(shown.out + shown.err)


def test_json_has_the_same_values_with_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    value = {EVIL: [EVIL, HARMLESS, "\u200d\U000e0001", "\x7f\x80\n\t"], "ü": 1.5}
    print_json(value)  # type: ignore[arg-type]
    text = capsys.readouterr().out
    assert_harmless(text)
    assert json.loads(text) == value
    assert HARMLESS in text


def test_text_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(f"{HARMLESS}\n  {EVIL}")
    assert capsys.readouterr().out == f"{HARMLESS}\n  {one_line(EVIL)}\n"
    assert one_line("a\nb\x1b") == "a\\nb\\x1b"


def test_a_tree_is_harmless_in_python_too() -> None:
    group = frazil.create_group(frazil.stores.MemoryStore())
    fill(group)
    group.create_group("two\nlines")
    text = str(group.tree())
    assert_harmless(text)
    assert text.count("\n") == 4


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP])
def ending(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal with its default handler: whoever started the tests may ignore it (nohup)."""
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_leaves_no_unfinished_file(
    ending: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array, file = tmp_path / "a.zarr", tmp_path / "out" / "a.h5"
    frazil.create_array(array, data=np.arange(4))
    file.parent.mkdir()
    file.write_bytes(b"old")

    def write(_: object, unfinished: str, *__: object) -> None:
        Path(unfinished).write_bytes(b"half")
        signal.raise_signal(ending)

    monkeypatch.setattr(export_file, "write_hdf5", write)
    assert main(["export", str(array), str(file), "--overwrite"]) == 128 + ending
    with pytest.raises(KeyboardInterrupt), binary_output(str(file)) as stream:
        stream.write(b"half")
        signal.raise_signal(ending)
    assert [path.read_bytes() for path in file.parent.iterdir()] == [b"old"]
    assert signal.getsignal(ending) == signal.SIG_DFL


def test_a_replaced_output_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"old")
    file.chmod(0o604)
    with binary_output(str(file)) as stream:
        stream.write(b"new")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o604)


@pytest.mark.parametrize(
    ("name", "first"),
    [(".csv", b"0,1"), ("x.text", b"[[0 1]"), (".npy", b"\x93NUM"), ("x.CSV", b"0,1"), (".hidden", b"[[0 1]")],
)
def test_the_name_of_an_output_gives_its_format(name: str, first: bytes, tmp_path: Path) -> None:
    frazil.create_array(tmp_path / "a.zarr", data=np.arange(4).reshape(2, 2))
    assert main(["get", str(tmp_path / "a.zarr"), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(first)


def test_an_output_is_not_the_name_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frazil.create_array(tmp_path / "a.zarr", data=np.arange(4))
    assert main(["get", str(tmp_path / "a.zarr"), "-o", f"{tmp_path}/x.csv/"]) == 1
    assert "is the name of a folder" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()


def test_the_file_behind_a_descriptor_is_never_replaced(tmp_path: Path) -> None:
    """What a shell has written there, and writes later, stays."""
    file = tmp_path / "log"
    file.write_bytes(b"before\n")
    with open(file, "ab") as log:
        name = f"/dev/fd/{log.fileno()}"
        with binary_output(name) as stream:
            stream.write(b"output\n")
        log.write(b"after\n")
        log.flush()
        frazil.create_array(tmp_path / "a.zarr", data=np.arange(4))
        assert main(["export", str(tmp_path / "a.zarr"), name, "--format", "npy", "--overwrite"]) != 0
    assert file.read_bytes() == b"before\noutput\nafter\n"
