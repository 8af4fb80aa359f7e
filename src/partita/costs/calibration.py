"""The roofline beside measurements, by class of operators, and the efficiencies that fit them.

The fit of a class is the ratio of what the device would take at its peak to what it took, both summed over all
operators of the class: with it the roofline's total is the measured one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from partita.costs.profile import Measurement, Profile
from partita.costs.roofline import Roofline
from partita.costs.strategies.view import ATTENTION, ELEMENTWISE, EMBEDDINGS, NORMS, REDUCTIONS, SOFTMAX, base_name
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.graph import Operator

#: Least efficiency that is taken from measurements: below it something else than the device was measured.
_LEAST = 1e-3


def _is(names: frozenset[str]) -> Callable[[Operator, str], bool]:
    return lambda op, name: name in names


#: What operators are, the first that fits.
CLASSES: dict[str, Callable[[Operator, str], bool]] = {
    "attention": lambda op, name: any(kind in name for kind in ATTENTION),
    "convolutions": lambda op, name: "conv" in name,
    "products": lambda op, name: op.flops > 0,
    "normalisation": lambda op, name: name in NORMS | SOFTMAX or "norm" in name,
    "gathers": lambda op, name: name in EMBEDDINGS or any(word in name for word in ("gather", "index", "scatter")),
    "reductions": _is(REDUCTIONS),
    "pointwise": _is(ELEMENTWISE),
    "others": lambda op, name: True,
}


def operator_class(op: Operator) -> str:
    """The class of an operator."""
    name = base_name(op).removesuffix("_backward")
    return next(title for title, fits in CLASSES.items() if fits(op, name))


@dataclass(frozen=True)
class ClassRow:
    """One class: its operators, seconds measured and by the roofline, both per run, and the fitted efficiency."""

    name: str
    operators: int
    measured_s: float
    roofline_s: float
    efficiency: float | None


@dataclass(frozen=True)
class Calibration:
    """The comparison by class, and the device with what was fitted."""

    rows: tuple[ClassRow, ...]
    device: DeviceSpec
    fitted: DeviceSpec


def calibrate(profile: Profile, device: DeviceSpec) -> Calibration:
    """Compare a profile with the roofline of a device whose peaks are believed, and fit its efficiencies to it."""
    counts = [0] * len(profile.measurements)
    for place in profile.operators:
        if place is not None:
            counts[place] += 1
    groups: dict[str, list[tuple[int, Measurement, Operator]]] = {}
    for count, measurement in zip(counts, profile.measurements, strict=True):
        op = measurement.signature.operator
        groups.setdefault(operator_class(op), []).append((count, measurement, op))
    peak = msgspec.structs.replace(
        device,
        compute_efficiency=1.0,
        memory_efficiency=1.0,
        attention_efficiency=1.0,
        multiprocessors=None,
        launch_overhead_s=0.0,
    )

    def share(titles: set[str]) -> float | None:
        """What so many classes together reach of the peak."""
        found = [entry for title in titles for entry in groups.get(title, [])]
        measured = sum(count * m.time_s for count, m, _ in found)
        ideal = sum(count * Roofline().time_s(op, peak) for count, _, op in found)
        return min(1.0, max(_LEAST, ideal / measured)) if measured > 0 and ideal > 0 else None

    rows = []
    for title in CLASSES:
        found = groups.get(title, [])
        if found:
            measured = sum(count * profile.time_s(m) for count, m, _ in found)
            guess = sum(count * Roofline().time_s(op, device) for count, _, op in found)
            rows.append(ClassRow(title, sum(count for count, _, _ in found), measured, guess, share({title})))
    return Calibration(tuple(rows), device, _fitted(profile, device, share))


def _fitted(profile: Profile, device: DeviceSpec, share: Callable[[set[str]], float | None]) -> DeviceSpec:
    """The device with efficiencies by what bounds its operators, and the time that passes between operators."""
    phases = [phase for phase in (profile.forward, profile.backward) if phase is not None]
    issue = sum(phase.issue_s for phase in phases) / len(phases)
    products = {"products", "convolutions"}
    compute, attention = share(products), share({"attention"})
    memory = share(set(CLASSES) - products - {"attention"})
    return msgspec.structs.replace(
        device,
        compute_efficiency=device.compute_efficiency if compute is None else compute,
        memory_efficiency=device.memory_efficiency if memory is None else memory,
        attention_efficiency=device.attention_efficiency if attention is None else attention,
        launch_overhead_s=issue,
    )


def device_toml(calibration: Calibration) -> str:
    """What was fitted, as a table that cluster files take."""
    fitted = calibration.fitted
    lines = [
        f'[devices."{fitted.name}"]',
        f"compute_efficiency = {fitted.compute_efficiency:.4g}",
        f"memory_efficiency = {fitted.memory_efficiency:.4g}",
    ]
    if fitted.attention_efficiency is not None:
        lines.append(f"attention_efficiency = {fitted.attention_efficiency:.4g}")
    lines.append(f"launch_overhead_s = {fitted.launch_overhead_s:.3g}")
    return "\n".join(lines) + "\n"
