"""The page of a result: a plan of a model, a solved file, a mapping, or a comparison."""

from __future__ import annotations

from partita.report.pages.again import again, notes
from partita.report.pages.assemble import assembled
from partita.report.pages.limits import baselines, history, limits
from partita.report.pages.running import critical, devices, memory
from partita.report.pages.stages import stages
from partita.report.pages.subject import Subject
from partita.report.pages.timeline import time_line
from partita.report.pages.topology import where_it_runs
from partita.report.pages.verdict import proof, verdict


def result_page(subject: Subject) -> str:
    """From the verdict to what makes it again."""
    kind = "Plan of a model" if subject.document.get("model") else "Plan of a problem"
    sections = [
        verdict(subject),
        proof(subject),
        stages(subject),
        memory(subject),
        devices(subject),
        time_line(subject),
        critical(subject),
        limits(subject),
        baselines(subject),
        history(subject),
        where_it_runs(subject),
        notes(subject.document),
        again(subject.document),
    ]
    return assembled(subject.name, kind, sections)
