"""What can be asked of a deployment and of its pricing, and what may be changed of a stated problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from partita.ground.checks import check_positive
from partita.ground.errors import InputError
from partita.nouns.catalogue.loader import load_catalogue
from partita.problems import kind, outcome
from partita.problems.facets.model import Pricing
from partita.problems.serving.problem import (
    DevicePool,
    Goal,
    ServingPlan,
    ServingProblem,
    ServingTargets,
    UnitLayout,
    resized,
)
from partita.problems.settings import setting

Outcome = outcome.Outcome[ServingPlan]
Solver = kind.Solver[ServingProblem, ServingPlan, kind.SearchOptions]

#: Keys of a layout beside the degrees: most requests at once, most tokens in a step.
_SIZES = ("requests", "tokens")


#: Requests where the most per second are looked for.
MANY = 10_000


class ServingPricing(Pricing, frozen=True, kw_only=True):
    """How a model on a cluster becomes a problem: its workload, its engine, and how a unit is laid out."""

    prompt_tokens: Annotated[int | None, setting("Tokens of every prompt.", metavar="P", least=1, unit="tokens")] = None
    output_tokens: Annotated[int | None, setting("Tokens of every output.", metavar="O", least=1, unit="tokens")] = None
    requests: Annotated[
        str | None,
        setting("Requests of a trace (arrivals and lengths), or a histogram of lengths, in CSV.", metavar="FILE.csv"),
    ] = None
    concurrency: Annotated[
        int | None,
        setting(
            "A closed loop: so many requests in flight, 10 times as many in all.", metavar="N", least=1, unit="requests"
        ),
    ] = None
    rate: Annotated[
        float | None,
        setting(
            "An open loop: requests per second, Poisson or a trace's times scaled.",
            metavar="R",
            above=0,
            unit="requests/s",
        ),
    ] = None
    prefix_tokens: Annotated[
        int,
        setting(
            "Tokens that all prompts of a group begin with, and that are reused.", metavar="N", least=0, unit="tokens"
        ),
    ] = 0
    prefix_groups: Annotated[int, setting("Groups with such a prefix each.", metavar="G", least=1, unit="groups")] = 1
    workload_seed: Annotated[int, setting("Of drawn lengths and arrivals.", metavar="N", least=0, unit="a seed")] = 0
    engine: Annotated[Literal["vllm", "trtllm", "sglang"], setting("The serving engine.")] = "vllm"
    weights: Annotated[
        str | None, setting("Format of dense weights: bf16, fp8, int8, int4, nvfp4, mxfp4, ….", metavar="FORMAT")
    ] = None
    expert_weights: Annotated[
        str | None, setting("Format of the weights of experts; that of the dense ones if not given.", metavar="FORMAT")
    ] = None
    cache: Annotated[str | None, setting("Format of the cache: bf16, fp8, ….", metavar="FORMAT")] = None
    ttft: Annotated[
        float | None, setting("Seconds to the first token, at most.", metavar="S", above=0, unit="seconds")
    ] = None
    tpot: Annotated[
        float | None, setting("Seconds per token after that, at most.", metavar="S", above=0, unit="seconds")
    ] = None
    percentile: Annotated[
        float, setting("Share of requests that keeps these.", metavar="SHARE", above=0, most=1, unit="a share")
    ] = 0.9
    roles: Annotated[
        Literal["both", "split", "any"] | None,
        setting(
            "Units that do all of a request (both), units for prompts and units for decoding (split), or whichever is "
            "better (any, the default but for --concurrency).",
            meaning="Units that do all of a request (both), units for prompts and units for decoding (split), or "
            "whichever is better (any); any if None, but both for a closed loop or a layout.",
        ),
    ] = None
    price_per_hour: Annotated[
        Any,
        setting(
            "What a card costs an hour, by kind: H100=2.5,L40S=0.8; with --rate the cheapest ones are looked for.",
            metavar="KIND=X,…",
            hint="collections.abc:Mapping[str, float] | str | None",
            meaning="What a card costs an hour, by kind, as a mapping or as in 'H100=2.5,L40S=0.8'; with a rate the "
            "cheapest ones are looked for.",
        ),
    ] = None
    layout: Annotated[
        str | None,
        setting(
            "Price one unit, without search: tensor=T,pipeline=P,expert=E,expert_tensor=X,attention_data=D,"
            "requests=B,tokens=N.",
            metavar="KEY=N,…",
        ),
    ] = None


class ServingChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a stated problem."""

    devices: Annotated[
        int | None, setting("Number of devices.", metavar="N", least=0, group="problem", stated=True, unit="devices")
    ] = None
    concurrency: Annotated[
        int | None, setting("Requests in flight.", metavar="N", least=1, group="problem", unit="requests")
    ] = None
    rate: Annotated[
        float | None, setting("Requests per second.", metavar="R", above=0, group="problem", unit="requests/s")
    ] = None
    ttft: Annotated[
        float | None,
        setting("Seconds to the first token, at most.", metavar="S", above=0, group="problem", unit="seconds"),
    ] = None
    tpot: Annotated[
        float | None, setting("Seconds per token, at most.", metavar="S", above=0, group="problem", unit="seconds")
    ] = None
    percentile: Annotated[
        float | None,
        setting(
            "Share of requests that keeps these.", metavar="SHARE", above=0, most=1, group="problem", unit="a share"
        ),
    ] = None
    roles: Annotated[
        Literal["both", "split", "any"] | None,
        setting(
            "Units that do all of a request (both), units for prompts and units for decoding (split), or either (any).",
            group="problem",
        ),
    ] = None


def change(problem: ServingProblem, changes: ServingChanges) -> ServingProblem:
    """The problem with the changes that are stated; another loop takes the place of the one there is."""
    fields: dict[str, Any] = {}
    if changes.devices is not None:
        problem = resized(problem, changes.devices)
    if changes.concurrency is not None and changes.rate is not None:
        raise InputError("--concurrency is a closed loop and --rate an open one; leave one out")
    if changes.roles is not None:
        fields["roles"] = changes.roles
    if changes.concurrency is not None or changes.rate is not None:
        problem = loaded(problem, changes.concurrency, changes.rate)
    targets = {"ttft_s": changes.ttft, "tpot_s": changes.tpot, "percentile": changes.percentile}
    stated = {name: value for name, value in targets.items() if value is not None}
    if stated:
        fields["targets"] = msgspec.structs.replace(problem.targets, **stated)
    return problem.replace(**fields) if fields else problem


def loaded(problem: ServingProblem, concurrency: int | None, rate: float | None) -> ServingProblem:
    """The problem with the same lengths in a closed loop of so many, or in an open one of a rate.

    Where the most requests per second were looked for, it is the cheapest fleet then that takes the rate, or the least
    time of the closed loop.
    """
    workload, goal = problem.workload, problem.goal
    if goal != "time":
        goal = "cost" if concurrency is None else "time"
    # How many requests there are follows from the load.
    again = goal != problem.goal and problem.goal == "rate" and workload.trace is None
    workload = msgspec.structs.replace(
        workload, concurrency=concurrency, rate_per_s=rate, requests=None if again else workload.requests
    )
    unit = problem.unit if goal == problem.goal else unit_of(goal, problem.pools)
    return problem.replace(workload=workload, goal=goal, unit=unit)


def unit_of(goal: Goal, pools: Sequence[DevicePool]) -> str:
    """What a plan's worth is counted in: seconds per request; what the devices cost an hour, or how many there are."""
    if goal != "cost":
        return "s"
    return "devices" if any(pool.price_per_hour is None for pool in pools) else "per hour"


class StatedLayout(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--layout`` says: degrees, and sizes where they are given."""

    degrees: UnitLayout
    requests: int | None = None
    tokens: int | None = None


def parse_unit_layout(text: str) -> StatedLayout:
    """A layout of the form ``tensor=4,pipeline=2,requests=256``; InputError if it is none."""
    degrees = UnitLayout.__struct_fields__
    known = (*degrees, *_SIZES)
    given: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in known:
            raise InputError(f"layout {text!r}: {part.strip()!r} is not one of {', '.join(f'{n}=…' for n in known)}")
        if name in given:
            raise InputError(f"layout {text!r} gives {name} twice")
        if not value.isascii() or not value.isdigit() or int(value) < 1:
            raise InputError(f"layout {text!r}: {name} is {value!r}; give a whole number of at least 1")
        given[name] = int(value)
    sizes = {name: given.pop(name) for name in _SIZES if name in given}
    return StatedLayout(degrees=UnitLayout(**given), **sizes)


def targets_of(settings: ServingPricing) -> ServingTargets:
    """What the settings promise users."""
    return ServingTargets(ttft_s=settings.ttft, tpot_s=settings.tpot, percentile=settings.percentile)


def prices_per_hour(given: Mapping[str, float] | str | None, kinds: Sequence[str]) -> dict[str, float]:
    """What a card of each kind costs an hour; empty where nothing is said.

    Raises ``InputError`` if a text is not of the form ``KIND=X,…``, a kind is not among ``kinds`` or is named twice, a
    kind has no price, or a price is not positive.
    """
    if given is None:
        return {}
    if not isinstance(given, str | Mapping):
        raise InputError(f"--price-per-hour {given!r} says no kind; give KIND=X, such as H100=2.5, for each")
    pairs = _pairs(given) if isinstance(given, str) else [(str(name), price) for name, price in given.items()]
    found: dict[str, float] = {}
    for name, price in pairs:
        kind = _kind(name, kinds)
        if kind in found:
            raise InputError(f"--price-per-hour names {kind} twice")
        check_positive("--price-per-hour", kind, price)
        found[kind] = price
    missing = [kind for kind in kinds if kind not in found]
    if missing:
        raise InputError(
            f"--price-per-hour has no price of {', '.join(missing)}; give one of every kind of the cluster, so that "
            "costs can be compared"
        )
    return found


def _pairs(text: str) -> list[tuple[str, float]]:
    found = []
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        try:
            price = float(value)
        except ValueError:
            equals = ""
        if not name or not equals:
            raise InputError(f"--price-per-hour {part.strip()!r} is not of the form KIND=X, such as H100=2.5")
        found.append((name, price))
    return found


def _kind(name: str, kinds: Sequence[str]) -> str:
    """The kind of the cluster that a name means, as the catalogue reads names."""
    if name in kinds:
        return name
    try:
        kind = load_catalogue().device(name).name
    except InputError:
        # Of a name that several have, the one that is here.
        near = [kind for kind in kinds if kind.lower().startswith(f"{name.lower()}-")]
        kind = near[0] if len(near) == 1 else name
    if kind not in kinds:
        raise InputError(f"--price-per-hour names {name}, and the cluster has {', '.join(kinds)}; name these")
    return kind
