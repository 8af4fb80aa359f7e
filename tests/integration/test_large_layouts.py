"""The layout in which a model of 126 layers was trained on 8,192 devices: a search finds one that is no slower.

Source of the layout: A. Dubey et al., "The Llama 3 Herd of Models" (2024), §3.3: tensor 8, pipeline 16, data 64, with
one layer less on the first and the last stage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import partita as pt

CLUSTER = "1024x(8xH100-80GB):infiniband-ndr"
FIELDS = {
    "num_hidden_layers": "126",
    "hidden_size": "16384",
    "intermediate_size": "53248",
    "num_attention_heads": "128",
    "num_key_value_heads": "8",
    "vocab_size": "128256",
}
LAYOUT = "tensor=8,pipeline=16,data=64,chunks=8,ends=yes,zero=2,recompute=least"


def planned(**more: Any) -> Any:
    return pt.plan(
        "hf:llama",
        CLUSTER,
        training=True,
        set=FIELDS,
        dtype="bf16",
        global_batch=2048,
        batch_size=1,
        sequence_length=8192,
        hide=("tensor",),
        **more,
    )


@pytest.mark.slow
def test_plans_for_megatron_are_no_slower_than_the_published_layout(tmp_path: Path) -> None:
    published = planned(layout=LAYOUT)
    assert published.evaluation.feasible
    found = planned(runtime="megatron", time_limit_s=120)
    assert found.objective <= published.objective
    assert found.bound <= found.objective
    assert found.plan.chunks > 1
    arguments = tmp_path / "megatron.args"
    # What is written is read back and compared with the plan first.
    pt.export(found, "megatron", str(arguments))
    assert "--pipeline-model-parallel-layout" in arguments.read_text()
