"""Write the tables of the reference that follow from the code: options, commands, launch arguments, keys of JSON.

`python tools/reference_tables.py` compares the pages with the code and exits with status 1 where they differ; `--write`
writes them. The pages of BUILT are not compared: the build of the site fills their tables (tools/docs_hooks.py). A
table is between two comments of its page:

    <!-- table: node parameters -->
    ...
    <!-- end of table -->

Facts come from the code: `usd_ros_bridge/options.py`, the commands of click, the launch files,
`inspect.schema.json`. Remarks and links that the code has no place for are in `tools/reference_notes.yaml`, by option.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock, patch

import click
import yaml

from usd_ros_bridge.cli.graph.verb_group import VerbGroup
from usd_ros_bridge.cli.main import cli
from usd_ros_bridge.model.ledger import Treatment, ledger
from usd_ros_bridge.options import OPTIONS, Option

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = ("parameters.md", "launch_files.md")
BUILT = ("command_line.md", "inspect_json.md", "diagnostic_examples.md", "what_is_simulated.md")
BRIDGE_LAUNCH = "bridge.launch.py"
SCHEMA = ROOT / "usd_ros_bridge" / "export" / "inspect.schema.json"
NOTES: Mapping[str, Mapping[str, str]] = yaml.safe_load(
    (ROOT / "tools" / "reference_notes.yaml").read_text(encoding="utf-8")
)
SHARED_BY = 4
"""An option of so many commands is in the table of common options."""

_TABLE = re.compile(
    r"(?P<begin><!-- table: (?P<name>[\w. ]+) -->\n).*?(?P<end><!-- end of table -->)", re.DOTALL
)
_DEFAULT = re.compile(r" *\[default: (?P<default>[^\]]*)\]")
_EMPTY = re.compile(r" Empty: as in params_file\b[^.]*\.$")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    write = parser.parse_args().write
    stale = False
    for page in PAGES:
        path = REFERENCE / page
        text = path.read_text(encoding="utf-8")
        made = with_tables(text)
        if made != text:
            stale = True
            print(f"{'written' if write else 'not as the code'}: {path.relative_to(ROOT)}")
            if write:
                path.write_text(made, encoding="utf-8")
    return 1 if stale and not write else 0


def with_tables(text: str) -> str:
    """Return the text of a page with its tables as the code has them."""

    def replace(found: re.Match[str]) -> str:
        lines = TABLES[found["name"]]()
        return f"{found['begin']}\n" + "\n".join(lines) + f"\n\n{found['end']}"

    return _TABLE.sub(replace, text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        cells = " | ".join(cell.replace("|", "\\|") for cell in row)
        lines.append(f"| {cells} |")
    return lines


def sentences(*texts: str) -> str:
    """Return texts one behind the other, each with its full stop; empty ones are left out."""
    return " ".join(text if text.endswith((".", "...")) else f"{text}." for text in texts if text)


def note(group: str, *keys: str) -> str:
    """Return the remark of the first key that has one."""
    return next((NOTES[group][key] for key in keys if key in NOTES[group]), "")


# --- Parameters and launch arguments -----------------------------------------------------------------------------
def node_parameters() -> list[str]:
    types = {"string": "string", "strings": "string[]", "bool": "bool", "int": "int", "double": "double"}
    rows = []
    for name, row in OPTIONS.items():
        live = "*Live*" if row.live else "Read-only." if row.read_only else ""
        rows.append(
            (
                f"`{name}`",
                types[row.kind],
                default_of(row.parameter_default),
                values_of(row),
                sentences(row.help, note("parameters", name), live),
            )
        )
    return table(("name", "type", "default", "values", "meaning"), rows)


def default_of(value: Any) -> str:
    """Return a default as a parameter file has it; an empty list is ROS 2's `['']`."""
    if value in ("", [""]):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def values_of(row: Option) -> str:
    """Return the possible values of an option, "" for any."""
    if row.choices:
        return ", ".join(f"`{choice}`" for choice in row.choices)
    return str(row.range) if row.range else ""


class Declared(NamedTuple):
    """A launch argument, as a launch file declares it; `default_value` is None for one that has to be given."""

    name: str
    default_value: str | None = None
    description: str = ""
    choices: Sequence[str] | None = None


def declared_arguments(file: str) -> list[Declared]:
    """Return the arguments of a launch file. It is executed with stand-ins for the packages of ROS 2."""
    names = ("launch", "launch_ros", "ament_index_python")
    parts = ("actions", "conditions", "descriptions", "events", "events.process", "event_handlers", "logging")
    parts += (
        "launch_description_sources",
        "parameter_descriptions",
        "packages",
        "substitutions",
        "utilities",
    )
    modules = {name: MagicMock(DeclareLaunchArgument=Declared) for name in names}
    modules |= {f"{name}.{part}": modules[name] for name in names for part in parts}
    distro = {name: value for name, value in os.environ.items() if name != "ROS_DISTRO"}
    with patch.dict(sys.modules, modules), patch.dict(os.environ, distro, clear=True):
        runpy.run_path(str(ROOT / "launch" / file))["generate_launch_description"]()
    (actions,) = modules["launch"].LaunchDescription.call_args.args
    return [each for each in actions if isinstance(each, Declared)]


def launch_arguments(file: str) -> list[str]:
    """Return the table of the arguments of a launch file, but for those that the bridge's launch file has, too.

    Their names follow the table.
    """
    bridge = {} if file == BRIDGE_LAUNCH else {each.name: each for each in declared_arguments(BRIDGE_LAUNCH)}
    rows, same = [], []
    for each in declared_arguments(file):
        if each.name in bridge and _is_of_bridge(each):
            same.append(f"`{each.name}`")
            continue
        default = each.default_value
        shown = f"`{default}`" if default else "required" if default is None else ""
        if _EMPTY.search(each.description):
            shown = "as in `params_file`"
        text = _EMPTY.sub("", each.description).removesuffix(" Required." if default is None else "")
        rows.append((f"`{each.name}`", shown, sentences(text, note("launch", each.name))))
    more = ["", f"These are as for `{BRIDGE_LAUNCH}`: {', '.join(same)}."] if same else []
    return table(("argument", "default", "meaning"), rows) + more


def _is_of_bridge(argument: Declared) -> bool:
    return argument.description.endswith((f"As {argument.name} of the bridge.", "Empty: as in params_file."))


# --- The command line --------------------------------------------------------------------------------------------
def commands() -> dict[str, click.Command]:
    """Return the commands by name, those of a group behind it; those of ros2cli have a page of their own."""
    own = {name: each for name, each in cli.commands.items() if not isinstance(each, VerbGroup)}
    for group, command in list(own.items()):
        own |= {f"{group} {name}": each for name, each in getattr(command, "commands", {}).items()}
    return own


def context_of(command: click.Command, name: str) -> click.Context:
    """Return a context below that of the program: a command keeps the help option of its first context."""
    program = click.Context(cli, info_name="usd_ros_bridge", **cli.context_settings)
    return click.Context(command, info_name=name, parent=program)


def options_of(command: click.Command) -> Iterator[click.Option]:
    """Yield the options of a command that are for people."""
    for each in command.params:
        if isinstance(each, click.Option) and not each.hidden:
            yield each


def common_names() -> dict[tuple[str, str], list[str]]:
    """Return the commands of each option that many of them have, by its first name and its help."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, command in commands().items():
        for each in options_of(command):
            found.setdefault((each.opts[0], each.help or ""), []).append(name)
    return {key: names for key, names in found.items() if len(names) >= SHARED_BY}


def command_list() -> list[str]:
    rows = []
    for name, command in commands().items():
        link = f"[`{name}`](#{name.replace(' ', '-')})"
        rows.append((link, help_of(command)[0], note("commands", name)))
    for name, each in cli.commands.items():
        if isinstance(each, VerbGroup):
            rows.append((f"`{name}`", help_of(each)[0], note("commands", name)))
    return table(("command", "effect", "more"), rows)


def common_options() -> list[str]:
    rows = []
    known = {}
    for command in commands().values():
        for each in options_of(command):
            known.setdefault((each.opts[0], each.help or ""), (each, command))
    for key, names in common_names().items():
        option, command = known[key]
        shown, default, meaning = option_row(option, command, "common")
        rows.append((shown, ", ".join(sorted(names)), default, meaning))
    return table(("option", "of", "default", "meaning"), rows)


def command_sections() -> list[str]:
    lines: list[str] = []
    common = common_names()
    for name, command in commands().items():
        context = context_of(command, name)
        usage = " ".join(piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")
        first, *others = help_of(command)
        own = [each for each in options_of(command) if (each.opts[0], each.help or "") not in common]
        shared = [each for each in options_of(command) if (each.opts[0], each.help or "") in common]
        lines += [f"### {name}", "", f"    usd_ros_bridge {name} {usage}".rstrip(), "", first, ""]
        for paragraph in others:
            lines += [paragraph, ""]
        if own:
            rows = [option_row(each, command, name) for each in own]
            lines += [*table(("option", "default", "meaning"), rows), ""]
        if shared:
            names = ", ".join(f"`{each.opts[0]}`" for each in shared)
            lines += [f"[Common options](#common-options): {names}.", ""]
    return lines[:-1]


def help_of(command: click.Command) -> list[str]:
    """Return the paragraphs of a command's help."""
    return [" ".join(part.split()) for part in (command.help or "").split("\n\n") if part.strip()]


def option_row(option: click.Option, command: click.Command, name: str) -> tuple[str, str, str]:
    """Return how an option is written, its default and its meaning."""
    context = context_of(command, name)
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    # `[all|none]` are values, `[PORT]` is a value that may be missing.
    if isinstance(option.type, click.Choice):
        value = f" {value.strip().strip('[]')}"
    names = [*option.opts, *option.secondary_opts]
    text = option.help or ""
    found = _DEFAULT.search(text)
    default = found["default"] if found else ""
    if not found and not option.is_flag and isinstance(option.default, (str, int, float)) and option.default:
        default = str(option.default)
    parameter = next((row.name for row in OPTIONS.values() if _sets(option, row)), "")
    return (
        ", ".join(f"`{each}{value}`" for each in names),
        default,
        sentences(
            _DEFAULT.sub("", text),
            "Repeatable" if option.multiple and "epeatable" not in text else "",
            "Required" if option.required else "",
            f"Sets the [parameter](parameters.md#node-parameters) `{parameter}`" if parameter else "",
            note("options", f"{name} {option.opts[-1]}", option.opts[-1]),
        ),
    )


def _sets(option: click.Option, row: Option) -> bool:
    """Return whether an option of a command sets a parameter: `--strict` of `sweep` is another one."""
    return bool(row.flag) and row.flag in option.opts and row.help[1:-1] in (option.help or "")


# --- inspect --json ----------------------------------------------------------------------------------------------
def json_keys() -> list[str]:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    lines = ["## The document", "", *object_table(schema), ""]
    for name, each in schema["$defs"].items():
        if "properties" in each:
            lines += [f"## {name}", "", each["description"], "", *object_table(each), ""]
    return lines[:-1]


def object_table(schema: Mapping[str, Any]) -> list[str]:
    required = set(schema.get("required", ()))
    rows = [
        (f"`{key}`", type_of(each) + ("" if key in required else ", optional"), each.get("description", ""))
        for key, each in schema["properties"].items()
    ]
    return table(("key", "type", "meaning"), rows)


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a type in words, with links to the objects of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(type_of(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        count = f"{schema['minItems']} " if schema.get("minItems") == schema.get("maxItems", -1) else ""
        inner = type_of(schema["items"]) if "items" in schema else ""
        inner = f"({inner})" if " or " in inner else inner
        return f"array of {count}{inner}" if inner else "array"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object: {type_of(schema['additionalProperties'])} by name"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def diagnostic_examples() -> list[str]:
    """Return the examples of diagnostics. They are planned here, with OpenUSD."""
    support = str(ROOT / "test" / "support")
    if support not in sys.path:
        sys.path.append(support)
    from finding_examples import examples

    return examples()


# --- What is simulated ----------------------------------------------------------------------------------------------
def ledger_rows() -> list[str]:
    """Return the ledger as one table."""
    rows = []
    for row in ledger().rows:
        fallback = "" if row.fallback is None else f"`{json.dumps(row.fallback)}`"
        name = f"`{row.name}`" if row.name else ""
        rows.append(
            (f"`{row.schema}`", name, row.type_name, fallback, *map(treatment_text, row.engines.values()))
        )
    return table(("schema", "property", "type", "fallback", *row.engines), rows)


def treatment_text(treatment: Treatment) -> str:
    """Return a cell of the ledger."""
    code = f" (`{treatment.code}`)" if treatment.code else ""
    return f"{treatment.state}{code}" + (f": {treatment.effect}" if treatment.effect else "")


TABLES: Mapping[str, Callable[[], list[str]]] = {
    "node parameters": node_parameters,
    **{
        name: partial(launch_arguments, name)
        for name in (BRIDGE_LAUNCH, "fleet.launch.py", "robot_state_publisher.launch.py", "rviz.launch.py")
    },
    "commands": command_list,
    "common options": common_options,
    "options by command": command_sections,
    "keys": json_keys,
    "diagnostic examples": diagnostic_examples,
    "ledger": ledger_rows,
}

if __name__ == "__main__":
    sys.exit(main())
