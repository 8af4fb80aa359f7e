"""The cross-check itself: what is wrong is found and made small, and what is right is not called wrong."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crosscheck.__main__ import Run
from crosscheck.instances import Instance, families_of
from crosscheck.minimise import minimise
from crosscheck.tasks_problems import CrashingTasks, HangingTasks, WrongTasks, crashing, hanging, right, wrong
from crosscheck.workers import Pool
from crosscheck.workers import check as check_one
from partita.problems import find_kind, kinds
from partita.problems.importers import read_problem
from partita.problems.kind import AnyKind
from toy.registered import registered
from toy.tasks import TASKS

ROOT = Path(__file__).resolve().parents[2]

every_kind = pytest.mark.parametrize("name", [kind.name for kind in kinds()])


def check(kind: AnyKind, setup: Callable[[], None], folder: Path, count: int) -> Run:
    """Instances of the problem of the tests."""
    with registered(kind):
        run = Run(
            (kind.name,),
            count=count,
            jobs=1,
            warm=False,
            minimise_s=20.0,
            output=folder,
            say=lambda line: None,
            setup=setup,
        )
        run.run()
    return run


def test_right_components_are_not_called_wrong(tmp_path: Path) -> None:
    run = check(TASKS, right, tmp_path, 60)
    ((_, instances, _, runs, compared, _, contradictions),) = run.tally.rows()
    assert instances == 60
    assert runs > 200
    assert compared > 300
    assert contradictions == 0
    assert run.found == []


def test_only_what_can_be_tried_whole_is_drawn_until_enough_has_been(tmp_path: Path) -> None:
    run = Run(("mapping",), whole=3, jobs=1, warm=False, output=tmp_path, say=lambda line: None)
    assert run.run()
    ((_, instances, whole, runs, compared, _, _),) = run.tally.rows()
    assert instances == whole == 3
    assert runs > 10
    assert compared > 10
    drawn = (Instance("mapping", 0, number, whole=True) for number in range(40))
    assert not check_one(next(one for one in drawn if one.problem().used > 6)).said, "larger ones are passed over"


def test_wrong_components_are_found_and_their_instances_made_small(tmp_path: Path) -> None:
    run = check(WrongTasks(), wrong, tmp_path, 60)
    found = {one.shown.key: one for one in run.found if one.shown is not None}
    assert {("bound above plan", "too much"), ("infeasible with a plan", "no plan"), ("exception", "raises")} <= set(
        found
    )
    assert {by.split(" (")[0] for _, by in found} == {"too much", "no plan", "raises"}
    with registered(TASKS):
        files = {path.stem: read_problem(path) for path in tmp_path.glob("*.json")}
    small = {
        key: next(p for stem, p in files.items() if stem.endswith(key)) for key in ("too-much", "no-plan", "raises")
    }
    # One task of a fraction; one task that fills one machine (which takes any number if it says 0); three tasks.
    assert len(small["too-much"].times) == small["too-much"].machines == 1
    assert small["too-much"].times[0] % 1
    assert len(small["no-plan"].times) == small["no-plan"].machines == 1
    assert small["no-plan"].most_tasks in (0, 1)
    assert small["raises"].times == (1.0, 1.0, 1.0)
    above = found["bound above plan", "too much"].shown
    assert above is not None
    assert above.claimed is not None
    assert above.known is not None
    assert above.claimed > above.known
    text = (tmp_path / "contradictions.txt").read_text()
    assert "tasks --seed 0 --first" in text
    assert "too much" in text


def test_a_crash_is_found_and_the_run_goes_on(tmp_path: Path) -> None:
    run = check(CrashingTasks(), crashing, tmp_path, 20)
    assert run.tally.instances["tasks"] == 20
    assert {one.wrong.key for one in run.found} <= {("crash", "crashes"), ("crash", "crashes (consecutive)")}
    assert run.found


@pytest.mark.parametrize(("patience_s", "waiting_s"), [(math.inf, 3.0), (1.5, math.inf)], ids=["waits", "works"])
def test_what_hangs_is_found_and_the_run_goes_on(patience_s: float, waiting_s: float) -> None:
    """What waits by the clock, what works by its own work; ``machines`` says which it does."""
    waits = math.isfinite(waiting_s)
    with registered(HangingTasks()), Pool(1, hanging, patience_s, waiting_s) as pool:
        every = [Instance("tasks", 0, number) for number in range(60)]
        drawn = {instance: instance.problem() for instance in every}
        hangs = next(i for i, p in drawn.items() if len(p.times) > 1 and (p.machines > 1) == waits)
        ends = next(i for i, p in drawn.items() if len(p.times) == 1)
        found = [result for _, result in pool.run(iter([("check", hangs), ("check", ends)]))]
    assert [each.instance for each in found] == [hangs, ends]
    assert [each.key for each in found[0].wrong] in ([("hang", "hangs")], [("hang", "hangs (consecutive)")])
    assert found[1].wrong == ()
    assert found[1].said


@every_kind
def test_the_same_seed_gives_the_same_instances(name: str) -> None:
    for number in range(12):
        first, second = Instance(name, 5, number), Instance(name, 5, number)
        assert first.problem() == second.problem()
        assert first.parts() == second.parts()
    assert any(Instance(name, 5, k).problem() != Instance(name, 6, k).problem() for k in range(3))


@every_kind
def test_families_give_instances_of_every_size(name: str) -> None:
    """Each family has problems of the kind, not always the same one."""
    kind, families = find_kind(name), families_of(name)
    assert len(families) >= 4
    for family, draw in families.items():
        drawn = [draw(random.Random(f"{family} {seed}")) for seed in range(12)]
        assert all(isinstance(problem, kind.problem) for problem in drawn), family
        assert len({msgspec.json.encode(problem) for problem in drawn}) > 6, family


def _links(problem: Any) -> int:
    """What a graph's edges are called differs."""
    fields = [getattr(problem, field, ()) for field in ("tensors", "edges", "flows", "transfers", "links")]
    return sum(len(field) for field in fields if isinstance(field, tuple))


@every_kind
def test_instances_are_made_small(name: str) -> None:
    """Down to one edge, where nothing but an edge is asked for, with numbers that are plain."""
    if name == "serving":
        pytest.skip("deployments are no graphs")
    tried = 0
    for number in range(20):
        problem = Instance(name, 0, number).problem()
        if _links(problem) < 4:
            continue
        small = minimise(problem, lambda each: _links(each) > 0, seconds=20.0)
        names = ("operators", "machines", "layers", "stages")
        nodes = next(found for field in names if isinstance(found := getattr(small, field, None), tuple) and found)
        # The source and the sink of a flow are no nodes of their own.
        assert len(nodes) == (1 if name == "layer_placement" else 2)
        assert _links(small) == 1
        assert len(msgspec.json.encode(small)) < len(msgspec.json.encode(problem))
        tried += 1
        if tried == 3:
            return
    raise AssertionError("hardly any instance has edges")


def test_the_command_line(tmp_path: Path) -> None:
    """Instances by number, a table, files, and the exit status."""
    command = [sys.executable, "-m", "crosscheck", "--problem", "mapping", "--count", "3", "--seed", "7", "--jobs", "1"]
    paths = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, "--cold", "--output", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mapping" in done.stdout
    assert "0 contradictions" in done.stdout
    assert (tmp_path / "summary.csv").read_text().splitlines()[1].startswith("mapping,3,")
    assert (tmp_path / "components.csv").is_file()
