"""Run the tests of each module on wrong versions of it, and print which versions no test noticed.

Every mutant has a process of its own: a copy of one in which the module's tests have run once, so that compiled kernels
are loaded. It forgets the package (but not the kernels), imports it again with the mutant's code, and runs the tests
until one fails. No file is changed. A mutant on which the tests take several times as long as usual counts as caught.
Mutants of a kernel run as plain Python: to compile each would take longer than its tests, and may not be possible.

Mutants that no test can notice are listed with the reason in ``equivalent.toml``, and count apart.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import random
import resource
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import ClassVar, NoReturn

import numba
import pytest
from hypothesis import Phase, settings

from mutants.operators import Mutant, mutants_of
from mutants.table import MODULES

_HERE = Path(__file__).parent
#: Modules below this one are compiled, but for their own mutants.
_KERNELS = "partita.engines.kernels."
#: Memory that a mutant may map: one that never stops collecting ends early.
_ADDRESS_SPACE_BYTES = 24 << 30


class _FewExamples:
    """Properties are tried on a third of the usual examples, and a failure need not be made small."""

    usual: ClassVar[settings | None] = None

    def pytest_configure(self) -> None:
        # Tests are collected once for every module, in one process: a third is always of what was there at first.
        usual = _FewExamples.usual = _FewExamples.usual or settings()
        phases = [phase for phase in usual.phases if phase not in (Phase.shrink, Phase.explain)]
        settings.register_profile("mutants", usual, phases=phases, max_examples=usual.max_examples // 3)
        settings.load_profile("mutants")


class _LeaveAtOnce:
    """Ends the process at the first failure: no more is asked of a mutant's."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.pytest_runtest_logreport(report)

    def pytest_runtest_logreport(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed:
            os._exit(1)


class _Loader(SourceFileLoader):
    """Loads one module with other code than its file's."""

    code: CodeType

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return self.code


@dataclass(frozen=True)
class _Module:
    """A module, its source file, and the tests to run on its mutants."""

    name: str
    file: str
    source: str
    tests: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """Whether it runs as plain Python, and what it imports with it."""
        return self.name.startswith(_KERNELS)


@dataclass(frozen=True)
class _Usual:
    """What the tests take on the right module."""

    wall_s: float
    cpu_s: float


def _run_tests(tests: Sequence[str], folder: str, *plugins: object) -> int:
    # What the switched-off plugins look for at the end of a run takes longer than most runs.
    unused = ("cacheprovider", "xdist", "unraisableexception", "threadexception")
    options = ["-x", "-q", "--tb=short", "--assert=plain", f"--basetemp={folder}/tests"]
    options += [word for name in unused for word in ("-p", f"no:{name}")]
    return int(pytest.main([*options, *tests], plugins=[_FewExamples(), *plugins]))


def _forget(*, kernels: bool) -> None:
    """Drop what depends on the package, and the tests: they are imported anew. Kernels stay unless they are to go."""
    folder = str(_HERE.parent)
    for name, module in list(sys.modules.items()):
        ours = name == "partita" or (name.startswith("partita.") and (kernels or not f"{name}.".startswith(_KERNELS)))
        if ours or ((getattr(module, "__file__", None) or "").startswith(folder) and not name.startswith("mutants")):
            del sys.modules[name]


def _try(module: _Module, mutant: Mutant, usual: _Usual, folder: str) -> NoReturn:
    """In a process of its own: exit with 0 if no test notices the mutant."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    cpu = int(3 + 3 * usual.cpu_s)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(int(60 + 10 * usual.wall_s))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    status = 1
    try:
        os.makedirs(folder)
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        loader = _Loader(module.name, module.file)
        loader.code = mutant.compile(module.source, module.file)
        _forget(kernels=module.plain)
        sys.meta_path.insert(0, loader)
        status = _run_tests(module.tests, folder, _LeaveAtOnce())
    finally:
        os._exit(0 if status == 0 else 1)


def _survivors(module: _Module, mutants: list[Mutant], usual: _Usual, jobs: int, folder: str) -> list[Mutant]:
    """The mutants that no test notices."""
    running: dict[int, Mutant] = {}
    waiting = list(enumerate(mutants))[::-1]
    survived: list[Mutant] = []
    try:
        while waiting or running:
            if waiting and len(running) < jobs:
                number, mutant = waiting.pop()
                sys.stdout.flush()
                child = os.fork()
                if child == 0:
                    _try(module, mutant, usual, f"{folder}/{module.name}/{number}")
                running[child] = mutant
                continue
            child, status = os.wait()
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            mutant = running.pop(child)
            if status == 0:
                survived.append(mutant)
    finally:
        for child in running:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    return sorted(survived, key=lambda mutant: mutant.line)


def _switch(*, plain: bool) -> None:
    """Let kernels that are imported from now on be plain Python, or compiled."""
    if bool(numba.config.DISABLE_JIT) != plain:
        os.environ["NUMBA_DISABLE_JIT"] = str(int(plain))
        numba.config.reload_config()
        _forget(kernels=True)


def _usual(module: _Module, folder: str) -> _Usual:
    """Run the tests on the right module, here: what they load stays loaded.

    Raises
    ------
    SystemExit
        If they fail, or do not import the module.
    """
    _switch(plain=module.plain)
    wall, cpu = time.perf_counter(), time.process_time()
    own = Path(folder) / module.name
    own.mkdir()
    sys.stdout.flush()
    stdout = os.dup(1)
    with (own / "output").open("wb") as stream:
        os.dup2(stream.fileno(), 1)
    try:
        status = _run_tests(module.tests, str(own))
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
    if status != 0:
        raise SystemExit(f"{(own / 'output').read_text()}\nthe tests of {module.name} fail without any change")
    if module.name not in sys.modules:
        raise SystemExit(f"the tests of {module.name} do not import it")
    gc.freeze()
    return _Usual(time.perf_counter() - wall, time.process_time() - cpu)


def _read(name: str, tests: tuple[str, ...]) -> _Module:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"there is no module {name}")
    return _Module(name, spec.origin, Path(spec.origin).read_text(), tests)


def _check(
    name: str, arguments: argparse.Namespace, equivalent: set[tuple[str, str, str, str]], folder: str
) -> tuple[int, int]:
    """Print one module's line and its survivors; how many mutants were caught, and of how many."""
    module = _read(name, MODULES[name])
    usual = _usual(module, folder)
    mutants = mutants_of(module.source)
    if len(mutants) > arguments.budget > 0:
        chosen = random.Random(f"{arguments.seed} {name}").sample(range(len(mutants)), arguments.budget)
        mutants = [mutants[place] for place in sorted(chosen)]
    counted = [m for m in mutants if (name, m.where, m.text, m.change) not in equivalent]
    survivors = _survivors(module, counted, usual, arguments.jobs, folder)
    caught = len(counted) - len(survivors)
    share = caught / len(counted) if counted else 1.0
    same = len(mutants) - len(counted)
    print(f"{name:<52} {len(counted):>7} {caught:>6} {len(survivors):>9} {same:>10}  {share:7.1%}", flush=True)
    for mutant in survivors:
        print(f"    line {mutant.line}, {mutant.where}: {mutant.change}\n        {mutant.text}", flush=True)
    return caught, len(counted)


def main() -> None:
    """Check the modules that are named on the command line, or all; exit status 1 if too few mutants are caught."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__.split("\n", 1)[0])
    parser.add_argument("modules", nargs="*", help="parts of names of modules; none for all")
    parser.add_argument("--threshold", type=float, default=85.0, help="least share caught in each module, in percent")
    parser.add_argument("--budget", type=int, default=0, help="most mutants of a module, chosen by the seed; 0 is all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    # Threads that libraries have in this process are not there in its copies, which would wait for them.
    os.environ["OMP_NUM_THREADS"] = "1"
    # Ended from outside it still ends its children, and takes its folder away.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = [name for name in MODULES if not arguments.modules or any(part in name for part in arguments.modules)]
    rows = tomllib.loads((_HERE / "equivalent.toml").read_text()).get("mutant", [])
    equivalent = {(row["module"], row["where"], row["line"], row["change"]) for row in rows}
    print(f"{'module':<52} {'mutants':>7} {'caught':>6} {'survivors':>9} {'equivalent':>10}  {'share':>7}")
    started, low = time.perf_counter(), []
    total = [0, 0]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in names:
            caught, count = _check(name, arguments, equivalent, folder)
            total = [total[0] + caught, total[1] + count]
            if 100 * caught < arguments.threshold * count:
                low.append(name)
    share = total[0] / total[1] if total[1] else 1.0
    print(f"{total[0]} of {total[1]} mutants caught ({share:.1%}) in {time.perf_counter() - started:.0f} s")
    if low:
        print(f"below {arguments.threshold:g} %: {', '.join(low)}", file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
