"""The verbs on problem files: what is printed, written and returned."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import workload
from running.command_line import Run

REQUIRED = {"objective", "bound", "gap", "status", "stop_reason", "runtime_s", "solver", "seed", "unit"}


def test_solve_prints_one_json_object(partita: Callable[..., Run], chain: Path) -> None:
    run = partita("solve", chain, "--json")
    assert run.code == 0
    document = run.document
    assert document.keys() >= REQUIRED
    # {a, b} | {c}: 2 + 3 + 1 = 6 against 4 + 1 = 5; {a} | {b, c}: 3 against 8; one device: 9.
    assert document["objective"] == pytest.approx(6.0)
    assert document["bound"] == pytest.approx(6.0)
    assert document["status"] == "optimal"
    assert document["unit"] == "ms"
    assert [device["operators"] for device in document["plan"]["devices"]] == [[0, 1], [2]]
    assert [device["load"] for device in document["plan"]["devices"]] == pytest.approx([6.0, 5.0])
    assert {device["kind"] for device in document["plan"]["devices"]} == {"accelerator"}


def test_tables_go_to_stdout_when_piped(partita: Callable[..., Run], chain: Path) -> None:
    run = partita("solve", chain)
    assert run.code == 0
    assert "accelerator:0" not in run.err
    assert "accelerator:0" in run.out
    assert "optimal" in run.out


def test_a_document_on_stdout_moves_the_tables(partita: Callable[..., Run], chain: Path) -> None:
    for options in (("--output", "-"), ("--output", "-", "--json")):
        run = partita("solve", chain, *options)
        assert run.code == 0
        assert run.document["format"] == "partita.result"
        assert ("accelerator:0" in run.err) == ("--json" not in options)


def test_overrides(partita: Callable[..., Run], chain: Path) -> None:
    # One device: 2 + 3 + 4. Three devices: the middle one pays both transfers, 3 + 1 + 1 = 5 = 4 + 1.
    assert partita("solve", chain, "--json", "--devices", "1").document["objective"] == pytest.approx(9.0)
    assert partita("solve", chain, "--json", "--devices", "3").document["objective"] == pytest.approx(5.0)
    # A CPU needs ten times as long for c alone: no help; with transfers ten times dearer one device (9) is best.
    assert partita("solve", chain, "--json", "--cpus", "1").document["objective"] == pytest.approx(6.0)
    scaled = partita("solve", chain, "--json", "--scale-communication", "10").document
    assert scaled["objective"] == pytest.approx(9.0)
    # 20 bytes a device: {a, b} | {c} still fits; with 10 bytes three devices are needed.
    assert partita("solve", chain, "--json", "--memory", "20").document["objective"] == pytest.approx(6.0)
    tight = partita("solve", chain, "--json", "--memory", "10", "--devices", "3").document
    assert tight["objective"] == pytest.approx(5.0)
    assert (
        partita("solve", chain, "--json", "--memory", "inf").document["plan"]["devices"][0]["memory_bytes"]["limit"]
        is None
    )


def test_infeasible_says_what_is_missing(partita: Callable[..., Run], chain: Path) -> None:
    run = partita("solve", chain, "--json", "--memory", "10")
    assert run.code == 1
    document = run.document
    assert document["objective"] is None
    assert document["status"] == "infeasible"
    # 3 operators of 10 bytes on 2 devices of 10 bytes.
    assert "10 B are missing" in document["reason"]
    assert "3 devices" in document["reason"]
    assert "20 bytes" in document["reason"]
    assert "Traceback" not in run.err


def test_infeasible_operator_is_named(partita: Callable[..., Run], tmp_path: Path) -> None:
    document = workload()
    document["nodes"][1]["size"] = 150.0
    path = tmp_path / "large.json"
    path.write_text(json.dumps(document))
    run = partita("solve", path, "--json")
    assert run.code == 1
    assert "operator 1 (b)" in run.document["reason"]
    assert "50 B more" in run.document["reason"]
    # One of two devices must hold two operators of the row: 150 + 10.
    assert "160 bytes" in run.document["reason"]


def test_unsupported_everywhere_is_named(partita: Callable[..., Run], tmp_path: Path) -> None:
    document = workload()
    document["nodes"][2]["supportedOnFpga"] = 0
    path = tmp_path / "unsupported.json"
    path.write_text(json.dumps(document))
    run = partita("solve", path, "--json")
    assert run.code == 1
    assert "operator 2 (c) cannot run" in run.document["reason"]
    assert partita("solve", path, "--json", "--cpus", "1").code == 0


def test_result_and_split_files_evaluate_to_the_same(partita: Callable[..., Run], chain: Path, tmp_path: Path) -> None:
    result, split = tmp_path / "r.json", tmp_path / "s.json"
    solved = partita("solve", chain, "--json", "--output", result, "--split-output", split).document
    stored = json.loads(result.read_text())
    assert stored["format"] == "partita.result"
    assert stored["version"] == 1
    assert {"objective", "bound", "gap", "status", "stop_reason", "unit", "problem", "plan", "statistics"} <= set(
        stored
    )
    assert len(stored["problem"]["sha256"]) == 64
    for plan in (result, split):
        run = partita("evaluate", chain, plan, "--json")
        assert run.code == 0
        assert run.document["objective"] == pytest.approx(solved["objective"])
        assert run.document["feasible"]
        assert run.document["acyclic"]
    document = json.loads(split.read_text())
    assert document["maxLoad"] == pytest.approx(6.0)
    assert [device["nodes"] for device in document["fpgas"]] == [[0, 1], [2]]
    assert document["cpus"] == []


def test_evaluate_reports_what_is_wrong(partita: Callable[..., Run], chain: Path, tmp_path: Path) -> None:
    split = tmp_path / "s.json"
    split.write_text(json.dumps({"fpgas": [{"nodes": [0, 2]}, {"nodes": [1]}], "cpus": []}))
    document = partita("evaluate", chain, split, "--json").document
    # {a, c}: 2 + 4 + both transfers; {b}: 3 + both.
    assert document["objective"] == pytest.approx(8.0)
    assert document["feasible"]
    assert not document["acyclic"]
    tight = partita("evaluate", chain, split, "--json", "--memory", "15").document
    assert not tight["feasible"]
    assert "5 B more" in tight["reason"]


def test_bound_and_compare(partita: Callable[..., Run], chain: Path) -> None:
    bound = partita("bound", chain, "--json").document
    assert bound["bound"] <= 6.0 + 1e-9
    compared = partita("compare", chain, "--json").document
    assert compared["objective"] == pytest.approx(6.0)
    rows = {row["name"]: row for row in compared["baselines"]}
    assert {"equal-layers", "equal-parameters", "equal-time", "memory-greedy"} <= rows.keys()
    assert all(row["objective"] is None or row["objective"] >= 6.0 - 1e-9 for row in rows.values())
    # All 30 bytes fit on the first device: greedy filling uses one device only.
    assert rows["memory-greedy"]["objective"] == pytest.approx(9.0)


@pytest.mark.parametrize("verb", ["solvers", "bounds", "baselines", "devices", "links"])
def test_listings(partita: Callable[..., Run], verb: str) -> None:
    lines = partita(verb).out.strip().splitlines()
    document = partita(verb, "--json").document
    assert len(lines) == len(document[verb]) > 0


def test_every_bound_by_name(partita: Callable[..., Run], chain: Path) -> None:
    rows = [row for row in partita("bounds", "--json").document["bounds"] if row["problem"] == "throughput"]
    assert len(rows) > 5
    for row in rows:
        run = partita("bound", chain, "--method", row["name"], "--json")
        assert run.code == 0, run
        assert run.document["bound"] <= 6.0 + 1e-9


def _wide(path: Path, operators: int = 60, towers: int = 12) -> Path:
    """A problem with far too many downsets to finish: towers of operators with incommensurable times, side by side."""
    nodes, edges = [], []
    for tower in range(towers):
        for step in range(operators):
            number = tower * operators + step
            time_ms = 1.0 + (number * 0.618033988749895) % 1.0
            nodes.append(
                {
                    "id": number,
                    "supportedOnFpga": True,
                    "cpuLatency": 10 * time_ms,
                    "fpgaLatency": time_ms,
                    "isBackwardNode": False,
                    "size": 1.0,
                }
            )
            if step:
                edges.append({"sourceId": number - 1, "destId": number, "cost": 0.37 + 0.1 * tower})
    document = {"maxSizePerFPGA": 1e9, "maxFPGAs": 7, "maxCPUs": 1, "nodes": nodes, "edges": edges}
    path.write_text(json.dumps(document))
    return path


def test_time_limit_keeps_the_best_plan(partita: Callable[..., Run], tmp_path: Path) -> None:
    problem, output = _wide(tmp_path / "wide.json"), tmp_path / "r.json"
    run = partita("solve", problem, "--json", "--time-limit", "0.5", "--output", output)
    assert run.code == 0
    document = json.loads(output.read_text())
    assert document["stop_reason"] == "time limit"
    assert 0 < document["bound"] <= document["objective"]
    checked = partita("evaluate", problem, output, "--json").document
    assert checked["objective"] == pytest.approx(document["objective"])
    assert checked["acyclic"]


#: The command line, and a word on stderr when the run has a plan and a bound.
TELLING = """
import sys
from partita.cli import main
from partita.engines.search.monitor import Monitor

def tell(self, **known):
    report(self, **known)
    if self.objective is not None and self.bound:
        print("a plan and a bound", file=sys.stderr, flush=True)

report, Monitor.report = Monitor.report, tell
main(sys.argv[1:])
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_saves_the_best_plan(tmp_path: Path, sent: signal.Signals) -> None:
    problem, output = _wide(tmp_path / "wide.json"), tmp_path / "r.json"
    process = subprocess.Popen(
        [sys.executable, "-c", TELLING, "solve", str(problem), "--time-limit", "120", "--output", str(output)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "a plan and a bound\n"
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    document = json.loads(output.read_text())
    assert document["stop_reason"] == "interrupted"
    assert document["plan"] is not None
    assert 0 < document["bound"] <= document["objective"]


def test_help_is_instant_and_import_is_light() -> None:
    code = (
        "import sys, partita; "
        "heavy = {'torch', 'numba', 'highspy', 'ortools', 'pyscipopt', 'matplotlib', 'transformers', 'scipy'}; "
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
    code = code.replace("import sys, partita", "import sys, partita.cli")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
