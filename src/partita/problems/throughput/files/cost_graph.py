"""TensorFlow's CostGraphDef in protobuf's text form: graphs with compute costs and sizes of outputs.

Source: tensorflow/core/framework/cost_graph.proto, and protobuf's text format. The synthetic graphs of Paliwal et al.,
"REGAL" (ICLR 2020), are published in this form. ``docs/instances.md`` says how the fields become a problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partita.errors import FormatError, InputError
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import Operator, Tensor, ThroughputProblem

#: The format names no devices.
DEFAULT_DEVICES = 8

_TOKEN = re.compile(
    r"""(?P<space>[\s,;]+|\#[^\n]*)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>-?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>[:{}<>\[\]])""",
    re.VERBOSE,
)
_STARTS = re.compile(rb"\A(?:\s|#[^\n]*\n)*node\s*:?\s*[{<]")
_CLOSING = {"{": "}", "<": ">"}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


@dataclass
class _Node:
    """One node as the file states it; every field has the format's default."""

    line: int
    name: str = ""
    id: int = 0
    inputs: list[tuple[int, int, int]] = field(default_factory=list)
    outputs: list[float] = field(default_factory=list)
    controls: list[tuple[int, int]] = field(default_factory=list)
    temporary: float = 0.0
    persistent: float = 0.0
    cost: float = 0.0


#: What reads each field of a message: it is given the field's name, and the token with it.
_Fields = Mapping[str, Callable[[str, _Token], None]]


def looks_like_cost_graph(data: bytes) -> bool:
    """Whether the first thing in a file, after comments, is a node in protobuf's text form."""
    return _STARTS.match(data) is not None


class _Reader:
    """A cursor over the tokens of a file; every error names the file and the line."""

    def __init__(self, text: str, path: str | Path) -> None:
        self.path, self.place = path, 0
        self.tokens: list[_Token] = []
        at, line = 0, 1
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise FormatError(f"{path}: line {line}: {text[at : at + 10]!r} is not protobuf text")
            kind = str(match.lastgroup)
            if kind != "space":
                self.tokens.append(_Token(kind, match.group(), line))
            line += match.group().count("\n")
            at = match.end()
        self.end = _Token("end", "the end of the file", line)

    def error(self, line: int, message: str) -> FormatError:
        return FormatError(f"{self.path}: line {line}: {message}")

    def peek(self) -> _Token:
        return self.tokens[self.place] if self.place < len(self.tokens) else self.end

    def next(self) -> _Token:
        token = self.peek()
        self.place += 1
        return token

    def message(self, owner: str, fields: _Fields, closing: str | None = None) -> None:
        """Read fields up to the closing bracket, each by its reader."""
        while True:
            token = self.next()
            if token.kind == "end":
                if closing is None:
                    return
                raise self.error(token.line, f"the file ends inside {owner}; {closing!r} is missing")
            if token.text == closing:
                return
            if token.kind != "name":
                raise self.error(token.line, f"{token.text!r} is where a field of {owner} should start")
            if token.text not in fields:
                raise self.error(token.line, f"{owner} has no field {token.text!r}")
            fields[token.text](token.text, token)

    def block(self, owner: str, fields: _Fields) -> None:
        """Read a message in braces."""
        if self.peek().text == ":":
            self.next()
        token = self.next()
        if token.text not in _CLOSING:
            raise self.error(token.line, f"{owner} should start with '{{', not {token.text!r}")
        self.message(owner, fields, _CLOSING[token.text])

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

    def integers(self, name: str) -> list[tuple[int, int]]:
        """Read ``: value`` or ``: [value, …]``, each with its line."""
        opening = self.tokens[self.place + 1] if self.place + 1 < len(self.tokens) else self.end
        if self.peek().text != ":" or opening.text != "[":
            line = self.peek().line
            return [(self.integer(name), line)]
        self.place += 2
        found: list[tuple[int, int]] = []
        while (token := self.next()).text != "]":
            if token.kind != "number" or not token.text.lstrip("-").isdigit():
                raise self.error(token.line, f"field {name!r} has {token.text} in its list of whole numbers")
            found.append((int(token.text), token.line))
        return found

    def skip(self, name: str, token: _Token) -> None:
        """Read over a value of any shape."""
        if self.peek().text == ":":
            self.next()
        token = self.next()
        closing = {**_CLOSING, "[": "]"}.get(token.text)
        if closing is None:
            if token.kind not in ("name", "number", "text"):
                raise self.error(token.line, f"field {name!r} needs a value, not {token.text!r}")
            return
        depth = [closing]
        while depth:
            token = self.next()
            if token.kind == "end":
                raise self.error(token.line, f"the file ends inside {name!r}; {depth[-1]!r} is missing")
            if token.text == depth[-1]:
                depth.pop()
            elif token.text in "{<[":
                depth.append({**_CLOSING, "[": "]"}[token.text])


#: Fields that say nothing about a split, of this and of earlier versions of the format.
_IGNORED = frozenset(
    {"device", "is_final", "compute_time", "memory_time", "inaccurate", "host_temp_memory_size"}
    | {"device_temp_memory_size", "host_persistent_memory_size"}
)


def _read_node(reader: _Reader, line: int) -> _Node:
    node = _Node(line)

    def take(field: str, value: Any) -> None:
        setattr(node, field, value)

    def cost(field: str) -> Callable[[str, _Token], None]:
        return lambda name, token: take(field, float(reader.integer(name, 0)))

    reader.block(
        "node",
        {
            "name": lambda name, token: take(name, reader.scalar(name).text.strip("\"'")),
            "id": lambda name, token: take(name, reader.integer(name)),
            "input_info": lambda name, token: node.inputs.append(_read_input(reader, token.line)),
            "output_info": lambda name, token: node.outputs.append(_read_output(reader)),
            "control_input": lambda name, token: node.controls.extend(reader.integers(name)),
            "compute_cost": cost("cost"),
            "temporary_memory_size": cost("temporary"),
            "persistent_memory_size": cost("persistent"),
            "device_persistent_memory_size": cost("persistent"),
            **dict.fromkeys(_IGNORED, reader.skip),
        },
    )
    return node


def _read_input(reader: _Reader, line: int) -> tuple[int, int, int]:
    found = {"preceding_node": 0, "preceding_port": 0}

    def take(name: str, token: _Token) -> None:
        found[name] = reader.integer(name, None if name == "preceding_node" else 0)

    reader.block("input_info", dict.fromkeys(found, take))
    return found["preceding_node"], found["preceding_port"], line


def _read_output(reader: _Reader) -> float:
    size = [0]

    def take(name: str, token: _Token) -> None:
        # Sizes that TensorFlow does not know are -1.
        size[0] = max(0, reader.integer(name, -1))

    reader.block("output_info", {"size": take, **dict.fromkeys(("alias_input_port", "shape", "dtype"), reader.skip)})
    return float(size[0])


def read_cost_graph(
    data: bytes, path: str | Path, *, devices: int = DEFAULT_DEVICES, scale_communication: float = 1.0
) -> ThroughputProblem:
    """Read a CostGraphDef as a throughput problem on identical devices without memory limit.

    Every output of a node is a tensor, every control input one of size 0. Compute costs are taken as microseconds, and
    a byte takes ``scale_communication`` microseconds to move. Nodes that cost nothing and that only begin or end the
    graph's control order (``_SOURCE``, ``_SINK``) are left out.

    Parameters
    ----------
    data, path
        The file's content, and its name for messages.
    devices
        Number of devices, which the format does not state.
    scale_communication
        Microseconds for each byte moved into or out of a device: 1 suits synthetic data, whose costs and sizes are in
        the same unit; 1e-4 is 10 GB/s.

    Raises
    ------
    FormatError
        If the file is malformed; the message names the line and the field.
    InputError
        If the problem is invalid.
    """
    if not 0 <= scale_communication < float("inf"):
        raise InputError(f"the communication scale is {scale_communication}; it must be finite and not negative")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path} is not text: {error.reason} at byte {error.start}; convert it to text form"
        ) from None
    reader = _Reader(text, path)
    nodes: list[_Node] = []

    def take(name: str, token: _Token) -> None:
        nodes.append(_read_node(reader, token.line))

    reader.message("the cost graph", {"node": take, "cost": reader.skip})
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
            Operator(
                id=node.id,
                times=(node.cost,),
                name=node.name,
                memory_bytes=node.persistent,
                workspace_bytes=node.temporary,
            )
            for node in kept
        ),
        tensors=tuple(
            Tensor(producer=producer, consumers=tuple(sorted(readers)), size=size, name=name)
            for (producer, name), (size, readers) in tensors.items()
        ),
        notes=(
            f"a cost graph states no devices and no bandwidth; {devices} devices and "
            f"{scale_communication:g} µs for each byte are assumed (--devices, --scale-communication)",
        ),
    )


def _tensors(reader: _Reader, nodes: list[_Node]) -> dict[tuple[int, str], tuple[float, set[int]]]:
    """Size and readers of every output, by its node and name."""
    known: dict[int, _Node] = {}
    for node in nodes:
        if node.id in known:
            raise reader.error(
                node.line, f"node id {node.id} appears twice (first in line {known[node.id].line}); ids must be unique"
            )
        known[node.id] = node
    tensors: dict[tuple[int, str], tuple[float, set[int]]] = {}
    for node in nodes:
        for port, size in enumerate(node.outputs):
            tensors[node.id, f"{node.name}:{port}"] = (size, set())
    for node in nodes:
        for source, port, line in node.inputs:
            maker = _maker(reader, known, node, source, line, "preceding_node")
            if port >= len(maker.outputs):
                raise reader.error(
                    line,
                    f"node {node.id}: field 'preceding_port' is {port}, but node {source} has "
                    f"{len(maker.outputs)} outputs",
                )
            tensors[source, f"{maker.name}:{port}"][1].add(node.id)
        for source, line in node.controls:
            maker = _maker(reader, known, node, source, line, "control_input")
            tensors.setdefault((source, f"{maker.name}:control"), (0.0, set()))[1].add(node.id)
    return tensors


def _maker(reader: _Reader, known: dict[int, _Node], node: _Node, source: int, line: int, name: str) -> _Node:
    if source not in known:
        raise reader.error(line, f"node {node.id}: field {name!r} is {source}, and there is no such node")
    if source == node.id:
        raise reader.error(line, f"node {node.id}: field {name!r} is the node itself; nodes must form a DAG")
    return known[source]


def _without_ends(nodes: list[_Node], tensors: dict[Any, tuple[float, set[int]]]) -> list[_Node]:
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
