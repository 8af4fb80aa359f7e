"""Text that runtimes read, taken apart by readers of our own, written from the runtimes' documentation."""

from __future__ import annotations

import json
import re
import runpy
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.models import Decoder, decoder
from exporters.readers.llama_cpp import devices_of
from exporters.readers.megatron import arguments, read_layout
from exporters.splits import by_layers, changed
from instances.strategies import examples
from partita.exporters import find_exporter
from partita.exporters.megatron import layout
from partita.ground.errors import UnsupportedError
from partita.nouns.split import Split

TWO = {"replicas": 2, "tensor": 2, "devices": tuple(f"L4:{n}" for n in range(4))}


def exported(name: str, split: Split, folder: Path) -> str:
    """What an exporter writes."""
    (path,) = find_exporter(name).export(split, folder / "out")
    return Path(path).read_text()


# -- Megatron -------------------------------------------------------------------------------------------------------


def test_the_reader_knows_the_documented_example() -> None:
    stages = read_layout("Et*3|(tt|)*29,m|L")
    assert (len(stages), stages[0], set(stages[1:30]), stages[30:]) == (32, "Ettt", {"tt"}, ["m", "L"])


@examples(200)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12))
def test_layouts_say_how_many_layers_each_stage_has(counts: list[int]) -> None:
    stages = read_layout(layout(counts))
    assert [stage.count("t") for stage in stages] == counts
    assert "".join(stages) == "E" + "t" * sum(counts) + "L"
    # What comes first is on the first stage, what comes last on the last one.
    assert stages[0].startswith("E")
    assert stages[-1].endswith("L")
    # A product in parentheses has no other one inside: Megatron writes these out first, and once.
    assert not re.search(r"\([^)]*\*[^)]*\)", layout(counts))


def test_megatron_gets_layout_and_sizes(tmp_path: Path) -> None:
    split = by_layers(
        "decoder", (2, 2, 2), training=True, microbatches=12, zero=1, devices=dict.fromkeys(range(3), TWO)
    )
    found = arguments(exported("megatron", split, tmp_path))
    assert [stage.count("t") for stage in read_layout(found["--pipeline-model-parallel-layout"])] == [1, 2, 1]
    assert found["--pipeline-model-parallel-size"] == "3"
    assert found["--tensor-model-parallel-size"] == "2"
    assert found["--num-layers"] == "4"
    assert int(found["--global-batch-size"]) == 12 * int(found["--micro-batch-size"])
    assert "--use-distributed-optimizer" in found
    assert "--untie-embeddings-and-output-weights" in found
    tied = by_layers("tied", (3, 3), training=True)
    assert "--untie-embeddings-and-output-weights" not in arguments(exported("megatron", tied, tmp_path))
    alone = arguments(exported("megatron", by_layers("tied", (6,), training=True), tmp_path))
    assert "--pipeline-model-parallel-layout" not in alone
    assert "--untie-embeddings-and-output-weights" not in alone


def test_megatron_is_told_where_the_optimizer_runs(tmp_path: Path) -> None:
    """Its optimizer on hosts is one that shares out states, and Adam."""

    def on_hosts(zero: int, devices: dict[str, Any], **how: Any) -> Split:
        split = by_layers("decoder", (3, 3), training=True, zero=zero, devices=dict.fromkeys(range(2), devices), **how)
        return changed(changed(split, 0, offload="optimizer states"), 1, offload="optimizer states")

    alone = {"devices": ("L4:0",)}
    flags = {"--optimizer-cpu-offload", "--use-precision-aware-optimizer", "--use-distributed-optimizer"}
    for split in (on_hosts(0, alone), on_hosts(1, TWO)):
        found = arguments(exported("megatron", split, tmp_path))
        assert flags <= set(found)
        assert found["--optimizer-offload-fraction"] == "1.0"
    with pytest.raises(UnsupportedError, match="replicas share out its states; plan with --zero 1"):
        exported("megatron", on_hosts(0, TWO), tmp_path)
    with pytest.raises(UnsupportedError, match="runs Adam on hosts"):
        exported("megatron", on_hosts(0, alone, optimizer="sgd"), tmp_path)
    with pytest.raises(UnsupportedError, match="keeps optimizer states in the host's memory"):
        exported("torchtitan", on_hosts(1, TWO), tmp_path)
    both = changed(on_hosts(0, alone), 1, offload="activations and optimizer states")
    with pytest.raises(UnsupportedError, match="keeps activations and optimizer states in the host's memory"):
        exported("megatron", both, tmp_path)


# -- vLLM -----------------------------------------------------------------------------------------------------------


def read_partition(value: str, layers: int, ranks: int) -> list[range]:
    """Layers of every rank: whole numbers with commas, one for each rank, which add up to the layers."""
    counts = [int(part) for part in value.split(",")]
    assert (len(counts), sum(counts)) == (ranks, layers)
    return [range(sum(counts[:rank]), sum(counts[: rank + 1])) for rank in range(ranks)]


def test_vllm_gets_layers_and_sizes(tmp_path: Path) -> None:
    text = exported("vllm", by_layers("tied", (2, 4), devices={0: TWO, 1: TWO}), tmp_path)
    lines = text.splitlines()
    assert lines[0] == "#!/bin/sh"
    (value,) = re.findall(r"^export VLLM_PP_LAYER_PARTITION=(\S+)$", text, re.M)
    assert read_partition(value, layers=4, ranks=2) == [range(1), range(1, 4)]
    assert arguments(lines[-1]) == {
        "--pipeline-parallel-size": "2",
        "--tensor-parallel-size": "2",
        "--data-parallel-size": "2",
        "--dtype": "float32",
    }


# -- llama.cpp ------------------------------------------------------------------------------------------------------


@examples(100)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_llama_cpp_puts_layers_where_the_plan_has_them(counts: list[int]) -> None:
    """Shares that are numbers of layers are met to the layer."""
    shares = [*counts[:-1], counts[-1] + 1]
    arguments = {"--n-gpu-layers": str(sum(shares)), "--tensor-split": ",".join(map(str, shares))}
    wanted = [device for device, share in enumerate(shares) for _ in range(share)]
    assert devices_of(arguments, sum(counts)) == wanted


@pytest.mark.parametrize("first", ["L4", "cpu"])
def test_llama_cpp_gets_shares(tmp_path: Path, first: str) -> None:
    """A first stage on the CPU has the layers that no accelerator gets."""
    split = changed(by_layers("decoder", (3, 3)), 0, accelerator=first == "L4")
    found = arguments(exported("llama.cpp", split, tmp_path).splitlines()[-1])
    assert found["--split-mode"] == "layer"
    start = [0, 0] if first == "L4" else [None, None]
    rest = 1 if first == "L4" else 0
    assert devices_of(found, 4) == [*start, rest, rest, rest]


# -- torchtitan -----------------------------------------------------------------------------------------------------


def test_torchtitan_gets_modules_and_degrees(tmp_path: Path) -> None:
    split = by_layers("decoder", (3, 3), training=True, zero=1, devices=dict.fromkeys((0, 1), TWO))
    found = tomllib.loads(exported("torchtitan", split, tmp_path))["parallelism"]
    names = found["module_fqns_per_model_part"]
    assert names == [["tok_embeddings", "layers.0", "layers.1"], ["layers.2", "layers.3", "norm", "output"]]
    degrees = (found["pipeline_parallel_degree"], found["tensor_parallel_degree"], found["data_parallel_shard_degree"])
    assert degrees == (2, 2, 2)
    assert found["data_parallel_replicate_degree"] == 1
    assert found["fsdp_reshard_after_forward"] == "never"
    from torch.distributed.pipelining.schedules import get_schedule_class

    assert get_schedule_class(found["pipeline_parallel_schedule"]).__name__ == "Schedule1F1B"


def test_torchtitan_gets_its_own_names_for_layers_deeper_inside(tmp_path: Path) -> None:
    """As in the decoders of transformers."""
    split = by_layers("decoder", (2, 4), training=True)
    text = msgspec.json.encode(split).decode().replace('"layers.', '"model.layers.')
    text = text.replace('"tok_embeddings', '"model.embed_tokens').replace('"norm', '"model.norm')
    deeper = msgspec.json.decode(text, type=Split)
    names = tomllib.loads(exported("torchtitan", deeper, tmp_path))["parallelism"]["module_fqns_per_model_part"]
    assert names == [["tok_embeddings", "layers.0"], ["layers.1", "layers.2", "layers.3", "norm", "output"]]


def test_torchtitan_splits_as_planned(tmp_path: Path) -> None:
    """Its own function keeps the planned modules of each stage, and the stages in a row compute what the model does."""
    parallel = pytest.importorskip("torchtitan.distributed.pipeline_parallel")
    torch = pytest.importorskip("torch")
    split = by_layers("decoder", (2, 2, 2), training=True)
    names = tomllib.loads(exported("torchtitan", split, tmp_path))["parallelism"]["module_fqns_per_model_part"]
    model, (tokens,) = decoder()
    assert isinstance(model, Decoder)
    x = tokens
    for part in names:
        x = parallel._split_module(model, part)(x)
    assert torch.equal(x, model(tokens))


# -- DeepSpeed ------------------------------------------------------------------------------------------------------


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run an exported file with the base class of DeepSpeed, or one that has what it uses of it."""

    def run(split: Split, base: type | None = None) -> dict[str, Any]:
        path = tmp_path / "planned.py"
        find_exporter("deepspeed").export(split, path)
        if base is None:
            return runpy.run_path(str(path))
        package, pipe = ModuleType("deepspeed"), ModuleType("deepspeed.pipe")
        pipe.PipelineModule = base  # type: ignore[attr-defined]
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "deepspeed", package)
            patch.setitem(sys.modules, "deepspeed.pipe", pipe)
            return runpy.run_path(str(path))

    return run


def test_deepspeed_gets_boundaries(planned: Callable[..., dict[str, Any]]) -> None:
    """As data, without DeepSpeed: parsed, and with a base class of no behaviour."""
    split = by_layers(
        "tied",
        (3, 3),
        training=True,
        zero=1,
        devices=dict.fromkeys((0, 1), TWO),
        microbatches=8,
        sequence_parallel=False,
    )
    found = planned(split, object)
    blocks = [f"layers.{n}" for n in range(4)]
    assert found["LAYERS"] == ["tok_embeddings", *blocks, "norm", "output"]
    assert found["PARTS"] == [0, 3, 7]
    assert found["TIED"] == {"tok_embeddings.weight": ["output", "tok_embeddings"]}
    assert found["CONFIG"] == {
        "train_batch_size": 16,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
        "optimizer": {"type": "Adam"},
        "zero_optimization": {"stage": 1},
    }
    assert found["TOPOLOGY"] == {"num_pp": 2, "num_mp": 2, "num_dp": 2}


def test_deepspeed_partitions_as_planned(planned: Callable[..., dict[str, Any]]) -> None:
    """The class of its own, in every stage: its bounds are the plan's."""
    pipe = pytest.importorskip("deepspeed.pipe")
    split = by_layers("decoder", (2, 1, 3), training=True)
    found = planned(split)
    module = found["PlannedPipelineModule"]
    assert issubclass(module, pipe.PipelineModule)
    for stage, bounds in enumerate([(0, 2), (2, 3), (3, 7)]):
        part = module.__new__(module)
        part.__dict__ |= {"_layer_specs": [None] * 7, "num_stages": 3, "global_rank": stage}
        part.__dict__["_topo"] = SimpleNamespace(get_coord=lambda rank: SimpleNamespace(pipe=rank))
        part._partition_layers()
        assert (part._local_start, part._local_stop) == bounds
        part.__dict__["_layer_specs"] = [None] * 6
        with pytest.raises(ValueError, match="7 layers, and there are 6"):
            part._partition_layers()


# -- accelerate -----------------------------------------------------------------------------------------------------


def test_device_maps_are_of_modules(tmp_path: Path) -> None:
    split = by_layers("decoder", (3, 3))
    found = json.loads(exported("accelerate", split, tmp_path))
    blocks = {f"layers.{n}": n // 2 for n in range(4)}
    assert found == {"tok_embeddings": 0, **blocks, "norm": 1, "output": 1}
