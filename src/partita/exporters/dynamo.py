"""Dynamo: a DynamoGraphDeployment, which its Kubernetes operator runs.

Sources: Dynamo 1.6.1, https://docs.nvidia.com/dynamo/dev/kubernetes-api/dynamo-graph-deployment.md and
https://docs.nvidia.com/dynamo/dev/kubernetes-api/dynamo-component-deployment.md (``nvidia.com/v1beta1``: components
with ``type``, ``replicas``, ``multinode``, ``podTemplate``), ``docs/kubernetes/deployment/multinode-deployment.md``,
``dynamo/vllm/backend_args.py``, ``dynamo/profiler/templates/dgd``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from partita.exporters.deployment_exporter import DeploymentExporter, longest_note, priced_for, share_notes
from partita.exporters.engine_arguments import EngineArguments
from partita.exporters.serve_flags import FlagError
from partita.exporters.sglang import SglangArguments
from partita.exporters.unit_facts import UnitFacts, machines_of_units, unlike
from partita.exporters.vllm_serve import VllmArguments
from partita.ground.errors import UnsupportedError, require
from partita.nouns.deployment import DeployedUnits, Deployment, UnitRole

RELEASE = "1.6.1"
_ENGINES: dict[str, EngineArguments] = {engine.name: engine for engine in (VllmArguments(), SglangArguments())}
#: Components of a graph at most, the front end's among them.
_MOST = 25
_TYPES: dict[UnitRole, str] = {"both": "worker", "prefill": "prefill", "decode": "decode"}
_OF_TYPES = {name: role for role, name in _TYPES.items()}
#: Labels of nodes by kind of card: names of the driver with dashes, as GPU feature discovery writes them
#: (https://github.com/NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery).
_LABEL = "nvidia.com/gpu.product"
_PRODUCTS = {
    "A100-40GB": "NVIDIA-A100-SXM4-40GB",
    "A100-80GB": "NVIDIA-A100-SXM4-80GB",
    "A100-80GB-PCIE": "NVIDIA-A100-80GB-PCIe",
    "H100-80GB": "NVIDIA-H100-80GB-HBM3",
    "H100-PCIE": "NVIDIA-H100-PCIe",
    "H200-141GB": "NVIDIA-H200",
    "B200": "NVIDIA-B200",
    "L4": "NVIDIA-L4",
    "L40S": "NVIDIA-L40S",
    "T4": "Tesla-T4",
    "A10": "NVIDIA-A10",
    "A6000": "NVIDIA-RTX-A6000",
}
#: Kinds of cards that its images are not for.
_OTHERS = re.compile(r"(MI\d|Gaudi|TPU|Trainium|M\d|CPU)")
#: Where units for decode of SGLang ask those for prefill; pods have addresses of their own.
_BOOTSTRAP = "12345"


class Dynamo(DeploymentExporter):
    """A component for each group of units, and a front end; engines by what plans are priced as, vLLM unless known.

    The model's name is an environment variable of the whole graph, which arguments name (``$(MODEL)``).
    """

    name = "dynamo"
    summary = "Dynamo: a DynamoGraphDeployment (nvidia.com/v1beta1) for Kubernetes"
    source = "https://docs.nvidia.com/dynamo/dev/kubernetes-api/dynamo-graph-deployment.md"

    def supports(self, deployment: Deployment) -> list[str]:
        engine = _engine_of(deployment)
        if engine is None:
            named = sorted({group.engine or "vllm" for group in deployment.units})
            return [f"dynamo runs one of {' and '.join(_ENGINES)} here, and the plan is of {' and '.join(named)}"]
        found = [*engine.supports(deployment), *_reasons(deployment)]
        if found:
            return list(dict.fromkeys(found))
        try:
            spans = machines_of_units(deployment)
        except UnsupportedError as error:
            return [str(error)]
        told = (
            reason
            for number, (machines, _) in spans.items()
            for reason in engine.node_reasons(deployment.units[number], machines)
        )
        return list(dict.fromkeys(told))

    def content(self, deployment: Deployment, model: str | None) -> bytes:
        engine, spans = _engine_of(deployment), machines_of_units(deployment)
        assert engine is not None
        image = f"nvcr.io/nvidia/ai-dynamo/{engine.name}-runtime:{RELEASE}"
        components = [_component("Frontend", "frontend", 1, image, ["-m", "dynamo.frontend"], [])]
        for number, group in enumerate(deployment.units):
            words = [engine.model_flag or "--model", "$(MODEL)", *_role_words(engine, group)]
            words += engine.arguments(group, deployment.longest)
            own = _component(
                f"{_TYPES[group.role]}{number}",
                _TYPES[group.role],
                group.count,
                image,
                ["-m", f"dynamo.{engine.name}"],
                words,
            )
            machines, share = spans[number]
            pod = own["podTemplate"]["spec"]
            pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(share)}}
            if len(deployment.kinds) > 1:
                pod["nodeSelector"] = {_LABEL: _PRODUCTS[group.kind]}
            if machines > 1:
                own["multinode"] = {"nodeCount": machines}
            components.append(own)
        document = {
            "apiVersion": "nvidia.com/v1beta1",
            "kind": "DynamoGraphDeployment",
            "metadata": {"name": _slug(deployment.name)},
            "spec": {
                "backendFramework": engine.name,
                "env": [{"name": "MODEL", "value": model or "MODEL"}],
                "components": components,
            },
        }
        head = f"# {' '.join(deployment.name.split())}, as planned by partita; for Dynamo {RELEASE}.\n"
        text: str = _yaml().safe_dump(document, sort_keys=False, width=1000)
        return (head + text).encode()

    def differences(self, deployment: Deployment, content: bytes) -> list[str]:
        engine, spans = _engine_of(deployment), machines_of_units(deployment)
        assert engine is not None
        meant = [
            engine.meant(group, deployment.longest, spans[number])
            for number, group in enumerate(deployment.units)
            for _ in range(group.count)
        ]
        return unlike(meant, self.said(content))

    def said(self, content: bytes) -> list[UnitFacts]:
        """The units that a graph runs; ``FlagError`` if it is none of the grammar."""
        document = _yaml().safe_load(content)
        if (document["apiVersion"], document["kind"]) != ("nvidia.com/v1beta1", "DynamoGraphDeployment"):
            raise FlagError("this is no DynamoGraphDeployment of nvidia.com/v1beta1")
        engine = _ENGINES[document["spec"]["backendFramework"]]
        found = []
        for component in document["spec"]["components"]:
            role = _OF_TYPES.get(component["type"])
            if role is None:
                continue
            (main,) = component["podTemplate"]["spec"]["containers"]
            machines = component.get("multinode", {"nodeCount": 1})["nodeCount"]
            cards = machines, int(main["resources"]["limits"]["nvidia.com/gpu"])
            words = main["args"][main["args"].index("$(MODEL)") + 1 :]
            found += [_said(engine, role, words, cards)] * component["replicas"]
        return found

    def notes(self, deployment: Deployment, model: str | None = None) -> Iterable[str]:
        engine = _engine_of(deployment)
        if engine is not None:
            yield from priced_for(deployment, engine.name)
        if model is None:
            yield "MODEL in spec.env has to be the model's name or folder; --model NAME writes it there"
        yield from share_notes(deployment)
        yield longest_note(deployment)


def _yaml() -> Any:
    require("yaml", "yaml")
    import yaml

    return yaml


def _engine_of(deployment: Deployment) -> EngineArguments | None:
    """The engine that all units are priced as, vLLM if that is not known; None for others or several."""
    named = {group.engine or "vllm" for group in deployment.units}
    return _ENGINES.get(named.pop()) if len(named) == 1 else None


def _reasons(deployment: Deployment) -> Iterator[str]:
    roles = {group.role for group in deployment.units}
    if "both" in roles and len(roles) > 1:
        yield (
            "dynamo sends every prompt of a model to its units for prefill where there are any, and the plan has units "
            "that do both beside them"
        )
    if len(deployment.units) >= _MOST:
        yield f"dynamo has at most {_MOST} components in a graph, and the plan needs {len(deployment.units) + 1}"
    for group in deployment.units:
        if _OTHERS.match(group.kind):
            yield f"dynamo's images are for NVIDIA's cards, and the plan has units on {group.kind}"
        elif len(deployment.kinds) > 1 and group.kind not in _PRODUCTS:
            yield (
                f"the cluster has cards of several kinds, and what nodes with {group.kind} are labelled with is not "
                f"known; known are {', '.join(_PRODUCTS)}"
            )


def _component(name: str, sort: str, count: int, image: str, module: list[str], words: list[str]) -> dict[str, Any]:
    main = {
        "name": "main",
        "image": image,
        "command": ["python3", *module],
        **({"args": words} if words else {}),
        "envFrom": [{"secretRef": {"name": "hf-token-secret", "optional": True}}],
    }
    return {"name": name, "type": sort, "replicas": count, "podTemplate": {"spec": {"containers": [main]}}}


def _role_words(engine: EngineArguments, group: DeployedUnits) -> list[str]:
    """What Dynamo itself is told of a role; SGLang has the same argument."""
    if group.role == "both":
        return []
    if engine.name == "vllm":
        return ["--disaggregation-mode", group.role]
    return ["--host", "0.0.0.0", "--disaggregation-bootstrap-port", _BOOTSTRAP]


def _said(engine: EngineArguments, role: UnitRole, words: list[str], cards: tuple[int, int]) -> UnitFacts:
    """What a component's arguments say; Dynamo's own role has to be that of its type."""
    own = list(words)
    if engine.name == "vllm" and own[:1] == ["--disaggregation-mode"]:
        if own[1] != role:
            raise FlagError(f"a component of type {role} has the mode {own[1]}")
        del own[:2]
    found = engine.said(own, cards)
    if found.role != role:
        raise FlagError(f"a component for {role} has arguments for {found.role}")
    return found


def _slug(text: str) -> str:
    """A name of a Kubernetes object: short enough for what the operator puts behind it."""
    found = re.sub(r"[^a-z0-9]+", "-", text.lower().partition(",")[0]).strip("-")[:30].strip("-")
    return found or "model"
