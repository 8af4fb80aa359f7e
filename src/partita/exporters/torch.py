"""torch.distributed.pipelining: a script for torchrun, with the split and the schedule that it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import msgspec

from partita.exporters.exporter import Content, FolderExporter
from partita.ground.errors import InputError
from partita.nouns.split import Split
from partita.simulator.schedules import find_schedule
from partita.simulator.schedules.csv import write_schedule


class TorchPipelining(FolderExporter):
    """A folder of ``run.py``, ``plan.json`` and ``schedule.csv``.

    The script builds the model again, cuts the graph of ``torch.export`` where the plan's stages begin, and runs it
    with the schedule of the CSV file. What skips stages is handed on through those between. Each process takes the card
    that the plan has for its stage and replica, after looking what the driver calls it where cards differ.
    """

    name = "torch"

    def reasons(self, split: Split) -> Iterator[str]:
        if split.source is None:
            yield "the plan does not say how its model is built; plan it again from hf:TYPE or path/to/file.py:callable"
        try:
            schedule = find_schedule(split.schedule)
        except InputError as error:
            yield str(error)
            return
        if not schedule.flush:
            yield f"schedule {split.schedule} keeps several versions of weights, and torch's runtime keeps one"
            return
        if len(split.stages) % split.ranks:
            return
        if not split.training and len(split.stages) > split.ranks:
            yield "without a backward part torch runs one stage on a rank, and the plan has several"
        chunks = len(split.stages) // split.ranks
        refusal = schedule.refusal(split.ranks, chunks, _microbatches(split))
        if refusal is not None:
            yield refusal
        elif schedule.rank_of(split.ranks, chunks) != [stage.rank for stage in split.stages]:
            yield f"schedule {split.schedule} has the stages in another order on the ranks than the plan"

    def contents(self, split: Split, model: Any) -> Mapping[str, Content]:
        chunks = len(split.stages) // split.ranks
        orders = find_schedule(split.schedule).orders(split.ranks, chunks, _microbatches(split))
        return {
            "run.py": files(__package__).joinpath("torch_script.py").read_bytes(),
            "plan.json": msgspec.json.format(msgspec.json.encode(split)),
            "schedule.csv": lambda file: write_schedule(file, orders),
        }


def _microbatches(split: Split) -> int:
    """Of each replica; of a plan without a batch enough to fill the pipeline."""
    return split.microbatches_of_replica if split.training else max(split.microbatches_of_replica, split.ranks)
