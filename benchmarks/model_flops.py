"""Compare the FLOPs of traced transformers types with those that ``torch.utils.flop_counter`` counts.

Types are drawn at random until so many are compared. The counter runs the same module on the same arguments without any
part of the tracer: on the meta device, or for real where the code of the model reads values. Both count on equal
terms: the counter also gets formulas for the products that its registry misses (grouped products, matrix times vector)
or counts too often (the backward pass of convolutions in groups).
What the model computes and nobody uses is not in a graph; it is counted here, in a column of its own. Attention runs as
plain products: fused kernels compute scores twice in the backward pass, which no graph counts. Recurrences that a graph
keeps whole count what their kernels do, not what the slow path of Python does in their place: types that have them are
listed and not compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
from dataclasses import dataclass
from functools import partial

from _apart import run_apart
from _common import add_out, write
from _flops import counted
from models import MEMORY_BYTES, SECONDS, warm_up

#: Layers of a kind: few, so that what reads values can be run for real.
DEPTH = 2
TOLERANCE = 0.01

#: Most FLOPs of a model that is run for real.
_MOST_REAL = 3 * 10**12


@dataclass
class Compared:
    """Two counts of one type.

    Attributes
    ----------
    model
        The type.
    graph
        FLOPs of its graph.
    unused
        FLOPs of what runs without being used, which is no part of the graph.
    whole
        FLOPs of recurrences that are kept whole, part of the graph's; such types are not compared.
    torch
        FLOPs that torch counts.
    how
        Where torch counted: on ``meta``, or ``real``.
    reason
        Why not on meta, or not at all.
    """

    model: str
    graph: int = 0
    unused: int = 0
    whole: int = 0
    torch: int = 0
    how: str = ""
    reason: str = ""

    @property
    def off(self) -> float:
        """By what share the graph's count is off."""
        return abs(self.graph + self.unused - self.torch) / max(self.torch, 1)


def compare(kind: str, training: bool) -> Compared:
    """Count the FLOPs of a type in both ways."""
    from _shallow import shallow_fields
    from partita.frontends.models import load_module
    from partita.frontends.torch import trace_calls
    from partita.ground.errors import PartitaError
    from partita.nouns.graph import Source

    fields = shallow_fields(kind, DEPTH)
    for chosen in (fields, {}) if fields else ({},):
        source = Source(model=f"hf:{kind}", settings={"set": chosen}, training=training)
        try:
            model = load_module(source)
            graph, capture, _ = trace_calls(model.module, model.args, model.kwargs, training, dtype=model.dtype)
        except PartitaError as error:
            found = Compared(kind, reason=str(error))
            continue
        found = Compared(kind, graph.flops, sum(call.flops for call in capture.calls) - graph.flops)
        found.whole = sum(op.flops for op in graph.operators if op.target.startswith("partita."))
        if found.whole:
            found.reason = "keeps recurrences whole"
            return found
        try:
            found.torch, found.how = counted(model.module, model.args, model.kwargs, training, "meta"), "meta"
        except Exception as error:
            found.reason = f"on meta: {' '.join(str(error).split())[:150]}"
            if graph.flops > _MOST_REAL:
                found.reason += "; too large to run"
                return found
            model = load_module(source, seed=0)
            try:
                found.torch, found.how = counted(model.module, model.args, model.kwargs, training, "cpu"), "real"
            except Exception as second:
                found.reason += f"; for real: {' '.join(str(second).split())[:150]}"
        return found
    return found


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="types; drawn at random unless named")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    add_out(parser)
    asked = parser.parse_args()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    drawn = sorted(CONFIG_MAPPING_NAMES)
    random.Random(asked.seed).shuffle(drawn)
    kinds = asked.models or drawn
    count = len(kinds) if asked.models else asked.count
    warm_up()
    rows: list[Compared] = []
    work = partial(compare, training=asked.training)
    results = run_apart(work, kinds, jobs=asked.jobs, seconds=SECONDS, memory_bytes=MEMORY_BYTES)
    for done in results:
        row = Compared(done.name, reason=done.reason) if done.result is None else done.result
        rows.append(row)
        off = f"{row.off:8.3%}" if row.how else "       –"
        wrong = "  WRONG" if row.how and row.off > TOLERANCE else ""
        why = "" if row.how == "meta" else row.reason[:240]
        counts = f"{row.graph:18d} {row.unused:15d} {row.whole:15d} {row.torch:18d}"
        print(f"{row.model:40s} {counts} {off} {row.how:5s}{wrong} {why}", flush=True)
        if sum(bool(row.how) for row in rows) == count:
            break
    results.close()
    held = [row for row in rows if row.how]
    right = [row for row in held if row.off <= TOLERANCE]
    print(f"{len(right)} of {len(held)} within {TOLERANCE:.0%}; {len(rows) - len(held)} of those drawn not compared")
    write(asked.out / "model_flops.csv", [{**dataclasses.asdict(row), "off": row.off} for row in rows])
    return 0 if len(right) == len(held) else 1


if __name__ == "__main__":
    sys.exit(main())
