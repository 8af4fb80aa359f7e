"""A module for DeepSpeed, run with a base class that does what PipelineModule's documentation says."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from exporters.readers.megatron import by_rank
from exporters.readers.plan import ReadPlan, visible_cards


class Base:
    """Layers, a topology, and which layers run again: an interval, and whether a run of layers may."""

    def __init__(self, layers: list[Any], topology: Any = None, activation_checkpoint_interval: int = 0) -> None:
        self._topo, self.interval = topology, activation_checkpoint_interval
        self._layer_specs, self.global_rank = layers, 0
        self.num_stages = topology.num_pp
        self.bounds: list[tuple[int, int]] = []
        self.again: set[int] = set()
        for stage in range(self.num_stages):
            self._topo.stage = stage
            self._partition_layers()  # type: ignore[attr-defined]
            self.forward_funcs = layers[self._local_start : self._local_stop]
            for place in range(0, len(self.forward_funcs), self.interval or len(layers) + 1):
                if self.interval and self._is_checkpointable(self.forward_funcs[place : place + self.interval]):  # type: ignore[attr-defined]
                    self.again |= {self._local_start + place + n for n in range(self.interval)}

    def _set_bounds(self, start: int, stop: int) -> None:
        self._local_start, self._local_stop = start, stop
        self.bounds.append((start, stop))


class Topology:
    """Axes pipe, data, model, the last one fastest."""

    def __init__(self, num_pp: int, num_mp: int, num_dp: int) -> None:
        self.num_pp, self.num_mp, self.num_dp, self.stage = num_pp, num_mp, num_dp, 0

    def get_coord(self, rank: int) -> SimpleNamespace:
        return SimpleNamespace(pipe=self.stage)


def load(text: str) -> dict[str, Any]:
    """The module's names, with such a base class."""
    modules = {name: ModuleType(name) for name in ("deepspeed", "deepspeed.pipe", "deepspeed.runtime")}
    modules |= {name: ModuleType(name) for name in ("deepspeed.runtime.pipe", "deepspeed.runtime.pipe.topology")}
    modules["deepspeed.pipe"].PipelineModule = Base  # type: ignore[attr-defined]
    modules["deepspeed.runtime.pipe.topology"].PipeModelDataParallelTopology = Topology  # type: ignore[attr-defined]
    found: dict[str, Any] = {"__name__": "planned"}
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        exec(compile(text, "planned.py", "exec"), found)
        # No cards are here to be looked at.
        found["check_cards_of_host"] = lambda: None
        found["module"] = found["PlannedPipelineModule"]([object() for _ in found["LAYERS"]])
    return found


def read(text: str, layers: set[str]) -> ReadPlan:
    """The plan of a model whose repeated layers have these names."""
    known = load(text)
    module, config = known["module"], known["CONFIG"]
    topology = module._topo
    devices = topology.num_pp * topology.num_mp * topology.num_dp
    samples, steps = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    assert config["train_batch_size"] == samples * steps * topology.num_dp
    names = known["LAYERS"]
    blocks = [place for place, name in enumerate(names) if name in layers]
    assert module.again in (set(), set(blocks))
    weights = next((dtype for dtype, key in (("bfloat16", "bf16"), ("float16", "fp16")) if key in config), "float32")
    gradients = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
    cards = by_rank(visible_cards(text), devices, topology.num_pp, topology.num_pp)
    if "CARDS" in known:
        assert cards is not None
        assert set(known["CARDS"]) == set(range(devices))
    return ReadPlan(
        blocks=[sum(start <= place < stop for place in blocks) for start, stop in module.bounds],
        modules={name: s for s, (a, b) in enumerate(module.bounds) for name in names[a:b]},
        cards=cards,
        rest={
            "ranks": topology.num_pp,
            "data": topology.num_dp,
            "tensor": topology.num_mp,
            "context": 1,
            "expert": 1,
            "zero": config.get("zero_optimization", {}).get("stage", 0),
            "schedule": "1f1b",
            "microbatches": steps,
            "samples": samples,
            "sequence_parallel": False,
            "recompute": "full" if module.again else "none",
            "weights": weights,
            "gradients": gradients[config["data_types"]["grad_accum_dtype"]] if weights != "float32" else "float32",
            "master": weights != "float32",
            "optimizer": config["optimizer"]["type"].lower(),
        },
    )
