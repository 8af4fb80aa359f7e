"""Tables of measured times."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.cost_graphs import make_cluster, make_graph
from partita.costs.table import CostRow, CostTable, read_cost_table
from partita.ground.errors import FormatError, InputError
from partita.problems.throughput.options import ThroughputPricing
from partita.problems.throughput.pricing import price


def times(*rows: CostRow) -> list[float | None]:
    """Times of the hand-made graph on its device: 3, 10, 1, 2, 20, 3 without rows."""
    problem = price(make_graph(), make_cluster(), ThroughputPricing(costs=CostTable(rows)))
    return [op.times[0] for op in problem.operators]


def test_without_rows_nothing_changes() -> None:
    assert times() == [3, 10, 1, 2, 20, 3]


def test_the_first_row_that_matches_decides() -> None:
    rows = (CostRow(name="linear", time_s=7.0), CostRow(target="aten.*", factor=2.0), CostRow(name="l*", time_s=0.0))
    assert times(*rows) == [6, 7, 2, 0, 0, 3]
    assert times(rows[1], rows[0], rows[2]) == [6, 20, 2, 0, 0, 3]


def test_rows_select_by_device_and_phase() -> None:
    assert times(CostRow(device="A100*", time_s=0.0)) == [3, 10, 1, 2, 20, 3]
    assert times(CostRow(device="t?y", phase="backward", factor=0.5)) == [3, 10, 1, 1, 10, 1.5]


def test_an_operator_may_be_unable_to_run() -> None:
    assert times(CostRow(name="loss", runs=False), CostRow(factor=2.0)) == [6, 20, None, 4, 40, 6]


TOML = """
[[times]]
name = "linear"
time_s = 7
[[times]]
target = "b"
factor = 2
[[times]]
name = "loss"
runs = false
"""

JSON = """
{"times": [{"name": "linear", "time_s": 7}, {"target": "b", "factor": 2}, {"name": "loss", "runs": false}]}
"""

CSV = """name,target,time_s,factor,runs
linear,,7,,
,b,,2,
loss,,,,false
"""

FILES = {"t.toml": TOML, "t.json": JSON, "t.csv": CSV}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    table = read_cost_table(path)
    assert times(*table.rows) == [3, 7, None, 4, 40, 6]
    assert f"3 rows of {name}" in table.notes(make_graph())[0]


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("t.toml", "x = 1", FormatError, "the only key is times"),
        ("t.toml", "times = 1", FormatError, "must be a list of tables"),
        ("t.toml", "[[times]]\nspeed = 1", FormatError, "unknown key 'speed'; valid keys are device, name"),
        ("t.toml", "[[times]]\ntime_s = 'fast'", FormatError, "row 1"),
        ("t.toml", "[[times]]\nname = 'a'", InputError, "exactly one of"),
        ("t.toml", "[[times]]\ntime_s = 1\nfactor = 2", InputError, "exactly one of"),
        ("t.json", '{"times": [{"time_s": -1}]}', InputError, "time_s is -1"),
        ("t.csv", "name,time_s\na,1,2\n", FormatError, "more cells"),
        ("t.csv", "name,time_s\na,soon\n", FormatError, "row 1"),
    ],
)
def test_wrong_files_are_refused(name: str, text: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(error) as caught:
        read_cost_table(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_cost_table(tmp_path / "none.csv")
