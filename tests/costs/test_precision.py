"""Narrow formats of products, and what travels to experts once."""

from __future__ import annotations

import random

import pytest

import partita as pt
from partita.costs.collectives import Level, collective_time, dispatch_time
from partita.costs.precision import find_product_format
from partita.costs.roofline import Roofline
from partita.ground.errors import InputError
from partita.nouns.graph import Graph
from partita.problems.hybrid.pricing import strategy_spaces
from partita.problems.hybrid.spaces import StrategySpaces
from partita.problems.hybrid.training import Training

torch = pytest.importorskip("torch")

HIDDEN, TOKENS = 1024, 4096


class Block(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(HIDDEN)
        self.up, self.down = torch.nn.Linear(HIDDEN, 4 * HIDDEN), torch.nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))
        return out


@pytest.fixture(scope="module")
def graph() -> Graph:
    head = torch.nn.Linear(HIDDEN, 2 * HIDDEN)
    model = torch.nn.Sequential(torch.nn.Sequential(*(Block() for _ in range(4))), head).bfloat16()
    return pt.trace(model, (torch.zeros(TOKENS, HIDDEN).bfloat16(),), training=True)


def priced(graph: Graph, precision: str, device: str = "8xB200", **more: object) -> StrategySpaces:
    settings = {"microbatches": 8, "training": Training(), "precision": precision, **more}
    return strategy_spaces(graph, pt.Cluster.from_spec(device), **settings)  # type: ignore[arg-type]


def test_narrow_products_take_less_time_and_keep_less(graph: Graph) -> None:
    wide, fp8, fp4 = (priced(graph, name) for name in ("bf16", "fp8", "nvfp4"))
    block, head = 1, len(wide.layers) - 1
    times = [one.layers[block].entry(1).compute_s for one in (wide, fp8, fp4)]
    assert times[0] > times[1] > times[2]
    kept = [one.layers[block].entry(1).activation_bytes for one in (wide, fp8, fp4)]
    # Sources of both products, of 1 and 4 widths, are kept in the format; results and residuals are not.
    assert kept[0] - kept[1] == pytest.approx(5 * TOKENS * HIDDEN, rel=0.01)
    assert kept[0] - kept[2] == pytest.approx(5 * TOKENS * HIDDEN * (2 - 0.5625), rel=0.01)
    assert fp8.layers[head].entry(1) == wide.layers[head].entry(1)
    states = [one.problem.layers[block].states[1] for one in (wide, fp8)]
    assert states[0].parameter_bytes == states[1].parameter_bytes


def test_products_run_at_the_rate_of_their_format(graph: Graph) -> None:
    device = pt.Cluster.from_spec("8xB200").workers()[0].spec
    names = ("bfloat16", "float8", "float8_mx", "float4")
    rates = [Roofline().rate(device, name) for name in names]
    peaks = [device.peak(name) for name in names]
    assert peaks[1] == peaks[2] == 2 * peaks[0]
    assert rates == [peak * device.of_products(name) for name, peak in zip(names, peaks, strict=True)]
    assert device.of_products("float8_mx") < device.of_products("float8")


def test_groups_gather_narrow_sources_and_scatter_wide_gradients(graph: Graph) -> None:
    wide, fp8 = (priced(graph, name).layers[1].entry(2).collectives for name in ("bf16", "fp8"))

    def sizes(found: tuple[object, ...], kind: str, phase: str) -> list[float]:
        return sorted(c.bytes for c in found if (c.kind, c.phase) == (kind, phase))  # type: ignore[attr-defined]

    assert sizes(wide, "reduce-scatter", "backward") == sizes(fp8, "reduce-scatter", "backward")
    assert sizes(fp8, "all-gather", "forward") == [size / 2 for size in sizes(wide, "all-gather", "forward")]


def test_exchanges_behind_products_leave_the_share_of_one_device(graph: Graph) -> None:
    shown, hidden = (priced(graph, "bf16", behind=ways).layers[1].entry(4) for ways in ((), ("tensor",)))
    assert shown.communication_s / 4 <= hidden.communication_s < shown.communication_s
    assert hidden.compute_s == shown.compute_s


def test_a_layer_takes_what_issuing_its_kernels_takes(graph: Graph) -> None:
    quick, slow = (priced(graph, "bf16", issue_s=time).layers[1].entry(1) for time in (0.0, 1.0))
    assert slow.forward_s == round(slow.forward_s) > quick.forward_s


def test_unknown_formats_and_devices_without_a_rate_are_refused(graph: Graph) -> None:
    with pytest.raises(InputError, match="no precision 'fp6' for products; known are bf16, fp8"):
        find_product_format("fp6")
    with pytest.raises(InputError, match="states no FLOP/s for float4"):
        priced(graph, "nvfp4", "8xH100-80GB")


def test_a_token_with_one_reader_travels_as_a_row_does() -> None:
    levels = (Level(8, 3.0), Level(1, 1.0))
    assert dispatch_time(24.0, 1.0, levels) == pytest.approx(collective_time("all-to-all", 24.0, levels))


def test_a_token_travels_once_to_each_machine_with_readers() -> None:
    draw = random.Random(1)
    machines, copies, tokens = 8, 6, 20000
    crossed = sum(len({draw.randrange(machines) for _ in range(copies)} - {0}) for _ in range(tokens)) / tokens
    slow = dispatch_time(float(copies), copies, (Level(8, 1e9), Level(machines, 1.0)))
    assert slow == pytest.approx(crossed, rel=0.02)
    near = sum(len({draw.randrange(4) for _ in range(copies)}) for _ in range(tokens)) / tokens * 7 / 8
    assert dispatch_time(float(copies), copies, (Level(8, 1e9), Level(8, 1.0)), 0.5) == pytest.approx(near, rel=0.02)
