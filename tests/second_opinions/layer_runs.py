"""Tokens served by intervals of layers, once more: a run of requests with lists and dictionaries, one thing at a time.

Whoever is at an instant: steps that end, in the order of machines; then who comes to the end of a link, in the order of
places; then who is admitted; then who begins a step. The flow that shares requests out is that of the evaluator.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass, field

from partita.problems.layer_placement.network import largest_flow
from partita.problems.layer_placement.problem import LayerPlacementProblem

__all__ = ["best_served", "served_by"]


@dataclass
class Machine:
    name: str
    room: int
    fixed: float
    each: float
    prompt: float | None
    stages: int = 1
    holds: int = 0
    decodes: deque = field(default_factory=deque)
    prompts: deque = field(default_factory=deque)
    step: list | None = None
    until: float = math.inf


def _machine(problem: LayerPlacementProblem, name: str, layers: tuple[int, int]) -> Machine:
    """By what its tables say of a full step, or by what is assumed of it."""
    spec = next(one for one in problem.machines if one.name == name)
    count = layers[1] - layers[0]
    tables = []
    for end, there in ((spec.first, layers[0] == 0), (spec.last, layers[1] == problem.layers)):
        if there and end is not None:
            tables.append(end)
    tables.append(spec)
    found = []
    for table in tables:
        rate = table.tokens_per_s[count]
        if count in table.steps:
            steps = table.steps[count]
            requests, fixed, prompt = steps.requests, steps.step_s, steps.prompt_s
        else:
            requests = max(1, problem.layer_requests * (2 * max(table.tokens_per_s) - count) // count)
            quickest = max(r * k for k, r in table.tokens_per_s.items())
            fixed, prompt = requests * max(0.0, 1 / rate - count / quickest), None
        output = problem.output_tokens
        if prompt is None:
            full = requests / rate
        else:
            full = requests * max(0.0, output / rate - prompt) / max(1, output - 1)
        if output == 1 and prompt is not None:
            prompt = max(prompt, 1 / rate)
        found.append((rate, requests, fixed, max(0.0, full - fixed) / requests, prompt))
    _, _, fixed, each, prompt = min(found, key=lambda one: one[0])
    return Machine(name, min(one[1] for one in found), fixed, each, prompt)


def served_by(problem: LayerPlacementProblem, held: dict[str, tuple[int, int]]) -> float:
    """Tokens per second of the run; 0 where nothing flows."""
    flow = largest_flow(problem, held)
    if not flow.worth:
        return 0.0
    used = {end for pair in flow.links for end in pair} - {"source", "sink"}
    names = sorted(used, key=lambda name: (held[name][1], name))
    machines = {name: _machine(problem, name, held[name]) for name in names}
    order = {name: i for i, name in enumerate([*names, "sink"])}
    out = {name: sorted((b for a, b in flow.links if a == name), key=order.get) for name in (*names, "source")}
    for name in names:
        paths = [[name]]
        longest = 1
        while paths:
            path = paths.pop()
            before = [a for a, b in flow.links if b == path[0] and a != "source"]
            behind = [b for b in out[path[-1]] if b != "sink"]
            longest = max(longest, len(path))
            if before:
                paths += [[a, *path] for a in before]
            elif behind:
                paths += [[*path, b] for b in behind]
        machines[name].stages = longest
    links = {(one.source, one.target): one for one in problem.links}
    credit = dict.fromkeys(flow.links, 0.0)
    free_at = dict.fromkeys(flow.links, 0.0)
    output = problem.output_tokens
    like = all(machine.prompt is None for machine in machines.values())
    prompt_tokens = 1 if problem.prompt_tokens is None or like else problem.prompt_tokens
    spare = list(range(min(problem.run_requests, sum(machines[b].room for b in out["source"]))))[::-1]
    paths, at, left, arriving = {}, {}, {}, {}
    now, admitted, finished = 0.0, 0, 0

    def send(place: int, tokens: int) -> None:
        pair = paths[place][at[place]], paths[place][at[place] + 1]
        free_at[pair] = max(free_at[pair], now) + tokens * (1.0 / links[pair].tokens_per_s)
        arriving[place] = free_at[pair] + links[pair].latency_s

    def reaches(name: str) -> bool:
        if name == "sink":
            return True
        if name != "source" and machines[name].holds >= machines[name].room:
            return False
        return any(reaches(b) for b in out[name])

    while finished < problem.run_requests:
        while True:
            ends = [name for name in names if machines[name].until <= now]
            comes = sorted((time, place) for place, time in arriving.items() if time <= now)
            # The earliest of all, machines before places.
            first = min((machines[name].until for name in ends), default=math.inf)
            if ends and first <= (comes[0][0] if comes else math.inf):
                name = next(name for name in ends if machines[name].until == first)
                step, machines[name].step, machines[name].until = machines[name].step, None, math.inf
                for place in step:
                    at[place] += 1
                    send(place, prompt_tokens if left[place] == output else 1)
            elif comes:
                place = comes[0][1]
                del arriving[place]
                name = paths[place][at[place] + 1]
                if name != "sink":
                    machine = machines[name]
                    prompt = left[place] == output and machine.prompt is not None
                    (machine.prompts if prompt else machine.decodes).append(place)
                    continue
                left[place] -= 1
                at[place] = 0
                if left[place]:
                    send(place, 1)
                    continue
                for name in paths[place][1:-1]:
                    machines[name].holds -= 1
                spare.append(place)
                finished += 1
            else:
                break
        while admitted < problem.run_requests and spare and reaches("source"):
            place, path = spare.pop(), ["source"]
            # Before it is admitted itself, who has room is decided.
            able = {name: reaches(name) for name in (*names, "sink")}
            while path[-1] != "sink":
                choices = [b for b in out[path[-1]] if able[b]]
                weight = {b: float(flow.links[path[-1], b]) for b in choices}
                for b in choices:
                    credit[path[-1], b] += weight[b]
                best = max(choices, key=lambda b: credit[path[-1], b])
                credit[path[-1], best] -= sum(weight.values())
                path.append(best)
            for name in path[1:-1]:
                machines[name].holds += 1
            paths[place], at[place], left[place] = path, 0, output
            send(place, prompt_tokens)
            admitted += 1
        for machine in machines.values():
            if machine.step is None and (machine.decodes or machine.prompts):
                many = min(len(machine.decodes), max(1, math.ceil(machine.holds / machine.stages)))
                machine.step = [machine.decodes.popleft() for _ in range(many)]
                seconds = machine.fixed + many * machine.each if many else 0.0
                if machine.prompts:
                    machine.step.append(machine.prompts.popleft())
                    seconds += machine.prompt
                machine.until = now + seconds
        times = [*arriving.values(), *(machine.until for machine in machines.values() if machine.step is not None)]
        if times:
            now = max(now, min(times))
    return problem.run_requests * output / now


def best_served(problem: LayerPlacementProblem) -> float:
    """The most that any placement serves."""
    choices = []
    for machine in problem.machines:
        own = [(a, a + k) for k in machine.tokens_per_s for a in range(problem.layers - k + 1)]
        choices.append([(0, 0), *own])
    best = 0.0
    for chosen in itertools.product(*choices):
        held = {m.name: one for m, one in zip(problem.machines, chosen, strict=True) if one[0] < one[1]}
        if all(_known(problem, name, one) for name, one in held.items()):
            best = max(best, served_by(problem, held))
    return best


def _known(problem: LayerPlacementProblem, name: str, layers: tuple[int, int]) -> bool:
    machine = next(one for one in problem.machines if one.name == name)
    return machine.passes(*layers, problem.layers) is not None
