"""Published runs since 2024: a row of each kind of model is predicted, and planned anew."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

pytest.importorskip("transformers")

import _frontier
import validate_frontier

ROWS = _frontier.read_rows()


def row_of(model: str, system: str) -> _frontier.Row:
    return next(row for row in ROWS if (row["model"], row["system"]) == (model, system))


@pytest.mark.parametrize(("model", "system"), [("LLAMA3_70B", "DGX-GB300"), ("Qwen3_235B_a22B", "DGX-GB200")])
def test_a_row_is_predicted_and_planned(model: str, system: str) -> None:
    found = _frontier.predict(row_of(model, system))
    assert found.evaluation.feasible
    assert abs(found.tokens_per_s / found.measured - 1) < 0.2
    beside = validate_frontier.planned(found, 20.0)
    # All that was run may be chosen, too.
    assert beside["faster"] >= -1e-9
    assert beside["chosen"] == pytest.approx(found.tokens_per_s * (1 + beside["faster"]), rel=1e-3)
    assert beside["chosen_plan"].startswith("p")


def test_what_is_asked_of_a_row_is_said() -> None:
    with pytest.raises(ValueError, match="model 'GPT-9' of a row is not known"):
        _frontier.predict({**ROWS[0], "model": "GPT-9"})
