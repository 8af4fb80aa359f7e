"""Runs of plans: days, failures, device-hours and money, by hand and from a plan of a model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import partita as pt
from partita.cli import main
from partita.conductor.training_run import RunShape, run_over
from partita.ground.errors import InputError

SHAPE = RunShape(step_s=10.0, tokens=1_000_000, devices=1000, replicas=50, replicas_of_machine=2)


def test_a_run_without_failures_is_its_steps_and_one_checkpoint() -> None:
    found = run_over(SHAPE, 8640e6, price_per_device_hour=2.0)
    assert found.steps == 8640
    assert found.work_s == 86_400
    assert found.interval_steps == 8640
    assert found.days == pytest.approx((86_400 + 60) / 86_400)
    assert found.device_hours == pytest.approx(24 * 1000 * found.days)
    assert found.price == pytest.approx(2 * found.device_hours)
    assert found.failures == 0.0
    assert found.loss_without_machine == 0.04


def test_failures_come_as_often_as_there_are_devices() -> None:
    found = run_over(SHAPE, 8640e6, device_failure_hours=50_000)
    assert found.between_failures_s == pytest.approx(50 * 3600)
    assert found.failures == pytest.approx(found.days * 86_400 / (50 * 3600))
    assert 0.9 < found.goodput < 1
    for other in (1, found.interval_steps - 1, found.interval_steps + 1, 8640):
        assert run_over(SHAPE, 8640e6, device_failure_hours=50_000, interval_steps=other).goodput <= found.goodput
    assert run_over(SHAPE, 8640e6, device_failure_hours=0.001).goodput < 1e-6


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"device_failure_hours": 0.0}, "between failures of a device is 0.0 hours"),
        ({"checkpoint_s": -1.0}, "checkpoint_s is -1.0"),
        ({"interval_steps": 0}, "interval_steps is 0"),
        ({"price_per_device_hour": math.inf}, "price_per_device_hour is inf"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        run_over(SHAPE, 1e9, **settings)  # type: ignore[arg-type]


def test_a_plan_of_a_model_and_its_file_say_the_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    answer = pt.plan(
        "hf:llama", "2x(2xA100-80GB)", training=True, global_batch=8, sequence_length=32,
        set={**size, "num_key_value_heads": 4, "vocab_size": 100}, baselines=False,
    )  # fmt: skip
    found = pt.training_run(answer, 1e6, device_failure_hours=1e5, price_per_device_hour=2.5)
    assert found.shape.tokens == 8 * 32
    assert found.shape.devices == 4
    assert found.shape.step_s == pytest.approx(answer.objective)
    path = tmp_path / "r.json"
    answer.save(path)
    assert pt.training_run(path, 1e6, device_failure_hours=1e5, price_per_device_hour=2.5) == found
    arguments = ["training-run", str(path), "--tokens", "1e6", "--device-failure-hours", "1e5"]
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        main([*arguments, "--json"])
    assert done.value.code == 0
    assert json.loads(capsys.readouterr().out)["days"] == pytest.approx(found.days)
    with pytest.raises(SystemExit):
        main(arguments)
    assert "goodput" in capsys.readouterr().out
    problem = pt.solve(answer.problem, time_limit_s=5.0)
    with pytest.raises(InputError, match="no plan that trains a model"):
        pt.training_run(problem, 1e6)
