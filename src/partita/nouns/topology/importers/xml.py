"""XML as elements that know their line. Entities are refused, nothing else is fetched, and depth is limited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from partita.nouns.topology.importers.importer import TextFile

#: No topology is nested deeper.
MAX_DEPTH = 200


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
