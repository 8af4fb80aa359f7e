"""How many requests a unit takes at most: prices of its time that no way to schedule steps can beat.

Let a step of a unit have p tokens of prompts and d decodes whose contexts sum up to A tokens. It takes at least
f(p, d): what its tokens take but for attention, which is linear in requests and counted with them. Between two tokens
of a request lies at least the latency l(p, d, A) of the step that makes the second. A request *keeps* the TPOT target t
if those sum up to at most t for each decode. The contexts of all decodes that are under way fit the cache of C tokens:
in one step A <= C, and over all steps the sum of l · A is at most C times the duration, as steps of a pipeline that are
under way together share it. So for all ν, μ, α, θ >= 0 with ν p <= f(p, 0) and

    ω = min over steps of (f(p, d) − ν p − α A + θ l A / C)/d,
    κ = min over steps of (f(p, d) − ν p − α A + θ l A / C)/d + μ (l(p, d, A) − t)

the time that a unit works, which is that of its busiest stage, is, but for a factor 1 + θ, at least ν for every token
of a prompt, α for every token of a context of a decode, κ for every decode of a request that keeps the target, and ω
for every other decode: the Lagrangian of the linear program over mixes of steps. For every d, f and l are piecewise
linear in p and linear in A (of l · A the lower line is taken), so that the ends of pieces decide; all d are looked at.
Which prices are good is searched for; that they are valid needs no search.

A decode may also be made by computing a request anew after it was put back: what is computed then is at the price of
prompts, with their attention. Where that is cheaper than the decode, what it saves is taken off all prices.

Queues, padding, the cache of prompts that are computed, and the TTFT target but for forms that miss it even alone are
left out: they only cost more time. Windows and shared prefixes make caches smaller than contexts: there, α and θ are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.nouns.workload.workload import DrawnRequests
from partita.problems.serving.engine import bytes_of
from partita.problems.serving.mixes import NEVER, ROOM, Anew, DecidingSteps, StepMultipliers
from partita.problems.serving.problem import Role, ServingProblem, ServingUnit
from partita.problems.serving.work import (
    attention_s,
    least_alone,
    least_per_own_token,
    least_step,
    may_put_back,
    pairs_of,
)

#: Kinds of requests that are told apart; above, some are taken for the shortest of their kind.
_MOST_KINDS = 12
_BUCKETS = 4
#: Prices that are tried first, of latency and of the cache's time; and how often the best are looked at more closely.
_LATENCY = np.concatenate([[0.0], np.geomspace(1e-5, 10.0, 13)])
_CACHE = np.concatenate([[0.0], np.geomspace(1e-2, 10.0, 7)])
_ROUNDS = 4
#: Of the price of prompts, where only what is computed anew has one.
_ASKED = np.append(0.0, np.geomspace(0.01, 1.0, 8))


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


class UnitCapacity:
    """What one unit of a form does at most, with a role."""

    def __init__(self, problem: ServingProblem, form: ServingUnit, drawn: DrawnRequests, kinds: RequestKinds) -> None:
        self.problem, self.form, self.kinds = problem, form, kinds
        prices, rules = form.prices, form.rules
        groups, stages = prices.attention_data, range(prices.stages)
        longest = int((drawn.prompt_tokens + drawn.output_tokens).max())
        shortest = int(kinds.prompt.min())
        self._most = groups * max(rules.tokens, rules.requests, 0 if rules.chunked else longest)
        self._contexts = shortest + 1, longest
        #: Whether the cache of a request is a number of bytes for every token of it.
        self._plain = not kinds.cached and not any(prices.windows)
        # A request that decodes holds at least its prompt, but for what it shares.
        seats = [float(rules.requests)]
        self._cache = math.inf
        for stage, budget in enumerate(prices.cache_budget_bytes):
            token = bytes_of(form, stage, rules.block_tokens) / rules.block_tokens
            if self._plain and token:
                seats.append(budget // bytes_of(form, stage, max(1, shortest)))
                self._cache = min(self._cache, groups * budget / token)
        self._seats = max(1, groups * int(min(seats)))
        points = np.array(prices.tokens, np.float64)
        self._points = np.append(points[points < self._most], self._most)
        self._mixed = self._rising(prices.dense_mixed_s, prices.mixed_step_s)
        self._alone = self._rising(prices.dense_s, prices.step_s)
        back = may_put_back(form, drawn)
        # Where windows or prefixes make computing anew another thing, decodes take the lower of both prices.
        self._again = back and not self._plain
        reading = np.zeros(prices.stages)
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
        attention = [one - other for one, other in zip(found, steps, strict=True)]
        none = kinds.drawn._replace(output_tokens=np.ones_like(kinds.output))
        asked = [attention_s(form, s, none, kinds.cached, again=self._again) for s in stages]
        # What a unit works is what its busiest stage does.
        self._busiest = self._most_worked(asked, attention)
        self._attention, self._prompt_attention = attention[self._busiest], asked[self._busiest]
        self._anew = self._computed_anew() if back and self._plain else NEVER
        #: (S,) Seconds of a step, however small.
        self._least_step = np.array([least_step(form, s, most=self._most) for s in stages])
        # Groups that step together take as long as each of them with as many tokens would.
        self._stage_prompt = [
            np.maximum(self._least_step[s], least_per_own_token(form, s, most=self._most) * self._new) + groups * one
            for s, one in zip(stages, asked, strict=True)
        ]

    def _most_worked(self, asked: Sequence[Floats], attention: Sequence[Floats]) -> int:
        """The stage that works most for a request of each kind, by full steps; bounds are valid for whichever."""
        full = self._mixed[:, -1] / self._points[-1], self._alone[:, -1] / self._points[-1]
        work = [
            float((prompt * self._new + decode * self.kinds.output + one + other) @ self.kinds.count)
            for prompt, decode, one, other in zip(*full, asked, attention, strict=True)
        ]
        return int(np.argmax(work))

    def _computed_anew(self) -> Anew:
        """By contexts from the shortest to the longest; of the busiest stage, sums of what latencies lack."""
        prices, stages = self.form.prices, range(self.form.prices.stages)
        contexts = np.arange(self._contexts[0], self._contexts[1] + 1)
        several = self.form.rules.block_tokens + 1, 2
        pairs, shorter = [], 0.0
        for s in stages:
            shorter += float(np.max(sum(prices.decode_s[s]) * contexts + prices.request_s[s]))
        for least in several:
            # The last token alone would be a decode.
            tokens = np.minimum(np.maximum(2, least), contexts) if self.form.rules.keeps else contexts
            own = self._busiest
            more: Floats = float(sum(prices.prompt_s[own])) * pairs_of(tokens, contexts - tokens, 0).astype(np.float64)
            more -= sum(prices.decode_s[own]) * contexts + prices.request_s[own]
            pairs.append((tokens.astype(np.float64), more))
        return Anew(pairs[0], pairs[1], shorter)

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
    def first_token_s(self) -> Floats:
        """(K,) Seconds from the arrival of a request to its first token at least, even alone.

        A stage does all of its prompt between its first chunk, which is all of it or fills its step, and which passes
        the stages before, and its last one, which passes the stages behind.
        """
        prices, rules = self.form.prices, self.form.rules
        first = np.minimum(self._new, rules.tokens) if rules.chunked else self._new
        chunk = np.array([least_alone(self.form, s, first) + prices.mixed_step_s[s] for s in range(prices.stages)])
        passed = np.cumsum(np.where(first > 0, chunk, 0.0), axis=0)
        before = np.vstack([np.zeros_like(passed[:1]), passed[:-1]])
        behind = np.append(np.cumsum(self._least_step[::-1])[::-1][1:], 0.0)
        found = np.maximum(before + self._stage_prompt + behind[:, None], passed[-1]).max(0)
        least: Floats = found + prices.arrival_s + (prices.stages - 1) * prices.hand_on_s
        return least

    @property
    def late(self) -> bool:
        """Whether no request keeps the TTFT target here, even alone."""
        limit = self.problem.targets.ttft_s
        return limit is not None and bool((self.first_token_s * (1 - ROOM) > limit).all())

    @cached_property
    def least_gap_s(self) -> float:
        """Seconds between two tokens of a request at least: of a step that makes a token for it alone."""
        steps = self._steps(np.ones(1))
        found = steps.latency + steps.reading * steps.least - self._anew.shorter_s
        return max(0.0, float(found.min())) * (1 - ROOM)

    @cached_property
    def _prompt_price(self) -> float:
        """The most that a token of a prompt may cost."""
        return max(0.0, float((self._mixed[self._busiest] / self._points).min()))

    def _steps(self, decodes: Floats) -> DecidingSteps:
        prices = self.form.prices
        # Decodes alone, as many in a step with a prompt, and every larger number of tokens where a piece ends.
        rows, places = np.nonzero(self._points > decodes[:, None])
        d = np.concatenate([decodes, decodes, decodes[rows]])
        ends = np.concatenate([decodes, decodes, self._points[places]])
        time, latency = np.zeros(len(d)), np.full(len(d), (prices.stages - 1) * prices.hand_on_s)
        alone = np.arange(len(d)) < len(decodes)
        for stage in range(prices.stages):
            own = np.where(
                alone,
                np.interp(ends, self._points, self._alone[stage]),
                np.interp(ends, self._points, self._mixed[stage]),
            )
            own += self._request[stage] * d
            if stage == self._busiest:
                time += own
            latency += own + (0.0 if self._plain else self._reading[stage]) * d
        reading = float(sum(sum(row) for row in prices.decode_s)) if self._plain else 0.0
        least = self._contexts[0] * d
        most = np.maximum(least, np.minimum(self._cache, self._contexts[1] * d))
        rare = np.minimum(1.0, prices.attention_data * (prices.stages + 1) / d)
        return DecidingSteps(ends - d, d, time, latency, least, most, reading, rare)

    @cached_property
    def _few(self) -> DecidingSteps:
        some = np.append(np.geomspace(1, self._seats, 7), np.linspace(self._seats / 2, self._seats, 7))
        return self._steps(np.unique(np.maximum(1.0, np.rint(some))))

    @cached_property
    def _all(self) -> DecidingSteps:
        return self._steps(np.arange(1.0, min(self._seats, self._most) + 1))

    @property
    def _budgeted(self) -> bool:
        """Whether contexts have a price."""
        return self._plain and math.isfinite(self._cache)

    def prices(self, role: Role, known: dict[tuple[Role, float, int], StepMultipliers]) -> list[RequestPrices]:
        """Prices of requests, each valid by itself; of units for prompts there is no TPOT target to keep.

        What is good for one form is mostly good for others on the same layout: ``known`` has what was found.
        """
        if role == "prefill":
            only = (self._prompt_price * self._new + self._prompt_attention) * (1 - ROOM)
            return [RequestPrices(only, only)]
        tpot, share = self.problem.targets.tpot_s, self.problem.targets.percentile
        found = []
        for kept in (0.0,) if tpot is None else (share, 0.0):
            key = role, kept, self._seats
            if key not in known:
                known[key] = self._best(role, kept)
            found.append(self._priced(role, known[key]))
        return found

    def _best(self, role: Role, kept: float) -> StepMultipliers:
        """Prices that are good where a share of requests keeps the target: one after the other, finer each time."""
        tpot = self.problem.targets.tpot_s
        axes = {
            "prompt": self._prompt_price * self._asked(role),
            "latency": _LATENCY if kept and tpot is not None else np.zeros(1),
            "context": np.zeros(1),
            "cache": np.zeros(1),
        }
        if self._budgeted:
            step = float(self._few.time[self._few.prompts == 0].max())
            axes["context"] = np.append(0.0, np.geomspace(1e-2, 2.0, 8)) * step / self._cache
            axes["cache"] = _CACHE if self.form.prices.stages > 1 else np.zeros(1)
        best = dict.fromkeys(axes, 0.0)
        for _ in range(_ROUNDS):
            for pair in (("prompt", "latency"), ("latency", "context"), ("context", "cache"), ("prompt", "context")):
                if all(len(axes[name]) == 1 for name in pair):
                    continue
                x, y = (one.reshape(-1) for one in np.meshgrid(*(axes[name] for name in pair), indexing="ij"))
                tried = {name: np.full(len(x), value) for name, value in best.items()} | dict(
                    zip(pair, (x, y), strict=True)
                )
                at = int(np.argmax(self._worth(role, kept, StepMultipliers(**tried))))
                best |= {name: float(one[at]) for name, one in zip(pair, (x, y), strict=True)}
            axes = {name: _around(values, best[name]) for name, values in axes.items()}
        return StepMultipliers(**{name: np.array(value) for name, value in best.items()})

    def _asked(self, role: Role) -> Floats:
        """Parts of the most that prompts may cost; where only what is computed anew has a price, small ones, too."""
        if role == "both":
            return np.linspace(0.0, 1.0, 11)
        return _ASKED if self._anew is not NEVER else np.zeros(1)

    def _worth(self, role: Role, kept: float, at: StepMultipliers) -> Floats:
        """Seconds of a mean request at prices, by the few steps."""
        weights = self.kinds.count / self.kinds.count.sum()
        keeping, others = self._few.prices(at, self._anew, self.problem.targets.tpot_s, self._cache)
        decodes = float((weights * (self.kinds.output - 1)).sum())
        prompts = 0.0 if role == "decode" else float((weights * self._new).sum())
        found = at.prompt * prompts + at.context * float((weights * self._held(self.kinds.output - 1)).sum())
        worth: Floats = (found + (kept * keeping + (1 - kept) * others) * decodes) / (1 + at.cache)
        return worth

    def _held(self, decodes: Floats | Longs) -> Floats:
        """(K,) Contexts of so many decodes of a request together."""
        found: Floats = decodes * self.kinds.prompt + decodes * (decodes + 1) / 2
        return found

    def _priced(self, role: Role, at: StepMultipliers) -> RequestPrices:
        at = replace(at, prompt=np.minimum(at.prompt, self._prompt_price))
        fixed = self._attention - (self._prompt_attention if role == "decode" else 0.0)
        if role != "decode":
            fixed = fixed + at.prompt * self._new
        found, worth, once = [], float(at.context), 0.0
        if role == "decode":
            # One of its decodes may be computed anew because its cache came.
            once = float(self._anew.saves(at, self._anew.least(at, self._anew.rare), at.latency * self._seats))
        for one in self._all.prices(at, self._anew, self.problem.targets.tpot_s, self._cache):
            # Requests of a kind may be longer; where that would make them cheaper, so long as makes them cheapest.
            count: Floats = (self.kinds.output - 1).astype(np.float64)
            if worth:
                count = np.maximum(count, -float(one) / worth - self.kinds.prompt - 0.5)
            decodes = worth * self._held(count) + float(one) * count
            found.append(np.maximum(0.0, (fixed + decodes - once) * (1 - ROOM) / (1 + float(at.cache))))
        return RequestPrices(*found)


def _around(values: Floats, at: float) -> Floats:
    """Values between the neighbours of one."""
    place = int(np.argmin(np.abs(values - at)))
    low, high = values[max(0, place - 1)], values[min(len(values) - 1, place + 1)]
    return np.unique(np.append(np.linspace(low, high, 9), at))
