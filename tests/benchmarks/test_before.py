"""Benchmarks on an earlier revision and on what is here: folders, scripts, packages, and exit statuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import _before, _common

FOLDER = Path(_common.__file__).parent

#: A benchmark of the package's one figure, which says which script it is.
STUB = """
import argparse, csv
from pathlib import Path
import partita
parser = argparse.ArgumentParser()
parser.add_argument("--times", type=float, default=1.0)
parser.add_argument("--out", type=Path)
asked = parser.parse_args()
with (asked.out / "stub.csv").open("w") as file:
    writer = csv.writer(file)
    writer.writerows([("file", "objective", "bound"), ("a", asked.times * partita.VALUE, 1.0)])
"""


def git(root: Path, *arguments: str) -> str:
    name = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null")
    command = ["git", *name, "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose package said 2 a revision ago, and says 3."""
    found = tmp_path / "repository"
    for name, text in (("src/partita/__init__.py", "VALUE = 2.0\n"), ("benchmarks/stub.py", STUB)):
        (found / name).parent.mkdir(parents=True)
        (found / name).write_text(text)
    git(found, "init", "--quiet")
    for value in ("2.0", "3.0"):
        (found / "src/partita/__init__.py").write_text(f"VALUE = {value}\n")
        git(found, "add", ".")
        git(found, "commit", "--quiet", "--message", value)
    return found


def compared(root: Path, *words: str, revision: str = "HEAD~1") -> int:
    out = str(root.parent / "out")
    return _before.main(root / "benchmarks", ["--before", revision, "--cold", "--out", out, *words])


def rows(root: Path) -> str:
    return (root.parent / "out" / "stub.before.csv").read_text()


def only_here(root: Path) -> bool:
    return len(git(root, "worktree", "list").splitlines()) == 1


def test_what_is_worse_is_written_and_ends_with_one(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert compared(root, "stub", "--times", "2") == 1
    assert rows(root).splitlines()[1] == "a,4.0,6.0,1.0,1.0,WORSE: objective"
    said = capfd.readouterr()
    assert "4 | 6" in said.out
    assert "package of HEAD~1, the script that is here" in said.out
    assert "worse than HEAD~1: stub" in said.err
    assert only_here(root)


def test_what_is_here_counts_also_where_it_is_no_revision(root: Path) -> None:
    (root / "src/partita/__init__.py").write_text("VALUE = 1.0\n")
    assert compared(root, "stub", revision="HEAD") == 0
    assert rows(root).splitlines()[1] == "a,3.0,1.0,1.0,1.0,"


def test_a_script_that_does_not_run_on_the_earlier_package_is_replaced_and_that_is_said(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / "src/partita/__init__.py").write_text("VALUE = 0.0\nMORE = 2.04\n")
    (root / "benchmarks/stub.py").write_text(STUB.replace("VALUE", "MORE"))
    assert compared(root) == 0
    assert rows(root).splitlines()[1] == "a,2.0,2.04,1.0,1.0,"
    assert "package of HEAD~1, the script of HEAD~1" in capfd.readouterr().out


def test_where_nothing_comes_to_rows_nothing_is_compared(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / "benchmarks/stub.py").write_text("print('no data')\n")
    git(root, "commit", "--quiet", "--all", "--message", "no data")
    assert compared(root, "stub", revision="HEAD") == 2
    assert "nothing is compared" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "revision", "said"),
    [
        (("stub",), "no-such-tag", "there is no revision 'no-such-tag'"),
        (("stubb",), "HEAD", "there is no benchmark 'stubb'; known are stub"),
    ],
)
def test_a_wrong_name_is_one_line(
    root: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], revision: str, said: str
) -> None:
    assert compared(root, *words, revision=revision) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(said)
    assert only_here(root)


def test_a_revision_without_the_package_is_refused(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    git(root, "rm", "-r", "--quiet", "src")
    git(root, "commit", "--quiet", "--message", "no package")
    assert compared(root, "stub", revision="HEAD") == 2
    assert "HEAD has no package partita in src" in capfd.readouterr().err
    assert only_here(root)


def test_an_interrupted_comparison_leaves_no_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    def interrupted(script: Path, tree: Path, *others: object) -> int:
        seen.append(tree)
        assert tree.is_dir()
        raise KeyboardInterrupt

    monkeypatch.setattr(_before, "run", interrupted)
    assert compared(root, "stub") == 130
    assert not seen[0].exists()
    assert only_here(root)


def test_kernels_are_compiled_ahead_unless_that_cannot_be(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    warm = root / "src/partita/cli/warm_up.py"
    warm.parent.mkdir()
    warm.write_text("from pathlib import Path\nPath('ahead').open('a').write(__file__ + '\\n')\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(root)
        assert _before.main(root / "benchmarks", ["--before", "HEAD", "--out", "out", "stub"]) == 0
    assert (root / "ahead").read_text() == f"{warm}\n"
    said = capfd.readouterr().out
    assert "the kernels of HEAD cannot be compiled ahead: times may contain it" in said
    assert "the kernels here" not in said


def test_machine_code_is_kept_of_folders_that_are_in_both(tmp_path: Path) -> None:
    for name in ("src/both/__pycache__/a.nbi", "src/both/__pycache__/a.pyc", "src/gone/__pycache__/b.nbc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "tree/src/both").mkdir(parents=True)
    _before._keep_code(tmp_path / "src", tmp_path / "tree/src")
    assert [path.name for path in (tmp_path / "tree").rglob("*.*")] == ["a.nbi"]


def test_names_end_where_arguments_begin() -> None:
    known = {"one": Path("one.py"), "two": Path("two.py")}
    assert _before.split_words(["two", "one", "x", "two"], known) == (["two", "one"], ["x", "two"])
    assert _before.split_words([], known) == (["one", "two"], [])
    with pytest.raises(_before.Refused, match="no benchmark '--seconds'"):
        _before.split_words(["--seconds", "3"], known)


def test_every_benchmark_says_where_it_writes() -> None:
    found = _before.cases(FOLDER)
    assert len(found) > 30
    assert [name for name, path in found.items() if "add_out(parser)" not in path.read_text()] == []
