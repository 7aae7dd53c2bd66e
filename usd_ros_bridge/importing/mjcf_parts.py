"""The MJCF files that an MJCF consists of: MuJoCo reads them as soon as it parses, so they are checked before."""

from __future__ import annotations

import ntpath
import os
import re
from collections.abc import Iterable
from pathlib import Path

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.importing.allowed_files import AllowedFiles, outside_fault
from usd_ros_bridge.importing.read_guard import mjcf_paths
from usd_ros_bridge.importing.xml_file import Element, parse_xml
from usd_ros_bridge.model.diagnostics import DiagnosticCollector

_PARTS = ("include", "model")
_ASSETS = ("hfield", "mesh", "skin", "texture")
"""Elements that name files. The converter itself leaves out those that may not be read."""

_MODELS = (".mjcf", ".urdf", ".xml")
_BROKEN_NAME = re.compile(rb"""\sfile\w*\s*=\s*("[^"]*[\t\r\n]|'[^']*[\t\r\n])""")
"""A file name with a line end: XML has a space in its place, MuJoCo has not."""


def check_parts(file: Path, allowed: AllowedFiles, findings: DiagnosticCollector) -> tuple[Path, ...]:
    """Check the files that MuJoCo reads as it parses an MJCF. Return the MJCF files, the given one first.

    Args:
        file: The MJCF.
        allowed: The files that may be read.
        findings: Take what is wrong with it.
    """
    parts, named, folders = [file], list[Element](), {""}
    for part in parts:
        root = _read(part, file, findings)
        for element in root.walk() if root is not None else ():
            tag = element.tag.lower()
            if tag == "compiler":
                folders |= {text for name, text in element.attributes.items() if name.endswith("dir")}
            if tag in _PARTS and "file" in element.attributes:
                found = _check(
                    element, mjcf_paths(parts, [""], element.attributes["file"]), allowed, findings
                )
                parts += [each for each in found if each not in parts]
            else:
                named.append(element)
    for element in named:
        for name, text in element.attributes.items():
            if name.startswith("file") and text:
                # Assets may lose their folder: the compiler's strippath.
                names = {text, ntpath.basename(text)} if element.tag.lower() in _ASSETS else {text}
                paths = set[str]().union(*(mjcf_paths(parts, folders, each) for each in names))
                _check(element, paths, allowed, findings)
    return tuple(parts)


def _read(part: Path, file: Path, findings: DiagnosticCollector) -> Element | None:
    """Return the root element of an MJCF, None if it is not read. MuJoCo must see the same elements in it."""
    shown = os.path.relpath(part, file.parent)
    if not part.is_file() or (part.suffix.lower() not in _MODELS and part != file):
        findings.error("import.xml", shown, "it is no XML file", f"name a file with {' or '.join(_MODELS)}")
        return None
    content = part.read_bytes()
    if b"<!DOCTYPE" in content or _BROKEN_NAME.search(content):
        findings.error(
            "import.xml", shown, "it has a document type, or a file name of several lines", "write plain XML"
        )
        return None
    return parse_xml(content, shown, findings, encoding="utf-8")


def _check(
    element: Element, paths: Iterable[str], allowed: AllowedFiles, findings: DiagnosticCollector
) -> list[Path]:
    """Report a file that may not be read. Return the paths where it is."""
    found = []
    for path in (Path(each) for each in sorted(paths)):
        if not os.path.exists(path) or os.path.isdir(path):  # noqa: PTH110, PTH112 - false for what is no name
            continue
        found.append(path)
        # The converter leaves these out. MuJoCo opens them before, and would wait for a pipe.
        if element.tag.lower() in _ASSETS and path.is_file():
            continue
        if not allowed.allows(path):
            names = ", ".join(
                quoted(each) for name, each in element.attributes.items() if name.startswith("file")
            )
            findings.error(
                "import.outside",
                element.place,
                *outside_fault(f"{element.tag} {names}", path, left_out=False),
            )
            return []
    return found
