"""accelerate's device map: the longest name that a module begins with says where it is."""

from __future__ import annotations

import json

from exporters.readers.plan import ReadPlan


def read(text: str, stages: list[tuple[str, ...]]) -> ReadPlan:
    """The plan of a model whose stages have these modules; each has one card, or the CPU."""
    found = json.loads(text)

    def device(module: str) -> int | str:
        while module not in found:
            assert module, "it is nowhere"
            module = module.rpartition(".")[0]
        return found[module]

    places = [{device(module) for module in modules} for modules in stages]
    assert all(len(place) == 1 for place in places)
    devices = [place.pop() for place in places]
    assert all(device == "cpu" or isinstance(device, int) for device in devices)
    return ReadPlan(cards=[[] if device == "cpu" else [int(device)] for device in devices])
