"""The command line where it is not at home: read-only, without extras, without a home, without a terminal or UTF-8.

Every case is a process of its own. Root may write anywhere, so what cannot be written is simulated in a way that holds
for root, too: files stand where folders would have to be made (``__pycache__`` of every package, and ``/dev/null`` as
the parent of the home and of temporary files), and a light install is one in which the extras cannot be imported.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import partita
from cli.conftest import workload
from partita.documents.stated import write_graph
from partita.nouns.graph import Graph, Operator, Tensor

SOURCE = Path(partita.__file__).parent

#: What only extras install, by import name.
EXTRAS = (
    "torch transformers torchvision onnx onnxruntime onnxscript openvino matplotlib plotly ortools pyscipopt pymetis "
    "joblib distributed ray pandas yaml"
)

BLOCKER = f"""
import importlib.util
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(EXTRAS.split())!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
find_spec = importlib.util.find_spec

def found(name, package=None):
    try:
        return find_spec(name, package)
    except ModuleNotFoundError:
        return None

importlib.util.find_spec = found
"""


@dataclass(frozen=True)
class Environment:
    """Where a command runs: variables, whether the package can be written, and whether extras are there."""

    variables: dict[str, str] = field(default_factory=dict)
    read_only: bool = False
    light: bool = False


NOWHERE = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/home/cache", "XDG_CONFIG_HOME": "/dev/null/home/c"}
ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}

ENVIRONMENTS = {
    "light install": Environment(light=True),
    "home that cannot be written": Environment(NOWHERE),
    "no home": Environment({"HOME": ""}),
    "ASCII": Environment(ASCII),
    "narrow": Environment({"COLUMNS": "40"}),
    "dumb terminal": Environment({"TERM": "dumb", "COLUMNS": "40"} | ASCII),
    "read-only package, no home": Environment(NOWHERE, read_only=True),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small problem with a name that ASCII lacks, a graph, and the package where none of it can be written."""
    folder = tmp_path_factory.mktemp("environments")
    problem = workload()
    problem["nodes"][0]["name"] = "größe → µ"
    (folder / "chain.json").write_text(json.dumps(problem), encoding="utf-8")
    operators = tuple(
        Operator(
            name=f"schicht µ{v}", target="aten.mm", dtype="float32", flops=10**9, bytes_read=400, bytes_written=400
        )
        for v in range(4)
    )
    tensors = tuple(Tensor(name=f"t{v}", producer=v, consumers=(v + 1,), shape=(100,), bytes=400) for v in range(3))
    write_graph(folder / "graph.json", Graph(name="größe", operators=operators, tensors=tensors))
    (folder / "blocked").mkdir()
    (folder / "blocked" / "sitecustomize.py").write_text(BLOCKER, encoding="utf-8")
    copied = folder / "shut" / "partita"
    shutil.copytree(SOURCE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for package in (copied, *(path for path in copied.rglob("*") if path.is_dir())):
        (package / "__pycache__").touch()
    (folder / "temporary").mkdir()
    return folder


def run(
    files: Path, where: Environment, *arguments: str, stdout: object = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """A command in an environment, without a terminal."""
    paths = [str(files / "shut") if where.read_only else str(SOURCE.parent)]
    if where.light:
        paths.insert(0, str(files / "blocked"))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA", "COLU"))}
    variables |= {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(files / "temporary")} | where.variables
    return subprocess.run(
        [sys.executable, "-m", "partita", *(text.format(files=files) for text in arguments)],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=stdout,  # type: ignore[call-overload]
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=600,
        check=False,
    )


SOLVE = ("solve", "{files}/chain.json")
PLAN = ("plan", "{files}/graph.json", "--cluster", "2xL4", "--objective", "throughput")


def test_a_read_only_package_can_be_imported(files: Path) -> None:
    """Where the machine code of kernels can be kept is looked for when they are imported; here nowhere beside them."""
    where = ENVIRONMENTS["read-only package, no home"]
    variables = os.environ | where.variables | {"PYTHONPATH": str(files / "shut"), "TMPDIR": str(files / "temporary")}
    text = "from partita.engines.kernels.throughput import plain_search as k; "
    text += "print(k.__file__, k.search_plain._cache.cache_path)"
    done = subprocess.run(
        [sys.executable, "-c", text], env=variables, capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    module, cache = done.stdout.split()
    assert Path(module).is_relative_to(files / "shut")
    assert Path(cache).is_relative_to(files / "temporary")


#: All kernels are compiled again where none of their code can be found.
_CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if where.read_only else []) for name, where in ENVIRONMENTS.items()
]


@pytest.mark.parametrize("name", _CASES)
def test_every_environment(files: Path, name: str, tmp_path: Path) -> None:
    where, path = ENVIRONMENTS[name], tmp_path / "plan.json"
    for command in (("devices",), SOLVE, (*PLAN, "--output", str(path))):
        done = run(files, where, *command)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stdout.splitlines()) > 3
        # At most one note, as on compiling, but for what the plan itself is to be read with.
        notes = [line for line in done.stderr.splitlines() if "cannot" in line or "Warning" in line]
        assert not notes, done.stderr
    documents = [json.loads(path.read_text(encoding="utf-8"))]
    if where.light or "PYTHONIOENCODING" in where.variables:
        done = run(files, where, *PLAN, "--json")
        assert done.returncode == 0, done.stderr
        documents.append(json.loads(done.stdout))
    for document in documents:
        assert document["status"] == "optimal"
        assert document["problem"]["name"].startswith("größe")


def test_what_an_extra_is_needed_for_is_said(files: Path) -> None:
    done = run(files, ENVIRONMENTS["light install"], "plan", "hf:gpt2", "--cluster", "2xL4")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "partita: torch is not installed; install it with: pip install 'partita[torch]'"
    )
    done = run(files, ENVIRONMENTS["light install"], "report", "{files}/chain.json")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "partita: plotly is not installed; install it with: pip install 'partita[report]'"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("command", [("devices",), ("links",), SOLVE, (*SOLVE, "--json"), (*SOLVE, "--output", "-")])
def test_a_full_standard_output(files: Path, command: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = run(files, Environment(), *command, stdout=full)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "partita: standard output cannot be written: No space left on device"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk(files: Path) -> None:
    done = run(files, Environment(), *SOLVE, "--output", "/dev/full")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "partita: /dev/full cannot be written: No space left on device"


@pytest.mark.parametrize("command", [("devices",), SOLVE, (*SOLVE, "--json")])
def test_a_pipe_that_nobody_reads(files: Path, command: tuple[str, ...]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = run(files, Environment(), *command, stdout=theirs)
    finally:
        os.close(theirs)
    # Not 1, which is a proof that there is no plan.
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
@pytest.mark.parametrize(("closed", "code"), [(">&-", 2), ("2>&-", 0)])
def test_a_stream_that_is_closed(files: Path, closed: str, code: int) -> None:
    text = f"{sys.executable} -m partita solve {files}/chain.json --json {closed}"
    variables = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        text, shell=True, env=variables, capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    if code == 0:
        assert json.loads(done.stdout)["status"] == "optimal"


@pytest.mark.slow
def test_a_real_light_install(files: Path, tmp_path: Path) -> None:
    """A virtual environment with what the package itself depends on, and nothing else."""
    root = SOURCE.parent.parent
    if not (root / "pyproject.toml").exists():
        pytest.skip("the package is not in its repository")
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=300)
    subprocess.run([python, "-m", "pip", "install", "-q", root], check=True, timeout=1800)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for command in (("devices",), SOLVE, (*SOLVE, "--json"), PLAN, (*PLAN, "--json")):
        asked = [text.format(files=files) for text in command]
        done = subprocess.run(
            [python, "-P", "-m", "partita", *asked],
            env=variables,
            capture_output=True,
            encoding="utf-8",
            timeout=1200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        if "--json" in command:
            assert json.loads(done.stdout)["status"] == "optimal"
