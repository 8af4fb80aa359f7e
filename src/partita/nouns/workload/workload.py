"""Requests to a model that is served: how long they are, and when they come.

In a *closed loop* so many requests are in flight at any time: one that is finished is followed at once by the next. In
an *open loop* requests arrive by themselves: as a Poisson process of some rate, or at the times of a trace, which may
be scaled to a rate.

Source of the two loops: Schroeder, Wierman and Harchol-Balter, "Open versus closed: a cautionary tale" (NSDI 2006).
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from partita.ground.checks import check_at_least, check_positive
from partita.ground.errors import InputError

#: Requests of a closed loop, by those in flight, and of a Poisson process, unless stated.
PER_SEAT, OPEN_REQUESTS = 10, 1000
#: The longest request, in tokens.
_MOST = 2**31 - 1

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class LengthShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bar of a histogram of lengths; shares need not sum to 1."""

    prompt_tokens: int
    output_tokens: int
    share: float


class RequestTrace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Recorded requests in order of arrival, one entry each."""

    arrival_s: tuple[float, ...]
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]

    @property
    def rate_per_s(self) -> float:
        """Requests per second, from the first to the last; 0 where all come at once."""
        length = self.arrival_s[-1] - self.arrival_s[0]
        return (len(self.arrival_s) - 1) / length if length > 0 else 0.0


class DrawnRequests(NamedTuple):
    """Requests one by one, in order of arrival."""

    arrival_s: Floats  #: (M,) 0 in a closed loop, where the run says it.
    #: (M,) Tokens; the group whose prefix a prompt begins with, −1 for none.
    prompt_tokens: Longs
    output_tokens: Longs
    group: Longs
    in_flight: int  #: Of a closed loop; 0 for an open one.


class RequestWorkload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests by their lengths (all alike, a histogram, or a trace) and by when they come.

    Without a concurrency, a rate or a trace it is open when they come: ``at_rate`` says it.

    Raises
    ------
    InputError
        If lengths are given in no way or in two, one is not positive, a trace's times fall, or a prefix leaves nothing
        of a prompt.
    """

    #: Lengths of all requests; None where a histogram or a trace says them.
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    histogram: tuple[LengthShare, ...] = ()  #: Lengths are drawn from it.
    trace: RequestTrace | None = None
    concurrency: int | None = None  #: Requests in flight in a closed loop; None for an open one.
    #: Of an open loop, per second: of a Poisson process, or what the times of a trace are scaled to.
    rate_per_s: float | None = None
    #: How many; by default those of the trace, in a closed loop 10 for each in flight, of a Poisson process 1,000.
    requests: int | None = None
    #: By which share outputs differ that are all of one length, uniformly to both sides: requests that begin together
    #: would otherwise stay together for ever.
    spread: float = 0.0
    #: Tokens that the prompts of a group begin with alike, and groups that requests are drawn from.
    prefix_tokens: int = 0
    prefix_groups: int = 1
    seed: int = 0  #: Of what is drawn.

    def __post_init__(self) -> None:
        ways = [
            self.prompt_tokens is not None or self.output_tokens is not None,
            bool(self.histogram),
            bool(self.trace),
        ]
        if sum(ways) != 1:
            raise InputError(
                "a workload has lengths of requests in exactly one way: prompt and output tokens, a histogram, or a "
                f"trace; it has {sum(ways)}"
            )
        for name in ("prompt_tokens", "output_tokens", "concurrency", "requests"):
            if getattr(self, name) is not None:
                check_at_least(f"workload: {name}", getattr(self, name))
        if ways[0] and (self.prompt_tokens is None or self.output_tokens is None):
            missing = "prompt_tokens" if self.prompt_tokens is None else "output_tokens"
            raise InputError(f"workload: {missing} is missing; give the tokens of prompts and of outputs")
        if self.rate_per_s is not None:
            check_positive("workload", "rate_per_s", self.rate_per_s)
        if self.concurrency is not None and self.rate_per_s is not None:
            raise InputError("a workload is a closed loop (concurrency) or an open one (rate); leave one out")
        check_at_least("workload: seed", self.seed, 0)
        if not 0 <= self.spread < 1 or (self.spread and not ways[0]):
            raise InputError(
                f"workload: spread is {self.spread}; it is a share from 0 to below 1, of outputs that are all of one "
                "length"
            )
        self._check_lengths()
        self._check_prefix()

    def _check_lengths(self) -> None:
        for number, bar in enumerate(self.histogram):
            where = f"workload: bar {number} of the histogram"
            check_at_least(f"{where}: prompt_tokens", bar.prompt_tokens)
            check_at_least(f"{where}: output_tokens", bar.output_tokens)
            check_positive(where, "share", bar.share)
        trace = self.trace
        if trace is None:
            return
        counts = {len(trace.arrival_s), len(trace.prompt_tokens), len(trace.output_tokens)}
        if len(counts) > 1:
            raise InputError("workload: the trace's arrivals, prompts and outputs are not equally many")
        if counts == {0}:
            raise InputError("workload: the trace has no requests; give at least one")
        for number, sizes in enumerate(zip(trace.prompt_tokens, trace.output_tokens, strict=True)):
            if not (0 < sizes[0] <= _MOST and 0 < sizes[1] <= _MOST):
                what = "prompt_tokens" if not 0 < sizes[0] <= _MOST else "output_tokens"
                value = sizes[what == "output_tokens"]
                raise InputError(f"workload: request {number} of the trace: {what} is {value}; it must be at least 1")
        for number, (before, after) in enumerate(itertools.pairwise((0.0, *trace.arrival_s))):
            if not before <= after < float("inf"):
                raise InputError(
                    f"workload: request {number} of the trace arrives at {after} s, the one before it at {before} s; "
                    "times are finite, not negative, and never fall"
                )
        if self.rate_per_s is not None and trace.rate_per_s == 0:
            raise InputError("workload: the requests of the trace come all at once; they cannot be scaled to a rate")

    def _check_prefix(self) -> None:
        check_at_least("workload: prefix_tokens", self.prefix_tokens, 0)
        check_at_least("workload: prefix_groups", self.prefix_groups)
        shortest = min(prompt for prompt, _ in self.lengths())
        if self.prefix_tokens > shortest:
            raise InputError(
                f"workload: prefix_tokens is {self.prefix_tokens}, and the shortest prompt has {shortest} tokens"
            )

    def lengths(self) -> list[tuple[int, int]]:
        """All pairs of prompt and output tokens that requests may have, as they are mentioned; of a spread its ends."""
        if self.trace is not None:
            return list(dict.fromkeys(zip(self.trace.prompt_tokens, self.trace.output_tokens, strict=True)))
        if self.histogram:
            return list(dict.fromkeys((bar.prompt_tokens, bar.output_tokens) for bar in self.histogram))
        sides = (-self.spread, self.spread)
        return list(dict.fromkeys((a, max(1, round(o * (1 + side)))) for a, o in self.fixed for side in sides))

    @property
    def fixed(self) -> list[tuple[int, int]]:
        """The one pair of lengths; none where a histogram or a trace says them."""
        if self.prompt_tokens is None or self.output_tokens is None:
            return []
        return [(self.prompt_tokens, self.output_tokens)]

    @property
    def count(self) -> int:
        """How many requests there are."""
        if self.requests is not None:
            return self.requests
        if self.concurrency is not None:
            return PER_SEAT * self.concurrency
        return OPEN_REQUESTS if self.trace is None else len(self.trace.arrival_s)

    @property
    def loaded(self) -> bool:
        """Whether it is said when requests come."""
        return self.concurrency is not None or self.rate_per_s is not None or self.trace is not None

    def at_rate(self, rate_per_s: float) -> RequestWorkload:
        """The same requests, in the same order, in an open loop of a rate."""
        return msgspec.structs.replace(self, concurrency=None, rate_per_s=rate_per_s, requests=self.count)

    def shortened(self, most: int) -> RequestWorkload:
        """The same with so many requests at most; a trace as it is, whose parts differ."""
        short = self.trace is not None or self.count <= most
        return self if short else msgspec.structs.replace(self, requests=most)

    def drawn(self) -> DrawnRequests:
        """The requests one by one; a trace that is too short starts again from its beginning.

        Raises ``InputError`` if it is open when they come.
        """
        if not self.loaded:
            raise InputError("a workload needs to say when requests come: give a concurrency, or a rate")
        count, draws = self.count, np.random.default_rng(self.seed)
        if self.trace is not None:
            places = np.arange(count) % len(self.trace.arrival_s)
            prompt = np.array(self.trace.prompt_tokens, np.int64)[places]
            output = np.array(self.trace.output_tokens, np.int64)[places]
        else:
            bars = self.histogram or [LengthShare(prompt_tokens=a, output_tokens=o, share=1.0) for a, o in self.fixed]
            pairs = np.array([(bar.prompt_tokens, bar.output_tokens) for bar in bars], np.int64)
            shares = np.array([bar.share for bar in bars])
            places = draws.choice(len(pairs), count, p=shares / shares.sum())
            prompt, output = pairs[places].T.copy()
            if self.spread:
                output = np.maximum(1, np.rint(output * draws.uniform(1 - self.spread, 1 + self.spread, count))).astype(
                    np.int64
                )
        if self.concurrency is not None:
            arrival = np.zeros(count)
        elif self.trace is not None:
            arrival = self._trace_times(count)
        else:
            assert self.rate_per_s is not None
            arrival = np.cumsum(draws.exponential(1.0 / self.rate_per_s, count))
        group = np.full(count, -1, np.int64)
        if self.prefix_tokens:
            group = draws.integers(self.prefix_groups, size=count)
        return DrawnRequests(arrival, prompt, output, group, self.concurrency or 0)

    def _trace_times(self, count: int) -> Floats:
        """Arrivals of the trace, from 0, scaled; where it starts again, at its mean rate."""
        trace = self.trace
        assert trace is not None
        times = np.array(trace.arrival_s) - trace.arrival_s[0]
        if count > len(times):
            if trace.rate_per_s == 0:
                raise InputError(
                    f"workload: the trace has {len(times)} requests, all at once; {count} cannot be made of it"
                )
            period = times[-1] + 1.0 / trace.rate_per_s
            rounds = -(-count // len(times))
            times = np.concatenate([times + number * period for number in range(rounds)])
        if self.rate_per_s is not None:
            times = times * (trace.rate_per_s / self.rate_per_s)
        return times[:count]
