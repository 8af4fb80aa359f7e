"""Serving: a fleet of units under a stream of requests.

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
#: What is looked for: the least time per request under the stated load; the most requests per second that keep the
#: targets, whose rate is part of the plan; the cheapest devices that keep them at the stated rate.
Goal = Literal["time", "rate", "cost"]
#: Which units there may be: those that do all of a request, those for prompts beside those for decoding, or all.
Roles = Literal["both", "split", "any"]
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

    @property
    def apart(self) -> int:
        """Groups of a unit that share no step: schedulers of their own."""
        return self.layout.attention_data if self.prices.attention_data == 1 else 1

    @property
    def in_step(self) -> bool:
        """Whether it has attention-data groups that step together."""
        return self.prices.attention_data > 1

    def document(self) -> dict[str, str | int]:
        """Its kind of device, degrees and sizes as plain values."""
        degrees = {name: getattr(self.layout, name) or 1 for name in self.layout.__struct_fields__}
        return {"kind": self.kind, **degrees, "requests": self.rules.requests, "tokens": self.rules.tokens}


class DevicePool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices of one kind in their machines."""

    kind: str
    machines: tuple[int, ...]  #: Devices of each machine; a stage of a unit lies inside one.
    price_per_hour: float | None = None  #: Of a device.

    def __post_init__(self) -> None:
        for devices in self.machines:
            check_at_least(f"pool {self.kind!r}: devices of a machine", devices)
        if self.price_per_hour is not None:
            check_positive(f"pool {self.kind!r}", "price_per_hour", self.price_per_hour)

    @property
    def devices(self) -> int:
        """Devices of all machines."""
        return sum(self.machines)

    @property
    def cost_per_device(self) -> float:
        """What a device costs in an hour; one where it has no price, so that devices are counted."""
        return 1.0 if self.price_per_hour is None else self.price_per_hour


class RequestClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests that shares are stated of: those up to these lengths that no class before it has."""

    prompt_tokens: int
    output_tokens: int


class UnitGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many units of one form with one role."""

    unit: int  #: Number of the form in the problem's list.
    count: int = 1
    role: Role = "both"
    #: By class of requests the share that it takes of those that arrive, of units that take them as they arrive; shares
    #: of all groups need not sum to 1. None: whoever has the fewest requests takes the next one.
    shares: tuple[float, ...] | None = None
    #: Steps from one in which requests that decode have prompts beside them to the next, the same steps for all
    #: attention-data groups of a unit (vLLM's ``prefill_schedule_interval``); of units that do all of a request.
    interval: int = 1

    def __post_init__(self) -> None:
        check_at_least("group of units: interval", self.interval)
        for share in self.shares or ():
            check_number("group of units", "share", share)


class ServingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment: which units there are, and how many requests per second are offered where that is looked for."""

    units: tuple[UnitGroup, ...]
    rate_per_s: float | None = None


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
    """Serve a stream of requests with units of the forms of a list, on pools of devices.

    ``partita.problems.serving.evaluate`` says what a fleet is worth.

    Raises
    ------
    InputError
        If there is no form or no pool, a kind has two pools or none, a bandwidth is not positive, prices do not fit the
        degrees, or the goal does not fit the load.
    """

    kind: ClassVar[str] = "serving"
    format: ClassVar[str] = "partita.serving"

    name: str = "serving"
    workload: RequestWorkload
    units: tuple[ServingUnit, ...]
    pools: tuple[DevicePool, ...]
    goal: Goal = "time"
    roles: Roles = "both"
    classes: tuple[RequestClass, ...] = ()  #: Of requests, which plans may share out; empty where all are one.
    #: Shares of requests are multiples of one of so many parts; None for any shares, 0 for none.
    share_parts: int | None = None
    rates: tuple[float, ...] = ()  #: That may be offered where the rate is looked for; empty for any.
    intervals: tuple[int, ...] = (1,)  #: That groups of units may have where the rate is looked for.
    #: The link over which units for prompts hand caches on, of each unit; None where that takes no time.
    link_bytes_per_s: float | None = None
    link_s: float = 0.0
    targets: ServingTargets = ServingTargets()

    def __post_init__(self) -> None:
        where = f"problem {self.name!r}"
        if not self.units:
            raise InputError(f"{where} has no units to choose from; give at least one form")
        kinds = [pool.kind for pool in self.pools]
        if not kinds or len(set(kinds)) < len(kinds):
            raise InputError(f"{where} has pools of {', '.join(kinds) or 'nothing'}; give one for each kind of device")
        if self.link_bytes_per_s is not None:
            check_positive(where, "link_bytes_per_s", self.link_bytes_per_s)
        check_number(where, "link_s", self.link_s)
        if self.share_parts is not None:
            check_at_least(f"{where}: share_parts", self.share_parts, 0)
        for rate in self.rates:
            check_positive(where, "rates", rate)
        if list(self.rates) != sorted(set(self.rates)):
            raise InputError(f"{where}: rates {list(self.rates)} must ascend")
        if self.intervals[:1] != (1,) or list(self.intervals) != sorted(set(self.intervals)):
            raise InputError(f"{where}: intervals {list(self.intervals)} must begin with 1 and ascend")
        self._check_goal(where)
        for number, unit in enumerate(self.units):
            prices, layout = unit.prices, unit.layout
            if unit.kind not in kinds:
                raise InputError(f"{where}: form {number} is on {unit.kind}, and the pools are of {', '.join(kinds)}")
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

    def _check_goal(self, where: str) -> None:
        if self.goal != "rate" and len(self.intervals) > 1:
            raise InputError(f"{where} has intervals, which are chosen where the rate is looked for; leave them out")
        if self.goal == "rate" and (self.workload.concurrency or self.workload.rate_per_s):
            raise InputError(f"{where} looks for the rate of requests; leave the workload's concurrency and rate out")
        if self.goal != "rate" and not self.workload.loaded:
            raise InputError(f"{where} does not say when requests come: give a concurrency or a rate, or look for one")
        if self.goal == "cost" and self.workload.concurrency:
            raise InputError(f"{where} looks for the cheapest devices at a rate; give one instead of a concurrency")
        if self.goal == "cost" and 0 < sum(pool.price_per_hour is not None for pool in self.pools) < len(self.pools):
            raise InputError(f"{where} has prices of some kinds of devices; give one of each kind, or none")

    @property
    def devices(self) -> int:
        """Devices of all pools."""
        return sum(pool.devices for pool in self.pools)

    @property
    def split(self) -> bool:
        """Whether plans may have units for prompts and units for decoding."""
        return self.roles != "both"

    def pool(self, kind: str) -> DevicePool:
        """The pool of a kind of device; one without machines where there is none."""
        return next((pool for pool in self.pools if pool.kind == kind), DevicePool(kind=kind, machines=()))

    def form(self, number: int) -> ServingUnit:
        """A form by its number; InputError if there is none."""
        if not 0 <= number < len(self.units):
            raise InputError(f"the plan names form {number}; problem {self.name!r} has {len(self.units)}")
        return self.units[number]


def resized(problem: ServingProblem, devices: int) -> ServingProblem:
    """The problem with so many devices of its one kind, in machines of the sizes that there are.

    Raises ``InputError`` if the number is negative or there are several kinds.
    """
    check_at_least("devices", devices, 0)
    if len(problem.pools) != 1:
        kinds = ", ".join(pool.kind for pool in problem.pools)
        raise InputError(f"problem {problem.name!r} has several kinds of devices ({kinds}); change its pools instead")
    pool = problem.pools[0]
    machines: list[int] = []
    while (left := devices - sum(machines)) > 0:
        size = pool.machines[len(machines)] if len(machines) < len(pool.machines) else max(pool.machines, default=left)
        machines.append(min(size, left))
    return problem.replace(pools=(msgspec.structs.replace(pool, machines=tuple(machines)),))
