"""Who is asked about an instance: every component with all options, for how long, and how often."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from contracts.cases import options_of
from crosscheck.wordings import Wording
from partita.problems.kind import AnyKind

__all__ = ["LIMIT_S", "Part", "drawn_parts", "parts_of"]

Role = Literal["solver", "baseline", "bound", "proof", "answer", "everything"]

#: Wall time for one component on one instance.
LIMIT_S = 0.8

#: What the package answers if no solver is named.
ANSWER = "the answer"

#: The same is asked of every problem.
ANSWER_SHARE = 0.4

#: By problem and name: wall time for what uses all that it gets, and the share of the instances it is asked about.
SLOW: dict[tuple[str, str], tuple[float, float]] = {
    **{
        ("throughput", name): (0.15, 0.4) for name in ("partition-annealing", "random-orders", "genetic", "arrangement")
    },
    **{("throughput", name): (LIMIT_S, 0.4) for name in ("highs", "cpsat", "scip", "free")},
    **{("throughput", name): (0.4, 0.3) for name in ("annealing", "parmesan")},
    **{("throughput", name): (0.5, 0.5) for name in ("covering", "covering-free", "ideals")},
    **{("mapping", name): (0.2, 0.3) for name in ("parmesan", "parmesan-point-to-point", "parmesan-all-reduce")},
    ("mapping", "swap-annealing"): (0.2, 0.3),
    ("layer_placement", "row annealing"): (0.2, 0.4),
    ("latency", "placement-annealing"): (0.2, 0.4),
    # It loads torch, and trains for whole episodes.
    ("makespan", "Placeto"): (0.2, 0.01),
    ("makespan", "annealing"): (0.2, 0.6),
    ("makespan", "fused first"): (0.5, 0.5),
    **{("hybrid", f"no {what}"): (0.5, 0.6) for what in ("data parallelism", "recomputation", "tensor parallelism")},
}


@dataclass(frozen=True)
class Part:
    """One component with options, as it is asked about an instance.

    Attributes
    ----------
    role
        ``proof`` is all that the problem proves together, ``answer`` what the package answers if no solver is named,
        ``everything`` is trying everything.
    name
        The component's.
    options
        Of a solver; None where there are none.
    limit_s
        Its wall time.
    wording, factor
        It is told the instance in other words, see ``crosscheck.wordings``; empty for as it is.
    """

    role: Role
    name: str
    options: Any = None
    limit_s: float = LIMIT_S
    wording: Wording = ""
    factor: float = 1.0

    @property
    def label(self) -> str:
        """For reports: the name, and what is not as usual."""
        changed = []
        if self.options is not None:
            usual = type(self.options)()
            names = [n for n in self.options.__struct_fields__ if n not in ("seed", "threads")]
            changed = [str(getattr(self.options, n)) for n in names if getattr(self.options, n) != getattr(usual, n)]
        if self.wording:
            changed.append(f"other {self.wording}, {self.factor:g}")
        return self.name + (f" ({', '.join(changed)})" if changed else "")


def parts_of(kind: AnyKind) -> Iterator[Part]:
    """Every component with all options that make a difference, and trying everything."""
    wanted = options_of(kind)
    for role, components in (("solver", kind.solvers), ("baseline", kind.baselines)):
        for component in components:
            limit_s, _ = SLOW.get((kind.name, component.name), (LIMIT_S, 1.0))
            for options in wanted:
                yield Part(role, component.name, options, limit_s)
    for bound in kind.bounds:
        yield Part("bound", bound.name, None, SLOW.get((kind.name, bound.name), (LIMIT_S, 1.0))[0])
    yield Part("proof", "all bounds together")
    for options in wanted:
        yield Part("answer", ANSWER, options)
        yield Part("everything", "trying everything", options)


def drawn_parts(kind: AnyKind, rng: random.Random, longer: float = 1.0) -> list[Part]:
    """Those for one instance: some less often, with seeds and threads of their own; all in a hurry now and then.

    A few are asked a second time about the same instance in other words. All get ``longer`` times the usual time.
    """
    (hurry,) = rng.choices((1.0, 0.2, 0.02, 6.0), (60, 20, 15, 5))
    wording: Wording = rng.choice(("times", "bytes", "ids"))
    factor = 2.0 ** rng.choice((-20, -3, 10, 20)) if wording != "ids" else float(rng.randrange(1000))
    found = []
    for part in parts_of(kind):
        _, share = SLOW.get((kind.name, part.name), (LIMIT_S, ANSWER_SHARE if part.role == "answer" else 1.0))
        taken, seed, threads, again = rng.random() < share, rng.randrange(100), rng.choice((1, 2)), rng.random() < 0.06
        if not taken:
            continue
        options = part.options
        if options is not None and part.role != "everything":
            options = msgspec.structs.replace(options, seed=seed, threads=threads)
        if part.role != "everything":
            part = replace(part, options=options, limit_s=part.limit_s * hurry * longer)
            if again:
                found.append(replace(part, wording=wording, factor=factor))
        found.append(part)
    return found
