"""The examples of findings: a small asset for each code, and what diagnostic_examples.md shows of them.

`test/assets/findings/CODE.usda` is planned as `usd_ros_bridge inspect` does, codes of URDF are those of its export, and
`CODE.urdf` is read as `usd_ros_bridge import` does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from markdown_docs import ROOT, codes, page_text, rows, section
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.urdf import robot_urdf
from usd_ros_bridge.importing.robot_file import read_robot_file
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.usd import quiet

FOLDER = ROOT / "test" / "assets" / "findings"
NO_CODES = ("Where it is", "Values of the wrong type")
"""Sections of diagnostics.md whose codes have no examples of their own."""
HEADER = """#usda 1.0
(
    defaultPrim = "robot"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)

"""

OPTIONS: dict[str, tuple[str, PlanOptions]] = {
    "2.1.contexts": ("`--contexts /World/left`", PlanOptions(contexts=("/World/left",))),
    "2.1.shard": ("`--shard 1/2`", PlanOptions(shard="1/2")),
    "2.3.enabled": (
        "the parameter `enabled./robot/camera: true`",
        PlanOptions(enabled={"/robot/camera": True}),
    ),
    "3.8.mesh": (
        "`robot_urdf(plan, 0)` in Python, which gives no directory for mesh files",
        PlanOptions(),
    ),
    "2.4.rate": ("the parameter `rate./robot/camera: 10.0`", PlanOptions(rates={"/robot/camera": 10.0})),
}
"""What some examples are planned with, in the words of the page."""

_ADDRESS = re.compile(r"anon:0x\w+")
"""An anonymous layer in a message of OpenUSD, with its address."""
PLUGIN = "it needs a [plug-in](plugins.md)"
WITHOUT: dict[str, str] = {
    "internal": "it is a bug of the bridge",
    "1.2.5.muted": "a program has to mute the layer: no file can say so",
    "2.3.codec": f"{PLUGIN} with a codec, which is disabled",
    "1.4.sensor.camera": f"{PLUGIN} with a sensor model that needs images",
    "1.4.sensor.plugin": f"{PLUGIN} with a sensor model that has a fault",
    "1.4.sensor.rate": f"{PLUGIN} with a sensor model that has a highest rate",
    "1.4.sensor.topic": f"{PLUGIN} with a sensor model",
    "4.2.3.plugin": f"{PLUGIN} with a controller that has a fault",
    "3.8.mesh_directory": "it is a fault of a directory, not of an asset",
}
"""Codes that no asset alone leads to, with the reason."""


@dataclass(frozen=True)
class Example:
    """An example: its code, its file, and its findings as one line of text each."""

    code: str
    file: Path
    findings: tuple[Diagnostic, ...]
    lines: tuple[str, ...]


def sections() -> dict[str, list[str]]:
    """Return the codes of diagnostics.md by section."""
    page = page_text("diagnostics.md")
    titles = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    return {
        title: [codes(cell)[0] for cell, *_ in rows(section(page, title), "code")]
        for title in titles
        if title not in NO_CODES
    }


def files() -> dict[str, Path]:
    """Return the file of each example by its code."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.u[sr]d*"))}


def read(code: str, file: Path) -> Example:
    """Plan, export or import an example, with the folder of the examples as working directory."""
    with working_directory(FOLDER), quiet():
        if file.suffix == ".urdf":
            found = read_robot_file(Path(file.name), lambda _: None).diagnostics
        else:
            _, options = OPTIONS.get(code, ("", PlanOptions()))
            plan = load_plan(file.name, physics=True, plan_options=options)
            found = exported(plan, code) if code.startswith("3.8.") else plan.diagnostics
        lines = tuple(_ADDRESS.sub("anon:...", str(each).replace(f"{FOLDER}{os.sep}", "")) for each in found)
    return Example(code, file, found, lines)


def exported(plan: BridgePlan, code: str) -> tuple[Diagnostic, ...]:
    """Return the findings of the robots' URDF. Without a directory for mesh files, meshes are left out."""
    with TemporaryDirectory() as directory:
        meshes = None if code == "3.8.mesh" else MeshCache(directory)
        robots = [robot_urdf(plan, number, meshes=meshes) for number in range(len(plan.robots))]
    return tuple(finding for robot in robots for finding in robot.diagnostics)


@contextmanager
def working_directory(directory: Path) -> Iterator[None]:
    """Work in a directory: findings name files from there."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def examples() -> list[str]:
    """Return the lines of all examples, in the order of diagnostics.md, and of the codes that have none."""
    found = files()
    lines: list[str] = []
    for title, of_section in sections().items():
        made = [code for code in of_section if code in found]
        if made:
            lines += [f"## {title}", ""]
            lines += [line for code in made for line in _entry(read(code, found[code])).split("\n")]
    lines += ["## Codes without an example", "", "| code | reason |", "|---|---|"]
    return lines + [f"| `{code}` | {reason} |" for code, reason in WITHOUT.items()]


def _entry(example: Example) -> str:
    language = "usda" if example.file.suffix == ".usda" else "xml"
    options, _ = OPTIONS.get(example.code, ("", None))
    with_options = f", with {options}" if options else ""
    name = example.file.name
    asset = example.file.read_text(encoding="utf-8").removeprefix(HEADER)
    findings = "".join(f"{line}\n" for line in example.lines)
    return (
        f"### {example.code}\n\n[{name}](../../test/assets/findings/{name}){with_options}:\n\n"
        f"```{language}\n{asset}```\n\n```text\n{findings}```\n"
    )
