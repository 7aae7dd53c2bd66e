"""YAML documents as plain data, with the line of each value. Keys that occur twice are faults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from usd_ros_bridge.errors import BridgeError, OptionError, quoted, quoted_path
from usd_ros_bridge.requirements import missing_requirement

DocumentPath = tuple[str | int, ...]
"""Keys and indices that lead to a value."""
MAX_BYTES: Final = 4_000_000
MAX_NODES: Final = 200_000
_FLOAT: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
"""Numbers that YAML 1.2 has and YAML 1.1 takes for texts: 1e-3, -.5."""


def read_yaml(path: Path) -> tuple[Any, dict[DocumentPath, int]]:
    """Read a YAML file.

    Returns:
        The document, and the line of each value by its path.

    Raises:
        OptionError: The file cannot be read, is too large, or is no YAML: one line with file and line.
        BridgeError: PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise missing_requirement(error) or BridgeError(f"PyYAML cannot be imported: {error}") from error
    try:
        if path.stat().st_size > MAX_BYTES:
            raise OptionError(f"{path}: more than {MAX_BYTES} bytes are no sweep file")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise OptionError(f"cannot read {quoted_path(path)}: {reason}") from None
    try:
        return _parse(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise OptionError(f"{path}{line}: {problem}") from None
    except _NodeError as error:
        raise OptionError(f"{path}:{error.line}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path}: cannot be read as YAML: {type(error).__name__}: {error}") from None


def read_value(text: str) -> Any:
    """Return the data of one value, as it would be in a file. A text that is no YAML is itself."""
    import yaml

    try:
        return _parse(text)[0]
    except (yaml.YAMLError, _NodeError, ValueError, RecursionError):
        return text


def _parse(text: str) -> tuple[Any, dict[DocumentPath, int]]:
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        reader = _NodeReader(loader)
        return (None if node is None else reader.read(node, ())), reader.lines
    finally:
        loader.dispose()


class _NodeError(Exception):
    def __init__(self, node: Any, message: str) -> None:
        super().__init__(message)
        self.line = node.start_mark.line + 1


class _NodeReader:
    """Convert nodes of PyYAML to plain data."""

    def __init__(self, loader: Any) -> None:
        self.lines: dict[DocumentPath, int] = {}
        self._loader = loader
        self._count = 0

    def read(self, node: Any, path: DocumentPath) -> Any:
        """Return the data of a node, and note its line."""
        self._count += 1
        if self._count > MAX_NODES:
            raise _NodeError(node, f"more than {MAX_NODES} values are no sweep file")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if node.id == "mapping":
            return self._mapping(node, path)
        if node.id == "sequence":
            return [self.read(each, (*path, row)) for row, each in enumerate(node.value)]
        if node.tag == "tag:yaml.org,2002:str" and node.style is None and _FLOAT.fullmatch(node.value):
            return float(node.value)
        value = self._loader.construct_object(node)
        if not isinstance(value, (str, int, float, bool, type(None))):
            # Dates and the like are texts here.
            return node.value
        return value

    def _mapping(self, node: Any, path: DocumentPath) -> dict[str, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.id != "scalar":
                raise _NodeError(key_node, "a key is no text")
            if key_node.value in seen:
                raise _NodeError(key_node, f"the key {quoted(key_node.value)} occurs twice")
            seen.add(key_node.value)
        # Mappings that are merged by << come first: later keys are stronger.
        self._loader.flatten_mapping(node)
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            inner = (*path, key)
            self.lines[inner] = key_node.start_mark.line + 1
            found[key] = self.read(value_node, inner)
        return found
