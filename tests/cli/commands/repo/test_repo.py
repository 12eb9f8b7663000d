"""`frazil repo`: init, log, diff, branch, tag, merge, cherry-pick, revert."""

from __future__ import annotations

import json
import tarfile
from errno import EACCES
from pathlib import Path

import pytest
from tests.external_data import data
from tests.servers.web import WebServer

import frazil
from frazil.cli.main import main
from frazil.errors import StoreError
from frazil.formats.alpha.refs import branch_key


def output_of(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out


@pytest.fixture
def repo(workdir: Path) -> frazil.Repository:
    return frazil.Repository.open("sea.repo", durable=False)


# --- init ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--compatible", "alpha-library"]])
def test_init(options: list[str], workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["repo", "init", "new.repo", *options], capfd)
    made = frazil.Repository.open("new.repo")
    assert text == f"main  {made.lookup_branch('main')}\n"
    assert output_of(["tree", "new.repo"], capfd) == "/\n"
    assert output_of(["repo", "tag", "new.repo"], capfd) == ""


def test_init_as_json(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(output_of(["repo", "init", "new.repo", "--json"], capfd))
    assert document == {"branch": "main", "snapshot": frazil.Repository.open("new.repo").lookup_branch("main")}


# --- log -------------------------------------------------------------------------------------------------------------------------------


def test_log(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    lines = output_of(["repo", "log", "sea.repo"], capfd).splitlines()
    commits = list(repo.history("main"))
    assert [line.split()[0] for line in lines] == [commit.id for commit in commits]
    assert [line.split("Z  ", 1)[1] for line in lines] == [
        "(main) name it",
        "add salt",
        "(old, tag v1) first data ...",
        "Repository initialized",
    ]
    assert lines[0].split()[1] == f"{commits[0].written_at:%Y-%m-%dT%H:%M:%SZ}"


def test_log_where_listings_are_denied(
    repo: frazil.Repository, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise StoreError("access denied", errno=EACCES)

    newest = repo.lookup_branch("main")
    monkeypatch.setattr(frazil.Repository, "tags", property(denied))
    assert main(["repo", "log", "sea.repo"]) == 0
    shown = capfd.readouterr()
    assert shown.out.startswith(newest)
    assert "other branches and tags are not shown: access denied" in shown.err
    assert main(["repo", "log", "sea.repo", "--graph"]) == 1
    assert "access denied" in capfd.readouterr().err


def test_log_on_a_web_server_names_main_and_the_reference(
    repo: frazil.Repository, capfd: pytest.CaptureFixture[str], web_server: WebServer
) -> None:
    with web_server(Path()) as url:
        for reference, names in (("", "(main) "), ("@main", "(main) "), ("@dev", "(dev) "), ("@v1", "(tag v1) ")):
            lines = output_of(["repo", "log", f"sea.repo{reference}"], capfd).replace("(old, tag v1)", "(tag v1)")
            assert main(["repo", "log", f"{url}/sea.repo{reference}"]) == 0
            log, warning = capfd.readouterr()
            assert "other branches and tags are not shown" in warning
            assert log.splitlines()[0] == lines.splitlines()[0]
            assert names in log
            assert [line.split()[0] for line in log.splitlines()] == [line.split()[0] for line in lines.splitlines()]
        for command in (["log", "--graph"], ["branch"], ["tag"], ["verify"], ["stats"]):
            assert main(["repo", *command, f"{url}/sea.repo"]) == 1
            assert "a list of keys, which web servers do not give" in capfd.readouterr().err


def test_log_of_a_reference(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    assert [
        line.rpartition("  ")[2] for line in output_of(["repo", "log", "sea.repo@dev", "-n", "1"], capfd).splitlines()
    ] == ["(dev) warmer"]
    first = repo.lookup("v1")
    for reference in ("v1", first, first[:8].lower()):
        assert len(output_of(["repo", "log", f"sea.repo@{reference}"], capfd).splitlines()) == 2


def test_log_as_json(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output_of(["repo", "log", "sea.repo", "--json"], capfd))
    assert [commit["branches"] for commit in found] == [["main"], [], ["old"], []]
    assert [commit["tags"] for commit in found] == [[], [], ["v1"], []]
    assert [commit["parent"] for commit in found] == [*(commit["id"] for commit in found[1:]), None]
    assert found[1]["metadata"] == {"by": "me"}
    assert found[2]["message"] == "first data\n\nof the sea"
    assert found[0]["written_at"].endswith("Z")


def test_the_first_snapshot_has_the_id_that_opens_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In histories, the alpha library gave it another id than its file has."""
    with tarfile.open(data("icechunk-alpha-repo.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    location = next(str(path.parent) for path in tmp_path.glob("**/refs"))
    commits = json.loads(output_of(["repo", "log", location, "--json"], capfd))
    assert [commit["parent"] for commit in commits] == [*(commit["id"] for commit in commits[1:]), None]
    assert output_of(["tree", f"{location}@{commits[-1]['id']}"], capfd) == "/\n"
    count = len(commits) - 1
    assert json.loads(output_of(["repo", "log", location, "--json", "-n", str(count)], capfd)) == commits[:count]
    text = output_of(["repo", "log", location, "--graph"], capfd)
    assert text.splitlines()[-1].startswith(f"* {commits[-1]['id']}")


def test_graph(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    lines = output_of(["repo", "log", "sea.repo", "--graph"], capfd).splitlines()
    drawn = [(line[: line.find(word)] if (word := name(line)) else line, line.split("Z  ")[-1]) for line in lines]
    assert drawn == [
        ("* ", "(main) name it"),
        ("* ", "add salt"),
        ("| * ", "(dev) warmer"),
        ("|/", "|/"),
        ("* ", "(old, tag v1) first data ..."),
        ("* ", "Repository initialized"),
    ]
    document = json.loads(output_of(["repo", "log", "sea.repo", "--graph", "--json"], capfd))
    assert [commit["id"] for commit in document] == [name(line) for line in lines if name(line)]
    assert len(output_of(["repo", "log", "sea.repo", "--graph", "-n", "2"], capfd).splitlines()) == 2


def test_a_graph_with_a_damaged_branch_draws_the_others(
    repo: frazil.Repository, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = output_of(["repo", "log", "sea.repo", "--graph"], capfd)
    lost = repo.lookup_branch("dev")
    repo.create_branch("copy", "dev")
    Path("sea.repo/snapshots", lost).unlink()
    assert main(["repo", "log", "sea.repo", "--graph"]) == 1
    drawn, faults = capfd.readouterr()
    assert [name(line) for line in drawn.splitlines()] == [
        name(line) for line in whole.splitlines() if name(line) not in ("", lost)
    ]
    assert [line.partition(" cannot")[0] for line in faults.splitlines()] == [
        f"frazil: the history of branch {branch}" for branch in ("copy", "dev")
    ]
    assert main(["repo", "log", "sea.repo", "--graph", "--json"]) == 1
    drawn, faults = capfd.readouterr()
    assert "branch copy" in faults
    assert lost not in drawn
    assert len(json.loads(drawn)) == 4
    assert main(["repo", "log", f"sea.repo@{lost}", "--graph"]) == 1  # which is lost


def name(line: str) -> str:
    return next((word for word in line.split() if len(word) == 20), "")


def test_a_graph_has_what_no_branch_leads_to(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    lost = repo.lookup_branch("dev")
    output_of(["repo", "branch", "sea.repo", "dev", "--reset", "v1"], capfd)
    assert lost not in output_of(["repo", "log", "sea.repo", "--graph"], capfd)
    assert lost in output_of(["repo", "log", f"sea.repo@{lost}", "--graph"], capfd)


def test_messages_stay_on_their_lines(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    with repo.transaction(message="red\x1b[31m\ttab") as root:
        root.attrs["a"] = 1
    assert output_of(["repo", "log", "sea.repo", "-n", "1"], capfd).endswith("(main) red\\x1b[31m\\ttab\n")


# --- diff ------------------------------------------------------------------------------------------------------------------------------


def test_diff(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of(["repo", "diff", "sea.repo", "v1", "dev"], capfd) == "~ /level1/temp  2 chunks written\n"
    assert output_of(["repo", "diff", "sea.repo", "v1"], capfd) == output_of(
        ["repo", "diff", "sea.repo", "v1", "main"], capfd
    )
    assert (
        output_of(["repo", "diff", "sea.repo", "v1"], capfd).splitlines() == str(repo.diff("v1", "main")).splitlines()
    )
    assert output_of(["repo", "diff", "sea.repo", "v1", "old"], capfd) == ""


def test_diff_as_json(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(output_of(["repo", "diff", "sea.repo", "v1", "dev", "--json"], capfd))
    assert document == repo.diff("v1", "dev").to_json()
    assert document["chunks"][0]["written_chunks"] == [[0, 0, 0], [1, 0, 0]]
    assert json.loads(output_of(["repo", "diff", "sea.repo", "v1", "old", "--json"], capfd))["chunks"] == []


# --- branches and tags -----------------------------------------------------------------------------------------------------------------


def test_branches(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    first, tip = repo.lookup("v1"), repo.lookup("main")
    assert output_of(["repo", "branch", "sea.repo"], capfd) == (
        f"dev   {repo.lookup('dev')}\nmain  {tip}\nold   {first}\n"
    )
    assert output_of(["repo", "branch", "sea.repo", "trial"], capfd) == f"trial  {tip}\n"
    assert output_of(["repo", "branch", "sea.repo", "back", "--at", "v1"], capfd) == f"back  {first}\n"
    assert (
        output_of(["repo", "branch", "sea.repo", "trial", "--reset", "v1", "--expect", tip], capfd)
        == f"trial  {first}\n"
    )
    assert output_of(["repo", "branch", "sea.repo", "back", "--delete"], capfd) == f"deleted  back  {first}\n"
    assert repo.branches == ["dev", "main", "old", "trial"]
    assert repo.lookup_branch("trial") == first


def test_branches_as_json(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    first = repo.lookup("v1")
    found = json.loads(output_of(["repo", "branch", "sea.repo", "--json"], capfd))
    assert found == [{"name": branch, "snapshot": repo.lookup(branch)} for branch in ("dev", "main", "old")]
    made = {"name": "a", "snapshot": first}
    assert json.loads(output_of(["repo", "branch", "sea.repo", "a", "--at", "v1", "--json"], capfd)) == made
    done = json.loads(output_of(["repo", "branch", "sea.repo", "a", "--delete", "--json"], capfd))
    assert done == {**made, "deleted": True}


def test_an_unreadable_branch_is_listed_with_its_error(
    repo: frazil.Repository, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("sea.repo", branch_key("dev", 1000)).write_bytes(b"nonsense")
    lines = output_of(["repo", "branch", "sea.repo"], capfd).splitlines()
    assert lines[0].startswith("dev   (unreadable: ")
    found = json.loads(output_of(["repo", "branch", "sea.repo", "--json"], capfd))
    assert found[0]["snapshot"] is None
    assert "JSON" in found[0]["error"]
    assert main(["repo", "log", "sea.repo", "--graph"]) == 1
    drawn, fault = capfd.readouterr()
    assert len(drawn.splitlines()) == 4
    assert "the history of branch dev cannot be read whole" in fault
    assert len(output_of(["repo", "log", "sea.repo"], capfd).splitlines()) == 4


def test_tags(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    first, tip = repo.lookup("v1"), repo.lookup("main")
    assert output_of(["repo", "tag", "sea.repo"], capfd) == f"v1  {first}\n"
    assert output_of(["repo", "tag", "sea.repo", "v2"], capfd) == f"v2  {tip}\n"
    made = json.loads(output_of(["repo", "tag", "sea.repo", "first", "--at", first[:6], "--json"], capfd))
    assert made == {"name": "first", "snapshot": first}
    found = json.loads(output_of(["repo", "tag", "sea.repo", "--json"], capfd))
    assert [tag["name"] for tag in found] == repo.tags == ["first", "v1", "v2"]


# --- merges ----------------------------------------------------------------------------------------------------------------------------


def _write(repo: frazil.Repository, branch: str, name: str, value: int) -> str:
    with repo.transaction(branch, message=f"{name} is {value}") as root:
        root.attrs[name] = value
    return repo.lookup(branch)


def test_merge_cherry_pick_and_revert(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    repo.create_branch("trial", "main")
    end = _write(repo, "trial", "a", 1)
    assert output_of(["repo", "merge", "sea.repo", "trial"], capfd) == f"main  {end}\n"
    text = output_of(["repo", "revert", "sea.repo", "main", "-m", "no"], capfd)
    assert text == f"main  {repo.lookup('main')}\n"
    assert "a" not in repo.readonly_session().root.attrs
    done = json.loads(output_of(["repo", "cherry-pick", "sea.repo", "trial", "--onto", "main", "--json"], capfd))
    assert done == {"name": "main", "snapshot": repo.lookup("main")}
    assert repo.readonly_session().root.attrs["a"] == 1
    assert [commit.message for commit in repo.history()][:3] == ["a is 1", "no", "a is 1"]


def test_conflicts_of_a_merge(repo: frazil.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    repo.create_branch("trial", "main")
    _write(repo, "trial", "a", 1)
    tip = _write(repo, "main", "a", 2)
    assert main(["repo", "merge", "sea.repo", "trial"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "both changed its attributes" in err
    assert "--solver" in err
    assert repo.lookup("main") == tip
    output_of(["repo", "merge", "sea.repo", "trial", "--solver", "ours"], capfd)
    assert repo.readonly_session().root.attrs["a"] == 1
