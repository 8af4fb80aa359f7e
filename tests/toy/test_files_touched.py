"""How many files a new component touches: a file of its own, and one line where the others are listed.

Each test adds one to a copy of the package, uses it from the command line, and compares the copy with the original.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import partita
from partita.documents.document import write_json
from partita.documents.stated import write_problem
from partita.nouns.split import Split, StagePart
from problems.makespan.samples import row
from toy.samples import SIX

ORIGINAL = Path(partita.__file__).parent
TASKS = Path(__file__).with_name("tasks.py")


class Copy:
    """A copy of the package that components are added to."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "partita"
        shutil.copytree(ORIGINAL, self.package, ignore=shutil.ignore_patterns("__pycache__"))

    def add(self, path: str, text: str) -> None:
        """A new file."""
        place = self.package / path
        place.parent.mkdir(exist_ok=True)
        with place.open("x") as stream:
            stream.write(text)

    def list_in(self, path: str, after: str, line: str) -> None:
        """Put a line below the one of another component."""
        place = self.package / path
        text = place.read_text()
        assert text.count(after) == 1
        place.write_text(text.replace(after, f"{after}{line}"))

    def touched(self) -> tuple[list[str], dict[str, list[str]]]:
        """New files, and of the others that changed the lines that are new; nothing is taken away."""
        new, changed = [], {}
        for path in sorted(self.package.rglob("*")):
            if path.is_dir() or "__pycache__" in path.parts:
                continue
            name = str(path.relative_to(self.package))
            before = ORIGINAL / name
            if not before.exists():
                new.append(name)
            elif not filecmp.cmp(before, path, shallow=False):
                rest = iter(path.read_text().splitlines())
                for line in before.read_text().splitlines():
                    for found in rest:
                        if found == line:
                            break
                        changed.setdefault(name, []).append(found)
                changed.setdefault(name, []).extend(rest)
        return new, changed

    def partita(self, *arguments: object) -> str:
        """What the copy's command line prints."""
        return self.python("from partita.cli import main; main()", *arguments)

    def python(self, code: str, *arguments: object) -> str:
        """What a program prints that imports the copy."""
        paths = os.pathsep.join([str(self.package.parent), *sys.path])
        words = [sys.executable, "-c", code, *map(str, arguments)]
        variables = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": "1"}
        done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


SOLVER = """
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.schedules import list_schedule
from partita.problems.makespan.options import Outcome, Solver


class OneDevice(Solver):
    name = "one device"
    summary = "all operators on the first device, one after the other; ignores the others"

    def solve(self, problem, options, monitor):
        instance = build_instance(problem)
        return Outcome(list_schedule(instance, [0] * instance.count, instance.order))
"""

#: The lines that name them where the others are.
IMPORT = "from partita.problems.makespan.solvers.one_device import OneDevice\n"
TOY = "from partita.exporters.toy import Toy\n"

EXPORTER = """
from partita.exporters.exporter import FileExporter, lines
from partita.nouns.catalogue.runtimes import Limits, Runtime


class Toy(FileExporter):
    name = "toy"
    runtime = Runtime(name="toy", summary="toy: a line a stage", limits=Limits(training=False), source="here")

    def content(self, split, model):
        return lines(*(f"{part.rank} {' '.join(part.devices)}" for part in split.stages))
"""

#: A cluster of two of them.
PRICED = """
import json
import partita

cluster = partita.read_cluster("2xAbacus")
print(json.dumps([cluster.device_names(), cluster.devices["Abacus"].peak("bfloat16")]))
"""

DEVICE = """
[[devices]]
name = "Abacus"
peak_flops = { float32 = 4.0, bfloat16 = 8.0 }
memory_bandwidth_bytes_per_s = 2.0
memory_bytes = 2147483648
link = "nvlink3"
host_link = "pcie4"
source = "a hand, https://example.org"
"""


def test_a_problem_is_one_folder_and_one_line(copy: Copy, tmp_path: Path) -> None:
    copy.add("problems/tasks/__init__.py", "")
    copy.add("problems/tasks/descriptor.py", TASKS.read_text())
    last = '    "serving": "partita.problems.serving.descriptor:SERVING",\n'
    copy.list_in("problems/__init__.py", last, '    "tasks": "partita.problems.tasks.descriptor:TASKS",\n')
    write_problem(tmp_path / "six.json", SIX)
    found = json.loads(copy.partita("solve", tmp_path / "six.json", "--json"))
    assert (found["objective"], found["bound"], found["status"]) == (6.0, 6.0, "optimal")
    assert "tasks" in copy.partita("problems")
    new, changed = copy.touched()
    assert {Path(name).parent for name in new} == {Path("problems/tasks")}
    assert {name: len(lines) for name, lines in changed.items()} == {"problems/__init__.py": 1}


def test_a_solver_is_one_file_and_one_line(copy: Copy, tmp_path: Path) -> None:
    """The line is an import, and a word in the list."""
    copy.add("problems/makespan/solvers/one_device.py", SOLVER)
    listed = "problems/makespan/solvers/__init__.py"
    copy.list_in(listed, "from partita.problems.makespan.solvers.exact import MakespanExact\n", IMPORT)
    copy.list_in(listed, ", FusedFirst()", ", OneDevice()")
    write_problem(tmp_path / "p.json", row((1.0, 2.0, 3.0), devices=2))
    found = json.loads(copy.partita("solve", tmp_path / "p.json", "--solver", "one device", "--json"))
    assert (found["objective"], found["status"], found["solver"]) == (6.0, "feasible", "one device")
    assert "ignores the others" in copy.partita("solvers")
    new, changed = copy.touched()
    assert new == ["problems/makespan/solvers/one_device.py"]
    assert {name: len(lines) for name, lines in changed.items()} == {listed: 2}


def test_an_exporter_is_one_file_and_one_line(copy: Copy, tmp_path: Path) -> None:
    """As a solver; what it can express is in its file, unless plans are to be made for it."""
    copy.add("exporters/toy.py", EXPORTER)
    copy.list_in("exporters/__init__.py", "from partita.exporters.torchtitan import TorchTitan\n", TOY)
    copy.list_in("exporters/__init__.py", "    OpenVino(),\n", "    Toy(),\n")
    stages = tuple(StagePart(rank=rank, devices=(f"L4:{rank}",), kind="L4") for rank in range(2))
    split = Split(model="m", stages=stages)
    write_json(tmp_path / "r.json", {"format": "partita.result", "version": 1, "plan": {}, "split": split})
    copy.partita("export", tmp_path / "r.json", "--to", "toy", "--output", tmp_path / "stages.txt")
    assert (tmp_path / "stages.txt").read_text() == "0 L4:0\n1 L4:1\n"
    assert "toy: a line a stage" in copy.partita("exporters")
    new, changed = copy.touched()
    assert new == ["exporters/toy.py"]
    assert changed == {"exporters/__init__.py": [TOY.strip(), "    Toy(),"]}


def test_a_device_is_a_table(copy: Copy) -> None:
    path = copy.package / "nouns" / "catalogue" / "devices.toml"
    path.write_text(path.read_text() + DEVICE)
    assert "Abacus" in copy.partita("devices")
    priced = copy.python(PRICED)
    assert json.loads(priced) == [["Abacus", "Abacus"], 8.0]
    new, changed = copy.touched()
    assert new == []
    assert list(changed) == ["nouns/catalogue/devices.toml"]
    assert len(changed["nouns/catalogue/devices.toml"]) == len(DEVICE.splitlines())
