"""Small serving problems that between them reach every compiled loop."""

from __future__ import annotations

from partita.costs.serving.prices import StepPrices
from partita.nouns.workload.workload import RequestWorkload
from partita.problems.serving.problem import DevicePool, EngineRules, ServingProblem, ServingUnit, UnitLayout


def sample_prices(tensor: int, stages: int = 1) -> StepPrices:
    """Prices of a small model: reading weights until some 64 tokens, exchanges that tensor parallelism adds."""
    weights, exchange = 0.016 / tensor / stages, 0.0005 * (tensor - 1)
    row = tuple(weights * max(1.0, n / 64) + exchange for n in (1, 64, 128, 1024))
    return StepPrices(
        tokens=(1, 64, 128, 1024),
        dense_s=(row,) * stages,
        dense_mixed_s=(row,) * stages,
        windows=(0,),
        prompt_s=((1e-8 / tensor / stages,),) * stages,
        decode_s=((1e-7 / tensor / stages,),) * stages,
        chunk_s=(0.0001,) * stages,
        request_s=(0.00001,) * stages,
        step_s=(0.001,) * stages,
        mixed_step_s=(0.002,) * stages,
        hand_on_s=0.0001 if stages > 1 else 0.0,
        weight_bytes=(1000,) * stages,
        cache_bytes_per_token=((1.0 / tensor,),) * stages,
        cache_budget_bytes=(4096.0,) * stages,
        moved_bytes_per_token=(1.0,),
        weights_s=((weights,) * 4,) * stages,
        arithmetic_s=(tuple(weights * n / 64 for n in (1, 64, 128, 1024)),) * stages,
        exchange_s=((exchange,) * 4,) * stages,
    )


def _form(tensor: int, stages: int = 1) -> ServingUnit:
    return ServingUnit(
        kind="gpu",
        layout=UnitLayout(tensor=tensor, pipeline=stages),
        rules=EngineRules(requests=16, tokens=256),
        prices=sample_prices(tensor, stages),
    )


#: Four devices, and units of one, two or four of them.
LOOP = ServingProblem(
    name="warm-up",
    workload=RequestWorkload(prompt_tokens=100, output_tokens=20, concurrency=8),
    units=(_form(1), _form(2), _form(4), _form(1, 2)),
    pools=(DevicePool(kind="gpu", machines=(4,)),),
)

#: The same with requests that arrive by themselves, and units for prompts and for decoding.
SPLIT = LOOP.replace(
    name="warm-up split",
    workload=RequestWorkload(prompt_tokens=100, output_tokens=20, rate_per_s=20.0, requests=40),
    units=(_form(1), _form(2)),
    roles="any",
    link_bytes_per_s=1e6,
)

SAMPLES = ((LOOP, SPLIT),)
