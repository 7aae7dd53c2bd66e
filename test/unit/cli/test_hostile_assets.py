"""Assets that try to end or to block `inspect`: it says what is wrong, soon, and in plain characters."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_calls import run_cli

pytestmark = pytest.mark.process

CPU_S = 30
MEMORY = 6 * 2**30
HEAD = '#usda 1.0\n(\n    defaultPrim = "robot"\n    metersPerUnit = 1\n    upAxis = "Z"\n{more})\n'
TOPIC = """def Xform "robot" (prepend apiSchemas = ["RosContextAPI", "PhysicsRigidBodyAPI"])
{{
    {body}
    def Xform "topic" (prepend apiSchemas = ["RosTopicAPI"])
    {{
        string ros:topic:name = "{name}"
        token ros:topic:role = "{role}"
        string ros:topic:type = "{type}"
        double ros:topic:publish_rate = {rate}
    }}
}}
"""
ESCAPES = "\\x1b[2J\\x1b]0;title\\x07"

Make = Callable[[Path], None]


def layer(text: str, *, more: str = "") -> Make:
    return lambda path: (
        path.joinpath("asset.usda").write_text(HEAD.format(more=more) + text, encoding="utf-8") and None
    )


def robot(*, body: str = "", more: str = "", **topic: str) -> Make:
    authored = {
        "name": "states",
        "role": "publisher",
        "type": "sensor_msgs/msg/JointState",
        "rate": "10",
        **topic,
    }
    return layer(TOPIC.format(body=body, **authored), more=more)


def with_file(make_file: Callable[[Path], object], asset: Make) -> Make:
    def make(path: Path) -> None:
        make_file(path / "thing.usda")
        asset(path)

    return make


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def references(depth: int, width: int) -> Make:
    """Layers of which each references the next one many times."""

    def make(path: Path) -> None:
        for level in range(depth):
            name = "asset" if level == 0 else f"level_{level}"
            prims = "".join(
                f'def "p{index}" (references = @./level_{level + 1}.usda@</robot>) {{\n}}\n'
                for index in range(width)
            )
            path.joinpath(f"{name}.usda").write_text(
                HEAD.format(more="") + f'def "robot"\n{{\n{prims}}}\n', encoding="utf-8"
            )
        path.joinpath(f"level_{depth}.usda").write_text(
            HEAD.format(more="") + 'def "robot"\n{\n}\n', encoding="utf-8"
        )

    return make


def nested(depth: int) -> Make:
    return layer('def "robot"\n{\n' + 'def "a"\n{\n' * depth + "}\n" * depth + "}\n")


MOVING = """def Xform "robot" (prepend apiSchemas = ["RosContextAPI"]) {
    def Xform "flag" (prepend apiSchemas = ["RosFrameAPI"]) {
        double3 xformOp:translate.timeSamples = { 0: (0, 0, 0), 1: (1, 0, 0) }
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
"""


def timed(over: str, under: str, *, arc: str = "subLayers = [@./thing.usda@]") -> Make:
    """A layer over one with time samples, each with its timeCodesPerSecond; the arc is metadata of the first one."""
    head = HEAD.format(more="    timeCodesPerSecond = {}\n")

    def make(path: Path) -> None:
        path.joinpath("thing.usda").write_text(head.format(under) + MOVING, encoding="utf-8")
        more = f"    timeCodesPerSecond = {over}\n"
        if arc.startswith("subLayers"):
            layer("", more=f"{more}    {arc}\n")(path)
        else:
            layer(f'def "robot" ({arc}) {{\n}}\n', more=more)(path)

    return make


def scaled_twice(scale: str) -> Make:
    """Two references, which scale times, one after the other."""

    def make(path: Path) -> None:
        path.joinpath("leaf.usda").write_text(HEAD.format(more="") + MOVING, encoding="utf-8")
        for name, target in (("thing", "leaf"), ("asset", "thing")):
            path.joinpath(f"{name}.usda").write_text(
                HEAD.format(more="")
                + f'def "robot" (references = @./{target}.usda@ (scale = {scale})) {{\n}}\n',
                encoding="utf-8",
            )

    return make


NOT_RATES = ("0", "nan", "inf", "-1", "5e-324", "1e300")
CLIPS = """clips = { dictionary default = {
    string primPath = "/robot"
    string templateAssetPath = "clip.#.usda"
    double templateStartTime = 1e17
    double templateEndTime = 1.0000000000001e17
    double templateStride = 1
} }"""
DEEP = 30_000
SUBLAYER = "    subLayers = [@./thing.usda@]\n"
REFERENCE = 'def "robot" (references = @./thing.usda@) {\n}\n'
HOSTILE: dict[str, Make] = {
    "a FIFO as a sublayer": with_file(os.mkfifo, robot(more=SUBLAYER)),
    "a FIFO as a reference": with_file(os.mkfifo, layer(REFERENCE)),
    "a FIFO as a payload": with_file(os.mkfifo, layer(REFERENCE.replace("references", "payload"))),
    "a device as a sublayer": with_file(lambda path: path.symlink_to("/dev/zero"), robot(more=SUBLAYER)),
    "a directory as a reference": with_file(Path.mkdir, layer(REFERENCE)),
    "a socket as a reference": with_file(listen, layer(REFERENCE)),
    "an asset that is a FIFO": lambda path: os.mkfifo(path / "asset.usda"),
    "an asset that is a device": lambda path: (path / "asset.usda").symlink_to("/dev/zero"),
    "references that multiply": references(10, 10),
    "prims without end": nested(100_000),
    "a layer that references itself": layer('def "robot" (references = @./asset.usda@</robot>) {\n}\n'),
    "turns of the wrong type": robot(
        body='float xformOp:orient = 1\n    uniform token[] xformOpOrder = ["xformOp:orient"]'
    ),
    "moves of the wrong type": robot(
        body="""string xformOp:translate.timeSamples = { 0: "a", 1: "b" }
    uniform token[] xformOpOrder = ["xformOp:translate"]"""
    ),
    "markup as a role": robot(role="[/x]"),
    "escape sequences as a role": robot(role=ESCAPES),
    "escape sequences as a name": robot(name=ESCAPES),
    "escape sequences as a type": robot(type=ESCAPES),
    "escape sequences where text cannot be parsed": layer('def Xform "robot" \x1b[31m\x1b[2J (((\n'),
    "a rate next to zero": robot(rate="1e-300"),
    "a package by a variable": robot(
        more='    expressionVariables = { string P = "package://usd_ros_bridge/../../../../etc/x.usda" }\n'
        '    subLayers = [@`"${P}"`@]\n'
    ),
    "no text at all": lambda path: path.joinpath("asset.usda").write_bytes(bytes(range(256)) * 100) and None,
    **{f"{rate} time codes a second over samples": timed(rate, "1") for rate in NOT_RATES},
    **{f"{rate} time codes a second below a stage": timed("1", rate) for rate in NOT_RATES},
    "0 time codes a second in a reference": timed("1", "0", arc="references = @./thing.usda@"),
    "rates whose ratio is too large": timed("1e200", "1e-200"),
    "scales whose product is too large": scaled_twice("1e200"),
    "scales whose product is too small": scaled_twice("1e-200"),
    "a stride that is lost in its times": layer(f'def Xform "robot" ({CLIPS}) {{\n}}\n'),
    "an expression without end": layer(
        'def "robot" (references = @`' + "if(true," * DEEP + '"x"' + ")" * DEEP + "`@) {\n}\n"
    ),
    "a collection without end": layer(
        'def Xform "robot" (prepend apiSchemas = ["CollectionAPI:all"]) {\n'
        f'uniform pathExpression collection:all:membershipExpression = "{"(" * DEEP}/robot{")" * DEEP}"\n}}\n'
    ),
    "a crate that is cut off": lambda path: (
        path.joinpath("asset.usda").write_bytes(b"PXR-USDC" + bytes(80)) and None
    ),
}


@pytest.mark.parametrize("name", [each for each in HOSTILE if "time codes" in each or "scales" in each])
def test_time_samples_that_cannot_be_used_are_left_out_and_said(name: str, tmp_path: Path) -> None:
    HOSTILE[name](tmp_path)
    ran = run_cli("inspect", "--json", tmp_path / "asset.usda", preexec_fn=limit)
    assert ran.returncode == 0, ran.stderr
    plan = json.loads(ran.stdout)
    found = [each for each in plan["diagnostics"] if each["code"] == "1.1.samples"]
    assert [(each["path"], each["attribute"]) for each in found] == [("/robot/flag", "xformOp:translate")]
    assert found[0]["line"] > 0
    rates = [each for each in plan["diagnostics"] if each["attribute"] == "timeCodesPerSecond"]
    assert ("scales" in name) != any(each["severity"] == "error" and each["line"] for each in rates), rates


NOT_UTF8 = {
    "an API schema": ('"PhysicsRigidBodyAPI"', '"PhysicsRigidBodyAPI", "A\\x9b"', "/robot", "apiSchemas"),
    "a name": ('"states"', '"\\x9b"', "/robot/topic", "ros:topic:name"),
    "an axis": ('upAxis = "Z"', 'upAxis = "\\x9b"', "", "upAxis"),
}


@pytest.mark.parametrize("what", NOT_UTF8)
@pytest.mark.parametrize("command", ["inspect", "export"])
def test_text_that_is_not_utf_8_is_said_with_its_place(what: str, command: str, tmp_path: Path) -> None:
    robot()(tmp_path)
    asset = tmp_path / "asset.usda"
    old, new, path, attribute = NOT_UTF8[what]
    text = asset.read_text(encoding="utf-8")
    assert old in text
    asset.write_text(text.replace(old, new), encoding="utf-8")
    option = ("--json",) if command == "inspect" else ("--format", "json")
    ran = run_cli(command, *option, asset, preexec_fn=limit)
    assert ran.returncode == 0, ran.stderr
    found = [each for each in json.loads(ran.stdout)["diagnostics"] if each["code"] == "1.2.5.text"]
    assert [(each["path"], each["attribute"]) for each in found] == [(path, attribute)]
    assert new in asset.read_text(encoding="utf-8").splitlines()[found[0]["line"] - 1]


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


@pytest.mark.parametrize("name", HOSTILE)
def test_inspect_says_what_is_wrong(name: str, tmp_path: Path) -> None:
    HOSTILE[name](tmp_path)
    ran = run_cli("inspect", "--physics", tmp_path / "asset.usda", text=False, preexec_fn=limit, cwd=tmp_path)
    said = ran.stdout + ran.stderr
    assert ran.returncode in {0, 1, 2}, said[-2000:]
    assert b"Traceback" not in said, said[-2000:]
    control = re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", said)
    assert control is None, said[max(0, control.start() - 100) :][:200]
    if ran.returncode == 2:
        assert len(said.splitlines()) == 1, said[-2000:]
    else:
        assert re.search(rb"error|warning|1 robot", said), said[-2000:]
