"""Graphs for the tests of prices: one worked by hand, and random ones."""

from __future__ import annotations

from hypothesis import strategies as st

from partita.nouns.cluster import Cluster, DeviceSpec, LinkSpec, Machine
from partita.nouns.graph import Graph, Operator, Parameter, Tensor

__all__ = ["make_cluster", "make_graph", "training_graphs"]


def make_graph() -> Graph:
    """An embedding, a linear layer and a loss, forward and backward::

        forward    0 embed ──h──▶ 1 linear ──y──▶ 2 loss
        backward   5 ◀────dh──── 4 ◀─────dy───── 3

    ``x`` is read by 0 and 5, ``h`` also by 4, ``y`` also by 3.
    """
    return Graph(
        name="hand",
        operators=(
            Operator(name="embed", target="aten.embedding.default", bytes_read=20, bytes_written=10),
            Operator(
                name="linear", target="aten.mm.default", flops=1000, bytes_read=20, bytes_written=10, workspace_bytes=5
            ),
            Operator(name="loss", target="aten.mean.default", bytes_read=10),
            Operator(name="loss_b", target="b", phase="backward", colocation=2, bytes_read=10, bytes_written=10),
            Operator(name="linear_b", target="b", phase="backward", colocation=1, flops=2000, bytes_read=10),
            Operator(name="embed_b", target="b", phase="backward", colocation=0, bytes_read=20, bytes_written=10),
        ),
        tensors=(
            Tensor(name="x", producer=None, consumers=(0, 5), bytes=4),
            Tensor(name="labels", producer=None, consumers=(2,), bytes=3),
            Tensor(name="h", producer=0, consumers=(1, 4), bytes=10),
            Tensor(name="y", producer=1, consumers=(2, 3), bytes=12),
            Tensor(name="loss", producer=2, bytes=1),
            Tensor(name="dy", producer=3, consumers=(4,), bytes=12),
            Tensor(name="dh", producer=4, consumers=(5,), bytes=10),
            Tensor(name="grad:w", producer=4, bytes=40),
            Tensor(name="grad:e", producer=5, bytes=80),
        ),
        parameters=(
            Parameter(name="e", shape=(4, 5), bytes=80, users=(0,)),
            Parameter(name="w", shape=(10,), bytes=40, users=(1, 4)),
            Parameter(name="mask", shape=(7,), bytes=7, dtype="bool", users=(1,), trainable=False, buffer=True),
            Parameter(name="idle", shape=(9,), bytes=36),
        ),
        modules={"": "Model"},
        training=True,
    )


def make_cluster(count: int = 2, **changes: object) -> Cluster:
    """Devices of 100 FLOP/s, 10 bytes/s of memory, 1000 − 100 bytes, joined at 5 bytes/s and 2 s per message."""
    values: dict[str, object] = {
        "name": "toy",
        "peak_flops": {"float32": 100.0},
        "memory_bandwidth_bytes_per_s": 10.0,
        "memory_bytes": 1000,
        "reserved_bytes": 100,
        "link": "wire",
    }
    device = DeviceSpec(**{**values, **changes})  # type: ignore[arg-type]
    wire = LinkSpec(name="wire", bandwidth_bytes_per_s=5.0, latency_s=2.0)
    return Cluster(
        name="toys",
        machines=(Machine(devices=(("toy", count),)),),
        network="wire",
        devices={"toy": device},
        links={"wire": wire},
    )


@st.composite
def training_graphs(draw: st.DrawFn) -> Graph:
    """Random graphs with forward and backward operators, ties, inputs, outputs and parameter gradients."""
    forward = draw(st.integers(1, 6))
    backward = draw(st.integers(0, 6))
    count = forward + backward
    size = st.integers(0, 50)
    operators = []
    for index in range(count):
        late = index >= forward
        ties = list(range(min(index, forward)))
        colocation = draw(st.none() | st.sampled_from(ties)) if ties else None
        operators.append(
            Operator(
                name=f"op{index}",
                target="t",
                phase="backward" if late else "forward",
                colocation=colocation,
                workspace_bytes=draw(size),
            )
        )
    tensors = []
    for number in range(draw(st.integers(0, 10))):
        producer = draw(st.none() | st.integers(0, count - 1))
        after = list(range(0 if producer is None else producer + 1, count))
        consumers = sorted(draw(st.sets(st.sampled_from(after), max_size=4))) if after else []
        tensors.append(Tensor(name=f"t{number}", producer=producer, consumers=tuple(consumers), bytes=draw(size)))
    parameters = []
    if backward:
        users = tuple(sorted(draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3))))
        parameters.append(Parameter(name="w", bytes=8, shape=(2,), users=users))
        tensors.append(Tensor(name="grad:w", producer=draw(st.integers(forward, count - 1)), bytes=8))
    return Graph(
        name="random",
        operators=tuple(operators),
        tensors=tuple(tensors),
        parameters=tuple(parameters),
        training=bool(backward),
    )
