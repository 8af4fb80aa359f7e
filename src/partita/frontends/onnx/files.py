"""Reading and checking an ONNX file: its structure, never the data of large arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, defs, helper, inliner

from partita.frontends.onnx.arrays import array_bytes, check_type
from partita.frontends.onnx.runtime import ADDED, DOMAIN, LIKE, rule_of
from partita.frontends.options import one_line
from partita.ground.errors import FormatError, InputError

#: Fields of a tensor that may hold its data.
_DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")

#: Where ONNX Runtime puts operators on arrays in a layout of the machine that it runs on.
_ONE_PROCESSOR = ("com.microsoft.nchwc", "com.ms.internal.nhwc")

_STANDARD = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview")


def read_model(path: str) -> Any:
    """The model of a file, checked, with its local functions inlined; external data is not read.

    A file that holds no ONNX model is a ``FormatError``; none, or a model that is not valid, an ``InputError``.
    """
    if not Path(path).is_file():
        raise InputError(f"there is no file {path!r}; an ONNX model is given as path/to/model.onnx")
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:  # code in C++, on whatever a file holds
        raise FormatError(f"{path} is no ONNX model, or was cut off: {one_line(error)}; export it again") from error
    if not model.HasField("graph") or not model.ir_version:
        raise FormatError(f"{path} is no ONNX model: it states no graph or no version; export it again")
    if model.ir_version > onnx.IR_VERSION:
        raise InputError(
            f"{path} has version {model.ir_version} of the format; the installed onnx knows up to {onnx.IR_VERSION}; "
            "upgrade onnx, or export with an older version"
        )
    for each in model.graph.input:
        if each.type.WhichOneof("value") is None:
            raise InputError(f"{path}: input {each.name!r} states no type; export the model again")
    _check_text(path, model.graph)
    _check_opsets(path, model)
    _name_domains(model, model.graph)
    if model.functions:
        model = _inlined(path, model)
    _check_graph(path, model, model.graph, ())
    try:
        # Asked of a copy in which stored arrays are inputs: it would read their data.
        onnx.checker.check_model(_without_data(model))
    except Exception as error:  # code in C++, on whatever a file holds
        raise InputError(f"{path} is not a valid ONNX model: {one_line(error)}") from error
    return model


def _check_text(path: str, graph: Any) -> None:
    """Refuse a graph whose names are no text, as in a file with flipped bits."""
    names: list[Any] = [each.name for each in (graph, *graph.input, *graph.output, *graph.initializer)]
    for node in graph.node:
        names += (node.op_type, node.domain, node.name, *node.input, *node.output, *(a.name for a in node.attribute))
        for inner in graphs_of(node):
            _check_text(path, inner)
    broken = next((name for name in names if not isinstance(name, str)), None)
    if broken is not None:
        raise FormatError(f"{path} is damaged: it has {broken!r} where a name should be; export it again")


def _check_opsets(path: str, model: Any) -> None:
    if not model.opset_import:
        raise InputError(f"{path} imports no operator set; export it again")
    for opset in model.opset_import:
        newest = defs.onnx_opset_version() if opset.domain in ("", "ai.onnx") else opset.version
        if not 1 <= opset.version <= newest:
            raise InputError(
                f"{path} uses operator set {opset.version} of {opset.domain or 'ai.onnx'}; the installed onnx knows 1 "
                f"to {newest}; upgrade onnx, or export with another opset"
            )


def _name_domains(model: Any, graph: Any) -> None:
    """Say of operators that the runtime adds to the standard's set that they are its own."""
    for node in graph.node:
        if node.op_type in ADDED and node.domain in ("", "ai.onnx") and not defs.has(node.op_type):
            node.domain = DOMAIN
            if opset_of(model, DOMAIN) is None:
                model.opset_import.add(domain=DOMAIN, version=1)
        for inner in graphs_of(node):
            _name_domains(model, inner)


def _check_graph(path: str, model: Any, graph: Any, outer: tuple[set[str], ...]) -> None:
    """What can be wrong with names, types and operators, said with the names that matter."""
    if not graph.node and not outer:
        raise InputError(f"{path} has no operators; there is nothing to split")
    known: set[str] = set()
    stored = [tensor.name for tensor in graph.initializer]
    stored += [each.values.name for each in graph.sparse_initializer]
    for kind, names in (("initialiser", stored), ("input", [each.name for each in graph.input])):
        distinct: set[str] = set()
        for name in names:
            if name in distinct:
                raise InputError(f"{path}: {kind} name {name!r} appears twice; every array needs its own name")
            distinct.add(name)
        known |= distinct
    for tensor in graph.initializer:
        check_tensor(f"{path}: initialiser {tensor.name!r}", tensor)
    made = {name: node for node in graph.node for name in node.output if name}
    for node in graph.node:
        what = f"{path}: {describe(node)}"
        _check_operator(what, model, node)
        for name in node.input:
            if not name or name in known or any(name in names for names in outer):
                continue
            if name in made:
                raise InputError(
                    f"{what} reads {name!r} before {describe(made[name])} makes it; nodes must be in an order of "
                    "execution, without circles"
                )
            raise InputError(
                f"{what} reads {name!r}, which is no input, no initialiser and no output of another node; export the "
                "model again"
            )
        for name in filter(None, node.output):
            if name in known:
                raise InputError(f"{what} makes {name!r}, which exists already; every array needs its own name")
            known.add(name)
        for inner in graphs_of(node):
            _check_graph(path, model, inner, (*outer, known))
    for each in graph.output:
        if each.name not in known and not any(each.name in names for names in outer):
            raise InputError(f"{path}: output {each.name!r} is made by no node; export the model again")


def _check_operator(what: str, model: Any, node: Any) -> None:
    version = opset_of(model, node.domain)
    if version is None:
        raise InputError(f"{what} is of operator set {node.domain!r}, which the file does not import; export it again")
    if node.domain == DOMAIN and (node.op_type in LIKE or rule_of(node.domain, node.op_type)):
        return
    if not defs.has(node.op_type, version, node.domain if node.domain != "ai.onnx" else ""):
        cause = f"is not an operator of {node.domain or 'ai.onnx'} {version}"
        remedy = (
            "check its name and the opset"
            if node.domain in _STANDARD
            else "the file is laid out for one processor: optimise it at the level before"
            if node.domain in _ONE_PROCESSOR
            else "what it computes is not known: export without runtime-specific operators, or with a local function"
        )
        raise InputError(f"{what} {cause}; {remedy}")


def opset_of(model: Any, domain: str) -> int | None:
    """Version of an operator set that a model imports; None if it does not."""
    names = ("", "ai.onnx") if domain in ("", "ai.onnx") else (domain,)
    return next((opset.version for opset in model.opset_import if opset.domain in names), None)


def check_tensor(what: str, tensor: Any) -> None:
    """Refuse a stored array of unknown type or size, or with less data than it states."""
    check_type(tensor.data_type, what)
    if any(extent < 0 for extent in tensor.dims):
        raise InputError(f"{what} has shape {list(tensor.dims)}; sizes cannot be negative")
    if tensor.data_location == TensorProto.EXTERNAL:
        _check_place(what, tensor)
        return
    stated = array_bytes(tensor.dims, tensor.data_type)
    if not any(len(getattr(tensor, name)) for name in _DATA) and stated:
        raise InputError(f"{what} states shape {list(tensor.dims)} but holds no data; export the model again")
    if tensor.raw_data and len(tensor.raw_data) != stated:
        raise InputError(
            f"{what} states shape {list(tensor.dims)}, which is {stated} bytes, but holds {len(tensor.raw_data)}; "
            "export the model again"
        )


def _inlined(path: str, model: Any) -> Any:
    """The model without calls of local functions, which become of its version of the operator sets where that fits."""
    versions = {opset.domain: opset.version for opset in model.opset_import}
    for function in model.functions:
        for opset in function.opset_import:
            wanted = versions.get(opset.domain)
            if wanted is None:
                model.opset_import.add(domain=opset.domain, version=opset.version)
                versions[opset.domain] = opset.version
            elif wanted != opset.version:
                _check_alike(path, function, opset.domain, wanted)
                opset.version = wanted
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # code in C++, on whatever a file holds
        raise InputError(f"{path}: its local functions cannot be inlined: {one_line(error)}") from error


def _check_alike(path: str, function: Any, domain: str, version: int) -> None:
    for node in function.node:
        if node.domain != domain:
            continue
        schema = defs.get_schema(node.op_type, version, domain) if defs.has(node.op_type, version, domain) else None
        if (
            schema is None
            or not schema.min_input <= len(node.input) <= schema.max_input
            or any(attribute.name not in schema.attributes for attribute in node.attribute)
        ):
            raise InputError(
                f"{path}: local function {function.name!r} is of another operator set than the model's {version}, "
                f"which has no such {node.op_type}; convert the model to one version"
            )


# -- other files -------------------------------------------------------------------------------------------------------


def place_of(tensor: Any) -> tuple[str, int, int | None] | None:
    """File, first byte and number of bytes of a tensor's data; None where the model holds or says nothing of it."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    stated = {entry.key: entry.value for entry in tensor.external_data}
    if "location" not in stated:
        return None
    length = stated.get("length")
    return stated["location"], int(stated.get("offset") or 0), None if length is None else int(length)


def _check_place(what: str, tensor: Any) -> None:
    """Refuse a tensor that says its data is in a file, but not in which, or in a place of another size."""
    try:
        place = place_of(tensor)
    except ValueError as error:
        raise InputError(f"{what} states no numbers for its place in a data file; export the model again") from error
    if place is None:
        raise InputError(f"{what} says that its data is in another file, but not in which; export the model again")
    name, first, length = place
    size = array_bytes(tensor.dims, tensor.data_type)
    if first < 0 or (length is not None and length != size):
        raise InputError(
            f"{what} states shape {list(tensor.dims)}, which is {size} bytes, but {length} of them in {name!r} from "
            f"{first} on; export the model again"
        )


def data_notes(path: str, model: Any) -> Iterator[str]:
    """Notes on data files that are not there, or end before what the model has in them, and on sparse arrays."""
    ends: dict[str, int] = {}
    for tensor in model.graph.initializer:
        place = place_of(tensor)
        if place is not None:
            end = place[1] + array_bytes(tensor.dims, tensor.data_type)
            ends[place[0]] = max(ends.get(place[0], 0), end)
    for name, end in sorted(ends.items()):
        try:
            held = (Path(path).parent / name).stat().st_size
            said = f"holds {held} bytes where the model has {end}" if held < end else ""
        except OSError:
            said = "is not there"
        if said:
            yield f"The data file {name!r} {said}: sizes of weights are those that the model states."
    sparse = ", ".join(repr(each.values.name) for each in model.graph.sparse_initializer)
    if sparse:
        yield f"Initialisers that the file stores sparse ({sparse}) are planned dense, as runtimes unpack them."


# -- onnx's own checks -------------------------------------------------------------------------------------------------


def _without_data(model: Any) -> Any:
    light = onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name == "opset_import":
            light.opset_import.extend(value)
        elif field.name not in ("graph", "functions", "training_info", "metadata_props"):
            setattr(light, field.name, value)
    graph = model.graph
    light.graph.name = graph.name or "graph"
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    for each in light.graph.output:
        # Results may be of any type that follows; the checker wants one stated.
        if each.type.WhichOneof("value") is None:
            each.type.tensor_type.elem_type = TensorProto.FLOAT
    for each in (*light.graph.input, *light.graph.output):
        if each.type.HasField("tensor_type"):
            # The checker insists on a shape, though one that follows may be left out.
            each.type.tensor_type.shape.SetInParent()
    stated = {each.name for each in graph.input}
    stored = [(tensor.name, tensor.data_type, tensor.dims) for tensor in graph.initializer]
    stored += [(sparse.values.name, sparse.values.data_type, sparse.dims) for sparse in graph.sparse_initializer]
    light.graph.input.extend(helper.make_tensor_value_info(*each) for each in stored if each[0] not in stated)
    return light


def graphs_of(node: Any) -> Iterator[Any]:
    """The graphs among a node's attributes: branches and bodies."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def describe(node: Any) -> str:
    """A node for a message."""
    name = node.name or (node.output[0] if node.output else "")
    return f"node {name!r} ({node.op_type})"
