"""A trace leaves everything as it was: functions of libraries, settings of the process, the module itself."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import logging
import os
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

from partita.frontends.models import load_model
from partita.frontends.torch import trace
from partita.ground.errors import PartitaError, TraceError

CHECKS = "TRANSFORMERS_DISABLE_TORCH_CHECK"
#: Libraries whose functions, classes and their attributes are looked at.
LIBRARIES = ("torch", "transformers", "builtins", "random", "numpy", __name__)
#: Numbers that torch counts up whenever it makes something.
COUNTERS = {"DESCRIBER_NEXT_ID"}

#: Looking at all of torch looks at what is deprecated, too.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def attributes() -> dict[tuple[str, ...], int]:
    """Every function and setting that the libraries' loaded modules and their classes have, by name."""
    found: dict[tuple[str, ...], int] = {}
    for name, module in list(sys.modules.items()):
        if not any(name == library or name.startswith(f"{library}.") for library in LIBRARIES):
            continue
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if (callable(value) or isinstance(value, (bool, int, float, str))) and key not in COUNTERS:
                found[name, key] = id(value)
            if isinstance(value, type) and value.__module__ == name:
                found.update(((name, key, each), id(held)) for each, held in vars(value).items() if callable(held))
    return found


def settings() -> dict[str, Any]:
    """What a process is set to."""
    loggers = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]
    hooks = vars(sys.modules["torch.nn.modules.module"])
    return {
        "environment": dict(os.environ),
        "levels": {logger.name: logger.level for logger in loggers},
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "anomaly": torch.is_anomaly_enabled(),
        "draws": (random.getstate(), torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist()),  # type: ignore[index]
        "hooks": {name: list(held) for name, held in hooks.items() if name.startswith("_global_") and held},
        "modes": (torch.overrides._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "path": (list(sys.path), list(sys.argv)),
        "recursion": sys.getrecursionlimit(),
    }


def recurrence(x: Any) -> Any:
    """A loop that a trace takes for a scan, in a function of a model's own file."""
    state = torch.zeros_like(x[:, 0])
    rows = []
    for step in range(x.shape[1]):
        state = (state * 0.5 + x[:, step]).tanh()
        rows.append(state)
    return torch.stack(rows, 1)


class Everything(nn.Module):
    """Uses what a trace puts something else in the place of, and keeps what it computes."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.linear, self.attention = nn.Linear(8, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.register_buffer("count", torch.zeros(()))
        self.fails, self.kept = fails, None

    def forward(self, x: Any) -> Any:
        random.random()
        numpy.random.random()
        self.kept = x
        self.count = self.count + 1
        self.made = nn.Linear(8, 8)
        x = checkpoint.checkpoint(self.linear, recurrence(x), use_reentrant=True)
        with torch.autocast("cuda", torch.bfloat16):
            x = self.attention(x, x, x)[0]
        x = torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x.float(),))
        if self.fails and x.max().item() > 0:
            raise RuntimeError("on purpose")
        return x * torch.tensor([torch.tensor(2.0), 1.0])[0]


#: What other threads trace meanwhile.
OTHERS = Everything(), Everything(True)


def traced(module: Everything) -> None:
    """Trace a module, which fails if it is to fail."""
    if module.fails:
        with pytest.raises(TraceError, match="depend on data"):
            trace(module, (torch.zeros(2, 70, 8),), training=True)
    else:
        assert trace(module, (torch.zeros(2, 70, 8),), training=True).operators


def traced_elsewhere(module: Everything) -> None:
    """Trace a module in another thread, while others trace, too."""
    raised: list[BaseException] = []

    def body(own: Everything) -> None:
        try:
            traced(own)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=body, args=(own,)) for own in (module, *OTHERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised


@pytest.mark.parametrize("run", [traced, traced_elsewhere])
@pytest.mark.parametrize("fails", [False, True], ids=["passes", "fails"])
def test_a_trace_leaves_nothing_behind(
    run: Callable[[Everything], None], fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CHECKS, raising=False)
    module = Everything(fails)
    # What a first trace imports is there from then on.
    run(module)
    held = [(child, dict(vars(child)), dict(child._parameters)) for child in module.modules()]
    buffers, children = list(module._buffers.items()), list(module._modules.items())
    was, functions = settings(), attributes()
    run(module)
    now, others = settings(), attributes()
    assert now == was
    assert {name for name in functions if others.get(name) != functions[name]} == set()
    for child, own, parameters in held:
        assert {key: id(value) for key, value in vars(child).items()} == {key: id(value) for key, value in own.items()}
        assert {key: id(value) for key, value in child._parameters.items()} == {k: id(v) for k, v in parameters.items()}
    assert [id(value) for _, value in module._buffers.items()] == [id(value) for _, value in buffers]
    assert list(module._modules.items()) == children
    assert module.kept is None


@pytest.mark.parametrize("model", ["hf:bert", "hf:no_such_type", "file"])
def test_loading_leaves_nothing_behind(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="hf: needs transformers")
    monkeypatch.delenv(CHECKS, raising=False)
    if model == "file":
        path = tmp_path / "own.py"
        path.write_text("import torch\n\n\ndef build():\n    return torch.nn.Linear(2, 2).half(), torch.zeros(1, 3)\n")
        model = f"{path}:build"
    fields = {"num_hidden_layers": "1"} if model == "hf:bert" else {}

    def run() -> None:
        try:
            load_model(model, set_fields=fields)
        except PartitaError:
            assert model != "hf:bert"

    run()
    was, functions = settings(), attributes()
    run()
    assert settings() == was
    others = attributes()
    assert {name for name in functions if others.get(name) != functions[name]} == set()
    assert CHECKS not in os.environ


def test_attention_is_again_what_it_was() -> None:
    """The same function, not one that does the same."""
    before = functional.scaled_dot_product_attention, functional.dropout
    traced(Everything(True))
    assert (functional.scaled_dot_product_attention, functional.dropout) == before
