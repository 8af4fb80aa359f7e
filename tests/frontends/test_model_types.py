"""Types of transformers drawn by lot: traced at full width and few layers, with the FLOPs that torch counts.

The thirty are the first of ``random.Random(30).sample(sorted(CONFIG_MAPPING_NAMES), 36)``. One that takes over ten
seconds (mamba) made room for the next.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")
transformers = pytest.importorskip("transformers", reason="hf: models need transformers")

from benchmarks._flops import counted  # noqa: E402
from benchmarks._shallow import shallow_fields  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES  # noqa: E402

from partita.frontends.models import load_model, load_module  # noqa: E402
from partita.frontends.torch import trace_calls  # noqa: E402
from partita.ground.errors import PartitaError, TraceError  # noqa: E402
from partita.nouns.graph import Source  # noqa: E402

TRACED = (
    "align_text_model",
    "bamba",
    "bart",
    "bert-generation",
    "clip_vision_model",
    "clvp_decoder",
    "dinov2_with_registers",
    "emu3_text_model",
    "glm_ocr_text",
    "got_ocr2",
    "gptj",
    "layoutlmv3",
    "minicpmv4_6",
    "minimax_m2",
    "nemotron3_5_transcribe_word_timestamp",
    "pixio",
    "pp_chart2table",
    "pp_formulanet",
    "pp_lcnet_v3",
    "qwen4_exp_vision",
    "roc_bert",
    "sam3_tracker_video_prompt_encoder",
    "seamless_m4t",
    "seamless_m4t_v2",
)

#: What may be refused, in one line: a missing library, a session as an input, shapes that depend on data.
ELSE = ("blt_patcher", "cohere_compass_text", "gemma3n_vision", "hunyuan_vl", "sam2_video")

#: Takes a quarter of a minute.
LONG_ELSE = "qwen2_5_omni_token2wav"

#: Those whose code reads no values, so that torch counts them on the meta device, and that keep no recurrence whole;
#: and two more in the place of those that do.
COUNTED = (
    "albert",
    "bert-generation",
    "clip_vision_model",
    "clvp_decoder",
    "dinov2_with_registers",
    "emu3_text_model",
    "glm_ocr_text",
    "gptj",
    "blip_2_vision_model",
    "minimax_m2",
    "nemotron3_5_transcribe_word_timestamp",
    "pixio",
    "pp_lcnet_v3",
    "roc_bert",
    "sam3_tracker_video_prompt_encoder",
    "seamless_m4t",
)


def shallow(kind: str, depth: int) -> Any:
    """The graph of a type with few layers; with all of them where its layers are named by number."""
    try:
        return load_model(f"hf:{kind}", set_fields=shallow_fields(kind, depth))
    except TraceError:
        return load_model(f"hf:{kind}")


@pytest.mark.parametrize("kind", TRACED)
def test_types_drawn_by_lot_are_traced(kind: str) -> None:
    if kind not in CONFIG_MAPPING_NAMES:
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    graph = shallow(kind, 2)
    assert len(graph.operators) >= 5
    assert graph.parameter_bytes > 0


@pytest.mark.parametrize("kind", [*ELSE, pytest.param(LONG_ELSE, marks=pytest.mark.slow)])
def test_what_is_refused_is_refused_in_one_line(kind: str) -> None:
    if kind not in CONFIG_MAPPING_NAMES:
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    try:
        graph = shallow(kind, 2)
    except PartitaError as error:
        (line,) = str(error).splitlines()
        assert 20 < len(line) < 600
    else:
        assert graph.operators


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("kind", COUNTED)
def test_arithmetic_is_what_torch_counts(kind: str, training: bool) -> None:
    if training and COUNTED.index(kind) % 3:
        pytest.skip("every third is trained")
    if kind not in CONFIG_MAPPING_NAMES:
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    model = load_module(Source(model=f"hf:{kind}", settings={"set": shallow_fields(kind, 1)}, training=training))
    graph, capture, _ = trace_calls(model.module, model.args, model.kwargs, training)
    # What runs without being used is no part of a graph.
    unused = sum(call.flops for call in capture.calls) - graph.flops
    expected = counted(model.module, model.args, model.kwargs, training, "meta")
    assert graph.flops + unused == pytest.approx(expected, rel=0.01)
    assert graph.flops > expected / 2
