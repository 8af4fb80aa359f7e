"""The items of two devices split anew, nearly exactly, along an order that few nets cross.

Annealing moves one item at a time, and between two good splits there often lie only bad ones: a piece of a chain is
cut at both ends while it is divided. Of two devices, all splits are paths through the states of a narrow order, with
two resources, the loads of both; those of which none is better for both devices are at hand at the end. It is a large
neighbourhood (Ahuja et al., *A Survey of Very Large-Scale Neighborhood Search Techniques*, Discrete Applied
Mathematics 2002).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.throughput.narrow_sets import (
    look_ahead,
    richest_labels,
    set_of_label,
    worths_ahead,
    worths_behind,
)
from partita.ground.rounding import NOT_ZERO, TOLERANCE, clearly_below
from partita.problems.throughput.free.narrow import label_room, narrow_states, order_of, outlook_room
from partita.problems.throughput.free.search import FreeIncumbent, FreeInstance

#: States of one place, labels of one state, fewer where states are many, and of one pair.
MOST_STATES = 20_000
STATE_LABELS, FEWEST_LABELS = 400, 20
MOST_LABELS = 3_000_000
PLACE_LABELS = 400_000
#: Steps of the outlook from one state.
STEPS = 64
#: Exponents of loads that a choice between splits adds up: 1 has least transfers, large ones the most even loads.
EXPONENTS = (1.0, 8.0, 64.0, 512.0)
#: Pairs for each device without a new split, after which the split is made a little worse.
PATIENCE = 2
#: By how much, how often before the best split is taken up again, and how often at most in a row without a better one.
LOOSE = (0.0005, 0.001, 0.002, 0.005)
RETURN = 8
SHAKES = 40
#: In the second half the best split is made this much worse when it is taken up, by so many pairs for each device.
FAR, FAR_PAIRS = 0.02, 2


class PairSplits:
    """Walks from split to split, two devices at a time; nowhere if there is no order that few nets cross."""

    def __init__(self, free: FreeInstance) -> None:
        self.free = free
        self.order = order_of(free.arrays)
        self.room = label_room(MOST_LABELS, MOST_STATES, PLACE_LABELS)
        self.tried = 0

    def run(
        self, best: FreeIncumbent, rng: np.random.Generator, stop: Callable[[], bool], shakes: int = SHAKES
    ) -> bool:
        """Walk on from the best split, now and then by splits that are a little worse; whether there is a better one.

        Ends when ``shakes`` in a row have led to no better split, or told to stop.
        """
        began, label, _ = best.snapshot()
        if label is None or self.order is None:
            return False
        devices, idle, shaken = len(self.free.devices), 0, 0
        while shaken < shakes and devices > 1 and not stop():
            value = best.value
            new = self._step(rng, label, float(rng.choice(EXPONENTS)), None)
            if new is None or np.array_equal(new, label):
                idle += 1
            else:
                label, idle = new, 0
                if best.take(label, "pairs of devices"):
                    shaken = 0
            if idle >= PATIENCE * devices:
                shaken, idle = shaken + 1, 0
                kept = best.answer
                if shaken % RETURN == 0 and kept is not None:
                    label = kept
                far = shaken > shakes // 2 and shaken % RETURN == 0
                steps = devices * FAR_PAIRS if far else int(rng.integers(1, 4))
                loose = FAR if far else float(rng.choice(LOOSE))
                for _ in range(steps):
                    new = self._step(rng, label, None, value * (1 + loose))
                    label = label if new is None else new
        return best.value < clearly_below(began)

    def _step(self, rng: np.random.Generator, label: Ints, exponent: float | None, limit: float | None) -> Ints | None:
        """Split two devices anew, often the most loaded one and another."""
        load = self.free.state(label).load
        devices = len(load)
        one, two = rng.permutation(devices)[:2].tolist()
        if rng.random() < 0.5:
            one = int(np.argmax(load))
            two = int(rng.choice([d for d in range(devices) if d != one]))
        return self.split(rng, label, (one, two), float(load.max()) if limit is None else limit, exponent)

    def split(
        self, rng: np.random.Generator, label: Ints, pair: tuple[int, int], limit: float, exponent: float | None
    ) -> Ints | None:
        """Of all splits that change two devices alone, one with the least Σ load^exponent of the two, or a random one.

        Both loads are at most a limit, and with an exponent below it where one of them is at it now. Random ones, with
        no exponent, are among those of which none has both loads higher than another one. None if there is none, or
        the split at hand is better; where labels are too many, some splits are not looked at.
        """
        assert self.order is not None
        free, arrays = self.free, self.free.arrays
        load = free.state(label).load
        one, two = pair
        kinds = int(arrays.kind_of[one]), int(arrays.kind_of[two])
        order = self.order[np.isin(label[self.order], pair)]
        own, others = arrays.work[order, kinds[0]], arrays.work[order, kinds[1]]
        # What one of the two cannot run would have to stay where it is.
        if len(order) < 2 or not (np.isfinite(own).all() and np.isfinite(others).all()):
            return None
        states = narrow_states(arrays, kinds[0], order, kinds[1])
        if states is None or int(np.diff(states.ptr).max()) > MOST_STATES:
            return None
        self.tried += 1
        if exponent is not None and max(load[one], load[two]) >= clearly_below(limit):
            limit = clearly_below(limit)
        # What the second device is spared is what the first one is rich in.
        whole = float(others.sum())
        number = int(states.ptr[-1])
        out = outlook_room(number, STEPS, STEPS * number)
        prices, (ahead, behind) = np.array([whole / max(float(own.sum()), NOT_ZERO)]), np.empty((2, 1, number))
        worths_behind(states, others, prices, behind)
        if look_ahead(states, others, limit, whole - limit, prices, behind, out) < whole - limit:
            return None
        worths_ahead(states, others, prices, ahead)
        n = len(order)
        begin, end = richest_labels(
            states,
            others,
            limit,
            whole - limit,
            prices,
            ahead,
            out,
            self.room,
            (0, n),
            0,
            1,
            min(STATE_LABELS, max(FEWEST_LABELS, MOST_LABELS // number)),
        )
        if end <= begin:
            return None
        if exponent is None:
            label_of = int(rng.integers(begin, end))
        else:
            first = self.room.load[n % 2, : end - begin] / limit
            second = (whole - self.room.charge[n % 2, : end - begin]) / limit
            total = first**exponent + second**exponent
            before = (load[one] / limit) ** exponent + (load[two] / limit) ** exponent
            least = float(total.min())
            if least > before * (1 + TOLERANCE):
                return None
            # Equal ones in turn, so that the walk goes on.
            label_of = begin + int(rng.choice(np.flatnonzero(total <= least * (1 + TOLERANCE))))
        chosen = np.zeros(n, dtype=bool)
        set_of_label(self.room, label_of, chosen)
        new = label.copy()
        new[order] = np.where(chosen, one, two)
        return None if free.overflows(free.state(new)) else new
