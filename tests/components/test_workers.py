"""Workers know what was registered where the work comes from, also what a script made in place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import pytest

import partita as pt
from components import toys
from partita.conductor.sweep import Swept, grid, sweep
from partita.engines.processes.pool import Pool
from partita.engines.processes.shipping import done_there, dumps, loads, packed_work, shipped, take
from partita.ground.registry import given, replace
from partita.problems import find_kind, kinds
from partita.problems.mapping.samples import MACHINES
from running.command_line import Run
from running.worker_pools import two_workers, workers_fixture

__all__ = ["two_workers", "workers_fixture"]


def rows(found: Swept) -> list[tuple[Any, ...]]:
    return [(row["machines"], row["objective"], row["status"]) for row in found.rows()]


def swept(pool: Pool | None) -> Swept:
    facet = find_kind("jobs").sweep
    return sweep(grid({"machines": (1, 2, 3)}), lambda point: facet.at(toys.FOUR, point), pool=pool)


def names(value: int) -> tuple[list[str], list[str]]:
    """What a worker knows."""
    return [kind.name for kind in kinds()], [one.component.name for one in given()]


@pytest.mark.usefixtures("toys")
def test_a_registered_problem_is_swept_on_workers(two_workers: Pool) -> None:
    found = swept(two_workers)
    assert rows(found) == rows(swept(None)) == [(1, 10.0, "feasible"), (2, 5.0, "feasible"), (3, 4.0, "feasible")]
    assert type(found.points[0].result.problem) is toys.Jobs


def test_workers_forget_what_is_taken_back() -> None:
    pytest.importorskip("joblib")
    with Pool(2) as pool:
        assert pool.map(names, [0, 1])[0][1] == []
        pt.register(toys.JobKind)
        pt.register(toys.InOrder)
        try:
            known, added = pool.map(names, [0, 1])[0]
            assert (known[-1], added) == ("jobs", ["jobs", "in-order"])
            pt.unregister(toys.InOrder)
            assert pool.map(names, [0, 1])[0][1] == ["jobs"]
        finally:
            pt.unregister(toys.JobKind)
        known, added = pool.map(names, [0, 1])[0]
    assert "jobs" not in known
    assert added == []


@pytest.mark.usefixtures("toys")
def test_the_command_line_sweeps_on_workers(partita: Callable[..., Run], tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    path = tmp_path / "mapping.json"
    pt.write_problem(path, MACHINES)
    words = ("sweep", path, "--bandwidth", "0.5,1", "--solver", "in-order", "--json")
    one, two = (partita(*words, *more).document["rows"] for more in ((), ("--jobs", "2")))
    assert [row["objective"] for row in one] == [row["objective"] for row in two]
    assert len(one) == 2


SCRIPT = """
from __future__ import annotations

from typing import Annotated, Any, ClassVar
import msgspec
import partita as pt
from partita.conductor.sweep import grid, sweep
from partita.engines.processes.pool import Pool

{classes}

pt.register(JobKind)
@pt.register
class Late(LongestFirst):
    name, problem = "late", "jobs"

problem = Jobs(name="four", machines=2, times=(3.0, 3.0, 2.0, 2.0))
with Pool(2) as pool:
    at = lambda point: problem.replace(machines=point["machines"])
    found = sweep(grid({{"machines": (1, 2, 3)}}), at, solver="late", pool=pool)
for point in found.points:
    result = point.result
    print(result.solver, result.objective, type(result.problem) is Jobs, isinstance(result.plan, Rota))
"""


def test_a_script_has_its_own_problem_on_workers(tmp_path: Path) -> None:
    """Its types are in no module that a worker could import."""
    pytest.importorskip("joblib")
    text = Path(toys.__file__).read_text()
    classes = text[text.index("class Jobs") : text.index("class LastDown")]
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(classes=classes))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"late {value} True True" for value in (10.0, 5.0, 4.0)]


def here() -> tuple[type[Any], type[Any]]:
    """Types that no module has."""

    class Base(msgspec.Struct, frozen=True, kw_only=True, tag="base", tag_field="sort"):
        label: ClassVar[str] = "base"
        first: int = 1

    class Node(Base, frozen=True, kw_only=True):
        value: float
        others: tuple[int, ...] = ()
        renamed: Annotated[str, "meta"] = msgspec.field(default="x", name="other name")
        made: list[int] = msgspec.field(default_factory=list)

        def __post_init__(self) -> None:
            if self.value < 0:
                raise pt.InputError("negative")

        def doubled(self) -> Any:
            return Node(value=2 * self.value)

        @property
        def sum(self) -> float:
            return self.value + self.first

    return Base, Node


ELSEWHERE = """
import sys
from partita.engines.processes.shipping import dumps, loads
value = loads(sys.stdin.buffer.read())
kind = type(value)
try:
    kind(value=-1.0)
except Exception as error:
    said = str(error)
sys.stdout.buffer.write(dumps((value.doubled(), kind(value=1.0, others=(1,)), said, kind.label, value.sum, kind)))
"""


def test_a_type_made_in_place_goes_there_and_back() -> None:
    """As it is there: fields, checks, methods; and what comes back is of the same type."""
    pytest.importorskip("cloudpickle")
    _, node = here()
    data = dumps(node(value=3.0, first=4))
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], input=data, capture_output=True, check=True)
    doubled, made, said, label, total, kind = loads(done.stdout)
    assert kind is node
    assert (doubled, made) == (node(value=6.0), node(value=1.0, others=(1,)))
    assert (said, label, total) == ("negative", "base", 7.0)
    assert msgspec.json.encode(made) == b'{"sort":"base","first":1,"value":1.0,"others":[1],"other name":"x","made":[]}'


def twice(value: int) -> int:
    return 2 * value


def test_work_brings_the_components() -> None:
    pytest.importorskip("cloudpickle")
    assert shipped() == b""
    pt.register(toys.WIRE)
    try:
        work = packed_work(twice, 4)
        assert work[0] == shipped() != b""
        kept = given()
        assert loads(done_there(*work)).get() == 8
        assert [one.component for one in given()] == [toys.WIRE]
        take(b"")
        assert given() == ()
        replace(kept)
    finally:
        pt.unregister("wire")
