"""The page of the documentation that says which transformers types are traced, written from the sweep's table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass
class Traced:
    """What became of a type.

    Attributes
    ----------
    model
        The type.
    traced
        Whether there is a graph.
    operators, flops
        Of the graph.
    seconds, memory_bytes
        What tracing took; the memory includes the libraries.
    without
        Arguments of the model that are left out, as its notes say.
    reason
        Why there is no graph.
    """

    model: str
    traced: bool
    operators: int = 0
    flops: int = 0
    seconds: float = 0.0
    memory_bytes: int = 0
    without: str = ""
    reason: str = ""


def kind_of_reason(reason: str) -> str:
    """A reason without what is of one model alone: names in quotes, modules, numbers."""
    text = re.sub(r"^cannot (build|trace) [^:]*: ", r"cannot \1: ", reason)
    text = re.sub(r"; .*$", "", text)
    text = re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"", "…", text)
    text = re.sub(r"\[[^\]]*\]|\b\w*\d[\w.]*\b", "…", text)
    text = re.sub(r"(….{0,3})+…", "…", text)
    return " ".join(text.split())[:100]


def page(rows: Sequence[Traced], versions: Mapping[str, str], day: str, limits: str) -> str:
    """The page, as Markdown."""
    rows = sorted(rows, key=lambda row: row.model)
    done = [row for row in rows if row.traced]
    partly = [row for row in done if row.without]
    share = len(done) / max(len(rows), 1)
    lines = [
        "# Model coverage",
        "",
        f"Written by `make models` on {day}, with "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
        "",
        f"Every model type of transformers is traced as `partita plan hf:TYPE` does, forward, on one sample, {limits}.",
        "GFLOPs are those of one forward pass at that depth.",
        "",
        "| types | traced | not traced | traced without some input |",
        "|---|---|---|---|",
        f"| {len(rows)} | {len(done)} ({share:.1%}) | {len(rows) - len(done)} | {len(partly)} |",
        "",
    ]
    if done:
        slowest = max(done, key=lambda row: row.seconds)
        largest = max(done, key=lambda row: row.memory_bytes)
        middle = sorted(row.seconds for row in done)[len(done) // 2]
        lines += [
            f"Half of them take less than {middle:.1f} s; the slowest is `{slowest.model}` ({slowest.seconds:.0f} s), "
            f"the largest `{largest.model}` ({largest.memory_bytes / 2**30:.1f} GiB).",
            "",
        ]
    lines += _reasons([row for row in rows if not row.traced])
    lines += ["## Every type", "", "| type | operators | GFLOPs | seconds | MiB | |", "|---|--:|--:|--:|--:|---|"]
    lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _reasons(failed: Sequence[Traced]) -> list[str]:
    if not failed:
        return []
    groups: dict[str, list[str]] = defaultdict(list)
    for row in failed:
        groups[kind_of_reason(row.reason)].append(row.model)
    lines = ["## Why types are not traced", "", "| reason | types | |", "|---|--:|---|"]
    for reason, names in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        lines.append(f"| {_cell(reason)} | {len(names)} | {', '.join(f'`{name}`' for name in names)} |")
    return [*lines, ""]


def _line(row: Traced) -> str:
    spent = f"{row.seconds:.1f} | {row.memory_bytes / 2**20:.0f}"
    if not row.traced:
        return f"| `{row.model}` | – | – | {spent} | {_cell(row.reason[:160])} |"
    missing = f"without {row.without}" if row.without else ""
    return f"| `{row.model}` | {row.operators} | {row.flops / 1e9:.4g} | {spent} | {missing} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
