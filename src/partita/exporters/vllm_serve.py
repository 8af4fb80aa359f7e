"""vLLM: a ``vllm serve`` command for every unit, and what its arguments say.

Sources: vLLM 0.33.0, ``vllm/engine/arg_utils.py``, ``vllm/config/scheduler.py``, ``vllm/config/parallel.py``,
``vllm/distributed/kv_transfer/kv_connector/v1/nixl``; https://docs.vllm.ai/en/stable/features/nixl_connector_usage.html,
https://docs.vllm.ai/en/stable/serving/data_parallel_deployment.html.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from partita.exporters.engine_arguments import NUMBERS, EngineArguments, Node
from partita.exporters.serve_flags import VLLM
from partita.exporters.serve_script import HANDOVER, ServeScript
from partita.exporters.unit_facts import Cards, Numbers, UnitFacts
from partita.exporters.unit_places import PlacedUnit
from partita.nouns.deployment import DeployedUnits, Deployment, UnitRole

#: What hands caches on, and what each role is in it.
CONNECTOR = "NixlConnector"
_ROLES: dict[UnitRole, str] = {"prefill": "kv_producer", "decode": "kv_consumer"}
_OF_ROLES = {name: role for role, name in _ROLES.items()}


#: By format of weights, and of the cache, what it is called here.
_QUANTIZATIONS = {
    "fp8": "fp8",
    "fp8_block": "fp8",
    "int8": "compressed-tensors",
    "int4": "awq_marlin",
    "fp4": "modelopt_fp4",
    "nvfp4": "modelopt_fp4",
}
_CACHES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "fp8",
    "int8": "int8_per_token_head",
    "int4": "int4_per_token_head",
    "nvfp4": "nvfp4",
}


class VllmArguments(EngineArguments):
    """``vllm serve``: sizes are of each data-parallel rank, which are a plan's attention-data groups.

    With experts, these are shared out over all devices of a stage: whole with ``--enable-expert-parallel``, each cut
    into as many parts without it.
    """

    name = "vllm"
    title = "vLLM 0.33"
    model_flag = None
    flags = VLLM
    quantizations = _QUANTIZATIONS
    caches = _CACHES

    def _arguments(self, group: DeployedUnits, longest: int, numbers: Numbers) -> list[str]:
        found = [f"--tensor-parallel-size {group.tensor}", f"--pipeline-parallel-size {group.pipeline}"]
        if group.attention_data > 1:
            found.append(f"--data-parallel-size {group.attention_data}")
        if (group.expert or 1) > 1:
            found.append("--enable-expert-parallel")
        found += [f"--max-num-seqs {group.requests}", f"--max-num-batched-tokens {group.tokens}"]
        found.append("--enable-chunked-prefill" if group.chunked else "--no-enable-chunked-prefill")
        if group.interval > 1:
            found.append(f"--prefill-schedule-interval {group.interval}")
        found += [f"--block-size {group.block_tokens}", f"--max-model-len {longest}"]
        if group.memory_share is not None:
            found.append(f"--gpu-memory-utilization {group.memory_share!r}")
        found += [f"{name} {value}" for name, value in zip(NUMBERS, numbers, strict=True) if value is not None]
        words = " ".join(found).split()
        if group.role != "both":
            config = {"kv_connector": CONNECTOR, "kv_role": _ROLES[group.role]}
            words += ["--kv-transfer-config", json.dumps(config, separators=(",", ":"))]
        return words

    def _said(self, found: dict[str, Any], cards: Cards) -> UnitFacts:
        tensor, data = found.get("--tensor-parallel-size", 1), found.get("--data-parallel-size", 1)
        transfer = found.get("--kv-transfer-config")
        return UnitFacts(
            role="both" if transfer is None else _OF_ROLES[transfer["kv_role"]],
            tensor=tensor,
            pipeline=found.get("--pipeline-parallel-size", 1),
            attention_data=data,
            expert=tensor * data if "--enable-expert-parallel" in found else 1,
            requests=found["--max-num-seqs"],
            tokens=found["--max-num-batched-tokens"],
            block_tokens=found["--block-size"],
            chunked="--no-enable-chunked-prefill" not in found,
            mixed=True,
            interval=found.get("--prefill-schedule-interval", 1),
            longest=found["--max-model-len"],
            memory_share=found.get("--gpu-memory-utilization"),
            numbers=Numbers(*map(found.get, NUMBERS)),
            cards=cards,
        )

    def node_arguments(self, group: DeployedUnits, node: Node) -> list[str]:
        if group.attention_data == 1:
            found = f"--nnodes {node.ranks} --node-rank {node.rank} --master-addr {node.head} --master-port {node.port}"
        else:
            own = group.attention_data // node.ranks
            found = f"--data-parallel-size-local {own} --data-parallel-address {node.head}"
            found += f" --data-parallel-rpc-port {node.port}"
            if node.rank:
                found += f" --data-parallel-start-rank {node.rank * own}"
        return [*found.split(), *(["--headless"] if node.rank else [])]

    def node_reasons(self, group: DeployedUnits, machines: int) -> Iterator[str]:
        if group.attention_data > 1 and group.attention_data % machines:
            yield (
                f"vllm has whole data-parallel ranks on each machine, and {group.label} has {group.attention_data} on "
                f"{machines} machines"
            )

    def own_reasons(self, group: DeployedUnits, deployment: Deployment) -> Iterator[str]:
        stage = group.tensor * group.attention_data
        if not group.mixed:
            yield "vllm mixes prompts and decodes, and the plan's units run prompts alone; plan with --engine vllm"
        if group.interval > 1 and (group.apart or group.attention_data == 1):
            yield f"vllm spaces prompts of data-parallel ranks that step together only, and {group.label} has none"
        if group.reserves:
            yield "vllm keeps no room for outputs, and the plan's units do; plan with --engine vllm"
        if group.expert is not None and group.apart and group.attention_data > 1:
            yield f"vllm shares experts out over all {stage} devices of a stage, and the plan has them in each group"
        elif (group.expert or 1) not in (1, stage):
            yield (
                f"vllm shares experts out whole over all {stage} devices of a stage, or cuts each into {stage} parts, "
                f"and the plan has expert degree {group.expert}; give --layout expert=1 or expert={stage}"
            )
        if group.tokens < group.requests:
            yield f"vllm has at least a token in a step for each request; the plan {group.tokens} for {group.requests}"
        if group.role == "decode" and group.pipeline > 1:
            yield f"vllm's {CONNECTOR} fills units of one stage only, and those for decode have {group.pipeline}"


class VllmServe(ServeScript):
    """A shell script of ``vllm serve`` commands; see ``VllmArguments``."""

    name = "vllm-serve"
    also = "vllm"
    summary = "vLLM: a vllm serve command for every unit of a deployment"
    source = "https://docs.vllm.ai/en/stable/cli/serve.html; vllm/engine/arg_utils.py"
    engine = VllmArguments()
    program = ("vllm", "serve")
    router = (
        "llm-d, Dynamo, or vLLM's examples of proxies (https://docs.vllm.ai/en/stable/features/disagg_prefill.html)"
    )

    def variables(self, deployment: Deployment, unit: PlacedUnit, machine: int) -> list[str]:
        """Every data-parallel rank of a unit that hands caches on has a port, counted from the unit's."""
        if unit.group.role == "both":
            return []
        most = max(group.attention_data for group in deployment.units)
        found = [f"VLLM_NIXL_SIDE_CHANNEL_PORT={HANDOVER + unit.number * most}"]
        if len(deployment.machines) > 1:
            found.append(f'VLLM_NIXL_SIDE_CHANNEL_HOST="$HOST{machine}"')
        return found
