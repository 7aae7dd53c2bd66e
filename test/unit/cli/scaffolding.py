"""Robots without a ROS layer, as text, and what `usd_ros_bridge scaffold` makes of them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.cli.main import cli
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, RobotPlan

EXAMPLES = Path(__file__).parents[3] / "examples"

HEADER = """#usda 1.0
(
    defaultPrim = "{name}"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
"""


@dataclass(frozen=True)
class Scaffolded:
    """What came of a scaffold: the layer, the lines that were printed, and the plan of the layer."""

    path: Path
    lines: list[str]
    plan: BridgePlan

    @property
    def robot(self) -> RobotPlan:
        (robot,) = self.plan.robots
        return robot

    def decisions(self, subject: str) -> list[str]:
        """The lines about a subject, with their marks."""
        return [line for line in self.lines if line[2:].startswith(subject + ":")]

    def controller(self, name: str) -> ControllerPlan:
        return next(each for each in self.plan.controllers if each.path.endswith("/" + name))

    def topics(self) -> dict[str, str]:
        """Types by name."""
        return {topic.name: topic.type for topic in self.plan.topics}

    def frames(self) -> dict[str, str]:
        """Parents by id."""
        return {frame.id: frame.parent for frame in self.robot.frames}


def run(*arguments: str | Path) -> list[str]:
    """Runs the command in this process; returns what it prints, raises what it raises."""
    result = CliRunner().invoke(cli, ["scaffold", *map(str, arguments)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output.splitlines()


def scaffold(asset: str | Path, output: Path, *arguments: str) -> Scaffolded:
    """Scaffolds a file; its bytes must stay what they are."""
    before = Path(asset).read_bytes()
    lines = run(asset, "-o", output, *arguments)
    assert Path(asset).read_bytes() == before
    return Scaffolded(path=output, lines=lines, plan=load_plan(output))


def scaffold_text(text: str, folder: Path, *arguments: str, name: str = "robot") -> Scaffolded:
    asset = folder / f"{name}.usda"
    asset.write_text(HEADER.format(name=name) + text, encoding="utf-8")
    return scaffold(asset, folder / "ros.usda", *arguments)


def without_layer(name: str, folder: Path) -> Path:
    """A copy of an example without its ROS layer; returns its entry."""
    copy = folder / "examples"
    shutil.copytree(EXAMPLES, copy)
    entry = copy / name / f"{name}.usda"
    text = entry.read_text(encoding="utf-8")
    assert "@./ros.usda@" in text
    entry.write_text(text.replace("        @./ros.usda@,\n", ""), encoding="utf-8")
    (entry.parent / "ros.usda").unlink()
    return entry


# --- Parts of robots ----------------------------------------------------------------------------------------------


def body(name: str, content: str = "", *, at: Sequence[float] = (0.0, 0.0, 0.0)) -> str:
    x, y, z = at
    return f"""
def Xform "{name}" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
{{
    float physics:mass = 1
    double3 xformOp:translate = ({x}, {y}, {z})
    uniform token[] xformOpOrder = ["xformOp:translate"]
    {content}
}}
"""


def cylinder(radius: float, axis: str = "Y", *, collides: bool = True) -> str:
    schemas = ' (prepend apiSchemas = ["PhysicsCollisionAPI"])' if collides else ""
    return f"""
    def Cylinder "shape"{schemas}
    {{
        uniform token axis = "{axis}"
        double radius = {radius}
        double height = 0.05
    }}
"""


def joint(
    name: str, parent: str, child: str, *, at: Sequence[float] = (0.0, 0.0, 0.0), kind: str = "Revolute",
    axis: str = "Y", limits: tuple[float, float] | None = None, drive: tuple[float, float] | None = None,
) -> str:  # fmt: skip
    x, y, z = at
    of = "linear" if kind == "Prismatic" else "angular"
    schemas = f' (prepend apiSchemas = ["PhysicsDriveAPI:{of}"])' if drive else ""
    lines = [f"rel physics:body1 = <{child}>", f"point3f physics:localPos0 = ({x}, {y}, {z})"]
    if parent:
        lines.append(f"rel physics:body0 = <{parent}>")
    if kind != "Fixed":
        lines.append(f'uniform token physics:axis = "{axis}"')
    if limits:
        lines += [f"float physics:lowerLimit = {limits[0]}", f"float physics:upperLimit = {limits[1]}"]
    if drive:
        lines += [
            f"float drive:{of}:physics:stiffness = {drive[0]}",
            f"float drive:{of}:physics:damping = {drive[1]}",
        ]
    content = "\n    ".join(lines)
    return f'def Physics{kind}Joint "{name}"{schemas}\n{{\n    {content}\n}}\n'


def robot(*content: str, name: str = "robot", schemas: str = "") -> str:
    metadata = f" (prepend apiSchemas = [{schemas}])" if schemas else ""
    return f'def Xform "{name}"{metadata}\n{{\n{"".join(content)}\n}}\n'


def cart(
    *wheels: tuple[str, Sequence[float]], radius: float = 0.1, axis: str = "Y", geometry: bool = True,
    drive: tuple[float, float] | None = None, extra: str = "", fixed: bool = False,
) -> str:  # fmt: skip
    """A cart: a base and wheels by name and place, each with a joint called `<name>_joint`."""
    parts = [body("base_link")]
    for name, at in wheels:
        shape = cylinder(radius, axis) if geometry else ""
        parts.append(body(name, shape, at=at))
        parts.append(
            joint(f"{name}_joint", "/robot/base_link", f"/robot/{name}", at=at, axis=axis, drive=drive)
        )
    if fixed:
        parts.append(joint("anchor", "", "/robot/base_link", kind="Fixed"))
    return robot(*parts, extra)
