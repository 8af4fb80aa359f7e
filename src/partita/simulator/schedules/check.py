"""Whether orders can run at all: complete, each action once, and nothing that waits for itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.ground.errors import InputError
from partita.simulator.schedules.protocol import Action

#: The letters in the order of their columns in a table of actions.
LETTERS = {"F": 0, "B": 1, "I": 2, "W": 3}

#: Of a circle of waiting ranks, how many are named.
NAMED = 4


class Fault(NamedTuple):
    """What is wrong with orders."""

    #: Where: a place in the order of a rank, counted from 0; the length of the order for what is missing in it.
    rank: int
    place: int
    text: str  #: What, and the remedy.


def check_orders(
    orders: Sequence[Sequence[Action]],
    rank_of: Sequence[int],
    *,
    training: bool,
    splits_backward: bool = True,
    microbatches: int | None = None,
) -> None:
    """Refuse orders that cannot run, or do not run everything.

    Every stage runs every microbatch forward, after the stage before it, and if ``training`` backward, after the stage
    behind it: as one action, or if ``splits_backward`` also as input gradient and weight gradient. Without
    ``microbatches`` there are as many as the largest number in the orders says.

    Raises ``InputError`` with the first action that cannot run, its rank, its place and what it waits for. Actions that
    should not be there come first, then those that are missing, then those that wait for something later.
    """
    if fault := find_fault(orders, rank_of, training, splits_backward, microbatches):
        raise InputError(f"the schedule cannot run: rank {fault.rank}, action {fault.place + 1}: {fault.text}")


def find_fault(
    orders: Sequence[Sequence[Action]],
    rank_of: Sequence[int],
    training: bool,
    splits_backward: bool = True,
    microbatches: int | None = None,
) -> Fault | None:
    """What ``check_orders`` refuses; None if there is nothing."""
    if not rank_of:
        return Fault(0, 0, "there are no stages; give the rank of at least one")
    for stage, rank in enumerate(rank_of):
        if not 0 <= rank < len(orders):
            return Fault(rank, 0, f"stage {stage} is on it, and there are {len(orders)} orders; add its order")
    actions = _Actions(orders, rank_of, microbatches)
    return actions.wrong(training, splits_backward) or actions.missing(training) or actions.late() or actions.stuck()


class _Actions:
    """All actions of all ranks as arrays, one rank after the other."""

    def __init__(self, orders: Sequence[Sequence[Action]], rank_of: Sequence[int], microbatches: int | None) -> None:
        self.all = list(chain.from_iterable(orders))
        self.stage: Longs = np.array([action[0] for action in self.all], dtype=np.int64)
        self.letter: Longs = np.array([LETTERS.get(action[1], -1) for action in self.all], dtype=np.int64)
        self.microbatch: Longs = np.array([action[2] for action in self.all], dtype=np.int64)
        self.ends: list[int] = np.cumsum([len(order) for order in orders]).tolist()
        self.starts = [0, *self.ends[:-1]]
        self.rank: Longs = np.repeat(np.arange(len(orders)), [len(order) for order in orders])
        self.rank_of = np.array(rank_of, dtype=np.int64)
        self.microbatches = int(self.microbatch.max(initial=0)) + 1 if microbatches is None else microbatches

    def fault(self, index: int, text: str) -> Fault:
        """The fault of an action."""
        rank = int(self.rank[index])
        return Fault(rank, index - self.starts[rank], f"{self.all[index]} {text}")

    def wrong(self, training: bool, splits_backward: bool) -> Fault | None:
        """The first action that is not one of those that its rank has to run."""
        stages = len(self.rank_of)
        no_stage = (self.stage < 0) | (self.stage >= stages)
        elsewhere = self.rank_of[np.where(no_stage, 0, self.stage)] != self.rank
        no_microbatch = (self.microbatch < 0) | (self.microbatch >= self.microbatches)
        refused = self.letter > (0 if not training else 3 if splits_backward else 1)
        no_letter = self.letter < 0
        faulty = np.flatnonzero(no_letter | no_stage | elsewhere | no_microbatch | refused)
        if not len(faulty):
            return None
        first = int(faulty[0])
        stage = self.all[first].stage
        if no_letter[first]:
            return self.fault(first, "is no action that there is; use F, B, I or W")
        if no_stage[first]:
            return self.fault(first, f"is of stage {stage}, and stages are 0 to {stages - 1}; use one of these")
        if elsewhere[first]:
            return self.fault(first, f"is of a stage of rank {self.rank_of[stage]}; put it in the order of that rank")
        if no_microbatch[first]:
            return self.fault(first, f"is not of one of the {self.microbatches} microbatches; leave it out")
        if training:
            return self.fault(first, "is half a backward action in a schedule that does not split them; use B")
        return self.fault(first, "is a backward action in a schedule that runs forward only; leave it out")

    def missing(self, training: bool) -> Fault | None:
        """The first action that is there twice, or that should be there and is not."""
        stages = len(self.rank_of)
        if len(self.all) < stages * self.microbatches:
            # Also keeps tables small where one number is huge.
            return self._missing_forward()
        if fault := self._twice():
            return fault
        self._make_table()
        if (self.table[:, :, 0] < 0).any():
            return self._missing_forward()
        if not training:
            return None
        there = self.table >= 0
        number = there[:, :, 1] + there[:, :, 2].astype(np.int64)
        found = [
            (int(self.table[:, :, letter][faulty].min()), text)
            for faulty, letter, text in (
                (number == 0, 0, "has no backward action: the order ends without it; add it"),
                (number == 2, 1, "runs besides the I of the same microbatch; leave one of them out"),
                (there[:, :, 2] & ~there[:, :, 3], 2, "has no W: the order ends without it; add it, or use B"),
                (there[:, :, 3] & ~there[:, :, 2], 3, "has no I of the same microbatch; add it, or leave the W out"),
            )
            if faulty.any()
        ]
        return self.fault(*min(found)) if found else None

    def _twice(self) -> Fault | None:
        """The first action that was already there."""
        keys = (self.stage * self.microbatches + self.microbatch) * len(LETTERS) + self.letter
        by_key = np.argsort(keys, kind="stable")
        again = np.flatnonzero(keys[by_key][1:] == keys[by_key][:-1]) + 1
        if not len(again):
            return None
        second = int(by_key[again].min())
        return self.fault(second, "is there for the second time; leave it out")

    def _missing_forward(self) -> Fault | None:
        """The first forward action that is not there, by rank and microbatch."""
        for stage in np.argsort(self.rank_of, kind="stable").tolist():
            rank = int(self.rank_of[stage])
            there = set(self.microbatch[(self.stage == stage) & (self.letter == 0)].tolist())
            if len(there) < self.microbatches:
                microbatch = next(number for number in range(self.microbatches) if number not in there)
                length = self.ends[rank] - self.starts[rank]
                return Fault(
                    rank,
                    length,
                    f"{stage}F{microbatch} is missing: the order of {length} actions ends without it, and there are "
                    f"microbatches 0 to {self.microbatches - 1}; add it",
                )
        return None

    def _make_table(self) -> None:
        """Where the action of each (stage, microbatch, letter) is; −1 where there is none."""
        self.table = np.full((len(self.rank_of), self.microbatches, len(LETTERS)), -1, dtype=np.int64)
        self.table[self.stage, self.microbatch, self.letter] = np.arange(len(self.all))

    def _needs(self) -> tuple[Longs, Longs]:
        """What each action waits for: of its own stage, and of the stage beside it; −1 for nothing."""
        forward, backward, inputs, _ = self.table.transpose(2, 0, 1)
        ends = np.maximum(backward, inputs)
        nothing = np.full((1, self.microbatches), -1)
        own = np.stack([np.full_like(forward, -1), forward, forward, inputs])
        beside = np.stack([np.vstack([nothing, forward[:-1]]), *2 * [np.vstack([ends[1:], nothing])], 0 * forward - 1])
        place = (self.letter, self.stage, self.microbatch)
        return own[place], beside[place]

    def late(self) -> Fault | None:
        """The first action that waits for one that comes later on its own rank."""
        own, self.beside = self._needs()
        index = np.arange(len(self.all))
        ends = np.array(self.ends, dtype=np.int64)[self.rank]
        needs = np.where((own > index) & (own < ends), own, self.beside)
        faulty = np.flatnonzero((needs > index) & (needs < ends))
        if not len(faulty):
            return None
        first = int(faulty[0])
        other = int(needs[first])
        place = other - self.starts[int(self.rank[first])] + 1
        return self.fault(
            first, f"waits for {self.all[other]}, which comes later on the same rank, as action {place}; put it before"
        )

    def stuck(self) -> Fault | None:
        """The first action of a circle of ranks that wait for each other, found by running the orders."""
        needs = self.beside.tolist()
        done = bytearray(len(self.all))
        heads = list(self.starts)
        waiting: dict[int, int] = {}
        ready = list(range(len(heads)))
        while ready:
            rank = ready.pop()
            for head in range(heads[rank], self.ends[rank]):
                if (need := needs[head]) >= 0 and not done[need]:
                    waiting[need] = rank
                    heads[rank] = head
                    break
                done[head] = 1
                if head in waiting:
                    ready.append(waiting.pop(head))
            else:
                heads[rank] = self.ends[rank]
        blocked = [rank for rank, head in enumerate(heads) if head < self.ends[rank]]
        if not blocked:
            return None
        # Who waits for a rank that waits is stuck because of that one: the way ends in a circle.
        way = [blocked[0]]
        while (after := int(self.rank[needs[heads[way[-1]]]])) not in way:
            way.append(after)
        circle = way[way.index(after) :]
        turn = circle.index(min(circle))
        circle = circle[turn:] + circle[:turn]
        said = [f"{self.all[needs[heads[rank]]]} of rank {self.rank[needs[heads[rank]]]}" for rank in circle]
        told = [
            f"; rank {rank} is at {self.all[heads[rank]]}, which waits for {what}"
            for rank, what in zip(circle[1:NAMED], said[1:NAMED], strict=True)
        ]
        more = f"; and so on over {len(circle)} ranks" if len(circle) > NAMED else ""
        text = f"waits for {said[0]}{''.join(told)}{more}: no rank of this circle can go on; reorder one of them"
        return self.fault(heads[circle[0]], text)
