"""Measured serving runs: the models, layouts and loads of their rows, and what the planner says of them.

Three kinds of rows, in the files of ``../shared/data/serving/measured``: means of closed loops (``aggregated.csv``),
static batches (``splitwise-static-batches.csv``), and logs of requests (``vllm-*.csv``, with a ``.json`` beside each).
Nothing here is made for one row; models are small facts with their source in ``serving_models.json``.
"""

from __future__ import annotations

import csv
import functools
import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from partita.costs.serving.decoder import Decoder, decoder_of
from partita.costs.serving.kernel_times import Fabric
from partita.costs.serving.layout import ServingLayout
from partita.costs.serving.prices import StepPrices
from partita.costs.serving.pricing import price_steps
from partita.frontends.models import load_model
from partita.nouns.catalogue.engines import EngineSpec, find_engine
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.workload.workload import RequestTrace, RequestWorkload
from partita.problems.serving.evaluate import ServingEvaluation, evaluate
from partita.problems.serving.menu import rules_of
from partita.problems.serving.options import StatedLayout
from partita.problems.serving.problem import DevicePool, ServingPlan, ServingProblem, ServingUnit, UnitGroup, UnitLayout

MODELS = Path(__file__).resolve().parent / "serving_models.json"

#: Tokens in the cache of the step of decoding that models are traced as: more than their windows, and no other size.
CONTEXT = 8209

#: Devices of the systems and machines that rows name.
DEVICES = {
    "h100_sxm": "H100-80GB",
    "h200_sxm": "H200-141GB",
    "b200_sxm": "B200",
    "a100-80gb": "A100-80GB",
    "h100-80gb": "H100-80GB",
    "h100-80gb-pcap": "H100-80GB",
    "rtx4090": "RTX4090",
    "rtxpro6000": "RTXPRO6000",
    "h100": "H100-80GB",
    "a100": "A100-80GB",
}

#: Of machines whose GPUs are held to half of their power (Splitwise, section VI): dynamic power goes with the cube of
#: the clock, since voltage goes with it.
CAPPED = {"h100-80gb-pcap": 0.5 ** (1 / 3)}

#: Constants were set on rows of ``aggregated.csv`` whose number, from 0, is a multiple of this.
SET_ON = 4

Row = Mapping[str, str]


@dataclass(frozen=True)
class Compared:
    """Predicted and measured seconds of a row, by quantity."""

    kind: str  #: ``closed loop``, ``static batch`` or ``log``.
    labels: dict[str, str]
    predicted: dict[str, float]
    measured: dict[str, float]
    number: int = 0  #: Of the row in its file.

    def error(self, what: str) -> float:
        """By how much a prediction is longer than what was measured, as a share."""
        return self.predicted[what] / self.measured[what] - 1


@functools.cache
def models() -> dict[str, dict[str, Any]]:
    """Configurations by the name of the model."""
    found: dict[str, dict[str, Any]] = json.loads(MODELS.read_text(encoding="utf-8"))
    return found


def model_named(name: str) -> str:
    """The entry that a row's name is about: variants in another format, or trained on, have the same sizes."""
    known = sorted((n for n in models() if name.lower().startswith(n.lower())), key=len)
    if not known:
        raise KeyError(f"no configuration for {name!r} in {MODELS.name}")
    return known[-1]


@functools.cache
def decoder(name: str) -> Decoder:
    """A model by its name, traced."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        path.write_text(json.dumps(models()[name]["config"]), encoding="utf-8")
        return decoder_of(load_model(f"hf:{path}", decode=CONTEXT))


@functools.cache
def priced(model: str, layout: ServingLayout, system: str, name: str, tokens: int | None = None) -> StepPrices:
    """The prices of a unit in one machine, with an engine by its name, and most tokens of a step where stated."""
    catalogue, engine = load_catalogue(), find_engine(name)
    if tokens is not None:
        engine = msgspec.structs.replace(engine, step_tokens=tokens)
    spec = catalogue.device(DEVICES[system])
    clock = CAPPED.get(system, 1.0)
    reached = {"best_efficiency": spec.of_best * clock, "compute_efficiency": spec.compute_efficiency * clock}
    spec = msgspec.structs.replace(spec, **reached)
    fabric = Fabric(catalogue.link(spec.link), catalogue.link("infiniband-ndr"))
    return price_steps(decoder(model), layout, spec, fabric, engine)


def served(
    prices: StepPrices, layout: ServingLayout, system: str, engine: EngineSpec, load: RequestWorkload, **sizes: int
) -> ServingEvaluation:
    """One unit under a load."""
    degrees = UnitLayout(
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        attention_data=prices.attention_data,
        expert=layout.expert or None,
    )
    unit = ServingUnit(
        kind=DEVICES[system],
        layout=degrees,
        rules=rules_of(engine, StatedLayout(degrees=degrees, **sizes)),
        prices=prices,
    )
    problem = ServingProblem(
        workload=load, units=(unit,), pools=(DevicePool(kind=unit.kind, machines=(degrees.devices,)),)
    )
    return evaluate(problem, ServingPlan(units=(UnitGroup(unit=0),)))


def layout_of(row: Row, mixture: bool) -> ServingLayout:
    """The layout of a row of closed loops."""
    tensor, parts, groups = int(row["tensor"]), int(row["moe_tensor"] or 1), max(1, int(row["moe_expert"] or 1))
    weights, experts = row["weights"] or "bf16", row["moe_weights"] or "bf16"
    # TensorRT-LLM's 8-bit checkpoints say an 8-bit cache, those by blocks do not.
    cache = "fp8" if row["backend"] == "trtllm" and weights == "fp8" else "bf16"
    if not mixture:
        return ServingLayout(tensor=tensor, pipeline=int(row["pipeline"]), weights=weights, cache=cache)
    data = int(row["attention_data"] or max(1, parts * groups // tensor))
    if "gpt-oss" in row["model"]:
        # Its experts are trained in four bits, all else in sixteen, whatever the run is called.
        weights, experts, cache = "bf16", "mxfp4", "bf16"
    if parts * groups != tensor * data:
        parts, groups = tensor * data, 1
    return ServingLayout(
        tensor=tensor,
        pipeline=int(row["pipeline"]),
        attention_data=data,
        expert=groups,
        expert_tensor=parts,
        weights=weights,
        expert_weights=experts,
        cache=cache,
    )


def closed_loops(path: Path) -> Iterator[Compared]:
    """Every row of means of closed loops, with so many requests in flight."""
    for number, row in enumerate(_rows(path)):
        name, engine = model_named(row["model"]), find_engine(row["backend"])
        mixture = any(block.experts for block in decoder(name).blocks)
        layout = layout_of(row, mixture)
        load = RequestWorkload(
            prompt_tokens=int(row["isl"]),
            output_tokens=int(row["osl"]),
            concurrency=int(row["concurrency"]),
            spread=engine.drift,
        )
        sizes = {} if engine.chunks else {"tokens": max(engine.step_tokens, int(row["isl"]))}
        found = served(priced(name, layout, row["system"], engine.name), layout, row["system"], engine, load, **sizes)
        labels = {key: row[key] for key in ("model", "system", "backend", "weights", "isl", "osl", "concurrency")}
        labels["layout"] = f"tensor {layout.tensor}" + (f" expert {layout.expert}" if layout.expert > 1 else "")
        yield Compared(
            "closed loop",
            labels,
            {"tpot": found.tpot_s.mean, "ttft": found.ttft_s.mean},
            {"tpot": float(row["tpot_ms"]) / 1e3, "ttft": float(row["ttft_ms"]) / 1e3},
            number,
        )


def static_batches(path: Path) -> Iterator[Compared]:
    """Every batch of prompts of one length, and the decodes after it; repetitions of one are their median."""
    keys = ("model", "hardware", "tensor_parallel", "prompt_size", "batch_size", "token_size")
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in _rows(path):
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    engine = find_engine("eager")
    for number, (which, rows) in enumerate(groups.items()):
        name, hardware, tensor, prompt, batch, tokens = which
        layout = ServingLayout(tensor=int(tensor))
        prices = priced(model_named(name), layout, hardware, engine.name)
        size, before = int(batch), int(prompt)
        # A decode of the middle of the answer stands for all of them, since they are a line in the context.
        predicted = {
            "prompt": prices.step_time_s(0, [(before, 0)] * size, []),
            "token": prices.step_time_s(0, [], [before + int(tokens) // 2] * size),
        }
        measured = {
            f"{what}": statistics.median(float(row[f"{what}_time"]) for row in rows) / 1e3 for what in predicted
        }
        yield Compared("static batch", dict(zip(keys, which, strict=True)), predicted, measured, number)


def log(path: Path) -> Compared:
    """A log of single requests, at their times."""
    stated = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    machine = path.stem.split("-")[1]
    name, engine, settings = model_named(stated["model"]), find_engine("vllm"), stated["engine"]
    tokens = settings["max_num_batched_tokens"]
    tensor = settings["tensor_parallel_size"]
    layout = ServingLayout(tensor=tensor, expert=tensor if settings["enable_expert_parallel"] else 0)
    prices = priced(name, layout, machine, engine.name, tokens)
    cache = (stated.get("kv_cache") or {}).get("num_kv_tokens")
    if cache:
        # The log says how large the cache was; a block more, since bytes are rounded to pages.
        size = sum(prices.cache_bytes_per_token[0]) * (cache + engine.block)
        prices = msgspec.structs.replace(prices, cache_budget_bytes=(size,) * prices.stages)
    rows = sorted(_rows(path), key=lambda row: float(row["arrival_s"]))
    arrival, first, last = ([float(row[key]) for row in rows] for key in ("arrival_s", "first_token_s", "last_token_s"))
    prompt, output = ([int(row[key]) for row in rows] for key in ("prompt_tokens", "output_tokens"))
    trace = RequestTrace(arrival_s=tuple(arrival), prompt_tokens=tuple(prompt), output_tokens=tuple(output))
    sizes = {"requests": settings["max_num_seqs"], "tokens": tokens}
    found = served(prices, layout, machine, engine, RequestWorkload(trace=trace), **sizes)
    each = [(end - begin) / (count - 1) for begin, end, count in zip(first, last, output, strict=True) if count > 1]
    measured = {
        "tpot": statistics.mean(each),
        "tpot_p90": statistics.quantiles(each, n=10)[-1],
        "latency": statistics.mean(end - begin for begin, end in zip(arrival, last, strict=True)),
        "ttft": statistics.mean(end - begin for begin, end in zip(arrival, first, strict=True)),
    }
    predicted = {
        "tpot": found.tpot_s.mean,
        "tpot_p90": found.tpot_s.p90,
        "latency": found.latency_s.mean,
        "ttft": found.ttft_s.mean,
    }
    return Compared("log", {"model": stated["model"], "machine": machine}, predicted, measured)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
