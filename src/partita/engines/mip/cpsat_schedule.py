"""OR-Tools CP-SAT on schedules: optional intervals, one for every site of a job and every pair of sites of a flow.

Presences of a flow's intervals are tied to the sites of its ends as a flow in a network (those of one row add up to the
site of the producer, those of one column to that of the reader), which is tighter than implications.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partita.engines.mip.backend import BackendAnswer, BackendSettings, Talk
from partita.engines.mip.cpsat import run_cpsat
from partita.engines.mip.model import Floats
from partita.engines.mip.schedule import ScheduleModel

#: Times are whole numbers: the bound holds as it is.
EXACT = True


def solve(program: ScheduleModel, settings: BackendSettings, talk: Talk) -> BackendAnswer:
    """Run CP-SAT on the intervals of a model."""
    from ortools.sat.python import cp_model

    if (program.time < 0).all(axis=1).any():
        return BackendAnswer(infeasible=True)
    return run_cpsat(_Intervals(cp_model, program), settings, talk)


class _Intervals:
    """The model of a schedule, and the way back."""

    def __init__(self, cp_model: Any, model: ScheduleModel) -> None:
        self.model = model
        self.program = cp_model.CpModel()
        n, sites = model.time.shape
        horizon = model.horizon
        self.finish = self.program.new_int_var(0, horizon, "")
        self.at: list[dict[int, Any]] = []
        self.start, self.end = [], []
        rows: list[list[list[Any]]] = [[[] for _ in range(sites)] for _ in range(3)]
        sums: list[list[list[Any]]] = [[[] for _ in range(sites)] for _ in range(3)]
        for v in range(n):
            able = [d for d in range(sites) if model.time[v, d] >= 0]
            at = {d: self.program.new_bool_var("") for d in able}
            start = self.program.new_int_var(0, horizon, "")
            end = start + sum(int(model.time[v, d]) * at[d] for d in able)
            self.program.add_exactly_one(at.values())
            self.program.add(start >= sum(int(model.head[v, d]) * at[d] for d in able))
            self.program.add(end + sum(int(model.tail[v, d]) * at[d] for d in able) <= self.finish)
            for d in able:
                length = int(model.time[v, d])
                if model.serial[0]:
                    rows[0][d].append(self.program.new_optional_fixed_size_interval_var(start, length, at[d], ""))
                sums[0][d].append(length * at[d])
            self.at.append(at)
            self.start.append(start)
            self.end.append(end)
        self.moved: dict[int, Any] = {}
        for u, v, f in model.edges:
            if f < 0:
                self.program.add(self.end[u] <= self.start[v])
            else:
                self._flow(u, v, f, rows, sums)
        for row, total, serial in zip(rows, sums, model.serial, strict=True):
            for d in range(sites):
                if serial and len(row[d]) > 1:
                    self.program.add_no_overlap(row[d])
                    self.program.add(sum(total[d]) <= self.finish)
        for group in model.groups:
            self._together(group)
        for d in range(sites):
            if model.limit[d] >= 0:
                held = [int(model.weight[v]) * self.at[v][d] for v in range(n) if d in self.at[v] and model.weight[v]]
                if held:
                    self.program.add(sum(held) <= int(model.limit[d]))
        self.program.minimize(self.finish)

    def _flow(self, u: int, v: int, f: int, rows: list[list[list[Any]]], sums: list[list[list[Any]]]) -> None:
        model = self.model
        start = self.program.new_int_var(0, model.horizon, "")
        pairs = {(c, d): self.program.new_bool_var("") for c in self.at[u] for d in self.at[v]}
        for c, chosen in self.at[u].items():
            self.program.add(sum(pairs[c, d] for d in self.at[v]) == chosen)
        for d, chosen in self.at[v].items():
            self.program.add(sum(pairs[c, d] for c in self.at[u]) == chosen)
        length = sum(int(model.cost[f, c, d]) * y for (c, d), y in pairs.items() if c != d)
        self.program.add(self.end[u] <= start)
        self.program.add(start + length <= self.start[v])
        for (c, d), y in pairs.items():
            if c == d:
                continue
            cost = int(model.cost[f, c, d])
            if model.serial[1] or model.serial[2]:
                interval = self.program.new_optional_fixed_size_interval_var(start, cost, y, "")
                rows[1][c].append(interval)
                rows[2][d].append(interval)
            sums[1][c].append(cost * y)
            sums[2][d].append(cost * y)
        self.moved[f] = start, pairs, (u, v)

    def _together(self, group: tuple[int, ...]) -> None:
        for v in group[1:]:
            for d in range(self.model.time.shape[1]):
                here, there = self.at[group[0]].get(d, 0), self.at[v].get(d, 0)
                if not (isinstance(here, int) and isinstance(there, int)):
                    self.program.add(here == there)

    def hint(self, point: Floats) -> None:
        """Start from a point."""
        n = len(self.at)
        whole = [round(float(x)) for x in point]
        for v in range(n):
            for d, x in self.at[v].items():
                self.program.add_hint(x, int(whole[v] == d))
            self.program.add_hint(self.start[v], whole[n + v])
        for f, (start, pairs, (u, v)) in self.moved.items():
            self.program.add_hint(start, whole[2 * n + f])
            for (c, d), y in pairs.items():
                self.program.add_hint(y, int((whole[u], whole[v]) == (c, d)))
        self.program.add_hint(self.finish, whole[-1])

    def values(self, value: Any) -> Floats:
        """A solution as a point."""
        site = [next(d for d, x in at.items() if value(x)) for at in self.at]
        flows = [value(self.moved[f][0]) if f in self.moved else 0 for f in range(len(self.model.cost))]
        return np.array([*site, *(value(s) for s in self.start), *flows, value(self.finish)], dtype=np.float64)

    def bound(self, value: float) -> float:
        """Times are whole numbers already."""
        return value
