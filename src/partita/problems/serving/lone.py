"""What one unit does by rules of thumb, without queues: how planners by hand estimate it.

All requests have the mean lengths. A unit that decodes b requests, with contexts of their mean length, takes step(b)
for a token of each; a prompt takes p. Doing both, it takes r = 1/(p + O · step(b)/b) requests of O output tokens per
second, and each then waits b/(O · r) = step(b) + b · p/O for a token, by Little's law.

Source: NVIDIA, *aiconfigurator* (documentation of its static, aggregated and disaggregated modes), whose estimates are
of this form; it takes 0.9 and 0.92 of the rates of units for prompts and for decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from partita.costs.serving.prices import on_grid
from partita.nouns.workload.workload import DrawnRequests
from partita.problems.serving.problem import ServingTargets, ServingUnit


@dataclass(frozen=True)
class Lengths:
    """Mean tokens of requests."""

    prompt: int
    output: int

    @classmethod
    def of(cls, drawn: DrawnRequests) -> Lengths:
        """Those of drawn requests."""
        return cls(max(1, round(float(drawn.prompt_tokens.mean()))), max(1, round(float(drawn.output_tokens.mean()))))

    @property
    def held(self) -> int:
        """Tokens that a request that decodes holds on average."""
        return self.prompt + (self.output + 1) // 2


@dataclass(frozen=True)
class Lone:
    """A form by itself: seconds, and requests per second."""

    form: ServingUnit
    lengths: Lengths

    @property
    def apart(self) -> int:
        """Groups of the unit that share no step."""
        return self.form.layout.attention_data if self.form.prices.attention_data == 1 else 1

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Tokens of each chunk of a prompt, and tokens before it."""
        budget, prompt = self.form.rules.tokens, self.lengths.prompt
        return [(min(budget, prompt - start), start) for start in range(0, prompt, budget)]

    def prompt_s(self) -> tuple[float, float]:
        """The busiest stage's time for a prompt, and the time from its start to its first token.

        Groups that step together do a prompt each.
        """
        prices, chunks = self.form.prices, self.chunks
        together = prices.attention_data
        stages = [[prices.step_time_s(s, [chunk] * together, []) for chunk in chunks] for s in range(prices.stages)]
        busiest = max(sum(one) for one in stages)
        handed = (prices.stages - 1) * (prices.hand_on_s + prices.hand_on_s_per_token * chunks[0][0])
        return busiest / together, busiest + sum(one[0] for one in stages) - max(one[0] for one in stages) + handed

    def prompt_alone_s(self) -> float:
        """The busiest stage's time for a prompt while the other groups that step with its own have none."""
        return max(
            sum(self._chunk_alone_s(stage, *chunk) for chunk in self.chunks) for stage in range(self.form.prices.stages)
        )

    def _chunk_alone_s(self, stage: int, count: int, before: int) -> float:
        """A stage's time for a chunk of one group alone."""
        prices = self.form.prices
        together = prices.attention_data
        time = prices.step_time_s(stage, [(count, before)] * together, [])
        if not prices.uneven or count <= prices.padded_tokens:
            return time
        even = on_grid(prices.tokens, prices.dense_mixed_s[stage], count * together)
        return time - even + prices.uneven_s(stage, count, count)

    def step_s(self, batch: int) -> float:
        """Time between two tokens of each of so many requests that decode; a pipeline has a share at every stage."""
        prices, held = self.form.prices, self.lengths.held
        each = -(-batch // prices.stages)
        slowest = max(prices.step_time_s(stage, [], [held] * each) for stage in range(prices.stages))
        handed = (prices.hand_on_s + prices.hand_on_s_per_token * each) if prices.stages > 1 else 0.0
        return prices.stages * (slowest + handed)

    @property
    def room(self) -> int:
        """Requests that run at once at most: of seats, and of the cache."""
        prices, rules = self.form.prices, self.form.rules
        whole = self.lengths.held
        return min(rules.requests * prices.attention_data, prices.cache_tokens(whole) // whole)

    def decode_rate(self, tpot_s: float | None) -> float:
        """Requests per second that it decodes, each token within a limit; 0 where none is."""
        batch = self._most(lambda b: tpot_s is None or self.step_s(b) <= tpot_s)
        return self.apart * batch / (self.step_s(batch) * self.lengths.output) if batch else 0.0

    def prompt_rate(self, ttft_s: float | None) -> float:
        """Prompts per second that it computes; 0 where a prompt alone takes longer than a limit."""
        busy, latency = self.prompt_s()
        if ttft_s is not None and latency + self.form.prices.arrival_s > ttft_s:
            return 0.0
        return self.apart / busy

    def waiting_rate(self, ttft_s: float | None) -> float:
        """The same where prompts wait for each other: so busy that they wait, on average, as long as a limit leaves.

        Of one server with constant times that is a share ρ of the time with a wait of ρ/(2 − 2ρ) times.
        """
        busy, latency = self.prompt_s()
        if ttft_s is None:
            return self.apart / busy
        # Most wait longer than on average, and several units wait less than one.
        slack = max(0.0, ttft_s - latency - self.form.prices.arrival_s)
        return self.apart / busy * slack / (slack + busy / 2)

    def rate(self, targets: ServingTargets) -> float:
        """Requests per second that it takes, doing both; 0 where it cannot keep the targets even so."""
        if not self.prompt_rate(targets.ttft_s):
            return 0.0
        prompt, output = self.prompt_s()[0], self.lengths.output

        def kept(batch: int) -> bool:
            return targets.tpot_s is None or self.step_s(batch) + batch * prompt / output <= targets.tpot_s

        batch = self._most(kept)
        return self.apart / (prompt + output * self.step_s(batch) / batch) if batch else 0.0

    def _most(self, kept: Callable[[int], bool]) -> int:
        """The most requests at once that keep something which fewer keep, too; 0 for none."""
        low, high = 0, self.room
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if kept(middle) else (low, middle - 1)
        return low
