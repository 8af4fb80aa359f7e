"""Files as importers read them, with errors that name lines: text, XML as elements, and YAML as values.

Entities of XML are refused, nothing else is fetched, and depth is limited; PyYAML is an extra.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from partita.ground.errors import FormatError, require
from partita.ground.files import text_of

#: No topology is nested deeper.
MAX_DEPTH = 200


@dataclass(frozen=True)
class TextFile:
    """The path of a file, for messages, and its text."""

    path: str
    text: str

    def error(self, message: str, line: int | None = None) -> FormatError:
        """What is wrong, and in which line, from 1."""
        return FormatError(f"{self.path}: {message}" if line is None else f"{self.path}: line {line}: {message}")


def read_text_file(path: str | Path) -> TextFile:
    """Read a text file; ``InputError`` if it cannot be read, ``FormatError`` if it is no text."""
    return TextFile(str(path), text_of(path))


@dataclass
class Element:
    """One element: its tag, attributes, children in order, the text in it, and the line where it begins."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def walk(self) -> Iterator[Element]:
        """The element and all below, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, tag: str) -> list[Element]:
        """All elements below with a tag."""
        return [child for child in self.walk() if child.tag == tag and child is not self]


def read_xml(source: TextFile, tag: str) -> Element:
    """The root of an XML file, which must have a tag; ``FormatError`` names the line if it is no such XML."""
    parser = expat.ParserCreate("utf-8")
    open_elements: list[Element] = []
    roots: list[Element] = []

    def begin(name: str, attributes: dict[str, str]) -> None:
        element = Element(name, attributes, parser.CurrentLineNumber)
        (open_elements[-1].children if open_elements else roots).append(element)
        if len(open_elements) >= MAX_DEPTH:
            raise source.error(f"elements are nested deeper than {MAX_DEPTH}", parser.CurrentLineNumber)
        open_elements.append(element)

    def end(_name: str) -> None:
        open_elements.pop()

    def words(text: str) -> None:
        open_elements[-1].text += text

    def entity(name: str, *_rest: object) -> None:
        raise source.error(f"it defines the entity {name!r}; entities are not read", parser.CurrentLineNumber)

    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = words
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(source.text.encode("utf-8"), True)
    except expat.ExpatError as error:
        raise source.error(f"it is not valid XML: {expat.ErrorString(error.code)}", error.lineno) from None
    if roots[0].tag != tag:
        raise source.error(f"the root is <{roots[0].tag}>, not <{tag}>", roots[0].line)
    return roots[0]


def whole(source: TextFile, element: Element, name: str, least: int = 0, default: int | None = None) -> int:
    """A whole number of an element's attribute."""
    text = element.attributes.get(name)
    if text is None and default is not None:
        return default
    if text is None:
        raise source.error(f"<{element.tag}> has no {name}", element.line)
    if not text.strip().isdigit() or int(text) < least:
        raise source.error(
            f"{name} of <{element.tag}> is {text!r}; it must be a whole number from {least}", element.line
        )
    return int(text)


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
