"""The verdict in a sentence, the figures beside it, and what is proven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from partita.ground.units import format_count, format_time
from partita.report.pages.markup import Markup, exact, facts, joined, markup, section, share, size, tag, time
from partita.report.pages.subject import Subject

#: What a reader sees first of a status.
STATUS = {
    "optimal": "Proven optimal",
    "feasible": "A plan, not proven best",
    "infeasible": "Proven impossible",
    "unknown": "No plan found",
}

#: A gap below this, relative, is none that anybody would see.
_CLOSED = 5e-5


def scope_words(subject: Subject) -> str:
    """The plans that the proof holds for, in words."""
    scope = str((subject.document.get("proof") or {}).get("scope") or "")
    return f"{scope} plan".strip() if subject.report is None else subject.report.scope(scope)


def per_words(subject: Subject) -> str:
    """What the objective is a time of."""
    return "" if subject.report is None else subject.report.per(subject.problem)


def batch_of(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a document, or a row of its baselines, says of a batch as it runs; None where it says nothing."""
    step = document.get("step")
    there = isinstance(step, Mapping) and {"time", "microbatches", "bubble"} <= step.keys()
    return step if there else None


def headline(subject: Subject) -> Markup:
    """What was found and what is known of it, in one sentence."""
    document, unit = subject.document, subject.unit
    objective, bound, gap = (document.get(key) for key in ("objective", "bound", "gap"))
    if objective is None:
        reason = document.get("reason") or "nothing was found, and nothing is proven"
        return joined([STATUS.get(str(document.get("status")), "No plan"), ": ", reason, "."])
    takes = joined(["The plan takes ", time(objective, unit), per_words(subject)])
    such = scope_words(subject)
    if bound is None:
        return joined([takes, "; nothing is proven of how good that is."])
    if document.get("status") == "optimal":
        takes_less = subject.report is not None and subject.report.less(subject.problem) != "time"
        return joined([takes, ", and no ", such, " takes less." if takes_less else " is faster."])
    best = exact(bound, format_time(bound, unit))
    if gap is not None and gap < _CLOSED:
        return joined([takes, "; no ", such, " takes less than ", best, "."])
    return joined(
        [takes, "; no ", such, " takes less than ", best, f", so that it is at most {gap or 0.0:.2%} from the best."]
    )


def _tiles(subject: Subject) -> Iterator[tuple[str, Any]]:
    document, unit = subject.document, subject.unit
    yield "Objective", joined([time(document.get("objective"), unit), tag("small", per_words(subject))])
    yield "Proven bound", time(document.get("bound"), unit)
    yield "Gap", share(document.get("gap"), 4)
    step = batch_of(document)
    if step is not None:
        yield (
            "Time of a batch",
            joined([time(step["time"], unit), tag("small", f" {step['microbatches']} microbatches")]),
        )
        yield "Devices wait", share(step["bubble"])
    used = document.get("model_flops_utilisation")
    if isinstance(used, Mapping):
        yield "Model FLOPs utilisation", share(used.get("step"))


def tiles(pairs: Iterator[tuple[str, Any]]) -> Markup:
    """Figures with their names, the figure large."""
    shown = [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs]
    return tag("dl", *shown, class_="tiles")


def verdict(subject: Subject) -> Markup:
    """The start of the page, below its title."""
    document = subject.document
    status = str(document.get("status"))
    model = document.get("model")
    about: Markup | str = ""
    if isinstance(model, Mapping):
        kind = "training" if model.get("training") else "inference"
        about = tag(
            "p",
            f"{model['name']}: {model['operators']} operators, {format_count(model['parameters'])} parameters (",
            size(model["parameter_bytes"]),
            f"), {format_count(model['flops'])}FLOP per microbatch, {kind}",
            class_="about",
        )
    said = [] if subject.report is None else _sentences(subject)
    return tag(
        "section",
        tag("h2", "Verdict", id_="verdict-title", class_="hidden"),
        tag("p", tag("span", STATUS.get(status, status), class_=f"status {status}"), class_="badge"),
        tag("p", headline(subject), class_="verdict"),
        about,
        tiles(_tiles(subject)),
        *(tag("p", f"{sentence[:1].upper()}{sentence[1:]}.") for sentence in said),
        id_="verdict",
        aria_labelledby="verdict-title",
    )


def _sentences(subject: Subject) -> list[str]:
    report, planned = subject.report, subject.planned
    if report is None or planned is None:
        return []
    return list(report.sentences(planned.problem, planned.plan, subject.evaluation))


def proof(subject: Subject) -> Markup:
    """The bound, by which method and argument it holds, and how to check it."""
    document, unit = subject.document, subject.unit
    found = document.get("proof")
    if not isinstance(found, Mapping):
        return section("proof", "Proof", tag("p", "Nothing is proven of this plan: there is no bound."))
    certificate = found.get("certificate")
    if isinstance(certificate, Mapping):
        how = joined(
            [
                f"a certificate of kind {certificate.get('kind')}, which ",
                tag("code", "partita check R.json"),
                " verifies in exact arithmetic and without the solvers",
            ]
        )
    else:
        how = markup("none: the bound holds by argument alone, and partita check says so")
    pairs: list[tuple[Any, Any]] = [
        ("Proven bound", time(document.get("bound"), unit)),
        ("Gap", share(document.get("gap"), 6)),
        ("Method", found.get("method") or "—"),
        ("Holds for", f"every {scope_words(subject)}"),
        ("Argument", found.get("argument") or "—"),
        ("Certificate", how),
        ("Search ended", f"{document.get('stop_reason')}, after {document.get('runtime_s', 0.0):.2f} s"),
        ("Solver", document.get("solver")),
    ]
    return section("proof", "Proof", facts(pairs))
