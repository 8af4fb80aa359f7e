"""The published search, in the form that its rule chooses and in either form."""

from __future__ import annotations

from partita.engines.kernels.arrays import Ints
from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.mapping.baselines.base import MappingBaseline
from partita.problems.mapping.bisection import EasyForm, bisection, heavier_form
from partita.problems.mapping.instance import Instance
from partita.problems.mapping.plan import Placement
from partita.problems.mapping.protocol import Options


class Parmesan(MappingBaseline):
    """See ``partita.problems.mapping.bisection``."""

    name = "parmesan"
    summary = "bisection with depth-first assignment, in the form of the larger traffic; ignores the other term"
    form: EasyForm | None = None

    def devices(self, instance: Instance, options: Options, monitor: Monitor) -> Ints:
        form = heavier_form(instance) if self.form is None else self.form
        found: list[Ints] = []
        run: Incumbent[Placement] = Incumbent()
        run_in_background(run, monitor.part(), lambda: found.append(bisection(instance, form, run.stop, options.seed)))
        return found[0]


class ParmesanPointToPoint(Parmesan):
    """The form with transfers, whatever the traffic."""

    name = "parmesan-point-to-point"
    summary = "bisection with depth-first assignment, in the form with transfers; ignores the all-reduce"
    form = "point-to-point"


class ParmesanAllReduce(Parmesan):
    """The form with the all-reduce, whatever the traffic."""

    name = "parmesan-all-reduce"
    summary = "bisection with depth-first assignment, in the form with the all-reduce; ignores transfers"
    form = "all-reduce"
