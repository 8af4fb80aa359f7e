"""How far the results of a split run are from those of the model that is not split.

The error of a tensor is its largest difference, relative to its largest entry. Where that is below a thousandth of the
largest of its kind (all gradients, all parameters), the thousandth takes its place: that is what float32 resolves of
sums whose parts are as large as the largest.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

SMALLEST = 1e-3


def errors(
    found: Mapping[Any, Any], wanted: Mapping[Any, Any], among: Mapping[Any, Any] | None = None
) -> dict[Any, float]:
    """The error of every tensor that is in either; infinite where it is in one of the two, or not finite in one.

    ``among`` are all tensors of the kind, if ``wanted`` are some of them.
    """
    largest = max((_size(tensor) for tensor in (wanted if among is None else among).values()), default=0.0)
    answer: dict[Hashable, float] = {}
    for name in dict.fromkeys([*wanted, *found]):
        if name not in found or name not in wanted or found[name].shape != wanted[name].shape:
            answer[name] = math.inf
            continue
        scale = max(_size(wanted[name]), SMALLEST * largest)
        answer[name] = (
            _difference(found[name], wanted[name]) / scale if scale else _difference(found[name], wanted[name])
        )
    return answer


def _size(tensor: Any) -> float:
    """The largest finite entry."""
    if not tensor.numel():
        return 0.0
    values = tensor.double().abs() if not tensor.is_complex() else tensor.abs().double()
    values = values[values.isfinite()]
    return float(values.max()) if values.numel() else 0.0


def _difference(a: Any, b: Any) -> float:
    """The largest difference; entries that are equal differ by nothing, also where they are not finite."""
    if not a.numel():
        return 0.0
    same = (a == b) | (a.isnan() & b.isnan()) if a.is_floating_point() else a == b
    if bool(same.all()):
        return 0.0
    apart = (a[~same].double() - b[~same].double()).abs() if not a.is_complex() else (a - b)[~same].abs().double()
    return float(apart.max()) if bool(apart.isfinite().all()) else math.inf
