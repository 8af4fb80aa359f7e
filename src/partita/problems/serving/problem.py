"""Serving: one deployment of a model under a stream of requests.

Sources: Yu et al., "Orca" (OSDI 2022): continuous batching; Kwon et al., "PagedAttention" (SOSP 2023): the paged cache;
Agrawal et al., "Sarathi-Serve" (OSDI 2024): chunked prompts; Zhong et al., "DistServe" (OSDI 2024): units for prompts
and units for decoding.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from partita.costs.serving.prices import StepPrices
from partita.ground.checks import check_at_least, check_fraction, check_number, check_positive
from partita.ground.errors import InputError
from partita.nouns.workload.workload import RequestWorkload
from partita.problems.kind import Stated

#: What a unit does: all of a request, its prompt, or what comes after that.
Role = Literal["both", "prefill", "decode"]
#: When a request is admitted: if its next chunk fits the cache, its whole prompt, or its prompt and a share of its
#: output fit what others were not promised.
Reserve = Literal["chunk", "prompt", "whole"]


class UnitLayout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a unit splits the model: degrees, at least 1."""

    tensor: int = 1  #: Devices that share out every layer.
    pipeline: int = 1  #: Stages.
    #: Of a mixture of experts: groups that share out experts, devices that share out each expert; None for what follows
    #: from the others.
    expert: int | None = None
    expert_tensor: int | None = None
    attention_data: int = 1  #: Groups that share out requests, each with all of attention.

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) is not None:
                check_at_least(f"layout: {name}", getattr(self, name))

    @property
    def devices(self) -> int:
        """Devices of a unit."""
        return self.tensor * self.pipeline * self.attention_data

    @property
    def label(self) -> str:
        """In words: the degrees that are not 1."""
        degrees = {name: getattr(self, name) for name in self.__struct_fields__}
        found = [f"{name.replace('_', '-')} {value}" for name, value in degrees.items() if value not in (None, 1)]
        return ", ".join(found) or "one device"


class EngineRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a unit chooses what its steps do; sizes are of each of its attention-data groups."""

    requests: int = 256  #: Most requests that run at once (``max_num_seqs``).
    tokens: int = 8192  #: Most tokens in a step (``max_num_batched_tokens``).
    block_tokens: int = 16  #: Tokens in a page of the cache.
    mixed: bool = True  #: Whether steps mix prompts and decodes; otherwise prompts go first, alone.
    chunked: bool = True  #: Whether prompts are cut into chunks.
    reserve: Reserve = "chunk"  #: When a request is admitted.
    promise: float = 1.0  #: The share of its output that it is promised room for then, with ``whole``.
    #: Whether a request that was put back finds again what nobody has overwritten; otherwise it starts again.
    keeps: bool = False

    def __post_init__(self) -> None:
        for name in ("requests", "tokens", "block_tokens"):
            check_at_least(f"engine: {name}", getattr(self, name))
        if not 0 <= self.promise <= 1:
            raise InputError(f"engine: promise is {self.promise}; it must be a share from 0 to 1")


class UnitFormats(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Formats that a unit holds numbers in, by the names of ``partita.costs.serving.formats``."""

    weights: str
    expert_weights: str | None = None  #: As dense weights unless stated.
    cache: str


class ServingUnit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A priced form that units may have."""

    kind: str  #: Name of its kind of device.
    layout: UnitLayout = UnitLayout()
    rules: EngineRules = EngineRules()
    prices: StepPrices
    #: What its prices are of, for whoever starts it; None if that is not known.
    engine: str | None = None
    formats: UnitFormats | None = None

    @property
    def devices(self) -> int:
        """Devices of a unit."""
        return self.layout.devices

    def document(self) -> dict[str, str | int]:
        """Its kind of device, degrees and sizes as plain values."""
        degrees = {name: getattr(self.layout, name) or 1 for name in self.layout.__struct_fields__}
        return {"kind": self.kind, **degrees, "requests": self.rules.requests, "tokens": self.rules.tokens}


class UnitGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many units of one form with one role."""

    unit: int  #: Number of the form in the problem's list.
    count: int = 1
    role: Role = "both"


class ServingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment: which units there are."""

    units: tuple[UnitGroup, ...]


class ServingTargets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What users are promised: a share of all requests keeps both; None for no limit."""

    ttft_s: float | None = None  #: Seconds to the first token.
    tpot_s: float | None = None  #: Seconds per token after that, the mean of a request.
    percentile: float = 0.9

    def __post_init__(self) -> None:
        for name in ("ttft_s", "tpot_s"):
            if getattr(self, name) is not None:
                check_positive("targets", name, getattr(self, name))
        check_fraction("targets", "percentile", self.percentile)


class ServingProblem(Stated, frozen=True, kw_only=True):
    """Serve a stream of requests with units of the forms of a list, in the least time per request.

    ``partita.problems.serving.evaluate`` says what a deployment is worth.

    Raises
    ------
    InputError
        If there is no form or no device, a bandwidth is not positive, or prices do not fit the degrees.
    """

    kind: ClassVar[str] = "serving"
    format: ClassVar[str] = "partita.serving"

    name: str = "serving"
    workload: RequestWorkload
    units: tuple[ServingUnit, ...]
    devices: int  #: All together.
    #: Whether plans may have units for prompts and units for decoding, and the link over which they hand on caches.
    split: bool = False
    link_bytes_per_s: float | None = None  #: Of each unit; None where caches take no time.
    link_s: float = 0.0
    targets: ServingTargets = ServingTargets()

    def __post_init__(self) -> None:
        where = f"problem {self.name!r}"
        check_at_least(f"{where}: devices", self.devices, 0)
        if not self.units:
            raise InputError(f"{where} has no units to choose from; give at least one form")
        if self.link_bytes_per_s is not None:
            check_positive(where, "link_bytes_per_s", self.link_bytes_per_s)
        check_number(where, "link_s", self.link_s)
        for number, unit in enumerate(self.units):
            prices, layout = unit.prices, unit.layout
            if prices.stages != layout.pipeline:
                raise InputError(
                    f"{where}: form {number} has prices of {prices.stages} stages, and its pipeline degree is "
                    f"{layout.pipeline}"
                )
            if prices.attention_data not in (1, layout.attention_data):
                raise InputError(
                    f"{where}: form {number} has prices of {prices.attention_data} attention-data groups, and its "
                    f"degree is {layout.attention_data}"
                )

    def form(self, number: int) -> ServingUnit:
        """A form by its number; InputError if there is none."""
        if not 0 <= number < len(self.units):
            raise InputError(f"the plan names form {number}; problem {self.name!r} has {len(self.units)}")
        return self.units[number]
