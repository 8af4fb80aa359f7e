"""Plan: a model and a cluster in, the best plan beside what people do by hand out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partita.api.answer import Answer, AnyAnswer
from partita.api.arguments import Devices, Inputs, Model
from partita.api.given import Keywords
from partita.api.search import Search
from partita.api.source import ModelSource, read_model
from partita.api.tracing import Tracing
from partita.conductor.place import PLACE_S, PlacedPlan, place, uneven
from partita.conductor.plan import plan_priced
from partita.conductor.search_model import search_model
from partita.conductor.solve import check_time_limit, options_of
from partita.engines.processes.pool import Backend, Pool
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Event, Progress, StopReason
from partita.ground.collecting import collecting_rarely
from partita.ground.errors import InputError, PartitaError
from partita.problems import kind_of, kinds
from partita.problems.facets.model import ModelPlan
from partita.problems.kind import Stated

#: Of a time limit, the share of planning; the rest is for placing.
PLANNING = 0.95
#: Wall time for a placement, at least: where the stages go belongs to the answer.
LEAST_PLACE_S = 0.1


@collecting_rarely()
def plan(
    model: Model,
    cluster: Devices | None = None,
    *,
    objective: str | None = None,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    baselines: bool = True,
    training: bool = False,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    dtype: str | None = None,
    set: Mapping[str, object] | None = None,
    task: str | None = None,
    decode: int | None = None,
    lora: int | None = None,
    lora_targets: Sequence[str] = (),
    inputs: Inputs | None = None,
    search_replicas: bool = False,
    jobs: int = 1,
    backend: Backend = "processes",
    address: str | None = None,
    **settings: Any,
) -> AnyAnswer:
    """Split a model over a cluster, compare the plan with what people do by hand, and place it.

    Parameters
    ----------
    model
        ``hf:TYPE_OR_FILE``, ``path/to/file.py:callable``, the path of an ONNX or graph file, a ``Graph``, or a
        ``torch.nn.Module`` with ``inputs``.
    cluster
        The devices: a short form such as ``4xL4``, the path of a file, a ``Cluster`` or a ``Topology``; None for the
        machine that a profile given as ``costs`` was measured on.
    objective
        What is planned for: the name of a problem; None for what suits the model and the cluster.
    time_limit_s
        Wall time of everything but tracing and pricing: searches, baselines, and what is looked at beside the plan.
        Compiling is not counted. None runs until the proof is done.
    seed, solver, threads, progress
        As for ``solve``.
    baselines
        Whether to compare.
    training
        Whether the model is trained: forward and backward, with gradients and optimizer.
    batch_size, sequence_length, dtype, set, task, decode
        What the model is traced for, as in ``load_model``; ``set`` has fields of its configuration.
    inputs
        Of a module its example arguments, as a tuple or by name; of others arguments that are given, by name.
    lora, lora_targets
        Train low-rank adapters of this rank, with all other weights frozen; and on which linear layers, by the ends of
        their names, such as ``q_proj``: all but the output head unless stated.
    search_replicas, jobs, backend, address
        Training: search numbers of stages and replicas, each placed and simulated, by so many workers.
    settings
        The problem's own: options of its search, of its pricing, and changes of the priced problem.

    Returns
    -------
    Answer
        Never raises for a time limit or Ctrl-C; the answer says why it stopped.

    Raises
    ------
    InputError
        If the model, the cluster or a setting is unknown, malformed or out of range, or they do not fit together.
    TraceError
        If the model cannot be built or traced.
    MissingExtraError
        If what a model or a backend needs is not installed.
    """
    asked = Tracing.of(locals())
    source = read_model(model, cluster, Keywords(settings), asked, objective=objective, solver=solver)
    how = Search(time_limit_s=time_limit_s, seed=seed, solver=solver, threads=threads, progress=progress)
    workers = replica_workers(source, jobs, backend, address, search_replicas=search_replicas)
    return plan_source(source, how, baselines=baselines, workers=workers)


def replica_workers(
    source: ModelSource, jobs: int, backend: Backend, address: str | None, *, search_replicas: bool
) -> Pool | None:
    """Who searches numbers of stages and replicas; None where these are not asked for."""
    if search_replicas and source.pricing.get("runtime") is not None:
        raise InputError("--search-replicas does not know what runtimes run; leave it out, or --runtime")
    if search_replicas:
        return Pool(jobs, backend, address)
    if (jobs, backend, address) != (1, "processes", None):
        raise InputError("--jobs, --backend and --address are for --search-replicas; add it, or leave them out")
    return None


def plan_source(
    source: ModelSource, search: Search, *, baselines: bool = True, workers: Pool | None = None
) -> AnyAnswer:
    """``plan`` for a model that is traced, by workers that search numbers of stages and replicas if there are any."""
    check_time_limit(search.time_limit_s)
    options = options_of(source.kind, search.seed, search.threads, source.options)
    if workers is not None:
        say = search.progress
        found, searched = search_model(
            source.kind,
            source.graph,
            source.cluster,
            source.topology(),
            source.price(),
            options,
            time_limit_s=search.time_limit_s,
            pool=workers,
            progress=None if say is None else lambda text: say(Event(0.0, None, None, text)),
        )
        return Answer.of(
            found.result,
            model_plan=found,
            choice=tuple(source.notes),
            placed=searched.best.placed,
            searched=searched,
        )
    candidates = source.price()
    clock = Monitor(search.time_limit_s)
    part = clock.share(PLANNING)
    found = plan_priced(candidates, options, part, search.solver, progress=search.progress, baselines=baselines)
    # Of what planning leaves, the rest is for placing.
    placed, why_not = _placed(source, found, search, clock)
    return Answer.of(found.result, model_plan=found, choice=tuple(source.notes), placed=placed, not_placed=why_not)


def _placed(
    source: ModelSource, found: ModelPlan[Any], search: Search, clock: Monitor
) -> tuple[PlacedPlan | None, str]:
    """A model's plan on its devices; None where that does not matter or, with the reason, cannot be said."""
    result = found.result
    if result.plan is None or found.cluster.device_count < 2 or result.stop_reason is StopReason.INTERRUPTED:
        return None, ""
    if kind_of(result.problem).stages is None:
        return None, ""
    try:
        topology = source.topology()
        if not uneven(topology):
            return None, ""
        return (
            place(
                result.problem,
                result.plan,
                topology,
                evaluation=result.evaluation,
                time_limit_s=min(PLACE_S, max(LEAST_PLACE_S, clock.remaining_s)),
                seed=search.seed,
                threads=search.threads,
            ),
            "",
        )
    except PartitaError as error:
        # The plan is an answer all the same.
        return None, f"the plan is not placed: {error}"


@collecting_rarely()
def price(
    model: Model,
    cluster: Devices,
    *,
    objective: str | None = None,
    training: bool = False,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    dtype: str | None = None,
    set: Mapping[str, object] | None = None,
    task: str | None = None,
    decode: int | None = None,
    lora: int | None = None,
    lora_targets: Sequence[str] = (),
    inputs: Inputs | None = None,
    **settings: Any,
) -> Stated:
    """The problem of a model on a cluster, in seconds and bytes.

    Parameters
    ----------
    model, cluster, training, batch_size, sequence_length, dtype, set, task, decode, inputs, lora, lora_targets
        As for ``plan``.
    objective
        What is planned for; None for the first problem in the list that models become.
    settings
        How it is priced: ``microbatches``, ``optimizer``, and so on (``FromModel.pricing`` of the problem), and
        changes of the priced problem.

    Raises
    ------
    InputError
        If a setting is unknown or out of range, or does not fit the model or the cluster.
    TraceError
        If the model cannot be built or traced.
    """
    asked = Tracing.of(locals())
    if objective is None:
        first = next(kind for kind in kinds() if kind.model is not None)
        objective = first.objective
    source = read_model(model, cluster, Keywords(settings), asked, objective=objective)
    if source.options:
        raise InputError(f"{next(iter(source.options))} is an option of the search; give it to solve")
    candidates = source.price()
    if len(candidates) > 1:
        raise InputError(f"these settings make {len(candidates)} problems; price makes one, plan takes the best")
    problem: Stated = candidates[0].problem
    return problem
