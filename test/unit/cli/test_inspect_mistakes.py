"""Typing errors of an author, as `inspect` answers them: severity, what is meant, what counts, file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_calls import call_cli

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

ROVER = Path(__file__).parents[3] / "examples" / "rover"
SCAN = """
over "rover"
{
    def Xform "mistake" (
        prepend apiSchemas = [%s]
    )
    {
        token ros:topic:role = "publisher"
        string ros:topic:name = "mistaken_scan"
        string ros:topic:type = "sensor_msgs/msg/LaserScan"
        double ros:topic:publish_rate = 10
        custom %s
    }
}
"""
TOPIC = '"RosTopicAPI", "RosFrameAPI"'
NOTHING = "int of:another:tool"

# Number in the table of mistakes, body, severity, words of the finding, text of its line.
ROWS = [
    (1, SCAN % ('"RosFrameAPI"', NOTHING), "error", "RosTopicAPI is not applied", "string ros:topic:name"),
    (
        2,
        SCAN % ('"RosFrameAPI", "RosTopicApi"', NOTHING),
        "error",
        "did you mean RosTopicAPI?",
        '"RosTopicApi"',
    ),
    (
        3,
        SCAN % (TOPIC, 'token ros:topic:qos:reliabilty = "reliable"'),
        "warning",
        "system_default, is used (did you mean ros:topic:qos:reliability?)",
        "reliabilty",
    ),
    (
        4,
        'over "rover"\n{\n    string ros:context:namespce = "bot"\n}\n',
        "warning",
        "did you mean ros:context:namespace?",
        "namespce",
    ),
    (
        5,
        'over "rover"\n{\n    over "left_wheel_joint"\n    {\n        string ros:joint:nam = "left"\n    }\n}\n',
        "warning",
        "did you mean ros:joint:name?",
        "ros:joint:nam ",
    ),
    (
        6,
        SCAN % (TOPIC, "double usd_ros_bridge:laser:range_max = 5"),
        "warning",
        "did you mean usd_ros_bridge:lidar:range_max?",
        "laser",
    ),
    (
        7,
        SCAN % (TOPIC, "double usd_ros_bridge:lidar:range_mx = 5"),
        "warning",
        "did you mean usd_ros_bridge:lidar:range_max?",
        "range_mx",
    ),
    (
        8,
        (SCAN % (TOPIC, NOTHING)).replace("ros:topic:name", "ros:topic:nmae"),
        "warning",
        "did you mean ros:topic:name?",
        "nmae",
    ),
    (
        12,
        SCAN % (TOPIC, 'string usd_ros_bridge:lidar:range_max = "far"'),
        "error",
        "'far' is not a number",
        '"far"',
    ),
]


@pytest.mark.parametrize(
    ("body", "severity", "words", "text"), [row[1:] for row in ROWS], ids=[f"row {row[0]}" for row in ROWS]
)
def test_inspect_finds_it_with_its_place_and_its_remedy(
    tmp_path: Path, body: str, severity: str, words: str, text: str
) -> None:
    asset = tmp_path / "mistake.usda"
    asset.write_text(
        '#usda 1.0\n(\n    defaultPrim = "rover"\n    metersPerUnit = 1\n    kilogramsPerUnit = 1\n    upAxis = "Z"\n'
        f"    timeCodesPerSecond = 1\n    subLayers = [@{ROVER}/rover.usda@]\n)\n{body}"
    )
    done = call_cli("inspect", "--json", asset)
    found = json.loads(done.stdout)["diagnostics"]
    (cause, *rest) = [each for each in found if each["layer"] == str(asset)]
    assert cause["severity"] == severity
    assert words in f"{cause['message']} ({cause['remedy']})"
    assert text in asset.read_text().splitlines()[cause["line"] - 1]
    has_errors = severity == "error" or any(each["severity"] == "error" for each in rest)
    assert call_cli("inspect", "--strict", asset).returncode == has_errors
    if "nmae" in body:
        assert [each["message"] for each in rest][:1] == ["there is no name: ros:topic:name is not authored"]
