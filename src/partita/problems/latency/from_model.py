"""From a model on a machine to a latency problem: accelerators that exchange tensors through the memory of its CPU.

docs/latency.md, "From a model", says what every number means and what is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from partita.costs.live import live_bytes
from partita.costs.roofline import Roofline
from partita.costs.table import cost_source
from partita.costs.units import weights_alone
from partita.costs.workspace import colocation_roots
from partita.ground.dags import joined
from partita.ground.errors import InputError
from partita.ground.units import format_bytes, format_time
from partita.nouns.graph import Workload
from partita.nouns.split import StagePart
from partita.problems.facets.model import FromModel, ModelParts, Priced, Pricing
from partita.problems.latency.plan import LatencyPlan, homes
from partita.problems.latency.problem import LatencyOperator, LatencyProblem

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster, DeviceGroup, LinkPath
    from partita.nouns.graph import Graph

#: Names of what the pricing adds to the operators of the graph: the model's inputs and its results, in host memory.
INPUT, RESULTS = "input {}", "results"


class LatencyFromModel(FromModel[LatencyProblem]):
    """Inference on one machine, one sample (or batch) at a time."""

    pricing = Pricing
    objective = "host-memory"
    workloads = (Workload.INFERENCE,)

    def refusal(self, cluster: Cluster) -> str | None:
        kinds = [group.spec for group in cluster.groups()]
        if len(cluster.machines) > 1:
            return f"has {len(cluster.machines)} machines, and tensors pass through the memory of one host"
        if sum(kind.accelerator for kind in kinds) != 1 or sum(not kind.accelerator for kind in kinds) != 1:
            return (
                f"has {', '.join(kind.name for kind in kinds)}; exchange through host memory is planned for "
                "accelerators of one kind and the CPU of their machine, as in (4xT4+1xCPU)"
            )
        return None

    def price(
        self,
        graph: Graph,
        cluster: Cluster,
        settings: Pricing,
        change: Callable[[LatencyProblem], LatencyProblem] | None = None,
    ) -> Sequence[Priced[LatencyProblem]]:
        if settings.runtime is not None:
            raise InputError(
                f"no plan of pieces on accelerators is made for {settings.runtime}; leave --runtime out, or use "
                "--objective latency or throughput"
            )
        problem = price(graph, cluster, settings)
        return [Priced(problem if change is None else change(problem), graph, cluster, settings)]

    def parts(self, priced: Priced[LatencyProblem], plan: LatencyPlan) -> ModelParts:
        """The devices that run something, the one of the model's first operator first."""
        accelerators, host = _groups(priced.cluster)
        home = homes(priced.problem, plan)
        held: dict[int, list[int]] = {}
        for v in range(len(priced.graph.operators)):
            held.setdefault(home[v][0] if v in home else -1, []).append(v)
        return ModelParts(
            tuple(
                StagePart(
                    operators=tuple(operators),
                    devices=("cpu:0" if number < 0 else f"accelerator:{number}",),
                    kind=(host if number < 0 else accelerators).spec.name,
                    accelerator=number >= 0,
                    rank=rank,
                    # Accelerators beyond those of the cluster are asked for with --devices.
                    places=host.indices[:1] if number < 0 else accelerators.indices[number : number + 1],
                )
                for rank, (number, operators) in enumerate(held.items())
            ),
            sequential=True,
        )


def price(graph: Graph, cluster: Cluster, settings: Pricing) -> LatencyProblem:
    """The latency problem of a graph on a machine that is not refused, in seconds and bytes.

    Raises
    ------
    InputError
        If the CPU cannot run an operator, or there is no room for the activations on an accelerator, or for the model
        in host memory.
    """
    source = cost_source(settings.costs) or Roofline()
    accelerators, host = _groups(cluster)
    held = live_bytes(graph) + max(op.workspace_bytes for op in graph.operators)
    room = accelerators.spec.usable_bytes - held
    whole = held + sum(parameter.bytes for parameter in graph.parameters)
    for needed, device in ((held, accelerators.spec), (whole, host.spec)):
        if needed > device.usable_bytes:
            raise InputError(
                f"{graph.name} needs {format_bytes(needed)} on {device.name}, which has "
                f"{format_bytes(device.usable_bytes)}; take a smaller batch, a shorter sequence or another device"
            )
    path = min((cluster.path(place, host.indices[0]) for place in accelerators.indices), key=_rate)
    sent, memory = [0] * len(graph.operators), [0] * len(graph.operators)
    edges: set[tuple[int, int]] = set()
    inputs: list[LatencyOperator] = []
    count = results = len(graph.operators)
    for tensor in graph.tensors:
        maker = tensor.producer
        if maker is None:
            count += 1
            inputs.append(_in_host_memory(count, INPUT.format(tensor.name), _seconds(path, tensor.bytes)))
            maker = count
        else:
            # A new version of a buffer, written in place, stays where the buffer is.
            sent[maker] += tensor.bytes if tensor.stored is None else 0
        ends = (results,) if tensor.producer is not None and tensor.stored is None else ()
        edges.update((maker, reader) for reader in (tensor.consumers or ends))
    for parameter in graph.parameters:
        if parameter.users:
            memory[parameter.users[0]] += parameter.bytes
    columns = (source.operator_times(graph, group.spec) for group in (host, accelerators))
    classes = _classes(graph)
    shared = {root for v, root in enumerate(classes) if root != v}
    operators: list[LatencyOperator] = []
    for v, (op, on_cpu, on_accelerator) in enumerate(zip(graph.operators, *columns, strict=True)):
        if on_cpu is None:
            raise InputError(
                f"operator {op.name!r} of {graph.name} does not run on {host.spec.name}, which runs what no "
                "accelerator does; plan it with --objective latency"
            )
        operators.append(
            LatencyOperator(
                id=v,
                cpu_time=on_cpu,
                accelerator_time=on_accelerator,
                transfer_time=_seconds(path, sent[v]),
                memory_bytes=float(memory[v]),
                colocation=classes[v] if classes[v] in shared else None,
                name=op.name,
            )
        )
    return LatencyProblem(
        name=settings.name if settings.name is not None else f"{graph.name} on {cluster.name}",
        accelerators=len(accelerators.indices),
        memory_bytes=float(room),
        operators=(*operators, _in_host_memory(results, RESULTS, 0.0), *inputs),
        edges=tuple(sorted(edges)),
        unit="s",
        notes=(
            *graph.notes,
            *source.notes(graph),
            f"Every tensor between devices goes through host memory, over {path.link} at "
            f"{path.bandwidth_bytes_per_s / 1e9:.4g} GB/s after {format_time(path.latency_s)} each way; inputs begin "
            "and results end there. Accelerators do not share that way, and operators run side by side on the CPU as "
            "if each had it alone.",
            f"An accelerator holds the weights and buffers that its operators read, and has {format_bytes(held)} set "
            "aside: no more activations and scratch memory than that exist at any time of any schedule.",
        ),
    )


def _groups(cluster: Cluster) -> tuple[DeviceGroup, DeviceGroup]:
    """The accelerators and the CPU."""
    first, second = sorted(cluster.groups(), key=lambda group: not group.spec.accelerator)
    return first, second


def _rate(path: LinkPath) -> float:
    return path.bandwidth_bytes_per_s


def _seconds(path: LinkPath, size: int) -> float:
    return path.latency_s + size / path.bandwidth_bytes_per_s if size else 0.0


def _in_host_memory(identity: int, name: str, transfer_time: float) -> LatencyOperator:
    return LatencyOperator(id=identity, cpu_time=0.0, accelerator_time=None, transfer_time=transfer_time, name=name)


def _classes(graph: Graph) -> list[int]:
    """For every operator the first one of those that share its device: readers of an array, and what only one reads."""
    pairs = list(enumerate(colocation_roots(graph)))
    pairs += [(parameter.users[0], user) for parameter in graph.parameters for user in parameter.users]
    pairs += [(v, readers[0]) for v, readers in weights_alone(graph).items() if len(readers) == 1]
    return joined(len(graph.operators), pairs)
