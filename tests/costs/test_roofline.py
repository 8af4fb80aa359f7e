"""The roofline, by hand."""

from __future__ import annotations

import pytest

from partita.catalogue.loader import load_catalogue
from partita.catalogue.specs import DeviceSpec
from partita.costs.roofline import Roofline
from partita.errors import InputError
from partita.graph import Graph, Operator

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
        (Operator(name="a", target="t", flops=1000, bytes_read=30, bytes_written=10), 20.25),
        # 1000 / (400 · 0.5) = 5 against 80 / 8 = 10
        (Operator(name="a", target="t", flops=1000, dtype="float16", bytes_read=80), 10.25),
        (Operator(name="a", target="t", bytes_written=16), 2.25),
        (Operator(name="a", target="t"), 0.25),
        (Operator(name="a", target="t", flops=1000, bytes_read=30, free=True), 0.0),
        # Number formats matter only where there is arithmetic.
        (Operator(name="a", target="t", dtype="quint4", bytes_read=8), 1.25),
    ],
)
def test_time(operator: Operator, expected: float) -> None:
    assert Roofline().time_s(operator, DEVICE) == expected
    assert Roofline().operator_times(Graph(name="g", operators=(operator,)), DEVICE) == [expected]


def test_tensorfloat_is_a_choice() -> None:
    operator = Operator(name="a", target="t", flops=1000)
    assert Roofline(allow_tf32=True).time_s(operator, DEVICE) == 10.25
    assert "TensorFloat-32" in Roofline(allow_tf32=True).notes()[0]


def test_an_unknown_number_format_is_refused() -> None:
    operator = Operator(name="a", target="t", flops=1, dtype="quint4")
    with pytest.raises(InputError, match="quint4"):
        Roofline().operator_times(Graph(name="g", operators=(operator,)), DEVICE)


def test_a_large_product_on_a_known_device() -> None:
    # 2 · 8192³ = 1.0995e12 FLOP at 78 % of 312e12 FLOP/s
    operator = Operator(
        name="a", target="aten.mm.default", flops=2 * 8192**3, dtype="bfloat16", bytes_read=2 * 2 * 8192**2
    )
    time = Roofline().time_s(operator, load_catalogue().device("A100-80GB"))
    assert time == pytest.approx(1.0995e12 / (0.78 * 312e12) + 4e-6, rel=1e-4)
