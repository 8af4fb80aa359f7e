"""SGLang: a ``sglang.launch_server`` command for every unit, and what its arguments say.

Sources: SGLang 0.5.23 and 0.5.21, ``sglang/srt/arg_groups/fields``, ``parallel_hook.py`` (groups of
attention share out tokens of a chunk, and requests), ``choices.py``; https://docs.sglang.io/advanced_features/server_arguments.html,
https://docs.sglang.io/advanced_features/pd_disaggregation.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from partita.exporters.engine_arguments import NUMBERS, EngineArguments, Node
from partita.exporters.serve_flags import SGLANG
from partita.exporters.serve_script import ServeScript
from partita.exporters.unit_facts import Cards, Numbers, UnitFacts
from partita.exporters.unit_places import PlacedUnit
from partita.nouns.deployment import DeployedUnits, Deployment

#: What hands caches on.
BACKEND = "nixl"


#: By format of weights, and of the cache, what it is called here.
_QUANTIZATIONS = {
    "fp8": "fp8",
    "fp8_block": "fp8",
    "int8": "w8a8_int8",
    "int4": "awq_marlin",
    "fp4": "modelopt_fp4",
    "nvfp4": "modelopt_fp4",
}
_CACHES = {"bf16": "bf16", "fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


class SglangArguments(EngineArguments):
    """``python3 -m sglang.launch_server``.

    Groups that share out attention are inside the tensor-parallel size, and sizes are of all of them; groups apart are
    replicas with sizes of their own. Experts are shared out over ``--ep-size`` groups of a stage.
    """

    name = "sglang"
    title = "SGLang 0.5.23"
    model_flag = "--model-path"
    flags = SGLANG
    quantizations = _QUANTIZATIONS
    caches = _CACHES

    def _arguments(self, group: DeployedUnits, longest: int, numbers: Numbers) -> list[str]:
        together = 1 if group.apart else group.attention_data
        found = [f"--tp-size {group.tensor * together}", f"--pp-size {group.pipeline}"]
        if group.attention_data > 1:
            found.append(f"--dp-size {group.attention_data}")
        if together > 1:
            found.append("--enable-dp-attention")
        if group.expert is not None:
            found.append(f"--ep-size {group.expert}")
        found.append(f"--max-running-requests {group.requests * together}")
        found.append(f"--chunked-prefill-size {group.tokens * together if group.chunked else -1}")
        found.append(f"--max-prefill-tokens {group.tokens}")
        found += ["--enable-mixed-chunk"] if group.mixed else []
        found += [f"--page-size {group.block_tokens}", f"--context-length {longest}"]
        if group.memory_share is not None:
            found.append(f"--mem-fraction-static {group.memory_share!r}")
        found += [f"{name} {value}" for name, value in zip(NUMBERS, numbers, strict=True) if value is not None]
        if group.role != "both":
            found += [f"--disaggregation-mode {group.role}", f"--disaggregation-transfer-backend {BACKEND}"]
        return " ".join(found).split()

    def _said(self, found: dict[str, Any], cards: Cards) -> UnitFacts:
        data = found.get("--dp-size", 1)
        together = data if "--enable-dp-attention" in found else 1
        chunk = found["--chunked-prefill-size"]
        mode = found.get("--disaggregation-mode", "null")
        return UnitFacts(
            role="both" if mode == "null" else mode,
            tensor=found.get("--tp-size", 1) // together,
            pipeline=found.get("--pp-size", 1),
            attention_data=data,
            expert=found.get("--ep-size", 1),
            requests=found["--max-running-requests"] // together,
            tokens=found["--max-prefill-tokens"] if chunk == -1 else chunk // together,
            block_tokens=found["--page-size"],
            chunked=chunk != -1,
            mixed="--enable-mixed-chunk" in found,
            interval=1,
            longest=found["--context-length"],
            memory_share=found.get("--mem-fraction-static"),
            numbers=Numbers(*map(found.get, NUMBERS)),
            cards=cards,
        )

    def node_arguments(self, group: DeployedUnits, node: Node) -> list[str]:
        return f"--nnodes {node.ranks} --node-rank {node.rank} --dist-init-addr {node.head}:{node.port}".split()

    def node_reasons(self, group: DeployedUnits, machines: int) -> Iterator[str]:
        if machines > 1 and group.attention_data > 1 and group.apart:
            yield (
                f"sglang has replicas (--dp-size {group.attention_data}) on one machine, and {group.label} is on "
                f"{machines}; plan units without attention-data groups"
            )
        if group.pipeline % machines and machines % group.pipeline:
            yield (
                f"sglang has equally many stages on each machine, and {group.label} has {group.pipeline} on "
                f"{machines} machines"
            )

    def own_reasons(self, group: DeployedUnits, deployment: Deployment) -> Iterator[str]:
        if group.interval > 1:
            yield (
                "sglang counts steps from the last one with prompts, and the plan has them in every n-th step; "
                "plan with --engine sglang"
            )
        if group.mixed and not group.chunked:
            yield "sglang mixes prompts and decodes only where it cuts prompts into chunks, and the plan has them whole"
        if group.expert is not None and group.apart and group.attention_data > 1:
            yield "sglang shares experts out over all groups of a stage, and the plan has them in each group"


#: Where units for decode ask those for prefill for caches, counted by unit.
_BOOTSTRAP = 8998


class Sglang(ServeScript):
    """A shell script of ``python3 -m sglang.launch_server`` commands; see ``SglangArguments``."""

    name = "sglang"
    summary = "SGLang: a launch command for every unit of a deployment"
    source = "https://docs.sglang.io/advanced_features/server_arguments.html; sglang/srt/server_args.py"
    engine = SglangArguments()
    program = ("python3", "-m", "sglang.launch_server")
    router = "python3 -m sglang_router.launch_router (https://docs.sglang.io/advanced_features/pd_disaggregation.html)"

    def listening(self, unit: PlacedUnit) -> list[str]:
        """Units for prefill have a port more."""
        if unit.group.role != "prefill":
            return []
        return ["--disaggregation-bootstrap-port", str(_BOOTSTRAP + unit.number)]
