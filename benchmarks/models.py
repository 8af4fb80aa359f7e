"""Trace every model type that the installed transformers has, and say which ones cannot be traced and why.

Every type is traced with its default configuration at full width, and at full depth unless it is deep: what counts
layers is at most ``DEPTH``. Each runs in a process of its own, with limits on time and memory.
Prints and writes a table as results come, and with ``--docs`` the page of the documentation that holds it.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import random
import sys
from collections import Counter
from datetime import date
from functools import partial
from pathlib import Path

from _apart import Done, run_apart
from _common import add_out
from _coverage import Traced, kind_of_reason, page

DEPTH = 4
SECONDS = 120
MEMORY_BYTES = 8 * 2**30

#: Types that are traced before the copies are made, so that what most types need is imported once.
_USUAL = ("bert", "llama", "mixtral", "vit", "wav2vec2", "t5", "llava")


def trace_one(kind: str, training: bool) -> Traced:
    """Trace a type here and now."""
    from _shallow import shallow_fields
    from partita.frontends.models import load_model
    from partita.ground.errors import PartitaError

    found = Traced(kind, False)
    fields = shallow_fields(kind, DEPTH)
    # Some configurations name layers by number, so a shallow one is not valid.
    for chosen in (fields, {}) if fields else ({},):
        try:
            graph = load_model(f"hf:{kind}", set_fields=chosen, training=training)
        except PartitaError as error:
            found.reason = found.reason or str(error)
        except Exception as error:
            found.reason = f"TRACEBACK {type(error).__name__}: {' '.join(str(error).split())}"
        else:
            notes = [note for note in graph.notes if note.startswith("Without ")]
            missing = ", ".join(note.removeprefix("Without ").partition(":")[0] for note in notes)
            return Traced(kind, True, len(graph.operators), graph.flops, without=missing)
    return found


def warm_up() -> None:
    """Import what types have in common, by tracing some of them."""
    import torch

    # Threads do not survive the making of copies.
    torch.set_num_threads(1)
    for kind in _USUAL:
        trace_one(kind, False)


def row_of(done: Done) -> Traced:
    """A line of the table."""
    row = Traced(done.name, False, reason=done.reason) if done.result is None else done.result
    return dataclasses.replace(row, seconds=done.seconds, memory_bytes=done.memory_bytes)


def sweep(kinds: list[str], training: bool, jobs: int, path: Path) -> list[Traced]:
    """Trace types and write them down as they come."""
    warm_up()
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(Traced)])
        writer.writeheader()
        work = partial(trace_one, training=training)
        for done in run_apart(work, kinds, jobs=jobs, seconds=SECONDS, memory_bytes=MEMORY_BYTES):
            rows.append(row_of(done))
            writer.writerow(dataclasses.asdict(rows[-1]))
            file.flush()
            say(rows[-1])
    return rows


def read_rows(path: Path) -> list[Traced]:
    """The table of an earlier sweep."""
    whole = ("operators", "flops", "memory_bytes")
    with path.open(newline="") as file:
        return [
            Traced(
                model=line["model"],
                traced=line["traced"] == "True",
                seconds=float(line["seconds"]),
                without=line.get("without") or "",
                reason=line["reason"],
                **{name: int(line[name]) for name in whole},
            )
            for line in csv.DictReader(file)
        ]


def say(row: Traced) -> None:
    """Print one line."""
    what = f"{row.operators} operators" if row.traced else row.reason
    missing = f", without {row.without}" if row.without else ""
    print(f"{row.model:40s} {row.seconds:6.1f} s {row.memory_bytes / 2**20:6.0f} MiB  {what}{missing}", flush=True)


def versions() -> dict[str, str]:
    """Of what decides the table."""
    from importlib.metadata import version

    return {name: version(name) for name in ("partita", "transformers", "torch")}


def main() -> int:
    """Run the sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="types; all unless named")
    parser.add_argument("--sample", type=int, help="so many drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    add_out(parser)
    parser.add_argument("--docs", type=Path, help="write the documentation's page here")
    parser.add_argument("--read", action="store_true", help="trace nothing: take the table that is there")
    asked = parser.parse_args()
    path = asked.out / "models.csv"
    if asked.read:
        rows = read_rows(path)
    else:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

        kinds = asked.models or sorted(CONFIG_MAPPING_NAMES)
        if asked.sample:
            kinds = sorted(random.Random(asked.seed).sample(kinds, asked.sample))
        rows = sweep(kinds, asked.training, asked.jobs, path)
    done = sum(row.traced for row in rows)
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(f"{done} of {len(rows)} traced ({done / len(rows):.1%}), {used}")
    for reason, count in Counter(kind_of_reason(row.reason) for row in rows if not row.traced).most_common(40):
        print(f"{count:4d}  {reason}")
    if asked.docs is not None:
        limits = (
            f"with its default configuration at full width and at most {DEPTH} layers of a kind, "
            f"within {SECONDS} s and {MEMORY_BYTES >> 30} GiB"
        )
        asked.docs.write_text(page(rows, versions(), date.today().isoformat(), limits))
        print(f"written to {asked.docs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
