"""Answers in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partita.engines.search.result import Result
from partita.ground.units import format_bytes, format_time
from partita.problems.facets.records import StageSummary

#: Stages, names of devices and characters of a line that are shown.
_LISTED, _NAMED, _WIDE = 12, 4, 110


def shortened_line(text: str) -> str:
    """One line of bearable length."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


def stage_lines(stages: Sequence[StageSummary], unit: str) -> list[str]:
    """A line for each stage, the first and the last of many."""
    if len(stages) <= _LISTED:
        return [_stage(stage, unit) for stage in stages]
    left_out = len(stages) - _LISTED
    shown = [_stage(stage, unit) for stage in (*stages[: _LISTED // 2], *stages[-_LISTED // 2 :])]
    return [*shown[: _LISTED // 2], f"  … {left_out} more …", *shown[_LISTED // 2 :]]


def _stage(stage: StageSummary, unit: str) -> str:
    degrees = (
        ("data", stage.data_parallel),
        ("tensor", stage.tensor_parallel),
        ("context", stage.context_parallel),
        ("expert", stage.expert_parallel),
    )
    parts = [stage.device] if stage.device else []
    if stage.devices and stage.devices != (stage.device,) and len(stage.devices) <= _NAMED:
        parts.append(f"on {', '.join(stage.devices)}")
    elif stage.device_count > 1:
        how = ", ".join(f"{name} {degree}" for name, degree in degrees if degree > 1)
        parts.append(f"{stage.device_count} devices" + (f" ({how})" if how else ""))
    if stage.time is not None:
        parts.append(format_time(stage.time, unit))
    if stage.memory_bytes is not None:
        limit = "" if not stage.memory_limit_bytes else f" of {format_bytes(stage.memory_limit_bytes)}"
        parts.append(f"{format_bytes(stage.memory_bytes)}{limit}")
    if stage.modules:
        parts.append(", ".join(stage.modules))
    elif stage.operators:
        parts.append(f"{len(stage.operators)} operators")
    return shortened_line(f"stage {stage.number}: {', '.join(parts)}")


def best_baseline(rows: Sequence[Mapping[str, Any]], unit: str) -> list[str]:
    """The best of what was compared, as a line; nothing where nothing worked."""
    worth = [row for row in rows if row["objective"] is not None]
    if not worth:
        return []
    best = min(worth, key=lambda row: row["objective"])
    return [shortened_line(f"best of {len(rows)} baselines: {best['name']}, {format_time(best['objective'], unit)}")]


def short_repr(answer: Result[Any, Any, Any]) -> str:
    """Class, problem and the figures of an answer in one line."""
    objective = "none" if answer.objective is None else f"{answer.objective:.6g} {answer.problem.unit}"
    bound = "none" if answer.bound is None else f"{answer.bound.value:.6g}"
    gap = "unknown" if answer.gap is None else f"{answer.gap:.3%}"
    return (
        f"<{type(answer).__name__} of {answer.problem.name!r:.200}: objective {objective}, bound {bound}, "
        f"gap {gap}, {answer.status}>"
    )
