"""Shared by the frontend tests: look things up in a graph, count FLOPs eagerly, check its invariants."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from partita.nouns.graph import Graph, Operator, Tensor


def targets(graph: Graph) -> list[str]:
    """The operators' short names, in order."""
    return [op.target.split(".")[1] for op in graph.operators]


def find(graph: Graph, target: str, phase: str = "forward") -> tuple[int, Operator]:
    """The only operator of that name and phase."""
    names = targets(graph)
    (found,) = (i for i, op in enumerate(graph.operators) if names[i] == target and op.phase == phase)
    return found, graph.operators[found]


def produced_by(graph: Graph, index: int) -> list[Tensor]:
    """The tensors an operator writes."""
    return [t for t in graph.tensors if t.producer == index]


def tensor(graph: Graph, name: str) -> Tensor:
    """The tensor of that name."""
    (found,) = (t for t in graph.tensors if t.name == name)
    return found


def eager_flops(module: torch.nn.Module, args: tuple = (), kwargs: dict | None = None, training: bool = False) -> int:
    """FLOPs that torch counts when the module runs eagerly on the meta device."""
    module = module.to("meta").train(training)
    args = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(training):
        out = module(*args, **(kwargs or {}))
        if training:
            loss = out if isinstance(out, torch.Tensor) else out.get("loss")
            if loss is None:
                loss = sum(t.mean() for t in out.values() if isinstance(t, torch.Tensor) and t.is_floating_point())
            (loss if loss.ndim == 0 else loss.mean()).backward()
    return counter.get_total_flops()


def check_training(graph: Graph) -> None:
    """What holds for every training graph."""
    phases = [op.phase for op in graph.operators]
    first = phases.index("backward")
    assert set(phases[:first]) == {"forward"}
    assert set(phases[first:]) == {"backward"}
    for op in graph.operators[first:]:
        assert op.colocation is not None
        assert graph.operators[op.colocation].phase == "forward"
        assert op.module == graph.operators[op.colocation].module
    gradients = {t.name: t for t in graph.tensors if t.name.startswith("grad:")}
    used = [p for p in graph.parameters if p.trainable and p.users]
    assert set(gradients) == {f"grad:{p.name}" for p in used}
    for parameter in used:
        gradient = gradients[f"grad:{parameter.name}"]
        assert (gradient.shape, gradient.bytes) == (parameter.shape, parameter.bytes)
        assert graph.operators[gradient.producer].phase == "backward"
        assert gradient.consumers == ()


def check_parameters(graph: Graph, module: torch.nn.Module) -> None:
    """Count and bytes of the weights agree with the module's, ties once."""
    weights = list(module.parameters())
    assert graph.parameter_count == sum(p.numel() for p in weights)
    assert graph.parameter_bytes == sum(p.numel() * p.element_size() for p in weights)
