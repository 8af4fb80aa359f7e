"""Cutting a model that ``torch.export`` traced, for ``torch.distributed.pipelining``: a split policy.

The pipeline then has the plan's stages after any node. What skips stages, inputs of the model as well, is handed on
through the stages between, so that every transfer is between neighbours, whatever the schedule.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from partita.exporters.align import Call, align, carries_state
from partita.exporters.module_inputs import PREFIX
from partita.ground.errors import InputError
from partita.nouns.split import Split


def split_policy(split: Split) -> Callable[[Any], Any]:
    """What ``torch.distributed.pipelining.pipeline`` takes as ``split_policy``, for a ``wrapped_model``.

    The policy raises ``InputError`` if a stage of the plan has no node of the traced model.
    """

    def policy(traced: Any) -> Any:
        from partita.inside.pipelining_inside import STAGE_BEGINS

        _inline(traced)
        nodes = [node for node in traced.graph.nodes if node.op == "call_function"]
        number = {node: place for place, node in enumerate(nodes)}
        calls = [_call(node, number, traced) for node in nodes]
        found = align(split, calls, contiguous=True)
        worked = {stage for stage, carries in zip(found, carries_state(calls), strict=True) if carries}
        missing = set(range(len(split.stages))) - worked
        if missing:
            raise InputError(f"the model traced by torch has nothing that stage {min(missing)} of the plan runs")
        stage_of = dict(zip(nodes, found, strict=True))
        # The nodes of every stage come behind those of the stages before it; the order within a stage stays.
        last = next(node for node in traced.graph.nodes if node.op == "output")
        for node in sorted(nodes, key=stage_of.__getitem__):
            last.prepend(node)
        _hand_on(traced.graph, stage_of, len(split.stages))
        for node in _starts(traced.graph, stage_of, len(split.stages))[1:]:
            with traced.graph.inserting_before(node):
                traced.graph.call_function(STAGE_BEGINS, ())
        _flatten(traced.graph)
        traced.graph.lint()
        traced.recompile()
        return traced

    return policy


def _inline(traced: Any) -> None:
    """Put the nodes of regions without autocast or gradients, which are graphs of their own, among the others."""
    import torch

    from partita.inside.pipelining_inside import REGIONS

    graph = traced.graph
    while True:
        regions = [node for node in graph.nodes if getattr(node.target, "__name__", "") in REGIONS]
        if not regions:
            return
        for node in regions:
            name = node.target.__name__
            if name == "wrap_with_autocast" and node.args[2]:
                raise InputError("the model turns autocast on for a part of it, which torch's pipelining cannot cut")
            where = REGIONS[name]
            inner = traced.get_submodule(node.args[where].target)
            holders = [entry for entry in inner.graph.nodes if entry.op == "placeholder"]
            mapped = dict(zip(holders, node.args[where + 1 :], strict=True))
            with graph.inserting_before(node):
                for entry in inner.graph.nodes:
                    if entry.op == "get_attr":
                        mapped[entry] = graph.get_attr(f"{node.args[where].target}.{entry.target}")
                    elif entry.op == "call_function":
                        mapped[entry] = graph.node_copy(entry, lambda old, known=mapped: known[old])
            results = next(entry for entry in inner.graph.nodes if entry.op == "output").args[0]
            for user in list(node.users):
                result = mapped[results[user.args[1]]]
                if name == "wrap_with_set_grad_enabled" and not node.args[0] and result.op == "call_function":
                    with graph.inserting_before(node):
                        kept = graph.call_function(torch.ops.aten.detach.default, (result,))
                    kept.meta = dict(result.meta)
                    result = kept
                user.replace_all_uses_with(result)
                graph.erase_node(user)
            region = node.args[where]
            graph.erase_node(node)
            graph.erase_node(region)


def _call(node: Any, number: dict[Any, int], traced: Any) -> Call:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    buffers = {name for name, _ in traced.named_buffers()}
    state = False
    for source in node.all_input_nodes:
        if source.op == "get_attr":
            state |= source.target not in buffers
        elif source.op == "placeholder":
            value = source.meta.get("val")
            state |= value is not None and value.is_floating_point()
    return Call(
        "" if path == PREFIX.rstrip(".") else path.removeprefix(PREFIX),
        str(node.target),
        tuple(sorted(number[source] for source in node.all_input_nodes if source in number)),
        state,
        follows=node.target is operator.getitem,
    )


def _hand_on(graph: Any, stage_of: dict[Any, int], stages: int) -> None:
    """Copy what is read beyond the next stage in every stage between, and what is returned in the last one."""
    import torch

    starts = _starts(graph, stage_of, stages)
    for node in list(graph.nodes):
        if node.op not in ("call_function", "placeholder"):
            continue
        home = stage_of.get(node, 0)
        first = home if node.op == "placeholder" else home + 1
        readers = {user: stages if user.op == "output" else stage_of[user] for user in list(node.users)}
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        handed, carrier = node, {home: node} if node.op != "placeholder" else {}
        for stage in range(first, max(readers.values(), default=home)):
            with graph.inserting_before(starts[stage]):
                handed = graph.call_function(torch.ops.aten.clone.default, (handed,))
            handed.meta = {"val": value}
            stage_of[handed] = stage
            carrier[stage] = handed
        for user, stage in readers.items():
            if stage > home:
                user.replace_input_with(node, carrier[stage - 1])


def _starts(graph: Any, stage_of: dict[Any, int], stages: int) -> list[Any]:
    found: dict[int, Any] = {}
    for node in graph.nodes:
        if node in stage_of:
            found.setdefault(stage_of[node], node)
    return [found[stage] for stage in range(stages)]


def _flatten(graph: Any) -> None:
    """Say of all nodes that the model itself calls them: what has moved is in no order of modules any more."""
    stacks = [node.meta["nn_module_stack"] for node in graph.nodes if node.meta.get("nn_module_stack")]
    root = dict([next(iter(stacks[0].items()))]) if stacks else {"": ("", "")}
    for node in graph.nodes:
        if node.op == "call_function":
            node.meta["nn_module_stack"] = dict(root)
