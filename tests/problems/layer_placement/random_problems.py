"""Random layer placements that are small enough to try everything."""

from __future__ import annotations

import random

import msgspec

from partita.problems.layer_placement.problem import (
    LayerMachine,
    LayerPlacementProblem,
    LayerSteps,
    MachineEnd,
    PublishedFlow,
    TokenLink,
)

__all__ = ["random_problem", "random_served"]


def random_problem(seed: int, most: int = 4, *, overlap: bool | None = None) -> LayerPlacementProblem:
    """A problem with at most so many machines; all numbers are multiples of one half.

    Tables fall, or jump, or lack a number; links are wide, narrow between two regions, or missing. Some have no plan.
    """
    rng = random.Random(seed)
    count = rng.randint(1, most)
    kinds = []
    for _ in range(rng.randint(1, 3)):
        room, speed, jump = rng.randint(1, 3), rng.choice((4, 8, 12)), rng.random() < 0.3
        kinds.append(
            {
                k: rng.randint(0, 24) / 2 if jump else max(0.5, round(2 * speed / k) / 2)
                for k in range(1, room + 1)
                if k == room or rng.random() < 0.85
            }
        )
    drawn = [rng.choice(kinds) for _ in range(count)]
    # Hardly more layers than there is room for.
    layers = rng.randint(1, min(6 if count < 4 else 4, sum(map(max, drawn)) + (rng.random() < 0.15)))
    names = [f"m{i}" for i in range(count)]
    home = [rng.randrange(2) for _ in names]
    slow, kept = rng.choice((32.0, 32.0, 3.0, 1.5)), rng.choice((1.0, 1.0, 0.7))
    links = [
        TokenLink(source=a, target=b, tokens_per_s=rng.choice((20.0, 32.0)) if home[i] == home[j] else slow)
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i != j and rng.random() < kept
    ]
    wide = rng.choice((32.0, 32.0, 4.5))
    links += [TokenLink(source="source", target=a, tokens_per_s=wide) for a in names if rng.random() < max(0.8, kept)]
    links += [TokenLink(source=a, target="sink", tokens_per_s=wide) for a in names if rng.random() < max(0.8, kept)]
    return LayerPlacementProblem(
        name=f"random {seed}",
        layers=layers,
        machines=tuple(LayerMachine(name=name, tokens_per_s=table) for name, table in zip(names, drawn, strict=True)),
        links=tuple(links),
        overlap=rng.random() < 0.4 if overlap is None else overlap,
    )


def random_served(seed: int, most: int = 3) -> LayerPlacementProblem:
    """A problem of tokens served: rates alone are known of some machines, of others their steps and prompts, too."""
    rng = random.Random(seed)
    problem = random_problem(seed, most)
    output = rng.randint(1, 6)

    def steps(rate: float) -> LayerSteps | None:
        if rate <= 0 or rng.random() < 0.5:
            return None
        prompt = rng.choice((None, output / rate * rng.choice((0.1, 0.5, 1.5))))
        requests = rng.randint(1, 5)
        return LayerSteps(requests=requests, step_s=requests / rate * rng.choice((0.0, 0.3, 0.9)), prompt_s=prompt)

    def told(table: dict[int, float]) -> dict[int, LayerSteps]:
        return {k: found for k, rate in table.items() if (found := steps(rate)) is not None}

    def end(machine: LayerMachine) -> MachineEnd | None:
        table = {k: rate * rng.choice((0.5, 1.0)) for k, rate in machine.tokens_per_s.items()}
        return rng.choice((None, None, MachineEnd(tokens_per_s=table, steps=told(table))))

    machines = tuple(
        msgspec.structs.replace(one, steps=told(one.tokens_per_s), first=end(one), last=end(one))
        for one in problem.machines
    )
    links = tuple(msgspec.structs.replace(one, latency_s=rng.choice((0.0, 0.0, 0.125, 0.01))) for one in problem.links)
    return problem.replace(
        machines=machines,
        links=links,
        worth="served",
        output_tokens=output,
        prompt_tokens=rng.choice((None, rng.randint(1, 9))),
        layer_requests=rng.randint(1, 4),
        run_requests=rng.randint(1, 12),
        published=rng.choice((None, PublishedFlow(objective=rng.choice((1.0, 3.0, 8.0))))),
    )
