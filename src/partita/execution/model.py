"""A job's model on real weights, with its pieces: everything that processes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from partita.execution.inputs import Inputs, has_data
from partita.execution.job import RunJob
from partita.execution.orders import Orders, make_orders
from partita.execution.pieces import PlanPiece, make_pieces
from partita.execution.places import place_calls
from partita.execution.program import WIDENED
from partita.frontends.models import load_module
from partita.frontends.tape import Tape
from partita.frontends.torch import trace_calls
from partita.ground.errors import InputError
from partita.inside.torch_inside import tables_of, tree_leaves


@dataclass
class Ready:
    """A model with weights, cut into the pieces of a plan."""

    #: The model in float32, and its arguments.
    module: Any
    inputs: Inputs
    #: Its calls, what each stage does with them, and which process does it when.
    tape: Tape
    pieces: list[PlanPiece]
    orders: Orders
    samples: int  #: Of a microbatch.
    notes: list[str]  #: What a reader should know.

    @property
    def arrays(self) -> dict[str, Any]:
        """Parameters and buffers by every name."""
        named = [*self.module.named_parameters(remove_duplicate=False)]
        return dict([*self.module.named_buffers(remove_duplicate=False), *named])

    @property
    def draws(self) -> bool:
        """Whether the model draws random numbers."""
        return any(entry.random for entry in self.tape.entries)


def prepare(job: RunJob) -> Ready:
    """Build the model of a job from its seed, trace it, and cut it.

    Raises ``InputError`` if the model is not the one that was planned, or the plan cannot run as asked.
    """
    split = job.split
    if split.training != job.source.training:
        raise InputError(f"the plan is {'' if split.training else 'not '}of training, and the model is the other way")
    model = load_module(job.source, seed=job.seed)
    tape = Tape()
    graph, capture, calls = trace_calls(
        model.module, model.args, model.kwargs, split.training, model.name, model.dtype, tape
    )
    planned = 1 + max(v for stage in split.stages for v in stage.operators)
    if planned > len(graph.operators) or (job.operators is not None and job.operators != len(graph.operators)):
        raise InputError(
            f"the plan is of a model with {job.operators or planned} operators, and {job.source.model} with these "
            f"settings has {len(graph.operators)}; name the model that was planned with --model, and its settings"
        )
    stage_of = {
        call: number
        for number, stage in enumerate(split.stages)
        for v in stage.operators
        if (call := calls[v]) is not None
    }
    constant, modules = [call.constant for call in capture.calls], [call.module for call in capture.calls]
    placed = place_calls(tape, constant, modules, stage_of, len(split.stages))
    orders = make_orders(split, placed.rounds, job.microbatches, job.schedule, job.times)
    notes = _materialise(model.module, job.seed)
    module = model.module.to(torch.float32) if _narrow(model.module) else model.module
    if _narrow(model.module) or any(slot.dtype in WIDENED for slot in tape.slots):
        notes.append("What was planned in a half-precision format runs in float32 here, so that it can be compared.")
    if split.zero:
        notes.append(f"Replicas hold all of their state here; ZeRO stage {split.zero} changes no result.")
    inputs = Inputs(tape, model.args, model.kwargs, job.seed)
    return Ready(module, inputs, tape, make_pieces(placed), orders, _samples(model), notes)


def _narrow(module: Any) -> bool:
    return any(array.dtype in WIDENED for array in (*module.parameters(), *module.buffers()))


def _samples(model: Any) -> int:
    """Samples of a microbatch: what was asked for, else the first side of the first argument."""
    if model.asked.batch_size is not None:
        return int(model.asked.batch_size)
    first = next((t for t in tree_leaves((model.args, model.kwargs)) if isinstance(t, torch.Tensor) and t.dim()), None)
    return 1 if first is None or model.name is None else int(first.shape[0])


def _materialise(module: Any, seed: int) -> list[str]:
    """Give arrays that were built without data some, as small normal numbers; says so if there were any."""
    generator = torch.Generator().manual_seed(seed)
    made: dict[int, Any] = {}
    for child in module.modules():
        for table in tables_of(child):
            for name, array in table.items():
                if array is None or has_data(array):
                    continue
                if id(array) not in made:
                    value = torch.zeros(array.shape, dtype=array.dtype)
                    if array.is_floating_point():
                        value.normal_(0.0, 0.02, generator=generator)
                    if isinstance(array, torch.nn.Parameter):
                        value = torch.nn.Parameter(value, requires_grad=array.requires_grad)
                    made[id(array)] = value
                table[name] = made[id(array)]
    return [f"{len(made)} arrays of the model were built without data and hold small random numbers."] if made else []
