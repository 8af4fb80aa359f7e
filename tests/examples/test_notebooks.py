"""The notebooks run from start to end, are short, and use nothing of partita but its public names."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
#: Lines of code in a notebook, at most; modules that one may import beside partita: those of whom it is for.
MOST_LINES = 30
THEIRS = {"random", "torch"}
#: A cell that takes longer than this hangs.
CELL_S = 300


def code(path: Path) -> list[str]:
    """The cells of code, one text each; what only the notebook itself understands (a last ``;``) is taken off."""
    cells = nbformat.read(path, 4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def test_everybody_has_a_notebook() -> None:
    assert {path.stem for path in NOTEBOOKS} >= {
        "compile_my_own_module",
        "contest_with_your_solver",
        "measure_and_run_at_the_edge",
        "plan_and_look",
        "serve_a_model",
        "train_a_large_model",
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_uses_public_names(path: Path) -> None:
    lines = [line for cell in code(path) for line in cell.splitlines() if line.strip()]
    tree = ast.parse("\n".join(code(path)))
    imported = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert "partita" in imported
    assert imported - {"partita"} <= THEIRS
    assert len(lines) <= MOST_LINES


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, _graphs_folder: Path) -> Iterator[Any]:
    """One process for all notebooks: most of a notebook's time is loading torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("PARTITA_CACHE", str(_graphs_folder))
        first = nbclient.NotebookClient(nbformat.v4.new_notebook(), shutdown_kernel="immediate")
        with first.setup_kernel():
            yield first.km


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, kernel: Any) -> None:
    notebook = nbformat.read(path, 4)
    # Nothing is left of the notebooks before it.
    notebook.cells.insert(0, nbformat.v4.new_code_cell(f"%reset -f\n%cd -q {tmp_path}"))
    client = nbclient.NotebookClient(notebook, km=kernel, timeout=CELL_S)
    client.execute()
    client.kc.stop_channels()
    shown: list[Any] = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    # What a cell ends with is shown as HTML or a picture, and not only as text.
    assert any({"text/html", "image/png"} & out.get("data", {}).keys() for out in shown)
    assert not [out for out in shown if out.output_type == "error"]
