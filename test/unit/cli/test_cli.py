"""The command line as a user meets it: its two streams and its exit status, of a process where that matters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli_calls import call_cli as bridge
from cli_calls import run_cli

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "test" / "assets"
ROVER = ROOT / "examples" / "rover" / "rover.usda"

TOP_KEYS = ["asset", "robots", "topics", "services", "actions", "controllers", "diagnostics"]
ROBOT_KEYS = ["path", "namespace", "domain_id", "parent_frame", "tf_topics", "frames", "joints"]
FRAME_KEYS = ["id", "parent", "path", "static", "translation", "rotation"]
JOINT_KEYS = ["name", "path", "type", "parent", "child", "axis", "position", "lower", "upper"]
TOPIC_KEYS = [
    "path",
    "role",
    "name",
    "type",
    "publish_rate",
    "frame_id",
    "domain_id",
    "qos",
    "enabled",
    "reason",
]
QOS_KEYS = ["reliability", "durability", "history", "depth", "match_publisher"]
SERVICE_KEYS = ["path", "role", "name", "type", "domain_id", "enabled", "reason"]
CONTROLLER_KEYS = ["path", "schema", "interfaces", "joints", "enabled", "reason"]
DIAGNOSTIC_KEYS = [
    "code",
    "severity",
    "path",
    "attribute",
    "message",
    "remedy",
    "reason",
    "value",
    "layer",
    "line",
]


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", str(ROVER)],
        ["inspect", str(ROVER), "--json"],
        ["diff", str(ROVER), str(ROVER)],
        ["sweep", str(ROOT / "examples" / "sweep" / "braking.yaml"), "--dry-run"],
        ["plugins"],
        ["urdf", str(ROVER)],
        ["doctor", "--help"],
    ],
    ids=" ".join,
)
def test_a_command_whose_reader_went_away_ends_with_status_0_and_says_nothing(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = run_cli(*arguments, stdout=writing)
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (0, "")


def test_json_has_exactly_the_documented_keys() -> None:
    result = bridge("inspect", ROVER, "--json")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    plan = json.loads(result.stdout)
    assert list(plan) == TOP_KEYS
    robot = plan["robots"][0]
    assert list(robot) == ROBOT_KEYS
    rows = {
        "topics": TOPIC_KEYS, "services": SERVICE_KEYS, "actions": SERVICE_KEYS, "controllers": CONTROLLER_KEYS,
        "diagnostics": DIAGNOSTIC_KEYS,
    }  # fmt: skip
    for key, expected in rows.items():
        assert all(list(row) == expected for row in plan[key]), key
    assert all(list(frame) == FRAME_KEYS for frame in robot["frames"])
    assert all(list(joint) == JOINT_KEYS for joint in robot["joints"])
    assert all(list(topic["qos"]) == QOS_KEYS for topic in plan["topics"])
    assert plan["topics"]
    assert robot["frames"]
    assert robot["joints"]


@pytest.mark.process
def test_json_is_the_same_twice() -> None:
    processes = [run_cli("inspect", ROVER, "--json") for _ in range(2)]
    assert processes[0].stdout == processes[1].stdout
    assert processes[0].returncode == 0


def test_tables_name_every_interface_frame_and_joint() -> None:
    plan = json.loads(bridge("inspect", ROVER, "--json").stdout)
    result = bridge("inspect", ROVER)
    assert result.returncode == 0, result.stderr
    names = [item["name"] for key in ("topics", "services", "actions") for item in plan[key]]
    names += [frame["id"] for frame in plan["robots"][0]["frames"]]
    names += [joint["name"] for joint in plan["robots"][0]["joints"]]
    assert [name for name in names if name not in result.stdout] == []


def test_text_from_an_asset_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    asset = tmp_path / "evil.usda"
    asset.write_text(
        '#usda 1.0\n(\n    defaultPrim = "robot"\n)\n'
        'def Xform "robot" (\n    prepend apiSchemas = ["RosContextAPI"]\n)\n'
        '{\n    string ros:context:namespace = "[bold red]\\x1b]0;owned\\x07"\n}\n',
        encoding="utf-8",
    )
    result = bridge("inspect", asset)
    assert result.returncode == 0, result.stderr
    assert "\x1b]0" not in result.stdout
    assert "\x07" not in result.stdout
    assert "[bold red]" in result.stdout


def test_variant_is_selected() -> None:
    asset = ASSETS / "variant_sensor.usda"
    plain = json.loads(bridge("inspect", asset, "--json").stdout)
    lidar = json.loads(bridge("inspect", asset, "--json", "--variant", "/robot:head=lidar").stdout)
    assert [topic["name"] for topic in plain["topics"]] == []
    assert [topic["name"] for topic in lidar["topics"]] == ["/robot/scan"]


def test_namespace_goes_around_relative_names() -> None:
    plan = json.loads(
        bridge("inspect", ASSETS / "context_namespace.usda", "--json", "--namespace", "fleet").stdout
    )
    names = [topic["name"] for topic in plan["topics"]]
    assert "/fleet/robot_1/status" in names
    assert "/shared/tiles" in names


def test_no_implicit_context() -> None:
    asset = ASSETS / "implicit_robot.usda"
    assert json.loads(bridge("inspect", asset, "--json").stdout)["robots"]
    assert json.loads(bridge("inspect", asset, "--json", "--no-implicit-context").stdout)["robots"] == []


def test_bodies_without_mass() -> None:
    asset = ASSETS / "physics_bad_input.usda"
    for options, mass in (((), 1.0), (("--massless-bodies", "weightless"), 0.0)):
        plan = json.loads(bridge("inspect", asset, "--json", "--physics", *options).stdout)
        (body,) = [each for each in plan["physics"]["bodies"] if each["path"] == "/World/no_mass"]
        assert body["inertial"]["mass"] == mass


def test_package_map() -> None:
    asset = ASSETS / "error_package.usda"
    directory = ASSETS / "demo_description"
    found = json.loads(
        bridge("inspect", asset, "--json", "--package", f"demo_description={directory}").stdout
    )
    assert [topic["name"] for topic in found["topics"]] == ["/robot/range"]
    assert "secret" not in json.dumps([robot["frames"] for robot in found["robots"]])


def test_strict_is_status_1_and_still_prints() -> None:
    result = bridge("inspect", ASSETS / "error_topic_rate.usda", "--json", "--strict")
    assert result.returncode == 1
    assert json.loads(result.stdout)["diagnostics"]
    assert "error" in one_line(result)
    assert bridge("inspect", ASSETS / "frame_chain.usda", "--strict").returncode == 0


def test_mistakes_of_the_caller_are_status_2_in_one_line() -> None:
    sensor, chain = "test/assets/variant_sensor.usda", "test/assets/frame_chain.usda"
    for arguments, named in (
        (["no_such_file.usda"], ["no_such_file.usda"]),
        (["README.md"], ["README.md"]),
        (["test"], ["test"]),
        ([sensor, "--variant", "/robot:head=radar"], ["radar", "lidar", "plain"]),
        ([sensor, "--variant", "/robot:hat=lidar"], ["hat", "head"]),
        ([sensor, "--variant", "/nobody:head=lidar"], ["/nobody"]),
        ([sensor, "--variant", "nonsense"], ["nonsense", "/Prim/Path:set=choice"]),
        ([chain, "--package", "nonsense"], ["nonsense", "name=directory"]),
        ([chain, "--package", "a=/no/such/place"], ["/no/such/place"]),
        ([chain, "--payloads", "some"], ["some", "all", "none"]),
        ([chain, "--no-such-option"], ["--no-such-option"]),
        # Those that there are, too.
        ([ROVER, "--bogus"], ["--variant", "--strict", "--json"]),
    ):
        result = bridge("inspect", *arguments)
        assert (result.returncode, result.stdout) == (2, ""), arguments
        line = one_line(result)
        assert [text for text in named if text not in line] == []


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        pytest.param(["inspect", ROVER], 0, marks=pytest.mark.sample),
        (["inspect", ASSETS / "error_topic_name.usda", "--strict"], 1),
        (["diff", ROVER, ASSETS / "error_topic_name.usda"], 1),
        (["inspect", "no_such_file.usda"], 2),
    ],
)
def test_a_process_ends_with_the_same(arguments: list[str | Path], status: int) -> None:
    process, call = run_cli(*arguments), bridge(*arguments)
    assert process.returncode == status
    assert (process.returncode, process.stdout, process.stderr) == (call.returncode, call.stdout, call.stderr)


def test_an_unreadable_file_is_status_2(tmp_path: Path) -> None:
    broken = tmp_path / "broken.usda"
    broken.write_text("#usda 1.0\ndef Xform {{{\n", encoding="utf-8")
    result = bridge("inspect", broken)
    assert result.returncode == 2
    assert "broken.usda" in one_line(result)


def test_no_command_prints_help() -> None:
    result = bridge()
    assert result.returncode == 2
    assert "inspect" in result.stdout
    assert bridge("--help").returncode == 0


@pytest.mark.process
def test_a_closed_pipe_is_no_traceback() -> None:
    command = f"{sys.executable} -m usd_ros_bridge.cli inspect {ROVER} --json | head -c 10"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert "Traceback" not in result.stderr


def test_contexts_choose_robots_and_an_unknown_one_lists_what_exists() -> None:
    fleet = ROOT / "examples" / "fleet" / "fleet.usda"
    chosen = bridge("inspect", fleet, "--json", "--contexts", "/Fleet/arm,/Fleet/rover_2")
    assert chosen.returncode == 0, chosen.stderr
    assert [robot["path"] for robot in json.loads(chosen.stdout)["robots"]] == [
        "/Fleet/rover_2",
        "/Fleet/arm",
    ]
    unknown = bridge("inspect", fleet, "--contexts", "/Fleet/rover_9")
    assert unknown.returncode == 2
    assert "/Fleet/rover_1, /Fleet/rover_2, /Fleet/arm" in one_line(unknown)
    assert "did you mean /Fleet/arm" in one_line(bridge("diff", fleet, fleet, "--contexts", "Fleet/arm"))


SIGNALLED = """
import os, signal, sys

class Finder:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
from usd_ros_bridge.cli.main import main
main(sys.argv[2:])
"""
"""The command line, which is sent SIGINT when it imports a module."""


@pytest.mark.process
@pytest.mark.parametrize("module", ["click", "usd_ros_bridge.errors", "numpy", "pxr.Sdf", "rich.table"])
def test_sigint_while_modules_are_imported_is_status_130_without_a_traceback(module: str) -> None:
    command = [sys.executable, "-c", SIGNALLED, module, "inspect", str(ROOT / "examples/arm/arm.usda")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


EXECUTABLE = """
import importlib.metadata, os, signal, sys

value, module = sys.argv[1:3]
del sys.argv[1:3]

class Finder:
    def find_spec(name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
importlib.metadata.EntryPoint(name="", value=value, group="").load()()
"""
"""An executable as pip and colcon write it, which is sent SIGINT when it imports a module."""


@pytest.mark.process
@pytest.mark.parametrize("executable", ["usd_ros_bridge", "bridge", "robot_state_publisher"])
@pytest.mark.parametrize(
    "module",
    [
        "usd_ros_bridge.cli.main",
        "usd_ros_bridge.ros",
        "usd_ros_bridge.ros.node",
        "usd_ros_bridge.errors",
    ],
)
def test_sigint_as_soon_as_an_executable_imports_anything_is_no_traceback(
    executable: str, module: str
) -> None:
    start = f"usd_ros_bridge.entry_points:{executable}"
    command = [sys.executable, "-c", EXECUTABLE, start, module, "--help"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    # Where ROS 2 takes long to load, a line says so meanwhile.
    assert done.stderr.removeprefix("[INFO] [usd_ros_bridge]: loading ROS 2\n") == ""
    assert done.returncode in (0, 130)


IN_OPENUSD = """
import ctypes, sys
from usd_ros_bridge.process_settings import ended_by_signals, ending_at_once, run_interruptibly

def job():
    print("ready", flush=True)
    ctypes.CDLL(None).sleep(60)

with ending_at_once(success=sys.argv[1] == "run"):
    if sys.argv[1] != "run":
        run_interruptibly(job)
    with ended_by_signals():
        run_interruptibly(job)
print("closed", flush=True)
"""
"""A call that holds up its thread, as OpenUSD's do while they compose a stage."""


@pytest.mark.process
@pytest.mark.parametrize(("command", "status"), [("inspect", 130), ("run", 0)])
def test_sigint_ends_what_openusd_holds_up(command: str, status: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", IN_OPENUSD, command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (status, "")


SLOW_END = """
import sys, threading
from usd_ros_bridge import process_settings

process_settings._REPEATED_S = float(sys.argv[1])
with process_settings.ended_by_signals():
    try:
        print("ready", flush=True)
        threading.Event().wait()
    finally:
        print("ending", flush=True)
        threading.Event().wait()
"""


@pytest.mark.process
@pytest.mark.parametrize("repeated_s", [0.0, 600.0])
def test_a_second_sigint_ends_at_once_unless_it_repeats_the_first(repeated_s: float) -> None:
    command = [sys.executable, "-c", SLOW_END, str(repeated_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "ending\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGINT)
        if repeated_s:
            # Soon after the first it is the same request.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
            process.kill()
        else:
            assert process.wait(60) == 130
