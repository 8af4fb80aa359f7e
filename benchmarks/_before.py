"""Benchmarks on the sources of an earlier revision and on those that are here, one after the other on one machine.

The package of the earlier revision is checked out into a folder of its own, which is gone at the end. Both packages run
under the scripts that are here, so that both do the same; a script that does not come to rows on the earlier package is
replaced by the one of that revision, and that is said.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks._common import add_out, write

from benchmarks import _joined

NOT_RUN, WORSE = 2, 1


class Refused(Exception):
    """What was asked for cannot be done; the message says why."""


def cases(folder: Path) -> dict[str, Path]:
    """The scripts of a folder by their names."""
    return {path.stem: path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")}


def split_words(words: Sequence[str], known: dict[str, Path]) -> tuple[list[str], list[str]]:
    """The benchmarks that are named, all unless any is, and the arguments behind them."""
    count = next((place for place, word in enumerate(words) if word not in known), len(words))
    if words and not count:
        raise Refused(f"there is no benchmark {words[0]!r}; known are {', '.join(known)}")
    return list(words[:count]) or list(known), list(words[count:])


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)


@contextlib.contextmanager
def worktree(root: Path, revision: str) -> Iterator[Path]:
    """The files of a revision in a folder that is removed at the end, however it ends.

    Raises:
        Refused: There is no repository at ``root``, or no such revision in it.
    """
    if _git(root, "rev-parse", "--git-dir").returncode:
        raise Refused(f"{root} is no git repository, so that there is nothing to compare with")
    if _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").returncode:
        raise Refused(f"there is no revision {revision!r} in {root}; name a commit, a branch or a tag")
    with tempfile.TemporaryDirectory(prefix="partita-before-") as folder:
        tree = Path(folder) / "tree"
        try:
            added = _git(root, "worktree", "add", "--detach", str(tree), revision)
            if added.returncode:
                raise Refused(f"{revision} cannot be checked out: {added.stderr.strip()}")
            _check_package(tree, revision)
            yield tree
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def environment(tree: Path) -> dict[str, str]:
    """What processes get so that they import the package of a folder."""
    paths = [str(tree / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _check_package(tree: Path, revision: str) -> None:
    """Refuse a folder whose package is not what processes import: the one that is installed would stand for it."""
    find = "import importlib.util; print(getattr(importlib.util.find_spec('partita'), 'origin', ''))"
    command = [sys.executable, "-c", find]
    done = subprocess.run(command, env=environment(tree), cwd=tree.parent, capture_output=True, text=True, check=False)
    if not Path(done.stdout.strip()).is_relative_to(tree):
        raise Refused(f"{revision} has no package partita in src")


def _keep_code(source: Path, target: Path) -> None:
    """Take over machine code of kernels: it says which sources it is of, and is read for no others."""
    for path in source.rglob("__pycache__/*.nb[ic]"):
        beside = target / path.relative_to(source).parent
        if beside.parent.is_dir():
            beside.mkdir(exist_ok=True)
            shutil.copy2(path, beside / path.name)


def warm_up(root: Path, tree: Path, revision: str) -> None:
    """Compile the kernels of both packages, so that no time contains it; what cannot is said."""
    print("compiling the kernels of both, which is not counted", flush=True)
    command = [sys.executable, "-m", "partita.cli.warm_up"]
    for place, name in ((root, "here"), (tree, f"of {revision}")):
        if place == tree:
            _keep_code(root / "src", tree / "src")
        done = subprocess.run(command, env=environment(place), capture_output=True, check=False)
        if done.returncode:
            print(f"the kernels {name} cannot be compiled ahead: times may contain it", flush=True)


def run(script: Path, tree: Path, arguments: Sequence[str], out: Path) -> int:
    """Run a script on the package of a folder; its exit status. It prints what it prints."""
    out.mkdir(parents=True)
    told = ["--out", str(out)]
    text = script.read_text()
    if "--out" not in text and "add_out" not in text:
        # Scripts once named a file, or wrote where they always did.
        told = next(([word, str(out / f"{script.stem}.csv")] for word in ("--csv", "--output") if word in text), [])
        if not told:
            print(f"{script.name} cannot be told where to write its rows", flush=True)
            return NOT_RUN
    return subprocess.run(
        [sys.executable, str(script), *arguments, *told], env=environment(tree), check=False
    ).returncode


def _tables(folder: Path) -> dict[str, list[_joined.Row]]:
    found = {path.stem: _joined.read(path) for path in sorted(folder.glob("*.csv"))}
    return {name: rows for name, rows in found.items() if rows}


def compare_one(root: Path, tree: Path, revision: str, name: str, arguments: Sequence[str], out: Path) -> bool | None:
    """Run a benchmark on both packages, print and write both figures of every row.

    Whether anything became worse; None where one of both has no rows, so that there is nothing to compare.
    """
    with tempfile.TemporaryDirectory(prefix="partita-rows-") as folder:
        apart, script = Path(folder), root / "benchmarks" / f"{name}.py"
        used, other = "the script that is here", tree / "benchmarks" / f"{name}.py"
        own = False
        print(f"\n== {name} before: package of {revision}, {used}", flush=True)
        status = run(script, tree, arguments, apart / "before")
        before = _tables(apart / "before")
        if not before and other.is_file() and other.read_bytes() != script.read_bytes():
            used, own = f"the script of {revision}", True
            print(f"\n== {name} before: no rows that way; package of {revision}, {used}", flush=True)
            status = run(other, tree, arguments, apart / "before of its own")
            before = _tables(apart / "before of its own")
        print(f"\n== {name} now", flush=True)
        now_status = run(script, root, arguments, apart / "now")
        now = _tables(apart / "now")
    if not before:
        where = f"on the package of {revision}" if now else "on either side"
        print(f"{name}: no rows {where}, nothing is compared", flush=True)
        return None
    print(f"\n== {name}: before | now (before: package of {revision}, {used})")
    if status or now_status:
        print(f"the benchmark itself ended with status {status} before and {now_status} now")
    worse = False
    for table in sorted({*before, *now}):
        joined = _joined.join(before.get(table, []), now.get(table, []), other_script=own)
        worse |= joined.worse
        print(*_joined.lines(joined), sep="\n")
        write(out / f"{table}.before.csv", _joined.as_rows(joined))
    return worse


def main(folder: Path, words: Sequence[str]) -> int:
    """Compare as the command line says: 1 if an objective or a bound is worse, 2 if nothing could be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", metavar="REVISION", required=True, help="what to compare with, such as HEAD~1")
    parser.add_argument("--cold", action="store_true", help="compile no kernels ahead: times may contain it")
    add_out(parser)
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="NAME … ARGUMENTS …", help="all unless named")
    asked = parser.parse_args(words)
    root = folder.parent
    try:
        names, arguments = split_words(asked.words, cases(folder))
        with worktree(root, asked.before) as tree:
            if asked.cold:
                print("kernels are compiled as they are needed: times may contain it", flush=True)
            else:
                warm_up(root, tree, asked.before)
            found = {name: compare_one(root, tree, asked.before, name, arguments, asked.out) for name in names}
    except Refused as reason:
        print(reason, file=sys.stderr)
        return NOT_RUN
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    worse = [name for name, is_worse in found.items() if is_worse]
    if worse:
        print(f"\nworse than {asked.before}: {', '.join(worse)}", file=sys.stderr)
        return WORSE
    return NOT_RUN if all(is_worse is None for is_worse in found.values()) else 0
