"""Machine code on disk is used as long as no source of the kernels changes, and never after."""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import stat
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

from parsed import nodes_of, tree_of
from partita.engines.kernels import compiled as decorator
from partita.engines.kernels.arrays import Ints
from partita.ground import sources
from partita.inside import numba_inside

#: Where the kernels are, and the package that they are of.
PATHS = "{}" + os.pathsep + str(Path(decorator.__file__).parents[3])

#: Two modules as those of the package: a kernel that calls one in another file.
CALLEE = "from tiny.compiled import compiled\n\n\n@compiled\ndef callee(x):\n    return x + {addend}\n"
CALLER = (
    "from tiny.compiled import compiled\nfrom tiny.inner.callee import callee\n\n\n"
    "@compiled\ndef caller(x):\n    return 2 * callee(x)\n"
)

#: Calls the kernel; prints whether it was compiled before, its answer, and what was taken from disk and what was not.
RUN = """
from tiny import caller as module
from tiny.compiled import is_compiled
caller = module.caller
before = is_compiled(caller)
answer = caller(getattr(module, "make", int)(3))
hits, misses = (sum(kind.values()) for kind in (caller.stats.cache_hits, caller.stats.cache_misses))
print(before, answer, hits, misses, is_compiled(caller), caller.stats.cache_path)
"""


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """A small package of kernels with the decorator of the real one."""
    folder = tmp_path / "tiny"
    (folder / "inner").mkdir(parents=True)
    shutil.copy(sources.__file__, folder / "sources.py")
    decorated = Path(decorator.__file__).read_text().replace("partita.ground.sources", "tiny.sources")
    (folder / "compiled.py").write_text(decorated)
    for package in (folder, folder / "inner"):
        (package / "__init__.py").touch()
    (folder / "caller.py").write_text(CALLER)
    (folder / "inner" / "callee.py").write_text(CALLEE.format(addend=1))
    return folder


def run(kernels: Path, **environment: str) -> list[str]:
    """The words that ``RUN`` prints in a process of its own."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA")}
    variables |= {"PYTHONPATH": PATHS.format(kernels.parent), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    done = subprocess.run([sys.executable, "-c", RUN], env=variables, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_an_edited_callee_changes_the_caller(kernels: Path) -> None:
    assert run(kernels)[:5] == ["False", "8", "0", "1", "True"]
    files = sorted(path.name for path in kernels.rglob("*.nb?"))
    # Nothing changed: nothing is compiled.
    assert run(kernels)[:5] == ["True", "8", "1", "0", "True"]
    (kernels / "inner" / "callee.py").write_text(CALLEE.format(addend=2))
    assert run(kernels)[:5] == ["False", "10", "0", "1", "True"]
    # The new code took the place of the old.
    assert sorted(path.name for path in kernels.rglob("*.nb?")) == files


def test_two_processes_compile_once(kernels: Path) -> None:
    """The second waits for what the first has begun, or finds it."""
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(run(kernels))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [words[1] for words in found] == ["8", "8"]
    assert sorted(words[2:4] for words in found) == [["0", "1"], ["1", "0"]]


def test_an_edit_elsewhere_changes_nothing(kernels: Path) -> None:
    run(kernels)
    (kernels / "inner" / "other.py").write_text(CALLEE.format(addend=3))
    assert run(kernels)[:5] == ["True", "8", "1", "0", "True"]


def test_an_edit_two_files_away_changes_the_caller(kernels: Path) -> None:
    """And one that only names a number, imported with its module or under another name."""
    (kernels / "inner" / "numbers.py").write_text("ONE = 1\n")
    callee = CALLEE.replace("import compiled\n", "import compiled\nfrom tiny.inner import numbers as of\n")
    (kernels / "inner" / "callee.py").write_text(callee.format(addend="of.ONE"))
    assert run(kernels)[:5] == ["False", "8", "0", "1", "True"]
    assert run(kernels)[:5] == ["True", "8", "1", "0", "True"]
    (kernels / "inner" / "numbers.py").write_text("ONE = 2\n")
    assert run(kernels)[:5] == ["False", "10", "0", "1", "True"]


def test_all_that_a_kernel_can_name_is_among_its_sources() -> None:
    """Whatever a kernel of the package reads from another of its files, that file is under its mark."""
    folder, asked = Path(decorator.__file__).parent, 0
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(("partita.engines.kernels", *path.relative_to(folder).with_suffix("").parts))
        if path.name == "__init__.py":
            continue
        module = importlib.import_module(name)
        mark = {str(each) for each in sources.sources(path)}
        for kernel in vars(module).values():
            function = getattr(kernel, "py_func", None)
            if function is None or function.__module__ != name:
                continue
            for used in function.__code__.co_names:
                value = function.__globals__.get(used)
                where = value if isinstance(value, types.ModuleType) else getattr(value, "py_func", value)
                of = getattr(where, "__name__" if isinstance(where, types.ModuleType) else "__module__", None) or ""
                if of.startswith("partita."):
                    asked += 1
                    assert str(sys.modules[of].__file__) in mark, f"{name}.{function.__name__} reads {used} of {of}"
    assert asked > 300


def test_code_for_types_that_are_gone_is_compiled_again(kernels: Path) -> None:
    """What is on disk names the types of arguments; after one is renamed it cannot be read, and is out of date."""
    source = (
        "from typing import NamedTuple\nfrom tiny.compiled import compiled\n\n\n"
        "class {name}(NamedTuple):\n    value: int\n\n\nmake = {name}\n\n\n"
        "@compiled\ndef caller(x):\n    return 2 * x.value + 2\n"
    )
    (kernels / "caller.py").write_text(source.format(name="Before"))
    assert run(kernels)[:2] == ["False", "8"]
    assert run(kernels)[:4] == ["True", "8", "1", "0"]
    (kernels / "caller.py").write_text(source.format(name="After"))
    assert run(kernels)[:4] == ["False", "8", "0", "1"]


def test_a_folder_that_cannot_be_written_keeps_its_code_elsewhere(kernels: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        # Root may write anywhere: a file in place of the folder keeps everyone out.
        for package in (kernels, kernels / "inner"):
            (package / "__pycache__").touch()
    else:
        for package in (kernels, kernels / "inner"):
            package.chmod(stat.S_IRUSR | stat.S_IXUSR)
    home = tmp_path / "home"
    home.mkdir()
    elsewhere = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    first = run(kernels, **elsewhere)
    assert first[:5] == ["False", "8", "0", "1", "True"]
    assert Path(first[5]).is_relative_to(home)
    assert run(kernels, **elsewhere)[:5] == ["True", "8", "1", "0", "True"]


def _shut(kernels: Path) -> None:
    """Keep everyone, root too, from writing machine code beside the kernels: files are where the folders would be."""
    for package in (kernels, kernels / "inner"):
        (package / "__pycache__").touch()


#: A home that cannot be made, not even by root: it would be in a file.
NO_HOME = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/home/cache"}


def test_code_is_kept_among_temporary_files_where_there_is_no_other_place(kernels: Path, tmp_path: Path) -> None:
    _shut(kernels)
    folder = tmp_path / "temporary"
    folder.mkdir()
    nowhere = NO_HOME | {"TMPDIR": str(folder)}
    first = run(kernels, **nowhere)
    assert first[:5] == ["False", "8", "0", "1", "True"]
    assert Path(first[5]).is_relative_to(folder)
    assert run(kernels, **nowhere)[:5] == ["True", "8", "1", "0", "True"]
    # Nobody else may have written what is run here.
    (own,) = folder.iterdir()
    own.chmod(0o777)
    assert run(kernels, **nowhere) == ["False", "8", "0", "1", "True", "None"]


def test_code_is_kept_nowhere_where_nothing_can_be_written(kernels: Path, tmp_path: Path) -> None:
    _shut(kernels)
    user = os.getuid() if hasattr(os, "getuid") else "user"
    # A file is where the folder would be.
    (tmp_path / f"partita-kernels-{user}").touch()
    nowhere = NO_HOME | {"TMPDIR": str(tmp_path)}
    for _ in range(2):
        assert run(kernels, **nowhere) == ["False", "8", "0", "1", "True", "None"]


def test_a_full_disk_keeps_no_code(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba_inside.FunctionCache, "save_overload", full)

    @decorator.compiled
    def kernel(x: int) -> int:
        return 2 * x

    assert kernel(4) == 8


def _decorators(function: ast.AST) -> set[str]:
    found = getattr(function, "decorator_list", [])
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in found}


def test_nothing_but_kernels_calls_steps() -> None:
    """Called from Python they would end the process; factories of kernels are handed them, and call none."""
    of_callers = {"called", "called_allocating_nothing", "inlined"}
    kernels, folder = of_callers | {"compiled", "allocating_nothing"}, Path(decorator.__file__).parent
    steps = {
        (".".join(("partita", *path.relative_to(folder.parents[1]).with_suffix("").parts)), function.name)
        for path in folder.rglob("*.py")
        for function in tree_of(path).body
        if isinstance(function, ast.FunctionDef) and _decorators(function) & of_callers
    }
    assert len(steps) > 200
    root, wrong = Path(__file__).parents[3], []
    for path in [
        *folder.parents[1].rglob("*.py"),
        *root.joinpath("tests").rglob("*.py"),
        *root.glob("benchmarks/*.py"),
    ]:
        within = path.is_relative_to(folder)
        own = ".".join(("partita", *path.relative_to(folder.parents[1]).with_suffix("").parts)) if within else ""
        named = {name for module, name in steps if module == own}
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom):
                named |= {alias.asname or alias.name for alias in node.names if (node.module, alias.name) in steps}
        pending: list[ast.AST] = [tree_of(path)] if named else []
        while pending:
            node = pending.pop()
            if _decorators(node) & kernels:
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in named:
                wrong.append(f"{path.relative_to(root)}:{node.lineno} calls {node.func.id}")
            pending.extend(ast.iter_child_nodes(node))
    assert not wrong


def test_steps_are_called_by_kernels_alone() -> None:
    """With and without counting references; neither has what Python would call it by, nor code of its own on disk."""

    @decorator.called
    def ascending(count: int) -> Ints:
        return np.arange(count)

    @decorator.called_allocating_nothing
    def total(values: Ints) -> int:
        return int(values.sum())

    @decorator.compiled
    def kernel(count: int) -> int:
        return total(ascending(count)) + total(ascending(2))

    assert kernel(5) == 11
    for step in (ascending, total):
        codes = list(step.overloads.values())  # type: ignore[attr-defined]
        assert codes
        assert not any(code.fndesc.llvm_cpython_wrapper_name in code.library.get_llvm_str() for code in codes)
        assert step.stats.cache_path is None  # type: ignore[attr-defined]


def test_kernels_run_uncompiled_where_numba_is_switched_off(kernels: Path) -> None:
    script = (
        "from tiny.caller import caller; from tiny.compiled import is_compiled; print(caller(3), is_compiled(caller))"
    )
    variables = os.environ | {"PYTHONPATH": PATHS.format(kernels.parent), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8", "True"]


def test_code_for_types_that_are_gone_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that was renamed leaves machine code behind whose arguments are of its types."""
    module = types.ModuleType("gone")
    module.Arrays = type("Arrays", (), {"__module__": "gone"})  # type: ignore[attr-defined]
    index = numba_inside.CodeIndex(cache_path=str(tmp_path), filename_base="kernel", source_stamp="digest")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gone", module)
        index._save_index({("signature", module.Arrays): "kernel.1.nbc"})  # type: ignore[attr-defined]
        assert len(index._load_index()) == 1
    assert index._load_index() == {}
