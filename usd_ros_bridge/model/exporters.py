"""Formats of `usd_ros_bridge export`: the protocol and the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Protocol

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.plugins import Registry
from usd_ros_bridge.replaced_file import write_file
from usd_ros_bridge.reporting import Report, log_warning

OptionKind = Literal["text", "int", "double", "flag", "path"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOption:
    """An option of a format on the command line: `--name VALUE`.

    Attributes:
        name: Key in `ExportContext.options`; the flag has hyphens for underscores.
        help: What it does, one sentence.
        kind: Type of the value; a flag has none and is False or True.
        default: The value if it is not given; a flag's is False.
        choices: The possible texts; empty: any.
    """

    name: str
    help: str
    kind: OptionKind = "text"
    default: Any = None
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.name.replace('_', '-')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportContext:
    """Arguments of `Exporter.write`.

    Attributes:
        plan: The plan, with physics; `plan.stage` is the open stage.
        options: Values of all options of the format, by name.
        path: File that is written. None for standard output.
        report: For remarks about what the format cannot express: `report(kind, message)`.
        add_file: Write another file, beside `path`: `add_file(path, content)`. The command writes it together with the
            document, makes a directory that is missing, and refuses files of the asset.
    """

    plan: BridgePlan
    options: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    report: Report = log_warning
    add_file: Callable[[Path, bytes], None] = write_file


class Exporter(Protocol):
    """A format of `usd_ros_bridge export`.

    Attributes:
        suffix: Usual suffix of a file, with its dot.
        options: Options of the format.
    """

    @property
    def suffix(self) -> str:
        """Usual suffix of a file, with its dot."""
        ...

    @property
    def options(self) -> Sequence[ExportOption]:
        """Options of the format."""
        ...

    def write(self, context: ExportContext, stream: BinaryIO) -> Sequence[Diagnostic]:
        """Write the document.

        Args:
            context: What to write, and how.
            stream: Where the document goes. A file appears when this returns, and stays as it was if it raises.

        Returns:
            Faults of the asset, and what the format cannot express.

        Raises:
            BridgeError: It is not possible; the message is shown in one line.
        """
        ...


def _exporter_fault(found: object) -> str:
    if isinstance(found, type):
        return f"{found.__name__} is a class: name an object of it"
    missing = [name for name in ("suffix", "options", "write") if not hasattr(found, name)]
    if missing:
        return f"it has no {', '.join(missing)}"
    if not callable(found.write):  # type: ignore[attr-defined]
        return "its write cannot be called"
    if not all(isinstance(each, ExportOption) for each in found.options):  # type: ignore[attr-defined]
        return "its options are not ExportOption objects"
    return ""


EXPORTERS: Final[Registry[Exporter]] = Registry(
    "exporters",
    "exporter",
    {
        "urdf": "usd_ros_bridge.export.plan_formats:URDF",
        "json": "usd_ros_bridge.export.plan_formats:JSON",
        "mjcf": "usd_ros_bridge.backends.mujoco.mjcf:MJCF",
    },
    check=_exporter_fault,
)
"""Formats by the word after `--format`."""

SUFFIXES: Final = {".urdf": "urdf", ".json": "json", ".xml": "mjcf", ".mjcf": "mjcf"}
"""Formats by the suffix of a file, where none is named."""
