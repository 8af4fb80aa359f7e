"""Exported device maps, dispatched by accelerate: what the model computes stays the same."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from exporters.splits import by_layers
from partita.exporters import find_exporter
from partita.exporters.module_inputs import wrapped_model

accelerate = pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("name", "counts"),
    [("decoder", (1, 5)), ("decoder", (3, 3)), ("decoder", (2, 2, 2)), ("positions", (3, 2))],
)
def test_a_dispatched_model_computes_the_same(tmp_path: Path, name: str, counts: tuple[int, ...]) -> None:
    """One device's weights stay in memory and the next one's on disk: both run on the CPU, as maps for it say."""
    split = by_layers(name, counts)
    find_exporter("accelerate").export(split, tmp_path / "map.json")
    exported = json.loads((tmp_path / "map.json").read_text())
    assert set(exported.values()) == set(range(len(counts)))
    model, (inputs,) = wrapped_model(split)
    with torch.no_grad():
        wanted = model(inputs)
    accelerate.utils.check_device_map(model.module, exported)
    places = {module: ("cpu", "disk")[device % 2] for module, device in exported.items()}
    dispatched = accelerate.dispatch_model(model.module, places, offload_dir=tmp_path / "weights")
    assert {key for key, weight in dispatched.named_parameters() if weight.device.type == "meta"} == {
        weight.name for weight in split.weights if weight.stages[0] % 2
    }
    with torch.no_grad():
        assert torch.equal(model(inputs), wanted)


def test_weights_of_a_container_on_several_devices_are_refused() -> None:
    """The model's own are moved to the first device, wherever they are read."""
    turned = by_layers("positions", (3, 2))
    weights = tuple(
        msgspec.structs.replace(weight, stages=(1,)) if weight.name == "positions" else weight
        for weight in turned.weights
    )
    reasons = find_exporter("accelerate").supports(msgspec.structs.replace(turned, weights=weights))
    assert reasons == ["the model, which has the weight positions itself, is on several devices"]
