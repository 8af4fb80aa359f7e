"""Every private part of transformers means what the package takes it for."""

# ruff: noqa: E402 -- the imports follow the check that transformers is there
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="transformers' models need torch")
transformers = pytest.importorskip("transformers", reason="its insides are looked at")

from partita.inside import messages
from partita.inside import transformers_inside as inside

CHECKS = "TRANSFORMERS_DISABLE_TORCH_CHECK"
SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 32}


def test_types_and_their_classes() -> None:
    assert {"bert", "gpt2", "llama"} <= inside.model_types()
    config = inside.configuration_class("bert")()
    assert config.model_type == "bert"
    assert inside.classes_of("AutoModelForMaskedLM")[type(config)].__name__ == "BertForMaskedLM"
    assert type(config) not in inside.classes_of("AutoModelForDepthEstimation")
    with pytest.raises(KeyError):
        inside.configuration_class("no_such_type")


def test_extractors_are_classes_by_name() -> None:
    names = inside.extractor_names()
    assert names["whisper"] == "WhisperFeatureExtractor"
    assert all(isinstance(name, str) for name in names.values())
    assert hasattr(transformers, names["whisper"])


def test_models_are_built_without_weights_in_a_format() -> None:
    config = transformers.BertConfig(**SMALL)
    before = torch.get_default_dtype()
    with torch.device("meta"):
        model = inside.built(transformers.BertModel, config, torch.bfloat16, attn_implementation="eager")
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert model.config._attn_implementation == "eager"
    assert torch.get_default_dtype() is before


def test_modules_that_are_no_models_are_built_plainly() -> None:
    class Plain(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(config, 1)

    made = inside.built(Plain, 3, torch.float16, attn_implementation="eager")
    assert made.linear.weight.dtype is torch.float16
    assert made.config == 3


def test_kernels_are_named_by_the_decorator() -> None:
    from transformers.integrations import hub_kernels

    decorated = hub_kernels.use_kernel_func_from_hub_with_fallback("selective_scan_fn", "mamba_ssm")(lambda x: x)
    assert inside.kernel_of(decorated) == "selective_scan_fn"
    assert inside.kernel_of(lambda x: x) is None
    assert inside.kernel_of(len) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [None, "0", "1"])
def test_without_checks_and_as_before(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.utils import import_utils

    monkeypatch.delenv(CHECKS, raising=False)
    if before is not None:
        monkeypatch.setenv(CHECKS, before)

    def fails() -> None:
        import_utils.torch_compilable_check(torch.tensor(False), "checked")

    with inside.without_checks():
        fails()
    assert os.environ.get(CHECKS) == before
    if before != "1":
        with pytest.raises(ValueError, match="checked"):
            fails()


def test_positions_that_a_model_counted_are_one_sequence() -> None:
    from transformers import masking_utils

    packed = torch.tensor([[0, 1, 0, 1]])
    original = masking_utils.find_packed_sequence_indices
    assert original(packed).tolist() == [[0, 0, 1, 1]]
    with inside.unpacked(lambda positions: positions is not packed):
        assert masking_utils.find_packed_sequence_indices(packed).tolist() == [[0, 0, 1, 1]]
        assert masking_utils.find_packed_sequence_indices(packed.clone()) is None
    assert masking_utils.find_packed_sequence_indices is original


def test_missing_packages_are_named() -> None:
    from transformers.utils import import_utils

    with pytest.raises(ImportError) as raised:
        import_utils.requires_backends("AThing", ["detectron2"])
    assert messages.missing_package(" ".join(str(raised.value).split())) == "detectron2" or "detectron2" in str(
        raised.value
    )
    assert messages.missing_package("something else") is None


def _in_a_process(lines: str) -> list[str]:
    """What lines of Python print in a process that has imported nothing."""
    return subprocess.run([sys.executable, "-c", lines], check=True, capture_output=True, text=True).stdout.split()


def test_solvers_are_loaded_by_who_calls_them_alone() -> None:
    """And the loss that calls one, of matches between boxes, is what it is in transformers."""
    said = _in_a_process(
        "import sys\n"
        "from partita.inside.transformers_inside import load_models\n"
        "load_models()\n"
        "print('scipy.optimize' in sys.modules)\n"
        "from transformers.loss.loss_for_object_detection import linear_sum_assignment\n"
        "print(*linear_sum_assignment([[2, 1], [1, 2]])[1])\n"
        "import scipy.optimize\n"
        "print(scipy.optimize is sys.modules['scipy.optimize'], callable(scipy.optimize.minimize))\n"
    )
    assert said == ["False", "1", "0", "True", "True"]


def test_solvers_that_somebody_asks_for_meanwhile_are_scipys() -> None:
    said = _in_a_process(
        "import sys\n"
        "from partita.inside import transformers_inside as inside\n"
        "sys.modules[inside._SOLVERS] = inside._Solvers(inside._SOLVERS)\n"
        "from scipy.optimize import minimize\n"
        "inside.load_models()\n"
        "import scipy.optimize\n"
        "print(scipy.optimize.minimize is minimize)\n"
    )
    assert said == ["True"]
