"""The one plan of a result file, for whoever evaluates, simulates, places, runs or exports it.

A file holds a plan once (``plan``) and beside it what follows from it, so that readers need not know the problem: the
stages of a model's plan once more with their modules, sums, and the split. All of that is compared here before anybody
uses any of it, so that an edited file is refused instead of being simulated one way and exported another.

What is malformed raises ``FormatError``; what lacks a problem, a plan or its model, holds a plan of another problem, or
contradicts itself raises ``InputError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import document_keys, read_bytes
from partita.documents.result_file import RESULT_FORMAT, decode_split, plan_bytes, problem_digest
from partita.ground.errors import InputError
from partita.ground.shown import brief
from partita.nouns.cluster import Cluster
from partita.nouns.deployment import Deployment
from partita.nouns.split import Split, cards_of
from partita.problems import kind_of, kinds
from partita.problems.importers import given_problem, stated_problem
from partita.problems.kind import AnyKind, Stated

#: What a user does about a file that contradicts itself.
_REMEDY = (
    "a file has one plan, from which the rest follows: plan again (--layout prices a plan of your own), or change plan "
    "and take split and plan.stages out to evaluate it"
)


@dataclass(frozen=True)
class Planned:
    """A plan with the problem that it is of.

    ``split`` is what of a model each stage has, None for plans of no model or without stages; ``notes`` is what a
    reader should know, such as that the plan was made for another problem.
    """

    problem: Any
    plan: Any
    split: Split | None
    notes: tuple[str, ...] = ()

    __repr__ = brief


def read_planned(path: str | Path, problem_path: Stated | str | Path | None = None) -> Planned:
    """The plan of a result file with its problem: the one that the file holds, that of another file, or one given."""
    return _planned(document_keys(read_bytes(path), path), path, problem_path)


def planned_in(document: Mapping[str, Any], name: str = "the document") -> Planned:
    """``read_planned`` of a result document that is no file, which messages call by a name."""
    return _planned(document_keys(msgspec.json.encode(document), name), name, None)


def _planned(keys: dict[str, msgspec.Raw], path: str | Path, problem_path: Stated | str | Path | None) -> Planned:
    # Says what is wrong with a file that is no result, before a problem is missed in it.
    data = plan_bytes(keys, path) if "format" in keys else None
    entry = _entry(keys)
    notes = []
    if problem_path is not None:
        problem = given_problem(problem_path)
        if "sha256" in entry and msgspec.json.decode(entry["sha256"]) != problem_digest(problem):
            other = f"the one in {problem_path}" if isinstance(problem_path, str | Path) else f"{problem.name!r}"
            notes.append(f"{path} was made for another problem than {other}, or with other options.")
    elif "stated" in entry:
        problem = stated_problem(bytes(entry["stated"]), f"{path}: problem.stated")
    else:
        raise InputError(
            f"{path} does not hold the problem that its plan is of; name the problem's file with --problem"
        )
    kind = kind_of(problem)
    if data is None:
        return Planned(problem, read_plan(path, problem), _split(keys, path), tuple(notes))
    check_one_plan(keys, path, kind)
    return Planned(problem, kind.files.decode_plan(data, problem, path), _split(keys, path), tuple(notes))


def read_plan(path: str | Path, problem: Any) -> Any:
    """A plan of a problem, from a result file or another file that its plans are written in."""
    data = read_bytes(path)
    # Other formats say of themselves what is wrong with them.
    keys = document_keys(data, path) if data.lstrip()[:1] == b"{" else {}
    if keys.keys() >= {"plan", "format"} and msgspec.json.decode(keys["format"]) == RESULT_FORMAT:
        check_one_plan(keys, path, kind_of(problem))
    return kind_of(problem).files.read_plan(path, problem)


def read_split(path: str | Path) -> Split:
    """The split of a model's plan in a result file."""
    keys = document_keys(read_bytes(path), path)
    plan_bytes(keys, path)
    check_one_plan(keys, path)
    found = _split(keys, path)
    if found is None:
        raise InputError(
            f"{path} does not say what of a model each stage has; only plans of models do: plan the model with "
            "partita plan MODEL --output"
        )
    return found


def read_exported(path: str | Path) -> Split | Deployment:
    """What a result file's plan is for runtimes: the split of a model over stages, or the deployment of engines."""
    keys = document_keys(read_bytes(path), path)
    plan_bytes(keys, path)
    found = _kind(keys, keys["plan"]) if _entry(keys).keys() >= {"stated"} else None
    if found is None or found.deployment is None:
        return read_split(path)
    planned = _planned(keys, path, None)
    cluster = msgspec.json.decode(keys.get("cluster", msgspec.Raw(b"null")), type=Cluster | None)
    return found.deployment(planned.problem, planned.plan, cluster)


def check_one_plan(keys: dict[str, msgspec.Raw], path: str | Path, kind: AnyKind | None = None) -> None:
    """Refuse a result file, given as its keys, whose parts say different things of the plan.

    ``kind`` is the problem's; None for what the file says, or what the plan looks like.
    """
    data, split = plan_bytes(keys, path), _split(keys, path)
    kind = kind or _kind(keys, data)
    found = None if kind is None else next(iter(kind.files.contradictions(data, split, path)), None)
    if found is None and split is not None:
        found = _beside(keys, split)
    if found is not None:
        raise InputError(f"{path} contradicts itself: {found}; {_REMEDY}")


def _beside(keys: dict[str, msgspec.Raw], split: Split) -> str | None:
    """What the file says of model and cluster beside the split, if that differs."""
    model = msgspec.json.decode(keys["model"]) if "model" in keys else {}
    stated = msgspec.to_builtins(split)
    for field, name in (("name", "model"), ("source", "source"), ("training", "training")):
        if field in model and model[field] != stated[name]:
            return f"model.{field} is not what split.{name} says"
    if split.cards and "cluster" in keys:
        cluster = msgspec.json.decode(keys["cluster"], type=Cluster)
        if cards_of(cluster) != split.cards:
            return "the devices of cluster are not those of split.cards"
    return None


def _split(keys: dict[str, msgspec.Raw], path: str | Path) -> Split | None:
    found = bytes(keys.get("split", msgspec.Raw(b"null")))
    return None if found == b"null" else decode_split(found, path)


def _entry(keys: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(keys["problem"], type=dict[str, msgspec.Raw]) if "problem" in keys else {}


def _kind(keys: dict[str, msgspec.Raw], data: bytes) -> AnyKind | None:
    """The kind of problem that a file is about; None if that cannot be told."""
    entry, tag = _entry(keys), None
    if "stated" in entry:
        tag = msgspec.json.decode(msgspec.json.decode(entry["stated"], type=dict[str, msgspec.Raw])["format"])
    plan = msgspec.json.decode(data)
    guess = tag is None and isinstance(plan, dict)
    found = (kind for kind in kinds() if kind.problem.format == tag or (guess and kind.files.wrote(plan)))
    return next(found, None)
