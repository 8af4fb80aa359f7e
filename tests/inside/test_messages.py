"""Errors of torch say what the package reads in them."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="its errors are read")

from torch.nn import functional

from partita.inside import messages
from partita.inside.torch_inside import FakeTensorMode


def said(call: Callable[[], Any]) -> str:
    """The text of what a call raises."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 -- which text it has is the question
        call()
    return " ".join(str(raised.value).split())


def stand_in(*shape: int, dtype: Any = torch.float32) -> Any:
    """A tensor without data, of a mode of its own."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        return torch.zeros(*shape, dtype=dtype)


def within(call: Callable[[], Any]) -> Callable[[], Any]:
    """A call under a fake mode."""

    def run() -> Any:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return call()

    return run


def test_values_that_are_not_there() -> None:
    meta = torch.zeros(2, device="meta")
    for call in (lambda: meta.sum().item(), lambda: meta.tolist(), lambda: meta.to("cpu")):
        assert messages.looks_at_values(said(call))
    real = torch.zeros(2)

    def mixed() -> Any:
        with FakeTensorMode():
            return torch.zeros(2) + real

    assert messages.looks_at_values(said(mixed))
    assert not messages.looks_at_values("size mismatch")


def test_numpy() -> None:
    assert messages.NUMPY in said(lambda: stand_in(2).numpy())


def test_nested_sizes() -> None:
    def nested() -> Any:
        parts = [torch.zeros(2, 3), torch.zeros(1, 3)]
        return torch.nested.nested_tensor(parts, layout=torch.jagged)

    assert messages.NESTED_SIZES in said(within(nested))


def test_formats() -> None:
    x, half = torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.bfloat16)
    image = torch.zeros(1, 1, 3, 3)
    for call in (
        lambda: x @ half,
        lambda: functional.conv2d(image, half[None, None]),
        lambda: functional.linear(x, half),
    ):
        assert messages.is_of_formats(said(call))


@pytest.mark.parametrize(
    ("pattern", "call", "got", "takes"),
    [
        ("PRODUCT", lambda: torch.zeros(2, 3) @ torch.zeros(4, 5), "2, 3", "4"),
        ("CHANNELS", lambda: functional.conv2d(torch.zeros(1, 4, 8, 8), torch.zeros(2, 3, 1, 1)), "1, 4, 8, 8", "3"),
        ("NORM", lambda: functional.layer_norm(torch.zeros(2, 3), [4]), "2, 3", "4"),
        ("ROW", lambda: torch._refs.add(torch.zeros(2, 3), torch.zeros(4)), "", ""),
    ],
)
def test_sizes(pattern: str, call: Callable[[], Any], got: str, takes: str) -> None:
    text = said(within(call))
    found = getattr(messages, pattern).search(text)
    assert found is not None, text
    if got:
        assert (found["got"], found["takes"]) == (got, takes)


def test_rows_that_cannot_be_cut() -> None:
    found = messages.CODES.search(said(within(lambda: torch.zeros(2, 3).view(-1, 4, 5))))
    assert found is not None
    assert (found["form"], found["size"]) == ("-1, 4, 5", "6")
    found = messages.GROUPS.search(said(within(lambda: torch.zeros(6).view(0, 4, 5))))
    assert found is not None
    assert (found["group"], found["size"]) == ("4, 5", "6")


def test_other_sizes() -> None:
    assert messages.MEAN_OF_INTEGERS in said(within(lambda: torch.zeros(2, dtype=torch.long).mean()))
    flat = said(within(lambda: functional.conv2d(torch.zeros(4, 8), torch.zeros(2, 3, 1, 1))))
    assert messages.FLAT_IMAGES in flat
    grey = said(within(lambda: functional.conv2d(torch.zeros(1, 1, 8, 8), torch.zeros(2, 3, 1, 1))))
    assert messages.GREY_IMAGES in grey
