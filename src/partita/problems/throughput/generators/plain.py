"""Turn any throughput problem into one of max-throughput partitioning: identical devices, one tensor per operator.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), §2.
"""

from __future__ import annotations

from msgspec.structs import replace

from partita.ground.errors import InputError
from partita.ground.units import format_bytes
from partita.problems.throughput.problem import MicrobatchSchedule, MovedTensor, ThroughputProblem


def plain_problem(
    problem: ThroughputProblem,
    *,
    devices: int | None = None,
    kind: str | None = None,
    memory_bytes: float | None = None,
    keep_tensors: bool = False,
    keep_colocation: bool = True,
) -> ThroughputProblem:
    """The problem on identical devices, with one sample at a time and no variants.

    The backward part of a training problem is left out, with the tensors that only it reads. Parameters and the memory
    of operators stay, though nothing limits them unless ``memory_bytes`` does.

    Parameters
    ----------
    problem
        Any throughput problem.
    devices
        How many devices; None takes the count of the kind.
    kind
        Name of the device kind whose times and rates count; None takes the only kind of accelerators.
    memory_bytes
        Memory of each device: more is streamed at the kind's reload rate. None for no limit.
    keep_tensors
        Keep several tensors of an operator apart. Otherwise they become one of their total size with all their readers,
        which costs no less than they do.
    keep_colocation
        Keep operators together that the problem keeps together.

    Raises
    ------
    InputError
        If the kind is unknown or ambiguous, an operator cannot run on it, or streaming would be free of charge.
    """
    place = _chosen(problem, kind)
    base = problem.kinds[place]
    kept = [op for op in problem.operators if not op.backward]
    for op in kept:
        if op.times[place] is None:
            raise InputError(
                f"problem {problem.name!r}: {op.label} cannot run on {base.name!r}, so the devices cannot be "
                "identical; name another kind"
            )
    if memory_bytes is not None and base.reload_time_per_byte == 0:
        raise InputError(
            f"device kind {base.name!r} reloads for free, so a memory of {format_bytes(memory_bytes)} would mean "
            "nothing; set its reload_time_per_byte (--reload-bandwidth)"
        )
    present = {op.id for op in kept}
    tensors = [
        replace(tensor, consumers=tuple(v for v in tensor.consumers if v in present))
        for tensor in problem.tensors
        if tensor.producer in present
    ]
    # What nothing reads is never moved, and counts for nothing here: joined to a tensor that is, it would.
    read = [tensor for tensor in tensors if tensor.consumers]
    joined = read if keep_tensors else _joined(read)
    notes = [*problem.notes, f"converted to {devices or base.count} identical devices like {base.name!r}"]
    if len(kept) < len(problem.operators):
        notes.append("the backward part is left out")
    if len(joined) < len(read):
        notes.append(f"{len(read)} tensors became {len(joined)}, one for each operator")
    return ThroughputProblem(
        name=problem.name,
        unit=problem.unit,
        kinds=(
            replace(
                base, count=base.count if devices is None else devices, memory_bytes=memory_bytes, accelerator=True
            ),
        ),
        operators=tuple(
            replace(op, times=(op.times[place],), colocation=op.colocation if keep_colocation else None) for op in kept
        ),
        tensors=tuple(joined),
        parameters=tuple(
            replace(
                parameter,
                users=tuple(v for v in parameter.users if v in present),
                gradient_bytes=0.0,
                optimizer_bytes=0.0,
            )
            for parameter in problem.parameters
            if any(v in present for v in parameter.users)
        ),
        schedule=MicrobatchSchedule(),
        notes=tuple(notes),
        streaming=memory_bytes is not None,
    )


def _chosen(problem: ThroughputProblem, kind: str | None) -> int:
    names = [entry.name for entry in problem.kinds]
    if kind is not None:
        if kind not in names:
            raise InputError(f"problem {problem.name!r} has no device kind {kind!r}; it has {', '.join(names)}")
        return names.index(kind)
    places = [place for place, entry in enumerate(problem.kinds) if entry.accelerator]
    if len(places) != 1:
        found = ", ".join(names[place] for place in places) or "none"
        raise InputError(f"problem {problem.name!r} has no single kind of accelerators ({found}); name one (--kind)")
    return places[0]


def _joined(tensors: list[MovedTensor]) -> list[MovedTensor]:
    """One tensor for every producer: the total size, all readers."""
    by_producer: dict[int, list[MovedTensor]] = {}
    for tensor in tensors:
        by_producer.setdefault(tensor.producer, []).append(tensor)
    return [
        MovedTensor(
            producer=producer,
            consumers=tuple(sorted({v for tensor in made for v in tensor.consumers})),
            size=sum(tensor.size for tensor in made),
            name=made[0].name if len(made) == 1 else "",
        )
        for producer, made in by_producer.items()
    ]
