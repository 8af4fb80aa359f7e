"""What the engine of serving must do, as plainly as it can be said: slow, and independent of it.

What a cache holds is summed up anew whenever it is asked; prices are those of ``StepPrices.step_time_s``. With prices
that are small multiples of a power of two all sums are exact.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import msgspec

from partita.costs.serving.prices import StepPrices, on_grid


@dataclass(eq=False)
class PlainRequest:
    """One request, with what happens to it."""

    prompt: int
    output: int
    arrival: float = 0.0
    group: int = -1
    route: str = ""  #: Of units; any of no name.
    computed: int = 0
    shared: int = 0
    tokens: list[float] = field(default_factory=list)
    preempted: int = 0
    under_way: int = 0
    source: PlainScheduler | None = None
    kept: tuple[int, int] = (0, 0)
    begun: float | None = None
    #: Tokens in the cache when it was put back, and bytes that its scheduler had given out by then.
    behind: tuple[int, int] = (0, 0)

    @property
    def left(self) -> int:
        """Tokens that are to be computed before the next one comes out."""
        return self.prompt + len(self.tokens) - self.computed

    @property
    def decodes(self) -> bool:
        return bool(self.tokens) and self.left == 1


@dataclass
class PlainUnit:
    """One unit and its rules; ``pages`` are bytes of a page by window."""

    prices: StepPrices
    requests: int
    tokens: int
    size: int
    pages: dict[int, int]
    block: int = 1
    role: str = "both"
    mixed: bool = True
    chunked: bool = True
    reserve: str = "chunk"
    promise: float = 1.0
    keeps: bool = False
    interval: int = 1
    turn: int = 0
    link: float = 0.0
    link_per_token: dict[int, float] = field(default_factory=dict)
    name: str = ""  #: Of its group, for requests with a route.
    schedulers: list[PlainScheduler] = field(default_factory=list)
    steps: list[tuple[float, list[tuple[PlainRequest, bool]]]] = field(default_factory=list)
    free_at: list[float] = field(default_factory=list)
    on_link: list[tuple[float, PlainRequest, PlainScheduler]] = field(default_factory=list)
    link_free: float = 0.0

    def holds(self, tokens: int) -> int:
        """Bytes of so many tokens."""
        return sum(
            size * -(-(min(tokens, window) if window else tokens) // self.block) for window, size in self.pages.items()
        )


@dataclass(eq=False)
class PlainScheduler:
    """Queue, seats and cache of one group of a unit."""

    unit: PlainUnit
    prefixes: list[int]
    waiting: list[PlainRequest] = field(default_factory=list)
    running: list[PlainRequest] = field(default_factory=list)
    coming: list[PlainRequest] = field(default_factory=list)
    kept: list[PlainRequest] = field(default_factory=list)
    ready: dict[int, int] = field(default_factory=dict)  # Group to when it was used last.
    owner: dict[int, PlainRequest] = field(default_factory=dict)
    #: Of the step that is put together: request, tokens, tokens before them, whether it decodes.
    doing: list[tuple[PlainRequest, int, int, bool]] = field(default_factory=list)
    peak: int = 0
    given: int = 0
    crowded: bool = False

    @property
    def chunks(self) -> list[tuple[int, int]]:
        return [(new, before) for _, new, before, decodes in self.doing if not decodes]

    @property
    def decodes(self) -> list[int]:
        return [before + 1 for _, _, before, decodes in self.doing if decodes]

    def prefix(self, group: int) -> int:
        return self.prefixes[group] // self.unit.block * self.unit.block

    def users(self, group: int) -> int:
        here = [r for r in [*self.running, *self.coming] if r.shared] + [r for r in self.kept if r.kept[1]]
        return sum(r.group == group for r in here)

    def own(self) -> int:
        """Bytes that requests hold by themselves."""
        holds = self.unit.holds
        now = sum(holds(r.computed) - holds(r.shared) for r in [*self.running, *self.coming])
        return now + sum(holds(r.kept[0]) - holds(r.kept[1]) for r in self.kept)

    def used(self, *, idle: bool = True) -> int:
        return self.own() + sum(
            self.unit.holds(self.prefix(group)) for group in self.ready if idle or self.users(group)
        )

    def make_room(self, wanted: int) -> bool:
        """Drop idle prefixes until so many bytes are free; False if that would not do."""
        if self.unit.size - self.used(idle=False) < wanted:
            return False
        while self.unit.size - self.used() < wanted:
            idle = [group for group in self.ready if not self.users(group)]
            del self.ready[min(idle, key=lambda group: self.ready[group])]
        return True

    def leave(self, r: PlainRequest, clock: itertools.count[int], *, kept: bool = False) -> None:
        """What a request used here is not used by it any more; it is in no list already."""
        shared = r.kept[1] if kept else r.shared
        if r.group >= 0 and shared and not self.users(r.group):
            self.ready[r.group] = next(clock)
        elif r.group >= 0 and self.owner.get(r.group) is r:
            del self.owner[r.group]


class PlainServing:
    """A run of requests over units."""

    def __init__(
        self, units: list[PlainUnit], requests: list[PlainRequest], prefixes: list[int], in_flight: int, delay: float
    ) -> None:
        self.units, self.requests, self.in_flight, self.delay = units, requests, in_flight, delay
        self.clock = itertools.count(1)
        self.now = 0.0
        #: Unit, per stage start and end, tokens of prompts, decodes, bytes in use after.
        self.log: list[tuple[int, list[tuple[float, float]], int, int, int]] = []
        for unit in units:
            unit.schedulers = [PlainScheduler(unit, prefixes) for _ in range(unit.prices.attention_data)]
            unit.free_at = [0.0] * unit.prices.stages

    def run(self) -> float:
        coming = list(self.requests)
        closed = self.in_flight > 0
        entering = coming[: self.in_flight] if closed else coming
        later = coming[self.in_flight :] if closed else []
        entering = list(entering)
        while any(len(r.tokens) < r.output for r in self.requests):
            times = [entering[0].arrival + self.delay] if entering else []
            for unit in self.units:
                times += [end for end, _ in unit.steps[:1]] + [end for end, _, _ in unit.on_link[:1]]
                if 0 < len(unit.steps) < unit.prices.stages and unit.free_at[0] > self.now:
                    times.append(unit.free_at[0])
            assert times, "nothing can go on"
            self.now = max(self.now, min(times))
            for unit in self.units:
                while unit.steps and unit.steps[0][0] <= self.now:
                    for _ in range(self.tokens_out(unit)):
                        if later:
                            later[0].arrival = self.now
                            entering.append(later.pop(0))
            for unit in self.units:
                while unit.on_link and unit.on_link[0][0] <= self.now:
                    _, r, to = unit.on_link.pop(0)
                    assert r.source is not None
                    r.source.kept.remove(r)
                    r.source.leave(r, self.clock, kept=True)
                    r.source = None
                    to.coming.remove(r)
                    to.running.append(r)
            while entering and entering[0].arrival + self.delay <= self.now:
                first = entering.pop(0)
                self.shortest(("both", "prefill"), first.route).waiting.append(first)
            for number, unit in enumerate(self.units):
                if len(unit.steps) < unit.prices.stages and unit.free_at[0] <= self.now:
                    for scheduler in unit.schedulers:
                        self.choose(scheduler)
                    if any(s.doing for s in unit.schedulers):
                        self.launch(number, unit)
                        unit.turn += 1
                    elif not unit.steps:
                        unit.turn = 0
        return self.now

    def shortest(self, roles: tuple[str, ...], route: str = "") -> PlainScheduler:
        units = [unit for unit in self.units if unit.role in roles and route in ("", unit.name)]
        fitting = [s for unit in units for s in unit.schedulers]
        return min(fitting, key=lambda s: len(s.waiting) + len(s.running) + len(s.coming))

    def tokens_out(self, unit: PlainUnit) -> int:
        """The oldest step is done; how many requests finished."""
        end, members = unit.steps.pop(0)
        finished = 0
        for r, token in members:
            r.under_way -= 1
            if not token:
                continue
            r.tokens.append(end)
            home = next(s for s in unit.schedulers if r in s.running)
            if len(r.tokens) == r.output:
                home.running.remove(r)
                home.leave(r, self.clock)
                finished += 1
            elif unit.role == "prefill":
                home.running.remove(r)
                home.kept.append(r)
                r.kept, r.source = (r.computed, r.shared), home
                r.computed, r.shared = 0, 0
                self.shortest(("decode",)).waiting.append(r)
        return finished

    def choose(self, s: PlainScheduler) -> None:
        """What one scheduler does in the next step of its unit."""
        s.doing = []
        decoding = any(r.tokens and r.computed >= r.prompt + len(r.tokens) - 1 for r in s.running)
        if s.unit.turn % s.unit.interval and decoding and not s.crowded:
            self.go_on(
                s, max(s.unit.tokens, 0 if s.unit.mixed else len(s.running)), prompts_only=False, no_prompts=True
            )
            return
        budget, calm = self.go_on(s, s.unit.tokens, prompts_only=not s.unit.mixed)
        if calm:
            self.admit(s, budget)
            s.crowded = bool(s.waiting)
        if not s.unit.mixed and not s.doing:
            self.go_on(s, max(s.unit.tokens, len(s.running)), prompts_only=False)

    def go_on(
        self, s: PlainScheduler, budget: int, *, prompts_only: bool, no_prompts: bool = False
    ) -> tuple[int, bool]:
        """Schedule those that run; the budget that is left, and whether others may be admitted."""
        unit, calm = s.unit, True
        decoding = sum(1 for r in s.running if r.tokens and r.computed >= r.prompt + len(r.tokens) - 1)
        share = -(-decoding // unit.prices.stages) if unit.prices.stages > 1 else len(s.running)
        for r in list(s.running):
            if budget <= 0:
                break
            if r not in s.running or r.left == 0:
                continue
            if r.decodes and (prompts_only or len(s.decodes) >= share):
                continue
            if no_prompts and not r.decodes:
                continue
            new = min(r.left, budget)
            extra = unit.holds(r.computed + new) - unit.holds(r.computed)
            while not s.make_room(extra):
                victim = s.running[-1]
                if prompts_only or victim.under_way:
                    return budget, False
                calm = False
                self.put_back(s, victim)
                if victim is r:
                    return budget, False
            s.given += extra
            budget -= new
            self.work(s, r, new)
        return budget, calm

    def put_back(self, s: PlainScheduler, r: PlainRequest) -> None:
        s.running.remove(r)
        s.leave(r, self.clock)
        r.behind = r.computed, s.given
        r.computed, r.shared = 0, 0
        r.preempted += 1
        s.waiting.insert(0, r)

    def admit(self, s: PlainScheduler, budget: int) -> None:
        unit = s.unit
        while s.waiting and budget > 0 and len(s.running) + len(s.coming) < unit.requests:
            r = s.waiting[0]
            if unit.reserve == "whole":
                here = [*s.running, *s.coming, *s.kept, r]
                promised = sum(unit.holds(o.prompt + math.floor(unit.promise * (o.output - 1))) for o in here)
                if promised > unit.size:
                    return
            cached = 0
            if r.source is None and r.group in s.ready and s.prefix(r.group) < r.prompt:
                cached = s.prefix(r.group)
            begun = cached if r.source is not None else max(cached, self.found_again(s, r))
            left = r.prompt if r.source is not None else r.prompt + len(r.tokens) - begun
            new = left if r.source is not None else min(left, budget)
            if new < left and not unit.chunked:
                if s.doing:
                    return
                new = left
            wanted = unit.holds(begun + (left if unit.reserve == "prompt" else new)) - unit.holds(cached)
            own = unit.holds(s.prefix(r.group)) if cached and not s.users(r.group) else 0
            if unit.size - s.used(idle=False) - own < wanted:
                return
            s.waiting.pop(0)
            s.given += unit.holds(begun + new) - unit.holds(cached)
            if r.source is not None:
                s.make_room(unit.holds(new))
                r.computed = r.prompt
                s.coming.append(r)
                source = r.source.unit
                time = source.link + sum(
                    price * (min(window, r.prompt) if window else r.prompt)
                    for window, price in source.link_per_token.items()
                )
                source.link_free = max(source.link_free, self.now) + time
                source.on_link.append((source.link_free, r, s))
                continue
            r.computed, r.shared = cached, cached
            s.running.append(r)
            if r.group >= 0 and not cached and r.group not in s.ready and s.prefix(r.group):
                s.owner.setdefault(r.group, r)
            s.make_room(unit.holds(begun + new) - unit.holds(cached))
            r.computed = begun
            r.begun = self.now if r.begun is None else r.begun
            budget -= new
            self.work(s, r, new)

    def found_again(self, s: PlainScheduler, r: PlainRequest) -> int:
        """Tokens that a request left here when it was put back, less the pages that were given out since."""
        unit, (tokens, given) = s.unit, r.behind
        if not unit.keeps or r.group >= 0:
            return 0
        lost = -(-(s.given - given) // max(1, unit.holds(unit.block)))
        pages = min(tokens // unit.block - lost, (r.prompt + len(r.tokens) - 1) // unit.block)
        return max(0, pages) * unit.block

    def work(self, s: PlainScheduler, r: PlainRequest, new: int) -> None:
        s.doing.append((r, new, r.computed, r.decodes))
        r.computed += new
        r.under_way += 1
        if r.group >= 0 and s.owner.get(r.group) is r and r.computed >= s.prefix(r.group):
            del s.owner[r.group]
            r.shared = s.prefix(r.group)
            s.ready[r.group] = 0

    def launch(self, number: int, unit: PlainUnit) -> None:
        prices, ranks = unit.prices, unit.schedulers
        bare = msgspec.structs.replace(prices, host_s=0.0, host_request_s=0.0)
        mixed = any(s.chunks for s in ranks)
        most = max(sum(new for _, new, _, _ in s.doing) for s in ranks)
        tokens = most * len(ranks)
        whole = sum(new for s in ranks for _, new, _, _ in s.doing)
        uneven = mixed and bool(prices.apart_s) and most > prices.padded_tokens
        at, spans = self.now, []
        for stage in range(prices.stages):
            own = []
            for s in ranks:
                prompts, decodes = s.chunks, s.decodes
                count = sum(new for new, _ in prompts) + len(decodes)
                dense = on_grid(prices.tokens, (prices.dense_mixed_s if prompts else prices.dense_s)[stage], count)
                fixed = prices.mixed_step_s[stage] if prompts else prices.step_s[stage]
                own.append(bare.step_time_s(stage, prompts, decodes) - dense - fixed)
            table = (prices.dense_mixed_s if mixed else prices.dense_s)[stage]
            fixed = prices.mixed_step_s[stage] if mixed else prices.step_s[stage]
            if stage:
                at += prices.hand_on_s + prices.hand_on_s_per_token * tokens
            start = max(at, unit.free_at[stage])
            count = sum(len(s.doing) for s in ranks)
            dense = on_grid(prices.tokens, table, tokens)
            if uneven:
                parts = on_grid(prices.tokens, prices.apart_s[stage], tokens)
                parts += on_grid(prices.tokens, prices.together_s[stage], whole)
                dense = max(on_grid(prices.tokens, table, whole), parts)
            time = dense + len(ranks) * max(own) + fixed
            at = start + max(time, prices.host_s + prices.host_request_s * count)
            unit.free_at[stage] = at
            spans.append((start, at))
        members = [(r, r.left == 0) for s in ranks for r, _, _, _ in s.doing]
        unit.steps.append((at, members))
        for s in ranks:
            assert s.used() <= unit.size
            s.peak = max(s.peak, s.used(idle=False))
        prompts = sum(new for s in ranks for new, _ in s.chunks)
        self.log.append((number, spans, prompts, sum(len(s.decodes) for s in ranks), sum(s.used() for s in ranks)))
