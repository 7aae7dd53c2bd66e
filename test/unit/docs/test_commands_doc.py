"""docs/reference/commands.md against the verbs, and every `ros2` command of the pages that one of them replaces."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from markdown_docs import PAGES, codes, page_text, rows

pytest.importorskip("click", reason="click is not installed: make setup")

import click

from usd_ros_bridge.cli.graph.verb_group import VerbGroup
from usd_ros_bridge.cli.main import cli

pytestmark = pytest.mark.docs

PAGE = page_text("commands.md")
GROUPS = {name: each for name, each in cli.commands.items() if isinstance(each, VerbGroup)}
VERBS = {f"{group} {name}": verb for group, each in GROUPS.items() for name, verb in each.commands.items()}
_COMMAND = re.compile(r"(?:ros2|usd_ros_bridge) ((?:topic|service|action|param) .*)")


def page_commands() -> list[tuple[Path, str]]:
    """Every line of a page that begins with a verb of `ros2` or of `usd_ros_bridge`, continued lines included."""
    return [
        (page, match[1])
        for page in PAGES
        for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        if (match := _COMMAND.match(line.strip()))
    ]


def test_groups() -> None:
    assert set(GROUPS) == {"topic", "service", "action", "param"}


def test_every_verb_stands_in_the_table() -> None:
    found = {}
    for cell, _ in rows(PAGE, "command"):
        group, name, *arguments = codes(cell)[0].split()
        found[f"{group} {name}"] = arguments
    assert found == {
        name: [
            each.make_metavar(click.Context(verb)) for each in verb.params if isinstance(each, click.Argument)
        ]
        for name, verb in VERBS.items()
    }


def test_every_option_stands_in_the_table() -> None:
    expected: dict[tuple[str, ...], set[str]] = {}
    for name, command in {**GROUPS, **VERBS}.items():
        for each in command.params:
            if isinstance(each, click.Option):
                expected.setdefault(tuple(each.opts), set()).add(name)
    table = {
        tuple(code.split()[0] for code in codes(cell)): set(VERBS) if of == "all" else set(of.split(", "))
        for cell, of, _ in rows(PAGE, "option")
    }
    assert table == expected


def test_every_command_of_the_pages_can_be_given_to_a_verb() -> None:
    for page, command in page_commands():
        # A synopsis is no command.
        if "|" in command or "..." in command:
            continue
        group, name, *arguments = shlex.split(command, comments=True)
        assert f"{group} {name}" in VERBS, f"{page.name} has {command!r}"
        try:
            VERBS[f"{group} {name}"].make_context(name, arguments)
        except click.ClickException as error:
            pytest.fail(f"{page.name} has {command!r}: {error.format_message()}")
