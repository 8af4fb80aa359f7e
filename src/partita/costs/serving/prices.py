"""StepPrices: what a step of one serving unit takes, as plain numbers that a compiled engine looks up.

A unit is a group of devices of one kind that serves a model together. It works in steps; a step decodes one token of
each running request and takes in chunks of prompts. What a step takes is a sum of three kinds of terms, for every
stage of the unit's pipeline:

- what looks at the step's tokens only: products, experts, norms, collectives, by the number n of tokens (prompt
tokens and
  decodes together) as a line between grid points;
- attention, which looks at the cache: proportional to pairs of a query and a key for prompts, to keys for decodes;
- what is fixed, for a step and for each request in it.

Attention with a sliding window of w tokens looks at the last w keys only. Layers with the same window are one *form*; a
window of 0 is attention over everything.
"""

from __future__ import annotations

import bisect

import msgspec

from partita.ground.errors import InputError


class StepPrices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of the steps of one unit. S stages, T grid points, W forms of attention; seconds and bytes.

    With attention-data groups the numbers are of the whole unit: n counts the tokens of all groups, which share them
    evenly, and a cache is as large as those of all groups together.
    """

    #: (T,) numbers of tokens in a step, ascending, the first is 1. Beyond the last point its line goes on.
    tokens: tuple[int, ...]
    #: (S, T) seconds of all that does not look at the cache: in a step of decodes alone (a recorded graph where the
    #: engine has them), and in a step with prompts.
    dense_s: tuple[tuple[float, ...], ...]
    dense_mixed_s: tuple[tuple[float, ...], ...]
    #: (W,) windows in tokens, 0 for all; (S, W) seconds for a pair of a query and a key of prompts, and for a key of a
    #: decode, over all layers of the form in the stage.
    windows: tuple[int, ...]
    prompt_s: tuple[tuple[float, ...], ...]
    decode_s: tuple[tuple[float, ...], ...]
    #: (S,) seconds of a stage for every chunk of a prompt, for every decode, for a step of decodes alone, and for one
    #: with prompts.
    chunk_s: tuple[float, ...]
    request_s: tuple[float, ...]
    step_s: tuple[float, ...]
    mixed_step_s: tuple[float, ...]
    #: Seconds from one stage to the next: for a step, and for each of its tokens.
    hand_on_s: float = 0.0
    hand_on_s_per_token: float = 0.0
    #: A step takes at least this long, and so much more for every request in it: what the host prepares for the next
    #: step while the devices work on this one, where an engine overlaps both.
    host_s: float = 0.0
    host_request_s: float = 0.0
    #: Seconds that a request spends before it can be scheduled (front end, tokeniser), once.
    arrival_s: float = 0.0
    #: (S,) bytes of weights on a device of the stage; (S, W) bytes of the cache for a token, on a device, by form;
    #: (S,) bytes on a device that the cache may take.
    weight_bytes: tuple[int, ...]
    cache_bytes_per_token: tuple[tuple[float, ...], ...]
    cache_budget_bytes: tuple[float, ...]
    #: Groups that share out requests, each with a cache of its own.
    attention_data: int = 1
    #: Bytes of the cache for a token, by form, of all layers and devices without copies: what goes over a link where
    #: others decode.
    moved_bytes_per_token: tuple[float, ...] = ()
    #: (S, T) parts of ``dense_s``: reading weights, arithmetic, collectives; the rest is launches and memory traffic.
    weights_s: tuple[tuple[float, ...], ...] = ()
    arithmetic_s: tuple[tuple[float, ...], ...] = ()
    exchange_s: tuple[tuple[float, ...], ...] = ()
    #: Of steps with prompts whose groups have unequal numbers of tokens, w of them together and m the most: (S, T) what
    #: groups do by themselves, at m times the groups, and what they do together (experts, and exchanging tokens for
    #: them), at w. Such a step takes the sum, at least what w tokens take that are shared out evenly. Where m is
    #: ``padded_tokens`` or less, as in steps of decodes, all groups are filled up to it; always without these.
    apart_s: tuple[tuple[float, ...], ...] = ()
    together_s: tuple[tuple[float, ...], ...] = ()
    padded_tokens: int = 0
    notes: tuple[str, ...] = ()  #: What a reader should know about the prices, one sentence each.

    def __post_init__(self) -> None:
        if not self.tokens or self.tokens[0] != 1 or list(self.tokens) != sorted(set(self.tokens)):
            raise InputError(f"prices of steps: tokens {list(self.tokens)} must ascend from 1")
        self._check_sizes()
        if len(self.apart_s) != len(self.together_s):
            raise InputError("prices of steps: apart_s and together_s are stated of all stages, or neither is")
        if any(list(row) != sorted(row) for row in (*self.apart_s, *self.together_s)):
            raise InputError("prices of steps: apart_s and together_s must not fall with more tokens")

    def _check_sizes(self) -> None:
        stated = ("weights_s", "arithmetic_s", "exchange_s", "apart_s", "together_s")
        of_tokens = ("dense_s", "dense_mixed_s", *(name for name in stated if getattr(self, name)))
        widths = dict.fromkeys(of_tokens, len(self.tokens))
        widths |= dict.fromkeys(("prompt_s", "decode_s", "cache_bytes_per_token"), len(self.windows))
        for name, width in widths.items():
            rows = getattr(self, name)
            if len(rows) != self.stages or any(len(row) != width for row in rows):
                raise InputError(
                    f"prices of steps: {name} has rows of {[len(row) for row in rows]} numbers; give {width} of each "
                    f"of {self.stages} stages"
                )
        for name in ("chunk_s", "request_s", "step_s", "mixed_step_s", "cache_budget_bytes"):
            count = len(getattr(self, name))
            if count != self.stages:
                raise InputError(
                    f"prices of steps: {name} has {count} numbers; give one of each of {self.stages} stages"
                )

    @property
    def stages(self) -> int:
        """Stages of the pipeline."""
        return len(self.dense_s)

    @property
    def uneven(self) -> bool:
        """Whether there are steps whose groups are not filled up to the one with most tokens."""
        return bool(self.apart_s)

    def uneven_s(self, stage: int, most: int, whole: int) -> float:
        """Seconds of all that does not look at the cache, in such a step with so many tokens, ``most`` of one group."""
        apart = on_grid(self.tokens, self.apart_s[stage], most * self.attention_data)
        together = on_grid(self.tokens, self.together_s[stage], whole)
        return max(on_grid(self.tokens, self.dense_mixed_s[stage], whole), apart + together)

    def step_time_s(self, stage: int, prompts: list[tuple[int, int]], decodes: list[int]) -> float:
        """Seconds a stage takes for a step: chunks as (tokens, tokens before them), decodes by their contexts.

        A decode's context counts the keys that it looks at, its own among them. This is the definition; engines keep
        running sums.
        """
        tokens = sum(count for count, _ in prompts) + len(decodes)
        table = self.dense_mixed_s if prompts else self.dense_s
        time = on_grid(self.tokens, table[stage], tokens)
        for form, window in enumerate(self.windows):
            pairs = sum(pairs_within(count, before, window) for count, before in prompts)
            keys = sum(min(context, window) if window else context for context in decodes)
            time += self.prompt_s[stage][form] * pairs + self.decode_s[stage][form] * keys
        fixed = self.mixed_step_s[stage] if prompts else self.step_s[stage]
        time += self.chunk_s[stage] * len(prompts) + self.request_s[stage] * len(decodes) + fixed
        return max(time, self.host_s + self.host_request_s * (len(prompts) + len(decodes)))

    def cache_bytes(self, stage: int, context: int) -> float:
        """Bytes of the cache of one request on a device of a stage, of the group that has it."""
        forms = zip(self.windows, self.cache_bytes_per_token[stage], strict=True)
        return sum(size * (min(context, window) if window else context) for window, size in forms)

    def cache_tokens(self, context: int) -> int:
        """Tokens that the unit's caches hold, in requests of so many tokens each; 0 where weights leave no room."""
        held = []
        for stage, budget in enumerate(self.cache_budget_bytes):
            each = self.cache_bytes(stage, context)
            held.append(0 if budget <= 0 else int(budget / each * context) if each else 2**62)
        return self.attention_data * min(held)


def on_grid(points: tuple[int, ...], values: tuple[float, ...], at: float) -> float:
    """A line through grid points, read at a place; its last piece goes on beyond the grid, and 0 tokens take none."""
    if at <= 0:
        return 0.0
    if len(points) == 1:
        return values[0]
    place = min(max(bisect.bisect_right(points, at), 1), len(points) - 1)
    low, high = points[place - 1], points[place]
    return values[place - 1] + (values[place] - values[place - 1]) * (at - low) / (high - low)


def pairs_within(count: int, before: int, window: int) -> int:
    """Pairs of a query and a key, of ``count`` tokens behind ``before`` others, each looking at ``window`` keys at
    most.

    A token looks at itself and all before it. A window of 0 is none.
    """
    whole = count * before + count * (count + 1) // 2
    if not window or before + count <= window:
        return whole
    # Tokens that still see everything, then tokens that see the window.
    growing = max(0, min(count, window - before))
    return growing * before + growing * (growing + 1) // 2 + (count - growing) * window
