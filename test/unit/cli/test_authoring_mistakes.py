"""Thirty authoring mistakes in one asset: each is found by name, with its remedy, its layer and its line."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from authoring_mistakes import MISTAKES, Mistake
from cli_calls import call_cli
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.cli.views import TerminalConsole, print_plan
from usd_ros_bridge.model.diagnostics import Diagnostic

pytest.importorskip("rclpy", reason="which types are installed is known with ROS only")

from usd_ros_bridge.ros.interface_types import AmentCatalog

EXAMPLES = Path(__file__).parents[3] / "examples"
OF_THE_STAGE = ("20", "29")
"""Mistakes beside the robot, or in the metadata of its stage: a reference would hide them."""
OF_THE_NAMESPACE = ("4", "18")
WORLD = """#usda 1.0
(
    defaultPrim = "World"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
def Xform "World"
{
    %s
}
"""
ROBOT = """
    def Xform "m{number}" (references = @./{number}/{asset}/{asset}.usda@)
    {{
        {namespace}
    }}
"""


@dataclass(frozen=True)
class Found:
    """The diagnostics of an asset, and where its robots are.

    Attributes:
        diagnostics: Of the asset.
        printed: What `inspect` prints, without frames of tables, line breaks and repeated spaces.
        folder: The copies of the examples, by the number of the mistake.
        is_world: Whether the robots are below /World, by the number of the mistake.
    """

    diagnostics: tuple[Diagnostic, ...]
    printed: str
    folder: Path
    is_world: bool

    def moved(self, text: str, mistake: Mistake) -> str:
        """A path, a name or words about them, as they are for this asset."""
        return text.replace(f"/{mistake.asset}", f"/World/m{mistake.number}") if self.is_world else text

    def faults(self, mistake: Mistake) -> list[str]:
        """What is wrong with the finding of a mistake."""
        wanted = (mistake.code, self.moved(mistake.path, mistake), mistake.attribute)
        found = [each for each in self.diagnostics if (each.code, each.path, each.attribute) == wanted]
        if len(found) != 1:
            return [f"{len(found)} diagnostics {wanted}"]
        (diagnostic,) = found
        text = f"{diagnostic.message} ({diagnostic.remedy})"
        says = [self.moved(words, mistake) for words in mistake.says]
        faults = [f"{words!r} is not in {text!r}" for words in says if words not in text]
        faults += [f"{words!r} is not printed" for words in (*wanted, *says) if words not in self.printed]
        if diagnostic.severity != mistake.severity:
            faults.append(f"severity {diagnostic.severity}")
        layer = self.folder / mistake.number / mistake.asset / (mistake.at_layer or mistake.layer)
        lines = layer.read_text(encoding="utf-8").splitlines()
        if Path(diagnostic.layer) != layer or mistake.at not in lines[diagnostic.line - 1]:
            faults.append(f"place {diagnostic.layer}:{diagnostic.line}")
        below = [each.code for each in self.diagnostics if each.path.startswith(wanted[1])]
        return faults + [f"{code} follows" for code in set(below) & set(mistake.never)]


def inspected(asset: Path, folder: Path, *, is_world: bool) -> Found:
    plan = load_plan(asset, catalog=AmentCatalog(), physics=True)
    stream = io.StringIO()
    # Wide enough that no text is wrapped.
    print_plan(plan, TerminalConsole(file=stream, width=4000))
    printed = " ".join(re.sub(r"[│┃]", " ", stream.getvalue()).split())
    return Found(plan.diagnostics, printed, folder, is_world)


def namespace(mistake: Mistake) -> str:
    """The line that keeps the names of two robots apart, if the mistake is not in it."""
    if mistake.number in OF_THE_NAMESPACE:
        return ""
    return f'string ros:context:namespace = "World/m{mistake.number}"'


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """An asset of one robot for each mistake."""
    folder = tmp_path_factory.mktemp("mistakes")
    robots = []
    for each in MISTAKES:
        if each.number not in OF_THE_STAGE:
            each.make(folder / each.number)
            robots.append(ROBOT.format(number=each.number, asset=each.asset, namespace=namespace(each)))
    asset = folder / "world.usda"
    asset.write_text(WORLD % "".join(robots), encoding="utf-8")
    return inspected(asset, folder, is_world=True)


def test_the_table_has_thirty_mistakes() -> None:
    assert {int(re.match(r"\d+", each.number)[0]) for each in MISTAKES} == set(range(1, 31))


def test_the_diagnostics_have_the_cause_the_remedy_and_the_place(world: Found) -> None:
    found = {each.title: world.faults(each) for each in MISTAKES if each.number not in OF_THE_STAGE}
    assert len(found) > 30
    assert {title: faults for title, faults in found.items() if faults} == {}


@pytest.mark.parametrize("number", OF_THE_STAGE)
def test_mistakes_of_the_stage_are_found_too(number: str, tmp_path: Path) -> None:
    (mistake,) = [each for each in MISTAKES if each.number == number]
    assert inspected(mistake.make(tmp_path / number), tmp_path, is_world=False).faults(mistake) == []


def test_an_unknown_attribute_comes_before_what_follows_from_it(world: Found) -> None:
    (mistake,) = [each for each in MISTAKES if each.then]
    path = world.moved(mistake.path, mistake)
    assert [each.code for each in world.diagnostics if each.path == path] == [mistake.code, mistake.then]
    assert world.printed.index(f"{mistake.code} {path}") < world.printed.index(f"{mistake.then} {path}")


def test_the_assets_are_right_without_them() -> None:
    for example in ("rover", "arm"):
        done = call_cli("inspect", "--json", "--strict", EXAMPLES / example / f"{example}.usda")
        assert done.returncode == 0, done.stderr
        assert {each["severity"] for each in json.loads(done.stdout)["diagnostics"]} <= {"info"}


def test_strict_fails_for_an_error_alone(tmp_path: Path) -> None:
    for severity, status in (("error", 1), ("warning", 0), ("info", 0)):
        mistake = next(each for each in MISTAKES if each.severity == severity and not each.then)
        assert call_cli("inspect", "--strict", mistake.make(tmp_path / severity)).returncode == status
