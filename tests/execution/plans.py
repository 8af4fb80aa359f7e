"""Splits made by hand, and pieces run one after the other in this process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from partita.execution.draws import seeder
from partita.execution.host import errors
from partita.execution.inputs import Inputs
from partita.execution.pieces import HandedTensor, make_pieces
from partita.execution.places import place_calls
from partita.execution.program import compile_piece
from partita.execution.reference import run_reference, settled
from partita.frontends.models import load_module
from partita.frontends.tape import Tape
from partita.frontends.torch import trace_calls
from partita.nouns.graph import Graph, Source
from partita.nouns.split import Split, StagePart

MODELS = Path(__file__).with_name("models.py")


def source(name: str, *, training: bool = True) -> Source:
    """One of the small models."""
    return Source(model=f"{MODELS}:{name}", settings={}, training=training)


def split(
    made: Source, stages: int, *, replicas: int = 1, schedule: str | None = None, ranks: int | None = None
) -> Split:
    """Forward operators in as many runs as there are stages."""
    graph = load_module(made).trace()
    of = in_a_row(graph, stages)
    return Split(
        model=graph.name,
        training=made.training,
        source=made,
        schedule=schedule or ("1f1b" if made.training else "forward"),
        stages=tuple(
            StagePart(
                rank=s % (ranks or stages),
                devices=tuple(f"device {s}.{r}" for r in range(replicas)),
                replicas=replicas,
                operators=tuple(v for v, stage in of.items() if stage == s),
            )
            for s in range(stages)
        ),
    )


def in_a_row(graph: Graph, stages: int) -> dict[int, int]:
    """The stage of every forward operator, as many on each."""
    forward = [v for v, op in enumerate(graph.operators) if op.phase == "forward"]
    return {v: place * stages // len(forward) for place, v in enumerate(forward)}


def bytes_of(tape: Tape, tensors: Iterable[HandedTensor]) -> int:
    """Size of tensors."""
    slots = [tape.slots[tensor.slot] for tensor in tensors]
    return sum(slot.numel * slot.dtype.itemsize for slot in slots)


def run_pieces(
    made: Source, stages: int, assign: Callable[[Graph], dict[int, int]], microbatches: int = 2
) -> dict[str, dict[Any, float]]:
    """The errors of outputs, gradients and buffers of pieces that run one after the other, by sort and name."""
    training = made.training
    model = load_module(made, seed=1)
    tape = Tape()
    graph, capture, calls = trace_calls(model.module, model.args, model.kwargs, training, tape=tape)
    stage_of = {calls[v]: s for v, s in assign(graph).items() if calls[v] is not None}
    constant, modules = [c.constant for c in capture.calls], [c.module for c in capture.calls]
    pieces = make_pieces(place_calls(tape, constant, modules, stage_of, stages))
    module, whole = model.module, copy.deepcopy(model.module)
    inputs = Inputs(tape, model.args, model.kwargs, 0)
    wanted = run_reference(
        whole,
        inputs,
        range(microbatches),
        training=training,
        steps=1,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        seed=5,
        random_calls=any(entry.random for entry in tape.entries),
    )
    arrays = {**dict(module.named_buffers()), **dict(module.named_parameters())}
    outputs: dict[Any, Any] = {}
    with settled(module, training), torch.set_grad_enabled(training):
        programs = [compile_piece(tape, piece, arrays, training=training) for piece in pieces]
        for microbatch in range(microbatches):
            saved = []
            made_by: list[dict[Any, Any]] = []
            for piece, program in zip(pieces, programs, strict=True):
                leaves = []
                for other, place in program.receives:
                    tensor = piece.receives[other][place]
                    value = made_by[other][tensor].detach()
                    leaves.append((other, tensor, value.requires_grad_(training and value.is_floating_point())))
                kept, found, loss = program.run(
                    [value for *_, value in leaves], inputs.of(microbatch), seeder(5, microbatch), [0]
                )
                made_by.append(dict(zip(piece.kept, kept, strict=True)))
                saved.append((leaves, loss))
                outputs |= {(microbatch, place): tensor.detach().clone() for place, tensor in found.items()}
            if training:
                _back(saved, made_by, microbatches)
    return {
        "outputs": errors(outputs, {key: value for key, value in wanted.outputs.items() if key in outputs}),
        "gradients": errors(
            {name: p.grad for name, p in module.named_parameters() if p.grad is not None}, wanted.gradients
        ),
        "buffers": errors(dict(module.named_buffers()), wanted.buffers),
    }


def _back(saved: list[Any], made_by: list[dict[Any, Any]], microbatches: int) -> None:
    sums: dict[Any, Any] = {}
    for number in reversed(range(len(saved))):
        leaves, loss = saved[number]
        outs = [(value, sums.get((number, tensor))) for tensor, value in made_by[number].items() if value.requires_grad]
        outs = [(value, torch.zeros_like(value) if g is None else g) for value, g in outs]
        if loss is not None:
            outs.append((loss / microbatches, torch.ones_like(loss)))
        if outs:
            torch.autograd.backward([value for value, _ in outs], [gradient for _, gradient in outs])
        for other, tensor, value in leaves:
            if value.grad is not None:
                known = sums.get((other, tensor))
                sums[other, tensor] = value.grad if known is None else known + value.grad
