"""The model that is not split, run microbatch by microbatch in one process: what every split has to agree with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from partita.execution.draws import seeded, seeder
from partita.execution.inputs import Inputs
from partita.frontends.run import loss_of, output_tensors


@dataclass
class Results:
    """What a run computes."""

    #: By (microbatch, place among the results) a tensor, of the first step.
    outputs: dict[tuple[int, int], Any] = field(default_factory=dict)
    losses: dict[tuple[int, int], float] = field(default_factory=dict)  #: By (step, microbatch).
    #: By name: after the first step's backward part, and after the last step.
    gradients: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    buffers: dict[str, Any] = field(default_factory=dict)


def copied(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Tensors by name as they are now."""
    return {name: tensor.detach().clone() for name, tensor in named}


@contextmanager
def settled(module: Any, training: bool) -> Iterator[None]:
    """The mode that a model is traced in: of training or evaluation, and without caches."""
    with suppress(NotImplementedError):
        if module.training != training:
            module.train(training)
    for child in module.modules():
        configuration: Any = getattr(child, "config", None)
        if getattr(configuration, "use_cache", None) is True:
            configuration.use_cache = False
    yield


def run_microbatch(module: Any, inputs: Inputs, tensors: Mapping[str, Any], draw: Any, random_calls: bool) -> Any:
    """What the model returns for one microbatch."""
    args, kwargs = inputs.arguments(dict(tensors))
    random.seed(0)
    with seeded(draw) if random_calls else nullcontext():
        return module(*args, **kwargs)


def run_reference(
    module: Any,
    inputs: Inputs,
    microbatches: Sequence[int],
    *,
    training: bool,
    steps: int,
    optimizer: Any,
    seed: int,
    random_calls: bool,
    weights: list[dict[str, Any]] | None = None,
) -> Results:
    """Run the model on microbatches, in training with gradients of the mean of their losses.

    The model's parameters and buffers change. ``optimizer`` makes one of parameters; ``random_calls`` says whether
    there are random draws; ``weights`` takes the parameters before every step, if that is wanted.
    """
    results = Results()
    update = optimizer(module.parameters()) if training else None
    with settled(module, training), torch.set_grad_enabled(training):
        for step in range(steps):
            if weights is not None:
                weights.append(copied(module.named_parameters()))
            for number in microbatches:
                tensors = inputs.of(number)
                out = run_microbatch(module, inputs, tensors, seeder(seed + step, number), random_calls)
                if step == 0:
                    for place, tensor in enumerate(output_tensors(out)):
                        results.outputs[number, place] = tensor.detach().clone()
                if training:
                    loss = loss_of(out)[0]
                    results.losses[step, number] = float(loss.detach())
                    (loss / len(microbatches)).backward()
            if update is not None:
                if step == 0:
                    results.gradients = copied((n, p.grad) for n, p in module.named_parameters() if p.grad is not None)
                update.step()
                update.zero_grad()
    results.parameters = copied(module.named_parameters()) if training else {}
    results.buffers = copied(module.named_buffers())
    return results
