"""The roofline, by hand."""

from __future__ import annotations

import msgspec
import pytest

from instances.cost_graphs import make_graph
from partita.costs.products import shape_efficiency
from partita.costs.roofline import Roofline
from partita.ground.errors import InputError
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.graph import Graph, Operator, Phase

DEVICE = DeviceSpec(
    name="X",
    peak_flops={"float32": 100.0, "float16": 400.0, "tf32": 200.0},
    memory_bandwidth_bytes_per_s=10.0,
    memory_bytes=2 * 1024**3,
    link="pcie4",
    compute_efficiency=0.5,
    memory_efficiency=0.8,
    launch_overhead_s=0.25,
)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        # 1000 / (100 · 0.5) = 20 against 40 / (10 · 0.8) = 5
        (Operator(name="a", target="t", flops=1000, bytes_read=30, bytes_written=10), 20.0),
        # 1000 / (400 · 0.5) = 5 against 80 / 8 = 10
        (Operator(name="a", target="t", flops=1000, dtype="float16", bytes_read=80), 10.0),
        (Operator(name="a", target="t", bytes_written=16), 2.0),
        # The next operator is issued while one runs: only what is faster than that waits for it.
        (Operator(name="a", target="t", bytes_written=1), 0.25),
        (Operator(name="a", target="t"), 0.25),
        (Operator(name="a", target="t", bytes_written=1, joined=True), 0.125),
        (Operator(name="a", target="t", flops=1000, bytes_read=30, free=True), 0.0),
        # Number formats matter only where there is arithmetic.
        (Operator(name="a", target="t", dtype="quint4", bytes_read=8), 1.0),
    ],
)
def test_time(operator: Operator, expected: float) -> None:
    assert Roofline().time_s(operator, DEVICE) == expected
    assert Roofline().operator_times(Graph(name="g", operators=(operator,)), DEVICE) == [expected]


def test_a_cpu_issues_and_works_in_turn() -> None:
    host = msgspec.structs.replace(DEVICE, accelerator=False)
    assert Roofline().time_s(Operator(name="a", target="t", bytes_written=16), host) == 2.25


@pytest.mark.parametrize(
    ("phase", "causal", "expected"),
    [
        # 1000 / (100 · 0.2) = 50; backward kernels make the scores again, five products for four.
        ("forward", False, 50.0),
        ("forward", True, 25.0),
        ("backward", False, 62.5),
        ("backward", True, 31.25),
    ],
)
def test_attention(phase: Phase, causal: bool, expected: float) -> None:
    device = msgspec.structs.replace(DEVICE, attention_efficiency=0.2)
    target = "aten.scaled_dot_product_attention.default"
    operator = Operator(name="a", target=target, flops=1000, phase=phase, causal=causal)
    assert Roofline().time_s(operator, device) == pytest.approx(expected)
    # Seven tenths of the products' 0.5 where the device does not say.
    assert Roofline().time_s(operator, DEVICE) == pytest.approx(expected * 0.2 / 0.35)


def test_products_run_at_the_rate_of_their_shape() -> None:
    device = msgspec.structs.replace(DEVICE, multiprocessors=4)
    shape = (1, 256, 128, 64)
    operator = Operator(name="a", target="aten.mm.default", flops=2 * 256 * 128 * 64, product=shape)
    assert Roofline().time_s(operator, device) == pytest.approx(operator.flops / 50 / shape_efficiency(shape, 4))
    # Without a shape, or on a device without multiprocessors, at the best rate.
    assert Roofline().time_s(operator, DEVICE) == pytest.approx(operator.flops / 50)


def test_unaligned_products_run_at_their_own_rate() -> None:
    device = msgspec.structs.replace(DEVICE, unaligned_efficiency=0.1)
    odd = Operator(name="a", target="aten.mm.default", dtype="float16", flops=2 * 63 * 64 * 64, product=(1, 64, 63, 64))
    assert Roofline().time_s(odd, device) == pytest.approx(odd.flops / 40)
    # A third of the 0.5 of others where the device does not say; a CPU has no such units.
    assert Roofline().time_s(odd, DEVICE) == pytest.approx(odd.flops * 3 / 200)
    host = msgspec.structs.replace(DEVICE, accelerator=False, launch_overhead_s=0.0)
    assert Roofline().time_s(odd, host) == pytest.approx(odd.flops / 200)
    # 63 rows are no rows of any matrix, unless a factor is stored the other way round.
    rows = msgspec.structs.replace(odd, product=(1, 63, 64, 64))
    assert Roofline().time_s(rows, device) == pytest.approx(odd.flops / 200)
    assert Roofline().time_s(msgspec.structs.replace(rows, consecutive="mn"), device) == pytest.approx(odd.flops / 40)
    # Numbers of 32 bits do without matrix units.
    assert Roofline().time_s(msgspec.structs.replace(odd, dtype="float32"), device) == pytest.approx(odd.flops / 50)


def test_tensorfloat_is_a_choice() -> None:
    operator = Operator(name="a", target="t", flops=1000)
    assert Roofline(allow_tf32=True).time_s(operator, DEVICE) == 10.0
    assert "TensorFloat-32" in Roofline(allow_tf32=True).notes(make_graph())[0]


def test_an_unknown_number_format_is_refused() -> None:
    operator = Operator(name="a", target="t", flops=1, dtype="quint4")
    with pytest.raises(InputError, match="quint4"):
        Roofline().operator_times(Graph(name="g", operators=(operator,)), DEVICE)


def test_a_large_product_on_a_known_device() -> None:
    # 2 · 8192³ = 1.0995e12 FLOP at 75 % of 312e12 FLOP/s. 32 · 64 = 2048 tiles of 256 × 128 fill 108 multiprocessors
    # 18.96 times, which takes 19 rounds; each tile takes 64 steps more than its 8192.
    operator = Operator(
        name="a",
        target="aten.mm.default",
        flops=2 * 8192**3,
        dtype="bfloat16",
        bytes_read=2 * 2 * 8192**2,
        product=(1, 8192, 8192, 8192),
    )
    time = Roofline().time_s(operator, load_catalogue().device("A100-80GB"))
    assert time == pytest.approx(1.0995e12 / (0.75 * 312e12) * (19 * 108 / 2048) * (8256 / 8192), rel=1e-4)
