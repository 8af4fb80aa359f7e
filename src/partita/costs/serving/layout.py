"""ServingLayout: how the devices of one unit share out a model, and in which formats it is held."""

from __future__ import annotations

from dataclasses import dataclass, replace

from partita.costs.serving.decoder import Decoder
from partita.costs.serving.formats import find_format
from partita.ground.checks import check_at_least
from partita.ground.errors import InputError


@dataclass(frozen=True)
class ServingLayout:
    """Degrees, at least 1, and formats of a unit. Each stage of the pipeline has tensor · attention_data devices."""

    tensor: int = 1  #: Devices that share out attention and dense layers.
    pipeline: int = 1
    attention_data: int = 1  #: Groups with attention of their own, which share out requests.
    #: Groups that share out experts, and devices that share out each expert; 0 for what follows from the rest.
    expert: int = 0
    expert_tensor: int = 0
    weights: str = "bf16"
    expert_weights: str | None = None  #: As dense weights unless stated.
    cache: str = "bf16"

    @property
    def stage_devices(self) -> int:
        """Devices of a stage."""
        return self.tensor * self.attention_data

    @property
    def of_experts(self) -> str:
        """The format of experts' weights."""
        return self.weights if self.expert_weights is None else self.expert_weights

    def settled(self, decoder: Decoder) -> ServingLayout:
        """The layout with degrees of experts filled in, checked against a decoder.

        Raises ``InputError`` if degrees do not go together or do not divide what they share out.
        """
        for name in ("tensor", "pipeline", "attention_data"):
            check_at_least(f"layout: {name}", getattr(self, name))
        for form in (self.weights, self.of_experts, self.cache):
            find_format(form)
        layers = sum(block.attention is not None for block in decoder.blocks)
        if self.pipeline > layers:
            raise InputError(f"layout: pipeline {self.pipeline} is more than the {layers} layers of {decoder.name}")
        if decoder.heads % self.tensor:
            raise InputError(
                f"layout: tensor {self.tensor} does not divide the {decoder.heads} heads of attention of "
                f"{decoder.name}, and engines give every device whole heads"
            )
        experts = {product.experts for block in decoder.blocks for product in block.experts}
        if not experts:
            if self.expert > 1:
                raise InputError(
                    f"layout: expert {self.expert} needs experts, and {decoder.name} has none; leave it out"
                )
            return replace(self, expert=1, expert_tensor=self.tensor)
        return self._with_experts(min(experts), decoder.name)

    def _with_experts(self, experts: int, name: str) -> ServingLayout:
        devices = self.stage_devices
        expert = self.expert or (devices // self.expert_tensor if self.expert_tensor else 1)
        if expert > experts:
            raise InputError(f"layout: expert {expert} is more than the {experts} experts of {name}")
        shared = self.expert_tensor or max(1, devices // expert)
        if expert * shared != devices:
            raise InputError(
                f"layout: expert {expert} · expert_tensor {shared} must be tensor {self.tensor} · attention_data "
                f"{self.attention_data}, the {devices} devices of a stage"
            )
        return replace(self, expert=expert, expert_tensor=shared)
