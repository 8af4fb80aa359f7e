"""Installed packages bring components by entry points, and the command line knows them; broken ones are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from components import toys
from partita.documents.document import write_json
from partita.nouns.split import StagePart
from partita.problems.mapping.samples import MACHINES

#: Runs commands one after the other in one process, each as from a shell, and prints what became of each as JSON.
SHELL = """
import contextlib, io, json, sys
from partita.cli import main
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as stop:
            code = stop.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


@dataclass
class Site:
    """A folder of installed packages."""

    folder: Path

    def install(self, package: str, text: str, entries: dict[str, str]) -> None:
        """A package of one module, with entry points."""
        (self.folder / f"{package}.py").write_text(text)
        about = self.folder / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in entries.items()]
        (about / "entry_points.txt").write_text("\n".join(["[partita.components]", *lines, ""]))

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """The real command line where the packages are installed."""
        command = [sys.executable, "-m", "partita", *map(str, words)]
        return subprocess.run(command, env=self.variables, capture_output=True, text=True, check=False)

    def run_all(self, *commands: tuple[object, ...]) -> list[tuple[int, str, str]]:
        """Several in one process."""
        listed = json.dumps([[str(word) for word in words] for words in commands])
        command = [sys.executable, "-c", SHELL, listed]
        done = subprocess.run(command, env=self.variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [tuple(json.loads(line)) for line in done.stdout.splitlines()]

    def python(self, code: str) -> str:
        """What a program prints there."""
        done = subprocess.run(
            [sys.executable, "-c", code], env=self.variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def variables(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder), *filter(None, sys.path)])}


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder)


def test_a_package_brings_components_of_every_sort(site: Site, tmp_path: Path) -> None:
    site.install("toybox", Path(toys.__file__).read_text(), {"all": "toybox:COMPONENTS"})
    jobs, mapping, result = tmp_path / "jobs.json", tmp_path / "mapping.json", tmp_path / "r.json"
    pt.write_problem(jobs, toys.FOUR)
    pt.write_problem(mapping, MACHINES)
    stages = tuple(StagePart(rank=rank, devices=(f"L4:{rank}",), kind="L4") for rank in range(2))
    split = pt.Split(model="m", stages=stages)
    write_json(result, {"format": "partita.result", "version": 1, "plan": {}, "split": split})
    rows = tmp_path / "rows.txt"
    found = site.run_all(
        ("solvers", "--json"),
        ("devices", "--json"),
        ("solve", mapping, "--solver", "in-order", "--json"),
        ("compare", mapping, "--json"),
        ("bound", mapping, "--method", "longest-stage", "--json"),
        ("solve", jobs, "--machines", 3, "--json"),
        ("export", result, "--to", "rows", "--output", rows),
        ("topologies", "hub:3:device=MyCard", "--json"),
        ("topologies", "4xMyCard", "--json"),
        ("solve", "--help"),
    )
    assert [code for code, _, _ in found] == [0] * len(found), found
    # A kernel that nothing has called on this machine so far is compiled, and that is said.
    assert all(err == "" or err.startswith("partita: compiling ") for _, _, err in found), found
    documents: list[Any] = [json.loads(out) if out.startswith("{") else out for _, out, _ in found]
    brought = {(entry["name"], entry["problem"]) for entry in documents[0]["solvers"] if entry["package"] == "toybox"}
    assert brought == {("in-order", "mapping"), ("longest-first", "jobs")}
    assert [entry["name"] for entry in documents[1]["devices"] if entry["package"] == "toybox"] == ["MyCard"]
    assert documents[2]["solver"] == "in-order"
    assert "backwards" in [row["name"] for row in documents[3]["baselines"]]
    assert documents[4]["bound"] == 0.01
    assert documents[5]["objective"] == 4.0
    assert rows.read_text() == "0 L4:0\n1 L4:1\n"
    assert [device["kind"] for device in documents[7]["devices"]] == ["MyCard"] * 3
    assert len(documents[8]["devices"]) == 4
    assert "Jobs problems:" in documents[9]


def test_a_sweep_on_workers_knows_them(site: Site, tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    site.install("toybox", Path(toys.__file__).read_text(), {"all": "toybox:COMPONENTS"})
    jobs = tmp_path / "jobs.json"
    pt.write_problem(jobs, toys.FOUR)
    run = site.run("sweep", jobs, "--machines", "1,2,3", "--jobs", "2", "--json")
    assert run.returncode == 0, run.stderr
    assert [row["objective"] for row in json.loads(run.stdout)["rows"]] == [10.0, 5.0, 4.0]


SEVERAL = """
import partita as pt
from components.toys import InOrder, JobKind, LastDown, WIRE

def make():
    yield InOrder
    yield JobKind()

@pt.register
class Mine(InOrder):
    name = "mine"
"""


def test_what_an_entry_point_may_be(site: Site) -> None:
    """A class, a component, a function that makes some, a module that registers by itself; a class twice is once."""
    site.install(
        "several",
        SEVERAL,
        {"a": "several:make", "b": "several:WIRE", "c": "several", "d": "several:Mine", "e": "several:LastDown"},
    )
    found = site.run_all(("solvers", "--json"), ("links", "--json"), ("schedules", "--json"))
    assert all(err == "" for _, _, err in found), found
    solvers, links, schedules = (json.loads(out) for _, out, _ in found)
    by_package = {entry["name"]: entry["package"] for entry in solvers["solvers"]}
    assert (by_package["in-order"], by_package["longest-first"], by_package["mine"]) == ("several", "several", None)
    assert links["links"][-1]["name"] == "wire"
    assert schedules["schedules"][-1]["name"] == "last-down"


BROKEN = """
from components.toys import CARD, InOrder

class Nameless:
    problem = "mapping"
    def solve(self, problem, options, monitor): ...

class Astray(InOrder):
    problem = "knots"

class Taken(InOrder):
    name = "combined"

def fails():
    raise RuntimeError("the licence\\nhas run out")

THING = 7
"""


def test_a_broken_package_is_named_and_the_rest_goes_on(site: Site) -> None:
    site.install(
        "broken",
        BROKEN,
        {
            "gone": "broken:nothing",
            "fails": "broken:fails",
            "missing": "not_there:x",
            "nameless": "broken:Nameless",
            "astray": "broken:Astray",
            "taken": "broken:Taken",
            "thing": "broken:THING",
            "card": "broken:CARD",
            "fine": "broken:InOrder",
        },
    )
    runs = {command: site.run(command) for command in ("solvers", "devices")}
    for run in runs.values():
        assert run.returncode == 0
        assert "Traceback" not in run.stderr
        lines = run.stderr.splitlines()
        assert all(line.startswith("partita: package broken: ") for line in lines)
        assert len(set(lines)) == len(lines)
        for said in (
            "its entry point 'gone' (broken:nothing) brings no components: AttributeError",
            "its entry point 'fails' (broken:fails) brings no components: RuntimeError: the licence has run out",
            "its entry point 'missing' (not_there:x) brings no components: ModuleNotFoundError",
            "int is left out: it is no component",
            "'in-order' is left out: there is no problem 'knots'",
        ):
            assert any(said in line for line in lines), (said, lines)
    listed = runs["solvers"]
    assert "in-order" in listed.stdout
    assert any(
        "its solver 'combined' is left out: mapping problems already have" in e for e in listed.stderr.splitlines()
    )
    assert "it has no name and no summary and no supports" in listed.stderr
    assert "its device 'MyCard' is left out: there is no link 'wire'" in runs["devices"].stderr
    said = site.python(
        "import warnings, partita as pt\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    print('in-order' in pt.solvers('mapping').names)\n"
        "print(sorted({type(each.message).__name__ for each in told}))"
    )
    assert said == "True\n['ComponentWarning']\n"


def test_nobody_looks_for_packages_without_need(site: Site) -> None:
    """Importing partita, and finding what the package has, import no package's code."""
    site.install("slow", "print('imported')", {"all": "slow"})
    code = "import partita as pt; pt.{}"
    assert site.python(code.format("solve")) == ""
    assert site.python(code.format("Cluster")) == ""
    assert site.python("from partita.simulator.schedules import find_schedule; find_schedule('1f1b')") == ""
    assert site.python("from partita.exporters import find_exporter; find_exporter('vllm')") == ""
    assert site.python(code.format("schedules()")) == "imported\n"
