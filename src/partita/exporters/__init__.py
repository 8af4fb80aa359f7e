"""Plans for the runtimes that people use: one exporter for each, in one list."""

from __future__ import annotations

from collections.abc import Iterable

from partita.exporters.accelerate import Accelerate
from partita.exporters.deepspeed import DeepSpeed
from partita.exporters.deployment_exporter import DeploymentExporter
from partita.exporters.dynamo import Dynamo
from partita.exporters.exporter import Exporter
from partita.exporters.llama_cpp import LlamaCpp
from partita.exporters.megatron import Megatron
from partita.exporters.onnx import OnnxStages
from partita.exporters.onnx_annotated import OnnxAnnotated
from partita.exporters.onnxruntime import OnnxRuntime
from partita.exporters.openvino import OpenVino
from partita.exporters.sglang import Sglang
from partita.exporters.torch import TorchPipelining
from partita.exporters.torchtitan import TorchTitan
from partita.exporters.vllm import Vllm
from partita.exporters.vllm_serve import VllmServe
from partita.ground.errors import InputError
from partita.ground.registry import Added, Shelf

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

#: For plans of engines that serve.
DEPLOYMENT_EXPORTERS: tuple[DeploymentExporter, ...] = (VllmServe(), Sglang(), Dynamo())


class _Exporters(Shelf[Exporter]):
    """The exporters, each of which says what its runtime can express."""

    def refusal(self, one: Added, before: Iterable[Exporter] = ()) -> str:
        try:
            runtime = one.component.runtime
        except (InputError, AttributeError):
            return "it has no name and no runtime; say name = …, and runtime = Runtime(name=…, summary=…, limits=…, …)"
        called = getattr(one.component, "name", None)
        if called != runtime.name:
            return f"it is called {called!r} and its runtime {runtime.name!r}; name both alike"
        return super().refusal(one, before)


#: Those of the list and those that were added.
ALL_EXPORTERS = _Exporters("exporter", Exporter, lambda: EXPORTERS, ("name", "summary", "write()"))


def find_exporter(name: str) -> Exporter:
    """The exporter of a runtime.

    Raises ``InputError`` if there is none of that name.
    """
    found = ALL_EXPORTERS.get(name)
    if found is not None:
        return found
    if any(name in (one.name, one.also) for one in DEPLOYMENT_EXPORTERS):
        raise InputError(
            f"{name} takes plans of engines that serve, and this is one of a model in stages; known for those are "
            f"{ALL_EXPORTERS.known}"
        )
    raise InputError(f"there is no exporter {name!r}; known are {ALL_EXPORTERS.known}")


def find_deployment_exporter(name: str) -> DeploymentExporter:
    """The exporter of deployments of a name, or of another one that it answers to.

    Raises ``InputError`` if there is none.
    """
    for one in DEPLOYMENT_EXPORTERS:
        if name in (one.name, one.also):
            return one
    known = ", ".join(one.name for one in DEPLOYMENT_EXPORTERS)
    raise InputError(f"there is no exporter {name!r} of plans of engines that serve; known are {known}")
