"""Trace every model type that the installed transformers has, and say which ones cannot be traced and why.

Every type is traced with its default configuration at full width, and at full depth unless it is deep: what counts
layers is at most ``DEPTH``. Each runs in a process of its own, with limits on time and memory.
Prints and writes a table, and with ``--docs`` the page of the documentation that holds it.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

DEPTH = 4
SECONDS = 120
MEMORY_BYTES = 8 * 2**30


@dataclass
class Traced:
    """What became of a type."""

    model: str
    traced: bool
    operators: int = 0
    flops: int = 0
    seconds: float = 0.0
    memory_bytes: int = 0
    reason: str = ""


def trace_one(kind: str, training: bool) -> Traced:
    """Trace a type here and now."""
    from partita.errors import PartitaError
    from partita.frontends.hf.depth import shallow_fields
    from partita.frontends.models import load_model

    started = time.perf_counter()
    found = Traced(kind, False)
    # Some configurations name layers by number, so a shallow one is not valid.
    for fields in (shallow_fields(kind, DEPTH), {}):
        try:
            graph = load_model(f"hf:{kind}", set_fields=fields, training=training)
            found = Traced(kind, True, len(graph.operators), sum(op.flops for op in graph.operators))
            break
        except PartitaError as error:
            found = Traced(kind, False, reason=str(error))
        except Exception as error:
            found = Traced(kind, False, reason=f"TRACEBACK {type(error).__name__}: {' '.join(str(error).split())}")
    found.seconds = time.perf_counter() - started
    found.memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found


def _child(kind: str, training: bool, answer: int) -> None:
    import pickle

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.write(answer, pickle.dumps(trace_one(kind, training)))
    os._exit(0)


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def run_limited(kind: str, training: bool) -> Traced:
    """Trace a type in a copy of this process, ended when it takes too long or too much."""
    import pickle
    import select

    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        try:
            _child(kind, training, writing)
        finally:
            os._exit(1)
    os.close(writing)
    started, reason, data = time.perf_counter(), "", b""
    while not reason:
        if select.select([reading], [], [], 0.2)[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                break
            data += part
        elif time.perf_counter() - started > SECONDS:
            reason = f"not traced in {SECONDS} s"
        elif _resident(process) > MEMORY_BYTES:
            reason = f"needs over {MEMORY_BYTES >> 30} GiB"
    os.close(reading)
    if reason:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not reason and data:
        found: Traced = pickle.loads(data)
        return found
    return Traced(kind, False, seconds=time.perf_counter() - started, reason=reason or f"ended with status {status}")


def main() -> int:
    """Run the sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="types; all unless named")
    parser.add_argument("--sample", type=int, help="so many drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path, default=Path("results/models.csv"))
    parser.add_argument("--docs", type=Path, help="write the documentation's page here")
    asked = parser.parse_args()
    import transformers

    from partita.frontends.torchvision_operators import declare_where_missing

    declare_where_missing()
    # What every model needs, once and not in each child.
    import transformers.models.bert.modeling_bert
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    import partita.frontends.hf.load
    import partita.frontends.run

    _ = partita.frontends, transformers.AutoModel
    kinds = asked.models or sorted(CONFIG_MAPPING_NAMES)
    if asked.sample:
        kinds = sorted(random.Random(asked.seed).sample(kinds, asked.sample))
    rows: list[Traced] = []
    if asked.jobs > 1:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(asked.jobs) as pool:
            for row in pool.map(lambda kind: run_limited(kind, asked.training), kinds):
                rows.append(row)
                say(row)
    else:
        for kind in kinds:
            rows.append(run_limited(kind, asked.training))
            say(rows[-1])
    done = sum(row.traced for row in rows)
    print(f"{done} of {len(rows)} traced ({done / len(rows):.1%}), transformers {transformers.__version__}")
    for reason, count in Counter(row.reason[:90] for row in rows if not row.traced).most_common(40):
        print(f"{count:4d}  {reason}")
    asked.csv.parent.mkdir(parents=True, exist_ok=True)
    with asked.csv.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    return 0


def say(row: Traced) -> None:
    """Print one line."""
    what = f"{row.operators} operators" if row.traced else row.reason
    print(f"{row.model:40s} {row.seconds:6.1f} s {row.memory_bytes / 2**20:6.0f} MiB  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
