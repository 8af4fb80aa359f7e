"""Plans for the runtimes that people use: one exporter for each, in one list."""

from __future__ import annotations

from partita.exporters.accelerate import Accelerate
from partita.exporters.deepspeed import DeepSpeed
from partita.exporters.exporter import Exporter
from partita.exporters.llama_cpp import LlamaCpp
from partita.exporters.megatron import Megatron
from partita.exporters.onnx import OnnxStages
from partita.exporters.onnx_annotated import OnnxAnnotated
from partita.exporters.onnxruntime import OnnxRuntime
from partita.exporters.openvino import OpenVino
from partita.exporters.torch import TorchPipelining
from partita.exporters.torchtitan import TorchTitan
from partita.exporters.vllm import Vllm
from partita.ground.errors import InputError

EXPORTERS: tuple[Exporter, ...] = (
    Accelerate(),
    TorchPipelining(),
    TorchTitan(),
    Megatron(),
    DeepSpeed(),
    Vllm(),
    LlamaCpp(),
    OnnxStages(),
    OnnxAnnotated(),
    OnnxRuntime(),
    OpenVino(),
)


def find_exporter(name: str) -> Exporter:
    """The exporter of a runtime.

    Raises ``InputError`` if there is none of that name.
    """
    for exporter in EXPORTERS:
        if exporter.name == name:
            return exporter
    raise InputError(f"there is no exporter {name!r}; known are {', '.join(exporter.name for exporter in EXPORTERS)}")
