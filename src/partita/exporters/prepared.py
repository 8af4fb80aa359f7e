"""An export of whatever a plan is for runtimes, a model in stages or engines that serve, ready to be written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

from partita.exporters import ALL_EXPORTERS, DEPLOYMENT_EXPORTERS, find_deployment_exporter, find_exporter
from partita.exporters.exporter import FileExporter
from partita.ground.errors import InputError
from partita.nouns.deployment import Deployment
from partita.nouns.split import Split


@dataclass(frozen=True)
class Prepared:
    """What can be done with a plan and a runtime."""

    name: str  #: The runtime's.
    content: Callable[[], bytes] | None  #: The file; None where there are several.
    write: Callable[[str | PathLike[str]], list[str]]  #: Writes a path; what was written.
    notes: Callable[[], list[str]]  #: What a user has to see to.


def check_name(name: str, model: str | None = None) -> None:
    """Refuse a name that no exporter has, and a model where none of that name takes one."""
    takes = [one.needs_model for one in ALL_EXPORTERS if one.name == name]
    takes += [True for one in DEPLOYMENT_EXPORTERS if name in (one.name, one.also)]
    if not takes:
        known = ", ".join([ALL_EXPORTERS.known, *(one.name for one in DEPLOYMENT_EXPORTERS)])
        raise InputError(f"there is no exporter {name!r}; known are {known}")
    if model is not None and not any(takes):
        raise InputError(f"{name} takes the plan alone; leave --model out")


def writes_folder(name: str) -> bool:
    """Whether all exporters of a name write folders."""
    found = [one for one in ALL_EXPORTERS if one.name == name]
    return bool(found) and not any(isinstance(one, FileExporter) for one in found)


def prepare(what: Split | Deployment, name: str, model: str | None = None) -> Prepared:
    """An export of a plan for a runtime.

    Raises ``InputError`` if there is no such runtime for such plans, or it takes no model.
    """
    check_name(name, model)
    if isinstance(what, Deployment):
        of_engines, deployment = find_deployment_exporter(name), what
        return Prepared(
            of_engines.name,
            lambda: of_engines.checked(deployment, model),
            lambda path: of_engines.export(deployment, path, model),
            lambda: list(of_engines.notes(deployment, model)),
        )
    exporter, split = find_exporter(name), what
    if model is not None and not exporter.needs_model:
        raise InputError(f"{name} takes the plan alone; leave --model out")
    return Prepared(
        name,
        (lambda: exporter.checked(split, model)) if isinstance(exporter, FileExporter) else None,
        lambda path: exporter.export(split, path, model),
        lambda: list(exporter.notes(split)),
    )
