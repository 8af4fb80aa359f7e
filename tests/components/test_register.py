"""A registered component of each sort works where those of the package do, and is gone once it is taken back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

import partita as pt
from cli.conftest import workload
from components import toys
from exporters.splits import graph_of
from partita.documents.document import write_json
from partita.exporters import ALL_EXPORTERS
from partita.ground.registry import everything, given
from partita.nouns.split import StagePart
from partita.problems import find_kind, kinds
from partita.problems.mapping.samples import MACHINES
from partita.problems.throughput.samples import SAMPLES
from running.command_line import Run

Document = Callable[..., dict[str, Any]]


@pytest.fixture
def mapping_file(tmp_path: Path) -> Path:
    path = tmp_path / "mapping.json"
    pt.write_problem(path, MACHINES)
    return path


@pytest.fixture
def jobs_file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.json"
    pt.write_problem(path, toys.FOUR)
    return path


@pytest.mark.usefixtures("toys")
def test_a_solver_a_baseline_and_a_bound_of_another_problem() -> None:
    found = pt.solve(MACHINES, solver="in-order")
    assert found.solver == "in-order"
    assert found.plan.placement == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15))
    assert "backwards" in [row.name for row in pt.compare(MACHINES)]
    assert pt.solve(MACHINES, solver="backwards").plan.placement[0] == (15, 14, 13, 12)
    proven = pt.bound(MACHINES, "longest-stage")
    assert (proven.value, proven.method, proven.argument) == (0.01, "longest-stage", toys.LongestStage.argument)
    assert pt.bound(MACHINES, time_limit_s=5.0).value >= proven.value


@pytest.mark.usefixtures("toys")
def test_they_are_on_the_command_line(document: Document, partita: Callable[..., Run], mapping_file: Path) -> None:
    assert document("solve", mapping_file, "--solver", "in-order")["solver"] == "in-order"
    assert document("bound", mapping_file, "--method", "longest-stage")["bound"] == 0.01
    rows = document("compare", mapping_file)["baselines"]
    assert "backwards" in [row["name"] for row in rows]
    refused = partita("solve", mapping_file, "--solver", "longest-first")
    assert refused.code == 2
    assert "it is one for jobs problems" in refused.err


@pytest.mark.usefixtures("toys")
def test_a_problem(document: Document, jobs_file: Path, tmp_path: Path) -> None:
    assert pt.solve(toys.FOUR).objective == 5.0
    found = document("solve", jobs_file, "--machines", 3)
    assert (found["objective"], found["solver"]) == (4.0, "longest-first")
    rows = document("sweep", jobs_file, "--machines", "1,2")["rows"]
    assert [row["objective"] for row in rows] == [10.0, 5.0]
    text = tmp_path / "jobs.txt"
    text.write_text("jobs 1,2,3")
    assert pt.read_problem(text).times == (1.0, 2.0, 3.0)
    assert document("solve", text, "--format", "commas")["objective"] == 3.0


@pytest.mark.usefixtures("toys")
def test_a_schedule(document: Document, tmp_path: Path) -> None:
    problem, result = tmp_path / "p.json", tmp_path / "r.json"
    pt.write_problem(problem, SAMPLES[0][2])
    document("solve", problem, "--output", result)
    found = document("simulate", result, "--schedule", "last-down")
    assert found["schedule"] == "last-down"
    assert found["step_time"] > 0


@pytest.mark.usefixtures("toys")
def test_an_exporter_and_its_runtime(partita: Callable[..., Run], tmp_path: Path) -> None:
    stages = tuple(StagePart(rank=rank, devices=(f"L4:{rank}",), kind="L4") for rank in range(2))
    split = pt.Split(model="m", stages=stages)
    write_json(tmp_path / "r.json", {"format": "partita.result", "version": 1, "plan": {}, "split": split})
    run = partita("export", tmp_path / "r.json", "--to", "rows", "--output", tmp_path / "rows.txt")
    assert (run.code, (tmp_path / "rows.txt").read_text()) == (0, "0 L4:0\n1 L4:1\n")
    refused = partita("plan", "m.py:f", "--cluster", "2xL4", "--runtime", "rows", "--training")
    assert refused.code == 2
    assert "there is no runtime" not in refused.err
    assert "rows" in partita("plan", "m.py:f", "--cluster", "2xL4", "--runtime", "row").err + ALL_EXPORTERS.known


@pytest.mark.usefixtures("toys")
def test_a_topology_a_format_a_device_and_a_link(document: Document, tmp_path: Path) -> None:
    found = document("topologies", "hub:3:rate=1e9:device=MyCard")
    assert [device["kind"] for device in found["devices"]] == ["MyCard"] * 3
    assert found["bandwidth_bytes_per_s"][0] == [0.0, 1e9, 1e9]
    (tmp_path / "hub.txt").write_text("devices of a hub: 5")
    assert len(document("topologies", tmp_path / "hub.txt")["devices"]) == 5
    cluster = pt.read_cluster("2x(4xmycard):wire")
    assert (len(cluster.device_names()), cluster.devices["MyCard"].peak("bfloat16")) == (8, 2e13)
    assert cluster.links["wire"].bandwidth_bytes_per_s == 2e9
    assert pt.Cluster.from_spec("4xMyCard").devices["MyCard"] == toys.CARD


@pytest.mark.usefixtures("toys")
def test_listings_have_them(document: Document, partita: Callable[..., Run]) -> None:
    for command, names in {
        "problems": ["jobs"],
        "solvers": ["in-order", "longest-first"],
        "baselines": ["backwards"],
        "bounds": ["longest-stage"],
        "schedules": ["last-down"],
        "exporters": ["rows"],
        "topologies": ["hub", "hub-list"],
        "devices": ["MyCard"],
        "links": ["wire"],
    }.items():
        added = [entry["name"] for entry in document(command)[command] if entry["package"] is None]
        assert added == names
        assert all(name in partita(command).out for name in names)
    help = partita("solve", "--help").out
    assert "Jobs problems:" in help


def test_unregister_leaves_nothing(document: Document, jobs_file: Path) -> None:
    before = {sort: document(sort) for sort in ("problems", "solvers", "baselines", "bounds", "devices", "topologies")}
    for component in toys.COMPONENTS:
        pt.register(component)
    assert len(given()) == len(toys.COMPONENTS)
    for component in toys.COMPONENTS:
        pt.unregister(component if component is toys.HUB else component.name if component is toys.CARD else component)
    assert given() == ()
    assert {sort: document(sort) for sort in before} == before
    assert "jobs" not in [kind.name for kind in kinds()]
    for text in ("4xMyCard", "hub:4"):
        with pytest.raises(pt.InputError):
            pt.read_cluster(text)
    with pytest.raises(pt.FormatError, match="toys"):
        pt.read_problem(jobs_file)
    with pytest.raises(pt.InputError, match="no solver 'in-order'"):
        pt.solve(MACHINES, solver="in-order")
    with pytest.raises(pt.InputError, match="TopologyGenerator is not registered here"):
        pt.unregister(toys.HUB)
    with pytest.raises(pt.InputError, match="'MyCard' is not registered here; registered is nothing"):
        pt.unregister("MyCard")


def test_as_a_decorator() -> None:
    @pt.register(problem="mapping", sort="baseline")
    class Again(toys.InOrder):
        name = "again"
        problem = ""

    @pt.register
    class Once(toys.InOrder):
        name = "once"

    try:
        assert isinstance(Again, type)
        assert [entry.problem for entry in pt.baselines() if entry.name == "again"] == ["mapping"]
        assert "once" in pt.solvers("mapping").names
        assert pt.register(Once) is Once, "once more is no change"
    finally:
        pt.unregister(Again)
        pt.unregister("once")
    assert not given()


def test_a_solver_for_a_type_of_problem_is_for_each_part_of_it() -> None:
    pt.register(toys.InOrder, problem=pt.HybridProblem)
    try:
        hybrid = find_kind("hybrid")
        assert all("in-order" in [one.name for one in part.solvers] for part in (hybrid, *hybrid.parts))
    finally:
        pt.unregister(toys.InOrder)


class Nameless:
    def solve(self, problem: Any, options: Any, monitor: Any) -> Any:
        return pt.Outcome(None)


class Idle(pt.Solver):
    name, summary, problem = "idle", "does nothing", "mapping"


class Mute:
    name = "mute"


class Endless(pt.Schedule):
    name, summary = "endless", "no orders"


class NoPlan(pt.Kind):
    summary = "it lacks most"
    problem = toys.Jobs


class Unusual(toys.JobKind):
    problem = type("Others", (toys.Jobs,), {"kind": "others", "format": "others"}, frozen=True, kw_only=True)
    usual_solver = "best"


class Switched(toys.Jobs, frozen=True, kw_only=True):
    kind, format = "switched", "switched"
    contiguity: Annotated[bool, pt.setting("A switch, where others choose.")] = False


class Unread(toys.Jobs, frozen=True, kw_only=True):
    kind, format = "unread", "unread"
    value: Annotated[Nowhere, pt.setting("Of a type that there is not.")] = 0  # noqa: F821


class Homeless(pt.FileExporter):
    name = "homeless"

    def content(self, split: Any, model: Any) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("component", "how", "message"),
    [
        (Nameless, {"problem": "mapping"}, "has no name and no summary and no supports; derive it from Solver"),
        (Nameless, {}, "has no problem|does not say of which problem it is"),
        (Idle, {}, r"'idle' cannot be registered: it has no solve\(\)"),
        (
            Mute,
            {"problem": "mapping"},
            r"'mute' cannot be registered: it has neither solve\(problem, options, monitor\)",
        ),
        (Mute, {}, "it is no component"),
        (7, {}, "it is no component"),
        (toys.InOrder, {"problem": "knots"}, "there is no problem 'knots'; known are throughput"),
        (Endless, {}, r"has no orders\(\); derive it from Schedule"),
        (NoPlan, {}, r"has no plan and no solvers and no evaluate\(\) and no usual_solver|has no plan"),
        (Unusual, {}, "usual_solver 'best' is none of its solvers longest-first"),
        (
            type("Switch", (toys.JobKind,), {"problem": Switched}),
            {},
            "its flag --contiguity is a switch, which that of",
        ),
        (type("Unreadable", (toys.JobKind,), {"problem": Unread}), {}, "its settings cannot be read: NameError"),
        (Homeless, {}, "no runtime; say"),
        (pt.FileExporter, {}, "FileExporter has no content; add what is missing"),
        (pt.DeviceSpec, {}, "DeviceSpec cannot be made without arguments"),
        (toys.CARD, {}, "its link 'wire'|there is no link 'wire'"),
        (toys.WIRE, {"name": "pcie4"}, "there already is a link 'pcie4'"),
        (toys.CARD, {"name": "a100 80gb", "link": "pcie4"}, "cannot be written in a cluster"),
        (toys.CARD, {"name": "a100-80gb", "link": "pcie4"}, "there already is a device 'a10080gb'"),
        (toys.CARD, {"name": "2xCard", "link": "pcie4"}, "cannot be written in a cluster"),
    ],
)
def test_what_is_no_component_is_refused(component: Any, how: dict[str, Any], message: str) -> None:
    """In one sentence that says what is missing."""
    if isinstance(component, (pt.DeviceSpec, pt.LinkSpec)):
        changed = {name: getattr(component, name) for name in component.__struct_fields__} | how
        component, how = type(component)(**changed), {}
    with pytest.raises(pt.InputError, match=message) as caught:
        pt.register(component, **how)
    assert "\n" not in str(caught.value)
    assert not given()


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("component", [c for c in toys.COMPONENTS if c is not toys.LISTED], ids=lambda c: c.name)
def test_a_name_that_is_taken_is_refused(component: Any) -> None:
    """By what was registered, as by what is listed."""
    if isinstance(component, type):
        again: Any = component()
    elif hasattr(component, "__struct_fields__"):
        assert pt.register(msgspec.structs.replace(component)) == component, "an equal one is no change"
        again = msgspec.structs.replace(component, source="elsewhere")
    else:
        again = dataclasses.replace(
            component, **{"refusals": {("a", "b"): "c"}} if component is toys.COMMAS else {"summary": "x"}
        )
    with pytest.raises(pt.InputError, match=r"already (is|have) a.*give this one another name"):
        pt.register(again)
    assert len(given()) == len(toys.COMPONENTS)


def test_names_of_the_package_are_taken() -> None:
    class Combined(toys.InOrder):
        name = "combined"

    class OneForwardOneBackward(toys.LastDown):
        name = "1f1b"

    class File(toys.LastDown):
        name = "mine.csv"

    for component, message in (
        (Combined, "mapping problems already have a 'combined'"),
        (OneForwardOneBackward, "there already is a schedule '1f1b'"),
        (File, "that of a file"),
        (pt.Runtime(name="vllm", summary="x", limits=pt.Limits(), source=""), "already is a runtime 'vllm'"),
        (pt.TopologyGenerator("mesh", "x", "mesh:2", "N", toys.hub), "already is a topology 'mesh'"),
        (pt.TopologyGenerator("My_Mesh", "x", "x:2", "N", toys.hub), "small letters"),
        (pt.TopologyImporter("all", "x", lambda source: True, toys.read, "x"), "takes files of the format nvidia-smi"),
        (pt.ForeignFormat("piper", {"throughput": toys.read_jobs}, keys=("x",)), "already is a file format 'piper'"),
    ):
        with pytest.raises(pt.InputError, match=message):
            pt.register(component)
    assert not given()


def test_a_bound_that_is_above_a_plan_is_a_defect(tmp_path: Path) -> None:
    class Wrong(toys.LongestStage):
        name, problem = "wrong", "throughput"

        def bound(self, problem: Any, monitor: Any) -> Any:
            return pt.Bound(1e9, self.name, self.scope, monitor.elapsed_s)

    path = tmp_path / "chain.json"
    write_json(path, workload())
    problem = pt.read_problem(path)
    assert pt.bound(problem).value == pytest.approx(6.0)
    pt.register(Wrong)
    try:
        assert pt.bound(problem, "wrong").value == 1e9
        with pytest.raises(pt.DisagreementError):
            pt.bound(problem)
    finally:
        pt.unregister(Wrong)


def test_nothing_is_added_unless_somebody_asks() -> None:
    assert all(one.package for one in everything())


@pytest.mark.usefixtures("toys")
def test_a_model_is_planned_for_a_runtime_on_devices_that_were_added(
    document: Document, partita: Callable[..., Run], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    graph, result, rows = tmp_path / "graph.json", tmp_path / "r.json", tmp_path / "rows.txt"
    pt.write_graph(graph, graph_of("decoder"))
    words = ("--cluster", "2xMyCard", "--objective", "throughput", "--runtime", "rows", "--time-limit", 20)
    found = document("plan", graph, *words, "--output", result)
    assert (found["status"], found["runtime"]["name"]) == ("optimal", "rows")
    assert {device["name"].partition(":")[0] for device in found["plan"]["devices"]} == {"MyCard"}
    assert partita("export", result, "--to", "rows", "--output", rows).code == 0
    assert rows.read_text().startswith("0 MyCard:")
