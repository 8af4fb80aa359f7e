"""vLLM: a ``vllm serve`` command for every unit."""

from __future__ import annotations

from partita.exporters.serve_script import HANDOVER, ServeScript
from partita.exporters.unit_places import PlacedUnit
from partita.exporters.vllm_arguments import VllmArguments
from partita.nouns.deployment import Deployment


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
