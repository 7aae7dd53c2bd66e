"""What the recipes name exists: attributes, command-line options, node parameters, and their launch files."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from markdown_docs import DOCS, blocks, codes, without_fences
from usd_ros_bridge.cli.main import cli
from usd_ros_bridge.model.property_names import KNOWN
from usd_ros_bridge.options import OPTIONS

pytestmark = pytest.mark.docs

RECIPES = sorted(set((DOCS / "how_to").glob("*.md")) - {DOCS / "how_to" / "docker.md"})
OTHERS = {"--ipc", "--shm-size", "--clock", "--qos-profile-overrides-path", "--ros-args", "--enclave"}
"""Options of docker, ros2 and ROS arguments."""


def options_of(command: click.Command) -> set[str]:
    """Every option of a command and of those below it."""
    found = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            found |= set() if below is None else options_of(below)
    return found


OPTIONS_OF_COMMANDS = options_of(cli) | OTHERS


def unknown(page: Path) -> set[str]:
    """Attributes, options of commands and parameters that a recipe names and that do not exist."""
    text = page.read_text(encoding="utf-8")
    inline = " ".join(codes(without_fences(text)))
    shown = " ".join(
        block.text for block in blocks(page) if block.language == "sh" and "usd_ros_bridge" in block.text
    )
    attributes = set(re.findall(r"(?:ros|usd_ros_bridge):[a-z_]+(?::[a-z_]+)+", inline))
    groups = {name.rpartition(":")[0] for name in KNOWN}
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", f"{inline} {shown}"))
    parameters = set(re.findall(r"-p ([a-z_]+):=", text)) - {"use_sim_time"}
    return (
        (attributes - KNOWN.keys() - groups) | (options - OPTIONS_OF_COMMANDS) | (parameters - OPTIONS.keys())
    )


def test_attributes_options_and_parameters_exist() -> None:
    found = {page.name: unknown(page) for page in RECIPES}
    assert {name: names for name, names in found.items() if names} == {}


def test_programs_compile() -> None:
    programs = [
        block
        for page in RECIPES
        for block in blocks(page)
        if block.language == "python" and block.title.endswith(".py")
    ]
    assert programs
    for block in programs:
        compile(block.text, str(block), "exec")
