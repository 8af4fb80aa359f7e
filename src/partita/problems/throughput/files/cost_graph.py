"""TensorFlow's CostGraphDef in protobuf's text form: graphs with compute costs and sizes of outputs.

Source: tensorflow/core/framework/cost_graph.proto, and protobuf's text format. The synthetic graphs of Paliwal et al.,
"REGAL" (ICLR 2020), are published in this form. ``docs/instances.md`` says how the fields become a problem.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from partita.ground.checks import check_scale
from partita.ground.errors import FormatError
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import MovedTensor, ThroughputProblem, TimedOperator

#: The format names no devices.
DEFAULT_DEVICES = 8

_TOKEN = re.compile(
    r"""(?P<space>[\s,;]+|\#[^\n]*)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>-?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>[:{}<>\[\]])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_STARTS = re.compile(rb"\A(?:\s|#[^\n]*\n)*node\s*:?\s*[{<]")
_CLOSING = {"{": "}", "<": ">", "[": "]"}


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


class _CostNode(NamedTuple):
    """One node as the file states it; inputs are node, port and line, controls node and line."""

    line: int
    name: str
    id: int
    inputs: list[tuple[int, int, int]]
    outputs: list[float]
    controls: list[tuple[int, int]]
    temporary: float
    persistent: float
    cost: float


#: By name, lines and values of the fields of a message.
_Fields = dict[str, list[tuple[int, Any]]]

#: What reads the value of each field of a message, given the field's name.
_Readers = Mapping[str, Callable[[str], Any]]


def looks_like_cost_graph(data: bytes) -> bool:
    """Whether the first thing in a file, after comments, is a node in protobuf's text form."""
    return _STARTS.match(data) is not None


class _Reader:
    """A cursor over the tokens of a file; every error names the file and the line."""

    def __init__(self, text: str, path: str | Path) -> None:
        self.path, self.place = path, 0
        self.tokens: list[_Token] = []
        line = 1
        for match in _TOKEN.finditer(text):
            kind = str(match.lastgroup)
            if kind == "other":
                at = match.start()
                raise FormatError(f"{path}: line {line}: {text[at : at + 10]!r} is not protobuf text")
            if kind != "space":
                self.tokens.append(_Token(kind, match.group(), line))
            line += match.group().count("\n")
        self.tokens.append(_Token("end", "the end of the file", line))

    def error(self, line: int, message: str) -> FormatError:
        return FormatError(f"{self.path}: line {line}: {message}")

    def next(self) -> _Token:
        # Nothing reads on after the end, which is a token, too.
        self.place += 1
        return self.tokens[self.place - 1]

    def message(self, owner: str, readers: _Readers, closing: str | None = None) -> _Fields:
        """Read fields up to the closing bracket."""
        found: _Fields = defaultdict(list)
        while (token := self.next()).kind != "end" and token.text != closing:
            if token.kind != "name":
                raise self.error(token.line, f"{token.text!r} is where a field of {owner} should start")
            if token.text not in readers:
                raise self.error(token.line, f"{owner} has no field {token.text!r}")
            found[_SAME.get(token.text, token.text)].append((token.line, readers[token.text](token.text)))
        if token.kind == "end" and closing is not None:
            raise self.error(token.line, f"the file ends inside {owner}; {closing!r} is missing")
        return found

    def after_colon(self) -> _Token:
        """The next token, without the colon that may be before it."""
        token = self.next()
        return self.next() if token.text == ":" else token

    def block(self, owner: str, readers: _Readers) -> _Fields:
        """Read a message in braces."""
        token = self.after_colon()
        if token.text not in ("{", "<"):
            raise self.error(token.line, f"{owner} should start with '{{', not {token.text!r}")
        return self.message(owner, readers, _CLOSING[token.text])

    def scalar(self, name: str) -> _Token:
        """Read ``: value``."""
        colon = self.next()
        value = self.next() if colon.text == ":" else colon
        if colon.text != ":" or value.kind not in ("name", "number", "text"):
            raise self.error(value.line, f"field {name!r} needs ': value', not {value.text!r}")
        return value

    def integer(self, name: str, low: int | None = None) -> int:
        """Read a whole number, at least ``low``."""
        token = self.scalar(name)
        try:
            value = int(token.text, 0)
        except ValueError:
            raise self.error(token.line, f"field {name!r} is {token.text}; it must be a whole number") from None
        if low is not None and value < low:
            raise self.error(token.line, f"field {name!r} is {value}; it must be at least {low}")
        return value

    def natural(self, name: str) -> int:
        return self.integer(name, 0)

    def integers(self, name: str) -> list[tuple[int, int]]:
        """Read ``: value`` or ``: [value, …]``, each with its line."""
        first, *second = self.tokens[self.place : self.place + 2]
        if first.text != ":" or second[0].text != "[":
            return [(self.integer(name), first.line)]
        self.place += 2
        found: list[tuple[int, int]] = []
        while (token := self.next()).text != "]":
            if token.kind != "number" or not token.text.lstrip("-").isdigit():
                raise self.error(token.line, f"field {name!r} has {token.text} in its list of whole numbers")
            found.append((int(token.text), token.line))
        return found

    def skip(self, name: str) -> None:
        """Read over a value of any shape."""
        token = self.after_colon()
        if token.text not in _CLOSING and token.kind not in ("name", "number", "text"):
            raise self.error(token.line, f"field {name!r} needs a value, not {token.text!r}")
        open_brackets = [_CLOSING[token.text]] if token.text in _CLOSING else []
        while open_brackets:
            token = self.next()
            if token.kind == "end":
                raise self.error(token.line, f"the file ends inside {name!r}; {open_brackets[-1]!r} is missing")
            if token.text == open_brackets[-1]:
                open_brackets.pop()
            elif token.text in _CLOSING:
                open_brackets.append(_CLOSING[token.text])


#: Another name of what stays in memory.
_SAME = {"device_persistent_memory_size": "persistent_memory_size"}

#: Fields that say nothing about a split, of this and of earlier versions of the format.
_IGNORED = frozenset(
    {"device", "is_final", "compute_time", "memory_time", "inaccurate", "host_temp_memory_size"}
    | {"device_temp_memory_size", "host_persistent_memory_size"}
)


def _read_nodes(reader: _Reader) -> list[_CostNode]:
    inputs: _Readers = {"preceding_node": reader.integer, "preceding_port": reader.natural}
    outputs: dict[str, Callable[[str], Any]] = dict.fromkeys(("alias_input_port", "shape", "dtype"), reader.skip)
    # Sizes that TensorFlow does not know are -1.
    outputs["size"] = lambda name: max(0, reader.integer(name, -1))
    sizes = ("compute_cost", "temporary_memory_size", "persistent_memory_size", *_SAME)
    node: _Readers = {
        "name": lambda name: reader.scalar(name).text.strip("\"'"),
        "id": reader.integer,
        "input_info": lambda name: reader.block(name, inputs),
        "output_info": lambda name: reader.block(name, outputs),
        "control_input": reader.integers,
        **dict.fromkeys(sizes, reader.natural),
        **dict.fromkeys(_IGNORED, reader.skip),
    }
    graph = {"node": lambda name: reader.block(name, node), "cost": reader.skip}
    return [
        _CostNode(
            line,
            name=_last(fields, "name", ""),
            id=_last(fields, "id"),
            inputs=[
                (_last(ends, "preceding_node"), _last(ends, "preceding_port"), at) for at, ends in fields["input_info"]
            ],
            outputs=[float(_last(output, "size")) for _, output in fields["output_info"]],
            controls=[control for _, listed in fields["control_input"] for control in listed],
            temporary=float(_last(fields, "temporary_memory_size")),
            persistent=float(_last(fields, "persistent_memory_size")),
            cost=float(_last(fields, "compute_cost")),
        )
        for line, fields in reader.message("the cost graph", graph)["node"]
    ]


def _last(fields: _Fields, name: str, default: Any = 0) -> Any:
    """The value that counts where a field is given more than once."""
    return fields[name][-1][1] if name in fields else default


def read_cost_graph(
    data: bytes, path: str | Path, *, devices: int = DEFAULT_DEVICES, scale_communication: float = 1.0
) -> ThroughputProblem:
    """Read a CostGraphDef as a throughput problem on identical devices without memory limit.

    Every output of a node is a tensor, every control input one of size 0. Compute costs are taken as microseconds, and
    a byte takes ``scale_communication`` microseconds to move into or out of a device: 1 suits synthetic data, whose
    costs and sizes are in the same unit; 1e-4 is 10 GB/s. Nodes that cost nothing and that only begin or end the
    graph's control order (``_SOURCE``, ``_SINK``) are left out.
    """
    check_scale(scale_communication)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path} is not text: {error.reason} at byte {error.start}; convert it to text form"
        ) from None
    reader = _Reader(text, path)
    nodes = _read_nodes(reader)
    if not nodes:
        raise FormatError(f"{path} has no nodes; a cost graph starts with 'node {{'")
    tensors = _tensors(reader, nodes)
    kept = _without_ends(nodes, tensors)
    return ThroughputProblem(
        name=Path(path).stem,
        unit="us",
        kinds=(
            DeviceKind(
                name="device",
                count=devices,
                transfer_time_per_unit=scale_communication,
                sync_time_per_byte=scale_communication,
                reload_time_per_byte=scale_communication,
            ),
        ),
        operators=tuple(
            TimedOperator(
                id=node.id,
                times=(node.cost,),
                name=node.name,
                memory_bytes=node.persistent,
                workspace_bytes=node.temporary,
            )
            for node in kept
        ),
        tensors=tuple(
            MovedTensor(producer=producer, consumers=tuple(sorted(readers)), size=size, name=name)
            for (producer, name), (size, readers) in tensors.items()
        ),
        notes=(
            f"a cost graph states no devices and no bandwidth; {devices} devices and "
            f"{scale_communication:g} µs for each byte are assumed (--devices, --scale-communication)",
        ),
    )


def _tensors(reader: _Reader, nodes: list[_CostNode]) -> dict[tuple[int, str], tuple[float, set[int]]]:
    """Size and readers of every output, by its node and name."""
    known: dict[int, _CostNode] = {}
    for node in nodes:
        if node.id in known:
            first = f"first in line {known[node.id].line}"
            raise reader.error(node.line, f"node id {node.id} appears twice ({first}); ids must be unique")
        known[node.id] = node

    def maker_of(node: _CostNode, source: int, line: int, name: str) -> _CostNode:
        if source not in known:
            raise reader.error(line, f"node {node.id}: field {name!r} is {source}, and there is no such node")
        if source == node.id:
            raise reader.error(line, f"node {node.id}: field {name!r} is the node itself; nodes must form a DAG")
        return known[source]

    tensors: dict[tuple[int, str], tuple[float, set[int]]] = {
        (node.id, f"{node.name}:{port}"): (size, set()) for node in nodes for port, size in enumerate(node.outputs)
    }
    for node in nodes:
        for source, port, line in node.inputs:
            maker = maker_of(node, source, line, "preceding_node")
            if port >= len(maker.outputs):
                has = f"node {source} has {len(maker.outputs)} outputs"
                raise reader.error(line, f"node {node.id}: field 'preceding_port' is {port}, but {has}")
            tensors[source, f"{maker.name}:{port}"][1].add(node.id)
        for source, line in node.controls:
            maker = maker_of(node, source, line, "control_input")
            tensors.setdefault((source, f"{maker.name}:control"), (0.0, set()))[1].add(node.id)
    return tensors


def _without_ends(nodes: list[_CostNode], tensors: dict[Any, tuple[float, set[int]]]) -> list[_CostNode]:
    """The nodes without free ones that come before or after all they are tied to; their control edges go, too.

    Such a node can share a block with whatever is first (or last) of its neighbours' blocks, at no cost.
    """
    tied = {node.id for node in nodes if node.inputs or node.outputs}
    free = {node.id for node in nodes if not (node.id in tied or node.cost or node.persistent or node.temporary)}
    followed = {key[0] for key, (_, readers) in tensors.items() if readers}
    ends = {node.id for node in nodes if node.id in free and (not node.controls or node.id not in followed)}
    if len(ends) == len(nodes):
        return nodes
    for key in list(tensors):
        readers = tensors[key][1]
        readers -= ends
        if key[0] in ends or (key[1].endswith(":control") and not readers):
            del tensors[key]
    return [node for node in nodes if node.id not in ends]
