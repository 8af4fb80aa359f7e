"""What a layout of a traced model costs, and what its layers are for a step."""

from __future__ import annotations

import pytest

import partita as pt
from partita.ground.errors import InputError
from partita.nouns.graph import Graph
from partita.problems.hybrid.pricing import strategy_spaces
from partita.problems.hybrid.step.layout import MeshLayout
from partita.problems.hybrid.step.layout_price import price_layout
from partita.problems.hybrid.training import Training

torch = pytest.importorskip("torch")

HIDDEN, TOKENS, BLOCKS = 512, 1024, 4
#: Weights of a block: its norm, and two products with biases.
WEIGHTS = 2 * HIDDEN + 2 * HIDDEN * 4 * HIDDEN + 5 * HIDDEN


class Block(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(HIDDEN)
        self.up, self.down = torch.nn.Linear(HIDDEN, 4 * HIDDEN), torch.nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return out


@pytest.fixture(scope="module")
def graph() -> Graph:
    model = torch.nn.Sequential(*(Block() for _ in range(BLOCKS))).half()
    return pt.trace(model, (torch.zeros(TOKENS, HIDDEN).half(),), training=True)


@pytest.fixture(scope="module")
def cluster() -> pt.Cluster:
    return pt.Cluster.from_spec("2x(4xA100-80GB)")


def test_states_are_those_of_mixed_precision(graph: Graph, cluster: pt.Cluster) -> None:
    """2 bytes for a weight, 4 for its gradient, 12 for Adam; Rajbhandari et al., "ZeRO", SC 2020, §3.1."""
    for dtype, gradient in (("float32", 4), ("parameter", 2)):
        spaces = strategy_spaces(graph, cluster, microbatches=8, training=Training(), gradient_dtype=dtype)
        state = spaces.problem.layers[1].states[1]
        sizes = (state.parameter_bytes, state.gradient_bytes, state.optimizer_bytes)
        assert sizes == (2 * WEIGHTS, gradient * WEIGHTS, 12 * WEIGHTS)
        assert spaces.reserve_bytes == 0
        half = spaces.problem.layers[1].states[2]
        assert half.parameter_bytes == pytest.approx(WEIGHTS + 2 * HIDDEN + 0.5 * 2 * HIDDEN, rel=0.01)


def test_gradients_of_weights_are_a_part_of_the_backward_pass(graph: Graph, cluster: pt.Cluster) -> None:
    entry = strategy_spaces(graph, cluster, microbatches=8).layers[1].entry(1)
    # One of two products for each, and little else.
    assert 0.3 * entry.backward_s < entry.weight_gradient_s < 0.6 * entry.backward_s


def test_a_layout_is_priced(graph: Graph, cluster: pt.Cluster) -> None:
    layout = MeshLayout(tensor=2, pipeline=2, data=2, recompute="full", zero=1)
    found = price_layout(graph, cluster, layout, microbatches=16)
    assert found.evaluation.feasible
    assert found.step_time == found.evaluation.objective
    # Four blocks and the loss; the first block counts although it has no gradient to hand on.
    chosen = [list(stage.configurations.values()) for stage in found.plan.stages]
    assert chosen == [["full", "full"], ["full", "full", "none"]]
    assert found.memory_bytes == max(stage.memory_bytes for stage in found.evaluation.stages)
    peak = cluster.workers()[0].spec.peak("float16")
    useful = 16 * graph.flops / (8 * peak * found.step_time)
    assert found.model_flops_utilisation == pytest.approx(useful)
    # Three times the operations of the forward pass, and 4 devices of 8.
    idle = price_layout(graph, cluster, MeshLayout(pipeline=4), microbatches=16)
    assert idle.model_flops_utilisation == pytest.approx(16 * graph.flops / (4 * peak * idle.step_time))


def test_devices_without_shared_tokens_gather_what_they_are_handed(graph: Graph, cluster: pt.Cluster) -> None:
    layouts = [MeshLayout(tensor=4, pipeline=2, sequence_parallel=shared) for shared in (True, False)]
    shared, whole = (price_layout(graph, cluster, layout, microbatches=8).problem for layout in layouts)
    assert shared.layers[1].configurations[4][0].sync_in_bytes == {}
    assert whole.layers[1].configurations[4][0].sync_in_bytes == {0: 0.75 * 2 * TOKENS * HIDDEN}
    assert whole.layers[1].configurations[4][0].sync_out_bytes == {2: 0.75 * 2 * TOKENS * HIDDEN}


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (MeshLayout(data=3), "does not divide the 8 microbatches"),
        (MeshLayout(pipeline=4, data=4), "16 devices, and there are 8"),
    ],
)
def test_layouts_that_do_not_suit(graph: Graph, cluster: pt.Cluster, layout: MeshLayout, message: str) -> None:
    with pytest.raises(InputError) as caught:
        price_layout(graph, cluster, layout, microbatches=8)
    assert message in str(caught.value)
