"""XML files as elements that know their place: file and line, for messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from usd_ros_bridge.model.diagnostics import DiagnosticCollector


@dataclass(frozen=True, slots=True)
class Element:
    """An XML element.

    Attributes:
        tag: Its name.
        attributes: By name.
        file: Name of the file.
        line: Line of the file, from 1.
        children: In order.
        texts: The pieces of its own text, in order.
    """

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return its own text without the space around it."""
        return "".join(self.texts).strip()

    @property
    def place(self) -> str:
        """Return file and line, for messages."""
        return f"{self.file}:{self.line}"

    def each(self, tag: str) -> Iterator[Element]:
        """Yield the children with a tag."""
        return (child for child in self.children if child.tag == tag)

    def first(self, tag: str) -> Element | None:
        """Return the first child with a tag, None without one."""
        return next(self.each(tag), None)

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it, in the order of the file."""
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending += reversed(element.children)


class _EntityError(Exception):
    """The file declares entities."""


def parse_xml(
    content: bytes, file: str, findings: DiagnosticCollector, *, encoding: str | None = None
) -> Element | None:
    """Return the root element of an XML file, None if this is no XML.

    Args:
        content: The file.
        file: Its name, for messages.
        findings: Take what is wrong with it.
        encoding: Of the file, whatever it says itself; None for the one that it says.
    """
    parser = expat.ParserCreate(encoding, namespace_separator=None)
    top = Element("", {}, file, 0)
    open_elements = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, file, parser.CurrentLineNumber)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(_tag: str) -> None:
        open_elements.pop()

    def text(piece: str) -> None:
        open_elements[-1].texts.append(piece)

    def entity(*_: object) -> None:
        # Entities can name other files, and a few lines of them can grow to gigabytes.
        raise _EntityError

    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, entity
    parser.buffer_text, parser.CharacterDataHandler = True, text
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        findings.error(
            "import.xml",
            f"{file}:{error.lineno}",
            f"the XML is broken: {reason}",
            "correct this line, or the one before it",
        )
        return None
    except (_EntityError, ValueError, LookupError) as error:
        reason = "it declares entities, which are not read" if isinstance(error, _EntityError) else str(error)
        place = f"{file}:{parser.CurrentLineNumber}"
        findings.error("import.xml", place, reason, "write plain XML in UTF-8")
        return None
    return top.children[0]
