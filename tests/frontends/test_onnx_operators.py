"""Every operator of the standard: shapes and followed values are those of the standard's own examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partita as pt
from partita.ground.errors import InputError

pytest.importorskip("onnx", reason="ONNX files are read by onnx")

from partita.frontends.onnx.walk import Walk

#: What an example may be refused for: no arrays, nothing to compute, sizes that only its data says.
_REFUSED = (
    "not an array",
    "holds text",
    "computes nothing",
    "depends on data",
    "leaves sizes open",
    "of operator set 8",
    "without content has no size",
    "has a sequence in its place",
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_examples_of_the_standard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx import TensorProto
    from onnx.backend.test.case.node import collect_testcases
    from onnx.numpy_helper import to_array

    found: list[Any] = []
    capture = Walk.capture

    def keep(self: Walk, outputs: Any) -> Any:
        found[:] = [outputs, self.guessed]
        return capture(self, outputs)

    monkeypatch.setattr(Walk, "capture", keep)
    path = tmp_path / "case.onnx"
    compared, wrong = 0, []
    for case in collect_testcases(None):
        if case.model is None or not case.data_sets:
            continue
        path.write_bytes(case.model.SerializeToString())
        found.clear()
        try:
            pt.load_model(str(path))
        except InputError as error:
            if not any(reason in str(error) for reason in _REFUSED):
                wrong.append(f"{case.name}: {error}")
        if not found or found[1]:
            continue
        for example, array in zip(case.data_sets[0][1], found[0], strict=True):
            if isinstance(array, tuple):
                # What it holds is compared where it is taken out.
                assert isinstance(example, list), case.name
                continue
            expected = to_array(example) if isinstance(example, TensorProto) else np.asarray(example)
            compared += 1
            if expected.shape != array.shape:
                wrong.append(f"{case.name}: shape {expected.shape}, not {array.shape}")
            elif array.known is not None and not np.array_equal(expected, array.known):
                wrong.append(f"{case.name}: {expected}, not {array.known}")
    assert compared > 1500
    # Whose body onnx's own inference does not take.
    assert [each for each in wrong if not each.startswith("test_mvn:")] == []
