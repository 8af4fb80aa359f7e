"""Exported device maps, dispatched by accelerate: what the model computes stays the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporters.splits import by_layers
from partita.exporters import find_exporter
from partita.exporters.module_inputs import wrapped_model

accelerate = pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")


@pytest.mark.parametrize("counts", [(1, 5), (3, 3), (2, 2, 2)])
def test_a_dispatched_model_computes_the_same(tmp_path: Path, counts: tuple[int, ...]) -> None:
    """One device's weights stay in memory and the next one's on disk: both run on the CPU, as maps for it say."""
    split = by_layers("decoder", counts)
    find_exporter("accelerate").export(split, tmp_path / "map.json")
    exported = json.loads((tmp_path / "map.json").read_text())
    assert set(exported.values()) == set(range(len(counts)))
    model, (tokens,) = wrapped_model(split)
    with torch.no_grad():
        wanted = model(tokens)
    accelerate.utils.check_device_map(model.module, exported)
    places = {name: ("cpu", "disk")[device % 2] for name, device in exported.items()}
    dispatched = accelerate.dispatch_model(model.module, places, offload_dir=tmp_path / "weights")
    assert {name for name, weight in dispatched.named_parameters() if weight.device.type == "meta"} == {
        weight.name for weight in split.weights if weight.stages[0] % 2
    }
    with torch.no_grad():
        assert torch.equal(model(tokens), wanted)
