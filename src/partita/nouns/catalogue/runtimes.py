"""What runtimes can express: which splits of a model each of them can run. docs/exporting.md has the table."""

from __future__ import annotations

from typing import Literal

import msgspec

from partita.ground.errors import InputError
from partita.nouns.catalogue.formats import Mixtures
from partita.nouns.catalogue.meshes import MeshLimits

#: Where stages may begin: between any operators, between modules of a layer, or between layers.
Cuts = Literal["operator", "module", "layer"]

#: What becomes of a weight that two stages read: the runtime does not keep copies alike; it has a copy in each stage,
#: which is right as long as weights do not change; it has a copy in each and adds up their gradients; it does so
#: between the first and the last stage only.
Tied = Literal["refused", "copied", "summed", "ends"]

#: Whether tensor-parallel groups share out tokens where they share out no features.
Tokens = Literal["any", "always", "never"]

#: Where stages on a CPU may be: anywhere, only first, or only if all are.
Host = Literal["any", "first", "alone"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a runtime can express. The defaults limit nothing."""

    cuts: Cuts = "operator"  #: Where stages may begin.
    contiguous: bool = False  #: Every tensor goes to the same stage or a later one.
    #: Every stage is a run of consecutive layers in the model's order, and the stages follow that order.
    ordered: bool = False
    #: What comes before the first block is on the first stage, and what comes behind the last block on the last one.
    ends: bool = False
    skips: bool = True  #: A tensor may pass over a stage. Constants (masks, positions) are no such tensors.
    #: Tensors move between devices only where a module is called: what a module computes by itself reads tensors of one
    #: device.
    calls: bool = False
    tied: Tied = "summed"  #: What becomes of a weight that two stages read.
    one_list: bool = False  #: The layers that it counts are the elements of one list of modules.
    empty_stages: bool = True  #: A stage may be without a block.
    #: Where stages on a CPU may be, and how many accelerators there may be at most.
    host: Host = "any"
    accelerators: int | None = None
    uniform: bool = True  #: All stages have the same numbers of replicas and of devices in each.
    #: Stages may have replicas; replicas may have several devices; ranks may have several stages.
    data: bool = True
    tensor: bool = True
    chunks: bool = True
    #: With several stages on a rank, each replica takes as many microbatches as there are ranks, or a multiple.
    rounds: bool = False
    #: Replicas may share out their sequences; groups may share out experts.
    context: bool = True
    expert: bool = True
    tokens: Tokens = "any"  #: Whether tensor-parallel groups share out tokens.
    experts_by_token: bool = False  #: Experts go with tensor parallelism only where its groups share out tokens.
    meshes: MeshLimits = MeshLimits()  #: Which degrees, schedules and stages of ZeRO go together.
    #: What blocks may run again, in the words of ``partita.nouns.split.Layer``; empty for anything.
    recompute: tuple[str, ...] = ()
    alike: bool = False  #: All blocks run the same again, and the model's ends nothing.
    offload: bool = False  #: Activations or weights may be kept in the host's memory.
    frozen: bool = True  #: Training may leave weights as they are.
    #: What optimizers it has, empty for any; which number formats.
    optimizers: tuple[str, ...] = ()
    formats: Mixtures = "any"
    #: What the runtime is for.
    training: bool = True
    inference: bool = True
    pipeline: bool = True  #: Microbatches are in flight at once; otherwise stages run one after the other.
    schedules: tuple[str, ...] = ()  #: What schedules of training it has; empty for any.

    def ties(self, training: bool) -> bool:
        """Whether all that reads a weight has to be on one stage; with ``ends`` only what else reads it than these."""
        return self.tied == "refused" or (self.tied == "copied" and training)

    def meshes_of(self, *, sequence_parallel: bool, sharded: bool) -> MeshLimits:
        """Which meshes it runs, by whether groups share out tokens, and number formats come with sharing weights."""
        apart = self.meshes.experts_apart or (self.experts_by_token and not sequence_parallel)
        return msgspec.structs.replace(self.meshes, experts_apart=apart, sharded=sharded)


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that runs split models: its name, what it takes from a plan in one line, and what it can express.

    ``source`` says where that is documented.
    """

    name: str
    summary: str
    limits: Limits
    source: str


#: Layers in a row, embedding on the first stage and head on the last: what frameworks for language models run.
_ROW = Limits(cuts="layer", contiguous=True, ordered=True, ends=True, skips=False, one_list=True, host="alone")

#: Schedules that torch's pipelining has classes for; with a CSV file it runs any other that flushes, too.
_TORCH_CLASSES = (
    *("gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zero-bubble", "zero-bubble-v"),
    "dualpipe-v",
)
_TORCH_SCHEDULES = (*_TORCH_CLASSES, "zero-bubble")

RUNTIMES: tuple[Runtime, ...] = (
    Runtime(
        name="accelerate",
        summary="accelerate: a device map, modules to devices",
        limits=Limits(
            cuts="layer",
            calls=True,
            tied="refused",
            host="alone",
            data=False,
            tensor=False,
            chunks=False,
            training=False,
            pipeline=False,
        ),
        source="https://huggingface.co/docs/accelerate/concept_guides/big_model_inference",
    ),
    Runtime(
        name="torch",
        summary="torch.distributed.pipelining: a script for torchrun with cuts after any node, and a schedule in CSV",
        limits=Limits(
            contiguous=True,
            tied="copied",
            tensor=False,
            rounds=True,
            context=False,
            expert=False,
            meshes=MeshLimits(zero=(0,), zero_alone=(0,)),
            recompute=("none",),
            schedules=_TORCH_SCHEDULES,
        ),
        source="https://docs.pytorch.org/docs/stable/distributed.pipelining.html",
    ),
    Runtime(
        name="torchtitan",
        summary="torchtitan: module_fqns_per_model_part, a list of modules for every stage",
        # Beside pipelines torch's stages reduce gradients once a step, whole until then: FSDP shares out states alone.
        # Without a pipeline it reduces them for every microbatch.
        limits=msgspec.structs.replace(
            _ROW,
            tied="refused",
            rounds=True,
            tokens="always",
            meshes=MeshLimits(zero=(1,), zero_alone=(2, 3), experts_apart=True, experts_around=True, filled=True),
            recompute=("none", "operators", "full"),
            alike=True,
            frozen=False,
            optimizers=("adam", "adamw"),
            formats="sharded",
            inference=False,
            schedules=_TORCH_CLASSES,
        ),
        source="https://github.com/pytorch/torchtitan, torchtitan/distributed/pipeline_parallel.py, "
        "torchtitan/distributed/parallel_dims.py, torchtitan/config/job_config.py; torch, "
        "torch/distributed/pipelining/stage.py: backward_maybe_with_nosync",
    ),
    Runtime(
        name="megatron",
        summary="Megatron-LM: --pipeline-model-parallel-layout with the parallel sizes",
        limits=msgspec.structs.replace(
            _ROW,
            tied="ends",
            rounds=True,
            experts_by_token=True,
            meshes=MeshLimits(zero=(0, 1), zero_alone=(0, 1)),
            recompute=("none", "attention", "full"),
            alike=True,
            frozen=False,
            optimizers=("adam", "adamw", "sgd"),
            formats="mixed",
            inference=False,
            schedules=("1f1b", "interleaved"),
        ),
        source="https://github.com/NVIDIA/Megatron-LM, megatron/core/transformer/pipeline_parallel_layer_layout.py, "
        "megatron/training/arguments.py",
    ),
    Runtime(
        name="deepspeed",
        summary="DeepSpeed: boundaries of a PipelineModule's layers",
        limits=msgspec.structs.replace(
            _ROW,
            one_list=False,
            chunks=False,
            context=False,
            expert=False,
            tokens="never",
            meshes=MeshLimits(zero=(0, 1), zero_alone=(0, 1)),
            recompute=("none", "full"),
            alike=True,
            optimizers=("adam", "adamw", "sgd"),
            formats="mixed",
            inference=False,
            schedules=("1f1b",),
        ),
        source="https://deepspeed.readthedocs.io/en/latest/pipeline.html",
    ),
    Runtime(
        name="vllm",
        summary="vLLM: VLLM_PP_LAYER_PARTITION with the parallel sizes",
        limits=msgspec.structs.replace(_ROW, tied="copied", empty_stages=False, chunks=False, training=False),
        source="https://docs.vllm.ai/en/latest/configuration/env_vars.html; vllm/distributed/utils.py",
    ),
    Runtime(
        name="llama.cpp",
        summary="llama.cpp: --tensor-split in whole layers",
        limits=msgspec.structs.replace(
            _ROW,
            tied="copied",
            empty_stages=False,
            host="first",
            data=False,
            tensor=False,
            chunks=False,
            training=False,
        ),
        source="https://github.com/ggml-org/llama.cpp, src/llama-model.cpp: load_tensors",
    ),
    Runtime(
        name="onnx",
        summary="ONNX: one model for every stage, and what they hand on",
        limits=Limits(contiguous=True, tied="copied", tensor=False, training=False),
        source="https://onnx.ai/onnx/api/utils.html",
    ),
    Runtime(
        name="onnx-stages",
        summary="ONNX: a model whose nodes name device and pipeline stage (DeviceConfigurationProto)",
        limits=Limits(contiguous=True, tied="copied", data=False, tensor=False, chunks=False, training=False),
        source="https://github.com/onnx/onnx/blob/main/docs/proposals/ONNXMultiDeviceProposal.md",
    ),
    Runtime(
        name="onnxruntime",
        summary="ONNX Runtime: layer annotations, and the session option that assigns them to devices",
        limits=Limits(
            tied="copied",
            accelerators=1,
            data=False,
            tensor=False,
            chunks=False,
            training=False,
            pipeline=False,
        ),
        source="https://onnxruntime.ai/docs/, session.layer_assignment_settings",
    ),
    Runtime(
        name="openvino",
        summary="OpenVINO: affinities of nodes for the HETERO plugin",
        limits=Limits(tied="copied", data=False, tensor=False, chunks=False, training=False, pipeline=False),
        source="https://docs.openvino.ai/2025/openvino-workflow/running-inference/inference-devices-and-modes/"
        "hetero-execution.html",
    ),
)


def find_runtime(name: str) -> Runtime:
    """The runtime of a name.

    Raises ``InputError`` if there is none.
    """
    for runtime in RUNTIMES:
        if runtime.name == name:
            return runtime
    raise InputError(f"there is no runtime {name!r}; known are {', '.join(runtime.name for runtime in RUNTIMES)}")
