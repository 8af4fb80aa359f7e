"""YAML as plain values, with the line of each entry; PyYAML is an extra."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from partita.ground.errors import require
from partita.nouns.topology.importers.importer import TextFile


@dataclass(frozen=True)
class YamlValue:
    """A value and the line where it begins; lists hold entries, mappings entries by key."""

    value: Any
    line: int


def read_yaml(source: TextFile) -> YamlValue:
    """The one document of a file: no tags, no objects.

    Raises ``FormatError`` if the file is no such YAML; ``MissingExtraError`` if PyYAML is not installed.
    """
    require("yaml", "yaml")
    import yaml

    try:
        node = yaml.compose(source.text, Loader=yaml.SafeLoader)
        if node is None:
            raise source.error("it is empty")
        return _entry(source, node, yaml.SafeLoader(""), 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise source.error(f"it is not valid YAML: {error.problem}", mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise source.error(f"it is not valid YAML: {error}") from None


def _entry(source: TextFile, node: Any, loader: Any, depth: int) -> YamlValue:
    line = node.start_mark.line + 1
    if depth > 20:
        raise source.error("it is nested too deep, or refers to itself", line)
    if node.id == "sequence":
        return YamlValue([_entry(source, child, loader, depth + 1) for child in node.value], line)
    if node.id == "mapping":
        found: dict[str, YamlValue] = {}
        for key, child in node.value:
            name = str(key.value)
            if name in found:
                raise source.error(f"key {name!r} is there twice", key.start_mark.line + 1)
            found[name] = _entry(source, child, loader, depth + 1)
        return YamlValue(found, line)
    return YamlValue(loader.construct_object(node), line)
