"""Chains of elementwise operators as one kernel, by hand."""

from __future__ import annotations

from partita.costs.elementwise_chains import fuse_pointwise
from partita.nouns.graph import Graph, Operator, Tensor


def chain(*names: str, bytes_each: int = 8, extra: dict[int, tuple[int, ...]] | None = None) -> Graph:
    """A chain of operators on tensors of four numbers; ``extra`` gives further readers of an operator's result."""
    operators = tuple(
        Operator(name=f"{name}{k}", target=f"aten.{name}.default", bytes_read=bytes_each, bytes_written=bytes_each)
        for k, name in enumerate(names)
    )
    tensors = [Tensor(name="x", producer=None, consumers=(0,), shape=(4,), bytes=bytes_each)]
    for k in range(len(names)):
        following = (k + 1,) if k + 1 < len(names) else ()
        readers = tuple(sorted({*following, *(extra or {}).get(k, ())}))
        tensors.append(Tensor(name=f"t{k}", producer=k, consumers=readers, shape=(4,), bytes=bytes_each))
    return Graph(name="chain", operators=operators, tensors=tuple(tensors))


def traffic(graph: Graph) -> list[tuple[int, int, bool]]:
    return [(op.bytes_read, op.bytes_written, op.joined) for op in fuse_pointwise(graph).operators]


def test_a_chain_reads_and_writes_once() -> None:
    assert traffic(chain("relu", "mul", "neg")) == [(8, 0, False), (0, 0, True), (0, 8, True)]


def test_what_others_read_is_written() -> None:
    # The product reads the first result, too.
    graph = chain("relu", "mul", "mm", extra={0: (2,)})
    assert traffic(graph) == [(8, 8, False), (0, 8, True), (8, 8, False)]


def test_products_stand_alone() -> None:
    assert traffic(chain("mm", "relu", "mm")) == [(8, 8, False)] * 3


def test_a_softmax_takes_what_only_it_reads() -> None:
    assert traffic(chain("mul", "_softmax", "neg")) == [(8, 0, False), (0, 8, True), (8, 8, False)]
    # What someone else reads as well is written, and read again.
    assert traffic(chain("mul", "_softmax", "mm", extra={0: (2,)}))[1] == (8, 8, False)


def test_kernels_do_not_wait_for_themselves() -> None:
    # relu → mm → add, and relu → add: the sum cannot run in the kernel of relu, which the product waits for.
    assert traffic(chain("relu", "mm", "add", extra={0: (2,)})) == [(8, 8, False)] * 3


def test_layers_are_kernels_of_their_own() -> None:
    fused = fuse_pointwise(chain("relu", "mul", "neg"), [0, 0, 1])
    assert [op.joined for op in fused.operators] == [False, True, False]
