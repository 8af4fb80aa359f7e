"""The floors that serve every problem know none of them: what import contracts cannot see of the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import partita
from parsed import nodes_of
from partita.problems import kinds

SOURCE = Path(partita.__file__).parent

#: Files that serve every problem.
SHARED = ("cli", "conductor", "documents", "engines/search", "problems/facets")

#: Files that list problems or what they have: formats, names at the top of the package.
LISTS = {"problems/__init__.py", "problems/importers.py", "checker/listed.py", "__init__.py"}
#: What is written from the list of problems.
LISTS |= {str(path.relative_to(SOURCE)) for path in (SOURCE / "api" / "typed").glob("*.py")}


def files(*places: str) -> list[Path]:
    """All source files of folders, and files."""
    found = [path for place in places for path in sorted((SOURCE / place).rglob("*.py"))]
    found += [SOURCE / place for place in places if place.endswith(".py")]
    assert found
    return found


def words(path: Path) -> Iterator[tuple[int, str]]:
    """Identifiers and strings of a file but for docstrings, with their lines; a dotted name part by part."""
    nodes = nodes_of(path)
    documented = [n for n in nodes if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef)) and n.body]
    told = {id(node.body[0].value) for node in documented if isinstance(node.body[0], ast.Expr)}
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name):
            yield line, node.id
        elif isinstance(node, ast.Attribute):
            yield line, node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield line, node.value
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield line, alias.name
                yield line, alias.asname or ""
            yield line, (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield line, node.name
        elif isinstance(node, ast.arg):
            yield line, node.arg
        elif isinstance(node, ast.keyword):
            yield line, node.arg or ""


def naming(places: list[Path], names: set[str]) -> list[str]:
    """Where a file says one of these."""
    return [
        f"{path.relative_to(SOURCE)}:{line}: {word}"
        for path in places
        for line, word in words(path)
        if any(name.lower() in word.lower() for name in names)
    ]


def own_names() -> set[str]:
    """What the problems are called; their types are called after them."""
    return {kind.name for kind in kinds()}


#: A link's fixed time, an operator's time in a published format, a kind of container and names of another package are
#: called as one of the problems.
OTHERWISE = (
    *("latency", "latency_s", "transfer_latency", "cpuLatency", "fpgaLatency"),
    *("Mapping", "MutableMapping", "CONFIG_MAPPING", "CONFIG_MAPPING_NAMES", "_model_mapping", "_mapping"),
    "FEATURE_EXTRACTOR_MAPPING_NAMES",
    # What answers in a child process.
    "partita.engines.processes.serving",
)


def naming_problems(places: list[Path], names: set[str]) -> list[str]:
    """As ``naming``, without the words that have another meaning."""
    return [line for line in naming(places, names) if line.rpartition(": ")[2] not in OTHERWISE]


def test_shared_floors_name_no_problem() -> None:
    """Neither as an identifier nor in a text."""
    assert own_names() == {"throughput", "hybrid", "latency", "makespan", "mapping", "layer_placement", "serving"}
    assert naming_problems(files(*SHARED), own_names()) == []


def test_the_search_for_names_finds_them() -> None:
    """Where they are: in a problem's own files, and in the lists."""
    assert naming(files("problems/hybrid"), {"hybrid"})
    assert naming([SOURCE / "problems" / "__init__.py"], own_names())


#: What passes in a unit of time is called as the problem that makes the most of it.
WORD = (("simulator/", "api/simulation.py"), "throughput")
#: What YAML calls its objects is called as a problem.
YAML = "nouns/topology/importers/text.py"


def test_nothing_else_names_a_problem_but_the_lists() -> None:
    """Of all files outside the problems' packages, and the kernels, prices and checks of each."""
    rooms = ("problems", "engines/kernels", "costs", "checker")
    there = [f"{room}/{kind.name}" for kind in kinds() for room in rooms if (SOURCE / room / kind.name).is_dir()]
    own = {path for place in there for path in files(place)}
    others = [path for path in files(".") if path not in own and str(path.relative_to(SOURCE)) not in LISTS]
    found = [line for line in naming_problems(others, own_names()) if not line.startswith((*WORD[0], YAML))]
    assert found == []
    assert naming_problems(files("simulator"), own_names() - {WORD[1]}) == []


@cache
def questions(path: Path) -> list[tuple[int, set[str]]]:
    """Where a file asks for a value's type, and the names in each question."""
    found = []
    for node in nodes_of(path):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
        if called in ("isinstance", "issubclass", "type") or isinstance(node, ast.MatchClass):
            parts = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            parts |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
            found.append((getattr(node, "lineno", 0), parts))
    return found


def asked_types(path: Path, types: set[str]) -> list[str]:
    """Where a file asks whether a value is of one of these types."""
    return [f"{path.name}:{line}: {name}" for line, names in questions(path) for name in sorted(types & names)]


def test_nobody_asks_which_problem_or_plan_a_value_is() -> None:
    """Its kind knows; only a problem's own package may ask for its types."""
    for kind in kinds():
        types = {kind.problem.__name__, kind.plan.__name__}
        own = SOURCE / "problems" / kind.name
        for path in files("."):
            if not path.is_relative_to(own):
                assert asked_types(path, types) == []


def test_the_search_for_questions_finds_them(tmp_path: Path) -> None:
    """As a call, and as a pattern."""
    path = tmp_path / "ladder.py"
    path.write_text("if isinstance(x, (int, pt.Plan)): ...\nmatch x:\n    case Plan(): ...\n")
    assert asked_types(path, {"Plan"}) == ["ladder.py:1: Plan", "ladder.py:3: Plan"]


#: Processes, whose ends are told in ways of their own.
PROCESSES = ("engines/mip/", "engines/processes/", "execution/")


def silent(path: Path) -> Iterator[int]:
    """Lines where a file catches whatever comes, and neither raises something nor does anything with what came."""
    lines = path.read_text().splitlines()
    for node in nodes_of(path):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = (
            {"BaseException"} if node.type is None else {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)}
        )
        if not caught & {"Exception", "BaseException"}:
            continue
        body = [inner for each in node.body for inner in ast.walk(each)]
        told = any(isinstance(n, ast.Raise) or (isinstance(n, ast.Name) and n.id == node.name) for n in body)
        # Threads hand everything on; what is caught of others' code says whose it is.
        why = "BaseException" in caught or any("#" in line for line in lines[node.lineno - 1 : node.lineno + 1])
        if not (told and why):
            yield node.lineno


def test_no_error_is_swallowed() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not str(path.relative_to(SOURCE)).startswith(PROCESSES)
        for line in silent(path)
    ]
    assert not found
    suppressed = [path for path in SOURCE.rglob("*.py") if "suppress(Exception" in path.read_text()]
    assert not suppressed


def defined_classes(places: list[Path]) -> dict[str, list[str]]:
    """Of every name of a class where it is defined."""
    found: dict[str, list[str]] = {}
    for path in places:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{path.name}:{node.lineno}")
    return found


def test_no_two_classes_have_one_name(tmp_path: Path) -> None:
    found = defined_classes(files(""))
    assert len(found) > 1000
    assert {name: where for name, where in found.items() if len(where) > 1} == {}
    twice = tmp_path / "twice.py"
    twice.write_text("class A: ...\nclass B:\n    class A: ...\n")
    assert defined_classes([twice]) == {"A": ["twice.py:1", "twice.py:3"], "B": ["twice.py:2"]}
