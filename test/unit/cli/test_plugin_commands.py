"""Commands and formats of plug-ins, and `usd_ros_bridge plugins`, as a user meets them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_calls import call_cli
from foreign_plugins import install_plugin

ROOT = Path(__file__).parents[3]
ARM = ROOT / "examples" / "arm" / "arm.usda"

GREET = """
import click
from usd_ros_bridge import BridgeError, OptionError

@click.command()
@click.argument("name")
def greet(name):
    "Greet NAME."
    if name == "nobody":
        raise OptionError("nobody is there")
    if name == "open":
        open("/nowhere/door")
    if name == "bug":
        raise KeyError("door")
    click.echo(f"hello {name}")

NO_COMMAND = 3
"""

JOINTS = """
from usd_ros_bridge import ExportOption

ORDERS = ("plan", "name", "exit", "import", "other")

class Joints:
    suffix = ".joints"
    options = (
        ExportOption(name="separator", help="Between two names.", default=" "),
        ExportOption(name="upper_case", kind="flag", help="Write capital letters."),
        ExportOption(name="order", choices=ORDERS, default="plan", help="Order of the names."),
        ExportOption(name="count", kind="int", help="Most names."),
    )

    def write(self, context, stream):
        names = [joint.name for robot in context.plan.robots for joint in robot.joints]
        if context.options["order"] == "name":
            names.sort()
        if context.options["upper_case"]:
            names = [each.upper() for each in names]
        if context.options["order"] == "exit":
            raise SystemExit(5)
        if context.options["order"] == "import":
            import not_there_at_all
        if context.options["order"] == "other":
            raise OSError("no such door")
        if context.options["count"] == 0:
            raise ZeroDivisionError("no names")
        context.report("joints.count", f"{len(names)} joints")
        stream.write((context.options["separator"].join(names[:context.options["count"]]) + "\\n").encode())

JOINTS = Joints()

class Clash(Joints):
    options = (ExportOption(name="output", help="Taken."),)

CLASH = Clash()
"""


@pytest.fixture(autouse=True)
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Four distributions: a good one, one that breaks, one of another protocol, one that wants built-in names."""
    site = tmp_path / "site"
    install_plugin(
        site,
        "door-kit",
        entry_points={
            "commands": {"greet": "door_kit:greet", "three": "door_kit:NO_COMMAND"},
            "exporters": {"joints": "door_joints:JOINTS", "clash": "door_joints:CLASH", "cls": "door_joints:Joints"},
        },
        modules={"door_kit": GREET, "door_joints": JOINTS},
    )  # fmt: skip
    install_plugin(
        site,
        "door-broken",
        entry_points={"commands": {"broken": "door_broken:main"}, "handlers": {"broken": "door_broken:bind"}},
        modules={"door_broken": "import not_there_at_all\n"},
    )
    install_plugin(
        site,
        "door-old",
        entry_points={"exporters": {"old": "door_old:OLD"}},
        modules={"door_old": "USD_ROS_BRIDGE_PROTOCOL = 99\nOLD = 1\n"},
    )
    install_plugin(
        site,
        "door-thief",
        entry_points={"commands": {"run": "door_thief:run"}, "exporters": {"urdf": "door_thief:URDF"}},
        modules={"door_thief": "raise SystemExit('imported')\n"},
    )
    monkeypatch.syspath_prepend(str(site))
    yield
    for name in ("door_kit", "door_joints", "door_broken", "door_old", "door_thief"):
        sys.modules.pop(name, None)


def test_help_shows_commands_of_plug_ins_and_imports_none() -> None:
    done = call_cli("--help")
    own, _, foreign = done.stdout.partition("Commands of plug-ins:\n")
    assert "  greet   from door-kit 1.0\n" in foreign
    assert "broken" in foreign
    assert "greet" not in own
    assert "\n  run " in own
    assert not [name for name in sys.modules if name.startswith("door_")]


def test_a_command_runs_and_its_help_is_its_own() -> None:
    done = call_cli("greet", "ada")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello ada\n", "")
    assert "Greet NAME." in call_cli("greet", "--help").stdout


def test_a_fault_of_a_command_is_one_line() -> None:
    for command, line in {
        "greet nobody": "nobody is there",
        "greet": "Missing argument 'NAME'.",
        "greet bug": "command 'greet' of door-kit 1.0 failed: KeyError: 'door'",
        "broken": "command 'broken' of door-broken 1.0 is disabled: no module not_there_at_all",
        "three": "command 'three' of door-kit 1.0 is disabled: it is a int, no click command",
    }.items():
        done = call_cli(*command.split())
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"usd_ros_bridge: {line}\n")


def test_a_file_that_a_command_does_not_find_is_one_line() -> None:
    done = call_cli("greet", "open")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usd_ros_bridge: command 'greet' of door-kit 1.0 failed: FileNotFoundError")


def test_what_a_plug_in_prints_at_its_import_is_not_in_the_output(tmp_path: Path) -> None:
    install_plugin(
        tmp_path / "site",
        "loud-door",
        entry_points={"exporters": {"loud": "loud_door:JOINTS"}},
        modules={"loud_door": f'{JOINTS}\nprint("hello from the door")\n'},
    )
    done = call_cli("plugins", "--check", "--json")
    assert "loud" in {each["name"] for each in json.loads(done.stdout)}
    assert done.stderr == "hello from the door\n"


def test_built_in_names_stay() -> None:
    assert "Run the bridge on ASSET" in call_cli("run", "--help").stdout
    assert call_cli("export", "--help").stdout.count("  urdf ") == 1


def test_a_format_writes_with_options_of_its_own(tmp_path: Path) -> None:
    names = call_cli("export", ARM, "--format", "joints")
    assert names.returncode == 0
    assert names.stderr.endswith(" joints\n")
    given = names.stdout.split()
    assert len(given) > 3
    target = tmp_path / "arm.txt"
    more = ("--separator", ",", "--upper-case", "--order=name", "--count", "2")
    done = call_cli("export", ARM, "--format=joints", *more, "-o", target)
    assert (done.returncode, done.stdout) == (0, "")
    assert target.read_text(encoding="utf-8") == ",".join(each.upper() for each in sorted(given)[:2]) + "\n"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["arm.txt"]


def test_a_format_is_known_by_the_suffix_of_the_file(tmp_path: Path) -> None:
    target = tmp_path / "arm.joints"
    assert call_cli("export", ARM, "-o", target).returncode == 0
    assert target.is_file()


def test_help_of_a_format_has_its_options() -> None:
    text = call_cli("export", "--format", "joints", "--help").stdout
    assert "--upper-case" in text
    assert "Between two names" in text
    assert "--upper-case" not in call_cli("export", "--help").stdout


FAULTS_OF_FORMATS = (
        ([], "name a format by --format, or a FILE whose suffix is that of one"),
        (["--format", "jonts"], "there is no format 'jonts'; did you mean joints or json? there are: "),
        (["--format", "cls"], "exporter 'cls' of door-kit 1.0 is disabled: Joints is a class: name an object of it"),
        (["--format", "old"], "exporter 'old' of door-old 1.0 is disabled: door_old is for version 99"),
        (["--format", "clash"], "exporter 'clash': --output is an option of `export` itself"),
        (["--format", "joints", "--count", "0"], "exporter 'joints' failed: ZeroDivisionError: no names"),
        (["--format", "joints", "--order", "size"], "Invalid value for '--order': 'size' is not one of"),
        (["--format", "joints", "--order", "exit"], "exporter 'joints' failed: SystemExit: 5"),
        (["--format", "joints", "--order", "import"], "exporter 'joints' failed: ModuleNotFoundError: No module"),
        (["--format", "joints", "--order", "other"], "exporter 'joints' failed: OSError: no such door"),
        (["--format", "json", "--indent", "17"], "--indent: 17 is outside of 0 to 16"),
        (["--format", "json", "--count", "0"], "No such option '--count'."),
)  # fmt: skip


def test_a_fault_of_a_format_is_one_line(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("as it was", encoding="utf-8")
    for arguments, line in FAULTS_OF_FORMATS:
        done = call_cli("export", ARM, *arguments, "-o", kept)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert done.stderr.splitlines()[-1].startswith(f"usd_ros_bridge: {line}")
        assert kept.read_text(encoding="utf-8") == "as it was"


def test_built_in_formats_are_those_of_the_commands(tmp_path: Path) -> None:
    meshes = ("--meshes", tmp_path)
    assert (
        call_cli("export", ARM, "--format", "urdf", *meshes).stdout == call_cli("urdf", ARM, *meshes).stdout
    )
    of_inspect = json.loads(call_cli("inspect", ARM, "--json").stdout)
    assert json.loads(call_cli("export", ARM, "--format", "json").stdout) == of_inspect
    assert "physics" in json.loads(call_cli("export", ARM, "--format", "json", "--physics").stdout)


def rows(*arguments: str) -> dict[tuple[str, str, str], tuple[str, str]]:
    listed = json.loads(call_cli("plugins", "--json", *arguments).stdout)
    return {
        (each["group"], each["name"], each["origin"]): (each["state"], each["reason"])
        for each in listed
        if each["origin"] != "usd_ros_bridge"
    }


def test_plugins_lists_everything_and_imports_nothing() -> None:
    found = rows()
    assert found["commands", "greet", "door-kit"] == ("installed", "")
    assert found["commands", "broken", "door-broken"] == ("installed", "")
    assert found["handlers", "broken", "door-broken"] == ("installed", "")
    assert found["commands", "run", "door-thief"] == ("conflict", "the name is built in")
    assert not [name for name in sys.modules if name.startswith("door_")]
    text = call_cli("plugins")
    assert text.returncode == 0
    lines = [line.split() for line in text.stdout.splitlines()]
    assert ["commands", "greet", "door-kit", "1.0", "installed"] in lines
    assert ["exporters", "urdf", "usd_ros_bridge", "0.1.0", "built", "in"] in lines


def test_a_check_imports_all_and_finds_the_faults() -> None:
    found = rows("--check")
    assert found["commands", "greet", "door-kit"] == ("ready", "")
    assert found["exporters", "joints", "door-kit"] == ("ready", "")
    state, reason = found["handlers", "broken", "door-broken"]
    assert (state, reason.endswith("no module not_there_at_all")) == ("disabled", True)
    assert found["exporters", "old", "door-old"][0] == "disabled"
    assert "door_thief" not in sys.modules
    assert call_cli("plugins", "--check").returncode == 1
    assert call_cli("plugins").returncode == 0


@pytest.mark.process
def test_doctor_has_a_row_for_them() -> None:
    from usd_ros_bridge.cli.doctor import check_plugins

    row = check_plugins()
    assert row.status == "warning"
    assert " is disabled: " in row.found
    assert "usd_ros_bridge plugins --check" in row.remedy
