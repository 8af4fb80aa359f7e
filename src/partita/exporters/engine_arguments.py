"""An engine's command line: what of a unit it can be told, how, and what a command line tells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partita.exporters.serve_flags import Flag, read_flags
from partita.exporters.unit_facts import Cards, Numbers, UnitFacts, facts_of_unit
from partita.nouns.deployment import DeployedUnits, Deployment

#: Formats of activations and of weights that are not quantised, in the words of both engines.
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}

#: Arguments for formats, as both engines call them, in the order of ``Numbers``.
NUMBERS = ("--dtype", "--quantization", "--kv-cache-dtype")


@dataclass(frozen=True)
class Node:
    """One machine's part of a unit: ``rank`` of ``ranks``, the address of the first one and ports for all of them."""

    rank: int
    ranks: int
    head: str
    port: int


class EngineArguments(ABC):
    """One engine."""

    name: str  #: As in ``partita.nouns.catalogue.engines``, and of Dynamo's back end.
    title: str  #: With the release whose arguments these are.
    model_flag: str | None  #: The argument that the model is given with; None where it is the first word.
    flags: Mapping[str, Flag]
    #: By format of weights, and of the cache, its name here.
    quantizations: Mapping[str, str]
    caches: Mapping[str, str]

    def supports(self, deployment: Deployment) -> list[str]:
        """Why the engine cannot serve so, a sentence for each reason; empty if it can."""
        found = [reason for group in deployment.units for reason in self._group_reasons(group, deployment)]
        return list(dict.fromkeys([*found, *self._role_reasons(deployment)]))

    def numbers(self, group: DeployedUnits) -> Numbers | str:
        """A group's formats in the engine's words, or why there are none."""
        weights, experts, cache = group.weights, group.of_experts, group.cache
        if weights is None or experts is None or cache is None:
            return Numbers()
        if group.expert is None or weights == experts:
            quantization = self.quantizations.get(weights)
            if weights not in DTYPES and quantization is None:
                return f"{self.name} has no quantization for weights in {weights}"
        elif (weights, experts) == ("bf16", "mxfp4"):
            # Both engines know the method for experts alone (gpt-oss).
            quantization = "mxfp4"
        else:
            quantization = self.quantizations.get(weights)
            if quantization is None or quantization != self.quantizations.get(experts):
                return (
                    f"{self.name} has one quantization, and the plan has weights in {weights} and experts in {experts}"
                )
        found = self.caches.get(cache, "auto" if cache == weights in DTYPES else None)
        if found is None:
            return f"{self.name} has no cache in {cache}, only in {', '.join(self.caches)}"
        return Numbers(DTYPES.get(weights, "bfloat16"), quantization, found)

    def arguments(self, group: DeployedUnits, longest: int) -> list[str]:
        """What starts a unit, but for the model, where it is, and where it listens."""
        numbers = self.numbers(group)
        assert isinstance(numbers, Numbers)
        return self._arguments(group, longest, numbers)

    def meant(self, group: DeployedUnits, longest: int, cards: Cards) -> UnitFacts:
        """What a file has to say of each unit of a group."""
        numbers = self.numbers(group)
        assert isinstance(numbers, Numbers)
        return facts_of_unit(group, longest, numbers, cards)

    def said(self, words: Sequence[str], cards: Cards) -> UnitFacts:
        """What a command line says of its unit; ``FlagError`` if it is none of this engine's."""
        return self._said(read_flags(words, self.flags), cards)

    @abstractmethod
    def _arguments(self, group: DeployedUnits, longest: int, numbers: Numbers) -> list[str]:
        """``arguments`` with formats in the engine's words."""

    @abstractmethod
    def _said(self, found: dict[str, Any], cards: Cards) -> UnitFacts:
        """``said`` of arguments by name."""

    @abstractmethod
    def node_arguments(self, group: DeployedUnits, node: Node) -> list[str]:
        """What one machine's part of a unit of several machines is started with."""

    @abstractmethod
    def node_reasons(self, group: DeployedUnits, machines: int) -> Iterator[str]:
        """Why units cannot be shared out over so many machines."""

    @abstractmethod
    def own_reasons(self, group: DeployedUnits, deployment: Deployment) -> Iterator[str]:
        """Why the engine cannot run such units."""

    def _group_reasons(self, group: DeployedUnits, deployment: Deployment) -> Iterator[str]:
        numbers = self.numbers(group)
        if isinstance(numbers, str):
            yield numbers
        if not group.chunked and group.tokens < deployment.longest:
            yield (
                f"{self.name} takes a prompt whole where it is not cut into chunks, so that steps of {group.tokens} "
                f"tokens are too small for requests of {deployment.longest}"
            )
        yield from self.own_reasons(group, deployment)

    def _role_reasons(self, deployment: Deployment) -> Iterator[str]:
        roles = {group.role for group in deployment.units}
        if len(roles & {"prefill", "decode"}) == 1:
            (there,) = roles & {"prefill", "decode"}
            other = "decode" if there == "prefill" else "prefill"
            yield f"there are units for {there} and none for {other}, and {self.name} has nobody to hand caches over to"
        split = [group for group in deployment.units if group.role != "both"]
        held = {group.cache or "the engine's own format" for group in split}
        if len(held) > 1:
            yield (
                f"{self.name} hands caches on as they are, and units for prefill and decode have them in "
                f"{' and in '.join(sorted(held))}"
            )
        types = {numbers.dtype or "" for group in split if isinstance(numbers := self.numbers(group), Numbers)}
        if len(types) > 1:
            yield f"{self.name} hands caches on within one dtype, and the units have {' and '.join(sorted(types))}"
