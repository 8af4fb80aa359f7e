"""Values that follow from the example input settle what runs; what does not is presumed, and said."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import partita as pt  # noqa: E402
from partita.ground.errors import TraceError  # noqa: E402

nn = torch.nn


class Calls(nn.Module):
    """Runs a function with a table of 100 rows and a product of 32 features."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 32)
        self.product = nn.Linear(32, 32)
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def products(function: Callable[..., Any], *inputs: Any) -> tuple[list[int], tuple[str, ...]]:
    """Rows that the products of a function take, with the notes; equal with and without data in the module."""
    found = []
    for place in ("cpu", "meta"):
        with torch.device(place):
            module = Calls(function)
        graph = pt.trace(module, inputs)
        found.append(([op.flops // (2 * 32 * 32) for op in graph.operators if "mm" in op.target], graph.notes))
    assert found[0] == found[1]
    return found[0]


IDS = torch.arange(64).reshape(2, 32)


def test_a_mask_of_the_input_picks_its_rows() -> None:
    rows, notes = products(lambda m, ids: m.product(m.table(ids)[ids >= 61]), IDS)
    assert rows == [3]
    assert any("'input0'" in note for note in notes)


def test_sizes_that_are_an_input() -> None:
    def split(m: Any, ids: Any, sizes: Any) -> Any:
        return sum(m.product(part).sum() for part in m.table(ids).flatten(0, 1).split(sizes.tolist()))

    rows, _ = products(split, IDS, torch.tensor([10, 20, 34]))
    assert rows == [10, 20, 34]


def test_branches_on_the_input() -> None:
    def branch(m: Any, ids: Any) -> Any:
        hidden = m.table(ids)
        return m.product(hidden) if bool((ids > 62).any()) else hidden

    assert products(branch, IDS)[0] == [64]
    assert products(branch, IDS % 10)[0] == []


def test_values_of_positions_need_no_note() -> None:
    def windows(m: Any, ids: Any) -> Any:
        ends = torch.arange(0, ids.shape[1] + 1, 8)
        ends[1:-1] += 1
        return [m.product(m.table(ids[:, a:b])) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]

    rows, notes = products(windows, IDS)
    assert rows == [18, 16, 16, 14]
    assert not notes


def test_what_is_written_over_is_no_longer_known() -> None:
    def overwritten(m: Any, ids: Any) -> Any:
        places = torch.zeros(4, dtype=torch.long)
        seen = places.view(2, 2)
        places.copy_(m.table(ids).sum((0, 1))[:4].long())
        return m.table(ids)[:, : int(seen[0, 0])]

    with pytest.raises(TraceError, match="depend on data"):
        pt.trace(Calls(overwritten), (IDS,))


def test_rows_that_data_picks_are_all_of_them_and_that_is_said() -> None:
    rows, notes = products(lambda m, ids: m.product(m.table(ids)[m.table(ids).sum(-1) > 0]), IDS)
    assert rows == [64]
    assert any("all of the 64 rows" in note for note in notes)


def test_experts_have_their_expected_share() -> None:
    def experts(m: Any, ids: Any) -> Any:
        hidden = m.table(ids).flatten(0, 1)
        chosen = hidden[:, :4].topk(2).indices
        mask = nn.functional.one_hot(chosen, num_classes=4).permute(2, 1, 0)
        out = torch.zeros_like(hidden)
        for expert in (mask.sum((-1, -2)) > 0).nonzero():
            _, tokens = torch.where(mask[expert].squeeze(0))
            out = out.index_add(0, tokens, m.product(hidden[tokens]))
        return out

    rows, notes = products(experts, IDS)
    assert rows == [32] * 4, "64 tokens of two experts each, spread over four"
    assert any("expected share" in note for note in notes)


def test_faults_are_presumed_not_to_occur() -> None:
    def checked(m: Any, ids: Any) -> Any:
        hidden = m.product(m.table(ids))
        if torch.isnan(hidden).any() or not torch.isfinite(hidden).all():
            raise ValueError("no numbers")
        return hidden

    rows, notes = products(checked, IDS)
    assert rows == [64]
    assert sum("presumes" in note for note in notes) == 2


def test_draws_are_the_same_in_every_trace() -> None:
    def drawn(m: Any, ids: Any) -> Any:
        return m.product(m.table(ids)[:, : int(torch.randint(1, 32, (1,)))])

    assert products(drawn, IDS) == products(drawn, IDS)


def test_grouped_products_say_how_many_tokens_each_expert_is_expected_to_get() -> None:
    pytest.importorskip("transformers")
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100}
    fields = {name: str(value) for name, value in sizes.items()}
    fields |= {"num_attention_heads": "2", "num_key_value_heads": "2"}
    graph = pt.load_model("hf:mixtral", set_fields=fields, batch_size=2, sequence_length=64)
    # 128 tokens of two experts each, over eight.
    assert [note for note in graph.notes if "spread evenly: 32 of each of 8 of 8 experts." in note]
