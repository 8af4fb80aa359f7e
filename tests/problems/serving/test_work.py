"""The bound of conserved work, beside runs of the deployments that it is of."""

from __future__ import annotations

import random

import msgspec
import pytest

from instances.serving import random_prices
from partita.ground.errors import InputError
from partita.nouns.workload.workload import RequestWorkload
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.problem import DevicePool, EngineRules, ServingPlan, ServingUnit, UnitGroup, UnitLayout
from partita.problems.serving.samples import LOOP, sample_prices
from partita.problems.serving.work import fitting, least_duration


def one_unit(unit: ServingUnit, workload: RequestWorkload) -> tuple[float, float]:
    """What the bound says of a unit alone, and what it takes."""
    pool = DevicePool(kind="gpu", machines=(unit.devices,))
    problem = LOOP.replace(units=(unit,), workload=workload, pools=(pool,))
    assert fitting(problem, unit) is None
    least = least_duration(problem, unit, 1, workload.drawn())
    return least, evaluate(problem, ServingPlan(units=(UnitGroup(unit=0),))).duration_s


def test_chunks_follow_each_other_through_a_pipeline() -> None:
    """Two chunks of one token, with one and two pairs of a second each: the second takes two seconds of both stages."""
    nothing = ((0.0,), (0.0,))
    prices = msgspec.structs.replace(
        sample_prices(1, 2), tokens=(1,), dense_s=nothing, dense_mixed_s=nothing, prompt_s=((1.0,), (1.0,)),
        decode_s=nothing, chunk_s=(0.0, 0.0), request_s=(0.0, 0.0), step_s=(0.0, 0.0), mixed_step_s=(0.0, 0.0),
        hand_on_s=0.0, weights_s=(), arithmetic_s=(), exchange_s=(),
    )  # fmt: skip
    workload = RequestWorkload(prompt_tokens=2, output_tokens=1, concurrency=1, requests=4)
    layout, rules = UnitLayout(pipeline=2), EngineRules(requests=1, tokens=1)
    least, taken = one_unit(ServingUnit(kind="gpu", layout=layout, rules=rules, prices=prices), workload)
    assert taken == pytest.approx(4 * 5.0)
    assert least == pytest.approx(4 * 3.0)
    # In one piece the prompt is at one stage after the other.
    whole = msgspec.structs.replace(rules, chunked=False, tokens=2)
    least, taken = one_unit(ServingUnit(kind="gpu", layout=layout, rules=whole, prices=prices), workload)
    assert least == pytest.approx(4 * 6.0)
    assert taken == pytest.approx(4 * 6.0)


def test_no_pipeline_of_chunks_is_faster_than_the_bound() -> None:
    near = 0
    for seed in range(300):
        draws = random.Random(seed)
        prices = random_prices(draws, draws.randint(2, 4))
        prices = msgspec.structs.replace(
            prices,
            prompt_s=tuple(tuple(20 * price for price in row) for row in prices.prompt_s),
            cache_budget_bytes=(1e3,) * prices.stages,
        )
        rules = EngineRules(requests=draws.randint(1, 3), tokens=draws.randint(1, 4), chunked=draws.random() < 0.8)
        workload = RequestWorkload(
            prompt_tokens=draws.randint(2, 9), output_tokens=draws.randint(1, 3), concurrency=draws.randint(1, 2),
            requests=draws.randint(1, 4),
        )  # fmt: skip
        unit = ServingUnit(kind="gpu", layout=UnitLayout(pipeline=prices.stages), rules=rules, prices=prices)
        least, taken = one_unit(unit, workload)
        assert least <= taken * (1 + 1e-9), seed
        near += least > 0.6 * taken
    assert near > 30


@pytest.mark.parametrize(
    ("field", "value"),
    [("cache_bytes_per_token", ((1.0,),)), ("prompt_s", ((), ())), ("dense_s", ((1.0,), (1.0,))), ("chunk_s", (0.0,))],
)
def test_prices_of_other_numbers_of_stages_are_refused(field: str, value: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=f"prices of steps: {field} has .* stages"):
        msgspec.structs.replace(sample_prices(1, 2), **{field: value})
