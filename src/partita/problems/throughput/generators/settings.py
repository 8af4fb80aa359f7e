"""What can be asked of generated and of converted problems."""

from __future__ import annotations

from typing import Annotated

import msgspec

from partita.problems.kind import ProblemFamily
from partita.problems.settings import setting
from partita.problems.throughput.generators.plain import plain_problem
from partita.problems.throughput.generators.regal import Noise, regal_problem
from partita.problems.throughput.problem import ThroughputProblem, WorkingMemory
from partita.problems.throughput.variants import reload_at


class _Regal(msgspec.Struct, frozen=True, kw_only=True):
    seed: Annotated[int, setting("Same seed, same problem.", metavar="N", least=0)] = 0
    family: Annotated[str | None, setting("Of graphs; one of REGAL's four at random if not given.")] = None
    nodes: Annotated[int | None, setting("Operators; 50 to 200 at random if not given.", metavar="N", least=1)] = None
    devices: Annotated[int, setting("Identical devices.", metavar="N", least=1)] = 8
    noise: Annotated[Noise, setting("Random work as a fraction of all tensors, or of the operator's own.")] = "graph"
    parameter_bytes: Annotated[
        float, setting("Mean parameter size; none if 0.", metavar="BYTES", in_bytes=True, least=0)
    ] = 0.0
    memory_bytes: Annotated[
        float | None,
        setting("Bytes per device; more is streamed.", flag="--memory", metavar="BYTES", in_bytes=True, least=0),
    ] = None
    hard: Annotated[
        float,
        setting("Draw until searching for an order with little memory gains this fraction.", metavar="X", least=0),
    ] = 0.0
    working_memory: Annotated[
        WorkingMemory, setting("With --memory: peak adds the tensors of the operators that run.")
    ] = "largest"


class _Plain(msgspec.Struct, frozen=True, kw_only=True):
    devices: Annotated[int | None, setting("How many; those of the kind if not given.", metavar="N", least=1)] = None
    memory: Annotated[
        float | None, setting("Bytes per device; more is streamed.", metavar="BYTES", in_bytes=True, least=0)
    ] = None
    kind: Annotated[
        str | None, setting("Device kind that all devices are like; the accelerator's if not given.", metavar="NAME")
    ] = None
    reload_bandwidth: Annotated[
        float | None, setting("With --memory: for what is streamed.", metavar="BYTES_PER_S", above=0)
    ] = None
    keep_tensors: Annotated[bool, setting("Do not join the tensors of an operator into one.")] = False
    drop_colocation: Annotated[bool, setting("Let operators part that must share a device.")] = False


def _plain(problem: ThroughputProblem, settings: _Plain) -> ThroughputProblem:
    if settings.reload_bandwidth is not None:
        problem = reload_at(problem, settings.reload_bandwidth)
    return plain_problem(
        problem,
        devices=settings.devices,
        kind=settings.kind,
        memory_bytes=None if settings.memory == float("inf") else settings.memory,
        keep_tensors=settings.keep_tensors,
        keep_colocation=not settings.drop_colocation,
    )


GENERATORS = (
    ProblemFamily(
        "regal",
        "A graph like the synthetic ones of REGAL, with work and tensors of the same unit (docs/instances.md).",
        _Regal,
        lambda settings: regal_problem(**msgspec.structs.asdict(settings)),
    ),
    ProblemFamily(
        "convert",
        "Write FILE or MODEL as a problem in a simpler form: identical devices without CPUs, variants, memory limit.\n"
        "\nWith --memory, what exceeds it is streamed. The backward part of training is left out (docs/instances.md).",
        _Plain,
        _plain,
        simplifies=True,
    ),
)
