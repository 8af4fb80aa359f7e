"""Small throughput problems that between them reach every compiled loop."""

from __future__ import annotations

from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import MicrobatchSchedule, MovedTensor, ThroughputProblem, TimedOperator


def _samples() -> tuple[tuple[ThroughputProblem, ...], ...]:
    """Plain ones (mixed and alike devices, training, operators that feed several later ones), and variants."""
    times = (2.0, 3.0, 4.0, 1.0, 2.0, 3.0)
    plain = ThroughputProblem(
        name="warm-up",
        kinds=(DeviceKind(name="a", count=2, memory_bytes=50.0), DeviceKind(name="b", count=1, memory_bytes=60.0)),
        operators=tuple(TimedOperator(id=i, times=(t, 2 * t), memory_bytes=10.0) for i, t in enumerate(times)),
        tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=1.0) for i in range(len(times) - 1)),
    )
    alike = plain.replace(
        kinds=plain.kinds[:1], operators=tuple(TimedOperator(id=i, times=(t,)) for i, t in enumerate(times))
    )
    backward = tuple(
        TimedOperator(id=op.id + 10, times=op.times, backward=True, colocation=op.id, memory_bytes=1.0)
        for op in plain.operators
    )
    forward = tuple(
        TimedOperator(id=op.id, times=op.times, colocation=op.id, memory_bytes=10.0) for op in plain.operators
    )
    training = plain.replace(operators=forward + backward, schedule=MicrobatchSchedule(name="1f1b", microbatches=4))
    gpipe = training.replace(schedule=MicrobatchSchedule(name="gpipe", microbatches=4))
    tight = tuple(DeviceKind(name=name, count=2, memory_bytes=15.0, reload_time_per_byte=0.1) for name in "ab")
    peak = plain.replace(kinds=tight, streaming=True, working_memory="peak")
    wider = ThroughputProblem(
        name="warm-up",
        kinds=(DeviceKind(name="a", count=3),),
        operators=tuple(TimedOperator(id=i, times=(1.0 + i % 3,)) for i in range(8)),
        tensors=tuple(
            MovedTensor(producer=i, consumers=tuple(range(i + 1, min(8, i + 2 + i % 2))), size=1) for i in range(7)
        ),
    )
    variants = (gpipe, plain.replace(communication="overlap"), plain.replace(max_replicas=2), peak)
    return (plain, alike, training, wider), variants


SAMPLES = _samples()
