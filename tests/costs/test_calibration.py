"""The roofline fitted to measurements."""

from __future__ import annotations

import tomllib

import msgspec
import pytest

from instances.cost_graphs import make_graph
from instances.profiles import make_machine, make_profile
from partita.costs.calibration import CLASSES, calibrate, device_toml, operator_class
from partita.costs.roofline import Roofline
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Operator

PEAK = make_machine().devices["here"]


@pytest.mark.parametrize(
    ("target", "flops", "expected"),
    [
        ("aten.mm.default", 10, "products"),
        ("aten.convolution_backward.default", 10, "convolutions"),
        ("aten.scaled_dot_product_attention_backward.default", 10, "attention"),
        ("aten.native_layer_norm_backward.default", 0, "normalisation"),
        ("aten.native_batch_norm.default", 0, "normalisation"),
        ("aten._softmax.default", 0, "normalisation"),
        ("aten.embedding.default", 0, "gathers"),
        ("aten.index_select.default", 0, "gathers"),
        ("aten.gelu_backward.default", 0, "pointwise"),
        ("aten.add_.Tensor", 0, "pointwise"),
        ("aten.sum.dim_IntList", 0, "reductions"),
        ("aten.max_pool2d_with_indices.default", 0, "others"),
    ],
)
def test_classes(target: str, flops: int, expected: str) -> None:
    assert operator_class(Operator(name="x", target=target, flops=flops)) == expected
    assert expected in CLASSES


def test_the_fit_gives_back_the_efficiencies_that_made_the_times() -> None:
    """Times from a roofline with known factors are a profile whose fit is these factors."""
    graph = make_graph()
    true = msgspec.structs.replace(PEAK, compute_efficiency=0.5, memory_efficiency=0.25)
    times = Roofline().operator_times(graph, true)
    fitted = calibrate(make_profile(graph, times), PEAK).fitted
    assert fitted.memory_efficiency == pytest.approx(0.25)
    assert fitted.compute_efficiency == pytest.approx(0.5)
    assert fitted.launch_overhead_s == pytest.approx(0.5)


def test_rows_compare_what_a_run_takes() -> None:
    """The embedding moves 30 bytes at 10 bytes/s; the linear layer's 1000 FLOP take 10 s."""
    rows = {row.name: row for row in calibrate(make_profile(make_graph(), [6.0, 20.0, *[None] * 4]), PEAK).rows}
    assert set(rows) == {"gathers", "products"}
    assert (rows["gathers"].measured_s, rows["gathers"].roofline_s, rows["gathers"].efficiency) == (6.5, 3.0, 0.5)
    assert (rows["products"].measured_s, rows["products"].roofline_s, rows["products"].efficiency) == (20.5, 10.0, 0.5)


def test_efficiencies_stay_shares() -> None:
    """Caches may beat the memory."""
    fitted = calibrate(make_profile(make_graph(), [1e-9, 1e-9, *[None] * 4]), PEAK).fitted
    assert (fitted.compute_efficiency, fitted.memory_efficiency) == (1.0, 1.0)


def test_what_was_fitted_is_a_table_of_cluster_files() -> None:
    found = calibrate(make_profile(make_graph(), [6.0, 20.0, *[None] * 4]), Cluster.from_spec("1xL4").devices["L4"])
    document = {"cluster": "2xL4", **tomllib.loads(device_toml(found))}
    device = Cluster.from_document(document, where="lab.toml").devices["L4"]
    assert device.compute_efficiency == pytest.approx(found.fitted.compute_efficiency, rel=1e-3)
    assert device.launch_overhead_s == pytest.approx(0.5)
