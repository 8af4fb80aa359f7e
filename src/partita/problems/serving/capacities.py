"""How many requests a unit takes at most: prices of its time that no way to schedule steps can beat.

Let a step of a unit have p tokens of prompts and d decodes. It takes at least f(p, d): what its tokens take but for
attention, which is linear in requests and counted with them. Between two tokens of a request lies at least the latency
l(p, d) of the step that makes the second. A request *keeps* the TPOT target t if those sum up to at most t for each
decode. So for all ν, μ >= 0 and

    ω = min over steps of (f(p, d) − ν p)/d,    κ = min over steps of (f(p, d) − ν p)/d + μ (l(p, d) − t)

with ν p <= f(p, 0), the time that a unit works is at least ν for every token of a prompt, κ for every decode of a
request that keeps the target, and ω for every other decode: the Lagrangian of the linear program over mixes of steps,
where ν is the price of prompts and μ that of latency. For every d, f and l are piecewise linear in p, so that the ends
of pieces decide; all d are looked at. Which ν and μ are good is searched for; that they are valid needs no search.

Queues, padding, computing anew, the cache but for how many requests fit at once, and the TTFT target but for forms that
miss it even alone are left out: they only cost more time. Decodes whose request was put back are as in
``partita.problems.serving.work``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.nouns.workload.workload import DrawnRequests
from partita.problems.serving.engine import bytes_of
from partita.problems.serving.problem import Role, ServingProblem, ServingUnit
from partita.problems.serving.work import attention_s, least_per_token, least_step, may_put_back

#: Relative room for rounding of all sums here.
_ROOM = 1e-9
#: Kinds of requests that are told apart; above, some are taken for the shortest of their kind.
_MOST_KINDS = 12
_BUCKETS = 4
#: Prices of latency that are tried first, and how often the best are looked at more closely.
_PRICES = np.concatenate([[0.0], np.geomspace(1e-5, 10.0, 13)])
_ROUNDS = 4


@dataclass(frozen=True)
class RequestKinds:
    """Requests by their lengths: those of a kind are at least so long."""

    #: (K,) Tokens, requests.
    prompt: Longs
    output: Longs
    count: Longs
    cached: int  #: Tokens of prompts that may be there already.

    @property
    def drawn(self) -> DrawnRequests:
        """One request of each kind."""
        none = np.full(len(self.prompt), -1, np.int64)
        return DrawnRequests(np.zeros(len(self.prompt)), self.prompt, self.output, none, 0)


def drawn_of(problem: ServingProblem) -> DrawnRequests:
    """The requests of a problem; where the rate is looked for, at one per second."""
    workload = problem.workload
    return (workload.at_rate(1.0) if problem.goal == "rate" else workload).drawn()


def kinds_of(problem: ServingProblem, drawn: DrawnRequests) -> RequestKinds:
    """The kinds of a problem's requests: all pairs of lengths if they are few, otherwise buckets of both lengths."""
    prompt, output = drawn.prompt_tokens, drawn.output_tokens
    pairs, own = np.unique(np.stack([prompt, output], 1), axis=0, return_inverse=True)
    own = own.reshape(-1)
    if len(pairs) > _MOST_KINDS:
        shares = np.linspace(0, 1, _BUCKETS + 1)[1:-1]
        columns = [np.searchsorted(np.quantile(one, shares), one, "left") for one in (prompt, output)]
        _, own = np.unique(columns[0] * _BUCKETS + columns[1], return_inverse=True)
        own = own.reshape(-1)
    numbers = range(int(own.max()) + 1)
    return RequestKinds(
        np.array([prompt[own == n].min() for n in numbers], np.int64),
        np.array([output[own == n].min() for n in numbers], np.int64),
        np.bincount(own).astype(np.int64),
        problem.workload.prefix_tokens,
    )


@dataclass(frozen=True)
class RequestPrices:
    """(K,) seconds of a unit's time that a request takes at least, if it keeps the TPOT target and if it need not."""

    keeping: Floats
    other: Floats


@dataclass(frozen=True)
class _Steps:
    """Steps that decide: tokens of prompts, decodes, seconds but for attention, seconds from end to end."""

    prompts: Floats
    decodes: Floats
    time: Floats
    latency: Floats

    def prices(self, prompt: Floats, latency: Floats, tpot_s: float | None) -> tuple[Floats, Floats]:
        """κ and ω for prices of prompts and of latency, of any shape alike."""
        others = (self.time - prompt[..., None] * self.prompts) / self.decodes
        if tpot_s is None:
            least: Floats = others.min(-1)
            return least, least
        return (others + latency[..., None] * (self.latency - tpot_s)).min(-1), others.min(-1)


class UnitCapacity:
    """What one unit of a form does at most, with a role."""

    def __init__(self, problem: ServingProblem, form: ServingUnit, drawn: DrawnRequests, kinds: RequestKinds) -> None:
        self.problem, self.form, self.kinds = problem, form, kinds
        prices, rules = form.prices, form.rules
        groups, stages = prices.attention_data, range(prices.stages)
        self._again = may_put_back(form, drawn)
        longest = int((drawn.prompt_tokens + drawn.output_tokens).max())
        self._most = groups * max(rules.tokens, rules.requests, 0 if rules.chunked else longest)
        # A request that decodes holds at least its prompt, but for what it shares.
        least = max(1, int(kinds.prompt.min()) - kinds.cached)
        seats = [rules.requests]
        for stage, budget in enumerate(prices.cache_budget_bytes):
            held = bytes_of(form, stage, least) if not kinds.cached and not any(prices.windows) else 0
            seats.append(int(budget // held) if held else rules.requests)
        self._seats = max(1, groups * min(seats))
        points = np.array(prices.tokens, np.float64)
        self._points = np.append(points[points < self._most], self._most)
        self._mixed = self._rising(prices.dense_mixed_s, prices.mixed_step_s)
        self._alone = self._rising(prices.dense_s, prices.step_s)
        shortest, reading = int(kinds.prompt.min()), np.zeros(prices.stages)
        for place, window in enumerate(prices.windows):
            keys = min(shortest + 1, window) if window else shortest + 1
            rate = [
                min(prices.decode_s[s][place], prices.prompt_s[s][place]) if self._again else prices.decode_s[s][place]
                for s in stages
            ]
            reading += np.array(rate) * keys
        self._request = np.zeros(prices.stages) if self._again else np.array(prices.request_s)
        self._reading = reading
        found = [attention_s(form, s, kinds.drawn, kinds.cached, again=self._again) for s in stages]
        # Requests of decodes are in the time of steps.
        steps = [0.0 if self._again else prices.request_s[s] * (kinds.output - 1) for s in stages]
        self._attention = np.mean([one - other for one, other in zip(found, steps, strict=True)], axis=0)
        none = kinds.drawn._replace(output_tokens=np.ones_like(kinds.output))
        asked = [attention_s(form, s, none, kinds.cached, again=self._again) for s in stages]
        self._prompt_attention = np.mean(asked, axis=0)
        self._stage_prompt = [
            np.maximum(least_step(form, s, most=self._most), least_per_token(form, s, most=self._most) * self._new)
            + one
            for s, one in zip(stages, asked, strict=True)
        ]

    def _rising(self, tables: tuple[tuple[float, ...], ...], fixed: tuple[float, ...]) -> Floats:
        """(S, points) Seconds of a step with at least so many tokens."""
        points = np.array(self.form.prices.tokens, np.float64)
        found = []
        for table, more in zip(tables, fixed, strict=True):
            values = np.interp(self._points, points, np.array(table))
            if len(points) > 1:
                slope = (table[-1] - table[-2]) / (points[-1] - points[-2])
                values += slope * np.maximum(0.0, self._points - points[-1])
            found.append(np.minimum.accumulate(values[::-1])[::-1] + more)
        return np.array(found)

    @property
    def _new(self) -> Longs:
        """(K,) Tokens of prompts that are to be computed."""
        new: Longs = np.maximum(0, self.kinds.prompt - self.kinds.cached)
        return new

    @cached_property
    def late(self) -> bool:
        """Whether no request keeps the TTFT target here, even alone."""
        limit, prices = self.problem.targets.ttft_s, self.form.prices
        first = np.max(self._stage_prompt, axis=0) + prices.arrival_s
        return limit is not None and bool((first * (1 - _ROOM) > limit).all())

    @cached_property
    def least_gap_s(self) -> float:
        """Seconds between two tokens of a request at least: of a step that makes a token for it alone."""
        return float(self._steps(np.ones(1)).latency.min()) * (1 - _ROOM)

    @cached_property
    def _prompt_price(self) -> float:
        """The most that a token of a prompt may cost."""
        return max(0.0, float((self._mixed.mean(0) / self._points).min()))

    def _steps(self, decodes: Floats) -> _Steps:
        prices = self.form.prices
        d = np.repeat(decodes, len(self._points) + 2)
        ends = np.concatenate([np.stack([[one, one, *np.maximum(self._points, one)] for one in decodes]).reshape(-1)])
        time, latency = np.zeros(len(d)), np.full(len(d), (prices.stages - 1) * prices.hand_on_s)
        alone = np.tile(np.arange(len(self._points) + 2) == 0, len(decodes))
        for stage in range(prices.stages):
            own = np.where(
                alone,
                np.interp(ends, self._points, self._alone[stage]),
                np.interp(ends, self._points, self._mixed[stage]),
            )
            own += self._request[stage] * d
            time += own / prices.stages
            latency += own + self._reading[stage] * d
        return _Steps(ends - d, d, time, latency)

    @cached_property
    def _few(self) -> _Steps:
        return self._steps(np.unique(np.rint(np.geomspace(1, self._seats, 24))))

    @cached_property
    def _all(self) -> _Steps:
        return self._steps(np.arange(1.0, min(self._seats, self._most) + 1))

    def prices(self, role: Role) -> list[RequestPrices]:
        """Prices of requests, each valid by itself; of units for prompts there is no TPOT target to keep."""
        if role == "prefill":
            only = (self._prompt_price * self._new + self._prompt_attention) * (1 - _ROOM)
            return [RequestPrices(only, only)]
        tpot, share = self.problem.targets.tpot_s, self.problem.targets.percentile
        weights = self.kinds.count / self.kinds.count.sum()
        prompt = 0.0 if role == "decode" else float((weights * self._new).sum())
        decodes = float((weights * (self.kinds.output - 1)).sum())
        found = []
        for kept in (0.0,) if tpot is None else (share, 1.0, 0.0):
            found.append(self._priced(role, *self._best(role, kept, prompt, decodes)))
        return found

    def _best(self, role: Role, kept: float, prompt: float, decodes: float) -> tuple[float, float]:
        """Prices of prompts and of latency that are good where a share of requests keeps the target."""
        tpot = self.problem.targets.tpot_s
        asks = np.linspace(0.0, self._prompt_price, 11) if role == "both" else np.zeros(1)
        delays = _PRICES if kept and tpot is not None else np.zeros(1)
        best = (0.0, 0.0)
        for _ in range(_ROUNDS):
            x, y = (one.reshape(-1) for one in np.meshgrid(asks, delays, indexing="ij"))
            keeping, others = self._few.prices(x, y, tpot)
            at = int(np.argmax(x * prompt + (kept * keeping + (1 - kept) * others) * decodes))
            best = (float(x[at]), float(y[at]))
            asks, delays = _around(asks, best[0]), _around(delays, best[1])
        return best

    def _priced(self, role: Role, ask: float, delay: float) -> RequestPrices:
        keeping, others = self._all.prices(np.array(ask), np.array(delay), self.problem.targets.tpot_s)
        attention = self._attention - (self._prompt_attention if role == "decode" else 0.0)
        fixed = attention + (0.0 if role == "decode" else ask * self._new)
        decodes = self.kinds.output - 1
        return RequestPrices(*(np.maximum(0.0, (fixed + one * decodes) * (1 - _ROOM)) for one in (keeping, others)))


def _around(values: Floats, at: float) -> Floats:
    """Values between the neighbours of one."""
    place = int(np.argmin(np.abs(values - at)))
    low, high = values[max(0, place - 1)], values[min(len(values) - 1, place + 1)]
    return np.unique(np.append(np.linspace(low, high, 9), at))
