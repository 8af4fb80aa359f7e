"""Small mapping problems that between them reach every compiled loop."""

from __future__ import annotations

from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer


def _links(devices: int, machine: int) -> tuple[tuple[float, ...], ...]:
    """Devices in machines of a size: fast links inside, slower ones between, the slower the further."""
    return tuple(
        tuple(8e9 if a // machine == b // machine else 2e9 / abs(a // machine - b // machine) for b in range(devices))
        for a in range(devices)
    )


#: Three stages of two replicas on seven devices of which the last is slow.
UNEQUAL = MappingProblem(
    name="warm-up",
    replicas=2,
    stages=tuple(
        MappingStage(name=f"s{s}", times_s=(*(0.01 + 0.002 * s,) * 6, 0.05), parameter_bytes=4e6 * (s + 1))
        for s in range(3)
    ),
    transfers=(
        MappingTransfer(source=0, target=1, bytes=3e7),
        MappingTransfer(source=1, target=2, bytes=2e7),
        MappingTransfer(source=0, target=2, bytes=1e7),
    ),
    bandwidth_bytes_per_s=_links(7, 2),
)

#: Four stages of four replicas on four machines.
MACHINES = MappingProblem(
    name="warm-up machines",
    replicas=4,
    stages=tuple(MappingStage(name=f"s{s}", time_s=0.01, parameter_bytes=4e6 * (s + 1)) for s in range(4)),
    transfers=tuple(MappingTransfer(source=s, target=s + 1, bytes=2e7 / (s + 1)) for s in range(3)),
    bandwidth_bytes_per_s=_links(16, 4),
)

#: Three stages of two, three and one replicas on seven devices.
UNEVEN = MappingProblem(
    name="warm-up turns",
    replicas=2,
    stages=tuple(
        MappingStage(name=f"s{s}", time_s=0.01, parameter_bytes=4e6, replicas=count)
        for s, count in enumerate((2, 3, 1))
    ),
    transfers=tuple(MappingTransfer(source=s, target=s + 1, bytes=2e7) for s in range(2)),
    bandwidth_bytes_per_s=_links(7, 2),
)

SAMPLES = ((UNEQUAL, MACHINES, UNEVEN),)
