"""The conformance tests of formats and commands pass for the example, and fail for plug-ins with a fault."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("click", reason="click is not installed: make setup")

from foreign_plugins import install_plugin
from usd_ros_bridge.testing.plugin_conformance import CommandConformance, ExporterConformance

pytestmark = pytest.mark.process

EXAMPLE = Path(__file__).parents[3] / "examples" / "plugins" / "robot_tools"
ASSET = EXAMPLE / "test" / "arm.usda"

FAULTY = """
import itertools
import click

count = itertools.count()

class Unsteady:
    suffix = "txt"
    options = ()

    def write(self, context, stream):
        stream.write(str(next(count)).encode())

UNSTEADY = Unsteady()

@click.command()
def silent():
    pass
"""


@pytest.fixture(autouse=True, scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The example and a faulty plug-in, for this process and those that it starts."""
    folder = tmp_path_factory.mktemp("site")
    install_plugin(
        folder,
        "robot-tools",
        entry_points={
            "exporters": {"dot": "robot_tools.frame_graph:DOT"},
            "commands": {"joints": "robot_tools.joint_table:joints"},
        },
        modules={},
    )
    install_plugin(
        folder,
        "faulty-tools",
        entry_points={
            "exporters": {"unsteady": "faulty_tools:UNSTEADY", "missing": "faulty_tools:MISSING"},
            "commands": {"silent": "faulty_tools:silent"},
        },
        modules={"faulty_tools": FAULTY},
    )
    with pytest.MonkeyPatch.context() as patch:
        for path in (str(EXAMPLE), str(folder)):
            patch.syspath_prepend(path)
        inherited = os.environ.get("PYTHONPATH", "")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(EXAMPLE), str(folder), inherited])))
        yield


class TestDot(ExporterConformance):
    format_name = "dot"
    asset = ASSET
    arguments = ("--static", "--direction", "LR")


class TestJoints(CommandConformance):
    command_name = "joints"
    arguments = (ASSET,)


class Unsteady(ExporterConformance):
    format_name = "unsteady"
    asset = ASSET


class Missing(ExporterConformance):
    format_name = "missing"
    asset = ASSET


class Silent(CommandConformance):
    command_name = "silent"


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        Unsteady().test_its_suffix_has_a_dot()
    with pytest.raises(AssertionError):
        Unsteady().test_a_second_time_gives_the_same()
    with pytest.raises(AssertionError, match=r"'missing' of faulty-tools 1.0 is disabled: .* does not exist"):
        Missing().test_it_is_registered()
    with pytest.raises(AssertionError):
        Silent().test_its_help(tmp_path)
