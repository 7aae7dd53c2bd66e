"""The description of a fleet: what each bridge is started with, for both doors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.fleet.fleet import FleetOptions, make_fleet
from usd_ros_bridge.fleet.parameter_text import parameter_arguments, typed_value, value_text
from usd_ros_bridge.fleet.shards import FleetShard
from usd_ros_bridge.options import OPTIONS

pytestmark = pytest.mark.app

ROOT = Path(__file__).resolve().parents[3]
ASSET = str(ROOT / "examples" / "fleet" / "fleet.usda")


def fleet(**options: Any) -> list[FleetShard]:
    """A fleet of the example."""
    parameters = {"backend": "kinematic", **options.pop("parameters", {})}
    return make_fleet(FleetOptions(asset=ASSET, parameters=parameters, **{"shards": 2, **options}))


@pytest.mark.process
def test_the_description_needs_neither_ros_nor_openusd() -> None:
    code = (
        "import sys; import usd_ros_bridge.fleet.fleet, usd_ros_bridge.fleet.fleet_processes; "
        "print([name for name in ('pxr', 'rclpy', 'numpy', 'mujoco', 'launch') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_each_shard_has_its_part_and_the_first_one_what_a_domain_has_once() -> None:
    first, second, third = fleet(shards=3)
    assert [each.parameters["shard"] for each in (first, second, third)] == ["1/3", "2/3", "3/3"]
    assert [each.node_name for each in (first, second)] == ["usd_ros_bridge_1", "usd_ros_bridge_2"]


@pytest.mark.parametrize("backend", ["mujoco", "newton"])
def test_several_shards_are_not_simulated(backend: str, tmp_path: Path) -> None:
    for options in (
        {"parameters": {"backend": backend}},
        {"parameters": {}, "ros_args": params_file(tmp_path, {"/**": {"backend": backend}})},
    ):
        described = {"asset": ASSET, "shards": 2, **options}
        with pytest.raises(OptionError, match=f"the backend {backend} owns time.*in one process") as refused:
            make_fleet(FleetOptions(**described))
        assert "\n" not in str(refused.value)
        (only,) = make_fleet(FleetOptions(**{**described, "shards": 1}))
        assert only.parameters["backend"] == backend


def test_files_and_ports_are_not_shared() -> None:
    given = {"record": "/tmp/run.mcap", "foxglove": 8765, "mesh_uris": "http:127.0.0.1:9000"}
    first, second = fleet(parameters=given)
    assert (first.parameters["record"], second.parameters["record"]) == ("/tmp/run_1.mcap", "/tmp/run_2.mcap")
    assert (first.parameters["foxglove"], second.parameters["foxglove"]) == (8765, 8766)
    assert second.parameters["mesh_uris"] == "http:127.0.0.1:9001"
    for same in ({"foxglove": 0, "mesh_uris": "http:0"}, {"mesh_uris": "http:" + "9" * 5000}):
        assert {name: fleet(parameters=same)[1].parameters[name] for name in same} == same
    with pytest.raises(OptionError, match="port 65536"):
        fleet(parameters={"foxglove": 65535})


def test_ros_arguments_go_to_all_but_what_cannot_be_shared_is_derived(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        yaml.safe_dump({"/**": {"ros__parameters": {"foxglove": 9000, "tf_rate": 10.0}}}), encoding="utf-8"
    )
    ros_args = [
        *(
            "--ros-args",
            "-p",
            "tf_rate:=20.0",
            "-p",
            "record:=x.mcap",
            "-r",
            "__node:=robots",
            "-r",
            "__ns:=/hall",
        ),
        *("--params-file", str(file), "--log-level", "warn"),
    ]
    _, second = fleet(ros_args=ros_args)
    assert (second.namespace, second.node_name) == ("hall", "robots_2")
    assert second.parameters["record"] == "x_2.mcap"
    assert second.parameters["foxglove"] == 9001
    assert second.ros_args == ("-p", "tf_rate:=20.0", "--params-file", str(file), "--log-level", "warn")
    arguments = second.arguments()
    # The last one has precedence in ROS 2: the file must not give all shards one port.
    assert arguments.index("foxglove:=9001") > arguments.index("--params-file")


def params_file(folder: Path, sections: dict[str, Any]) -> list[str]:
    """The ROS arguments for a parameter file with the parameters of some nodes."""
    file = folder / "parameters.yaml"
    file.write_text(
        yaml.safe_dump({node: {"ros__parameters": each} for node, each in sections.items()}), encoding="utf-8"
    )
    return ["--params-file", str(file)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("duration", 3.0), ("duration", 3), ("record", "x.mcap")],
)
def test_parameters_of_ros_arguments_are_as_those_of_options(
    name: str, value: str | float, tmp_path: Path
) -> None:
    expected = [each.parameters[name] for each in fleet(parameters={name: value})]
    for ros_args in (["-p", f"{name}:={value}"], params_file(tmp_path, {"/**": {name: value}})):
        shards = fleet(ros_args=ros_args)
        assert [each.parameters[name] for each in shards] == expected
        # Once: what stands last has precedence in ROS 2.
        assert not any(str(each).startswith(f"{name}:=") for each in shards[0].ros_args)


def test_only_parameters_of_the_nodes_count(tmp_path: Path) -> None:
    others = {
        "record": "/data/x.mcap",
        "backend": "gazebo",
        "shard": "3/4",
        "duration": 1.0,
    }
    sections = {"/logger": others, "/other/usd_ros_bridge_1": others, "usd_ros_bridge": others}
    ros_args = [*params_file(tmp_path, sections), "-p", "logger:record:=y.mcap", "-p", "logger:shard:=1/2"]
    found = [each.parameters for each in fleet(ros_args=ros_args)]
    assert found == [each.parameters for each in fleet()]
    with pytest.raises(OptionError, match="shard is set by the fleet"):
        fleet(ros_args=params_file(tmp_path, {"/**/usd_ros_bridge_2": {"shard": "1/2"}}))
    with pytest.raises(OptionError, match="shard is set by the fleet"):
        fleet(ros_args=["-p", "usd_ros_bridge_2:shard:=1/2"])


@pytest.mark.parametrize(
    ("nodes", "recorded"),
    [
        ("/**", ["run_1.mcap", "run_2.mcap"]),
        ("/hall/*", ["run_1.mcap", "run_2.mcap"]),
        ("/*/usd_ros_bridge_2", [None, "run_2.mcap"]),
        ("/hall/usd_ros_bridge_2", [None, "run.mcap"]),
        ("hall/usd_ros_bridge_2", [None, "run.mcap"]),
        ("/usd_ros_bridge_2", [None, None]),
        ("/hall/usd_ros_bridge", [None, None]),
        ("/hall", [None, None]),
    ],
)
def test_parameters_in_a_file_are_for_the_nodes_that_rcl_gives_them_to(
    nodes: str, recorded: list[str | None], tmp_path: Path
) -> None:
    made = fleet(namespace="hall", ros_args=params_file(tmp_path, {nodes: {"record": "run.mcap"}}))
    assert [each.parameters.get("record") for each in made] == recorded


def test_a_shard_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    sections = {"/**": {"record": "run.mcap"}, "/usd_ros_bridge_2": {"record": "second.mcap"}}
    ros_args = params_file(tmp_path, sections)
    found = [each.parameters["record"] for each in fleet(shards=3, ros_args=ros_args)]
    assert found == ["run_1.mcap", "second.mcap", "run_3.mcap"]
    given = fleet(ros_args=ros_args, parameters={"record": "x.mcap"})
    assert [each.parameters["record"] for each in given] == ["x_1.mcap", "x_2.mcap"]


def test_namespaces_may_be_keys_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "nested.yaml"
    file.write_text(
        "hall:\n  usd_ros_bridge_1:\n    ros__parameters:\n      foxglove: 9000\n", encoding="utf-8"
    )
    first, second = fleet(namespace="hall", ros_args=["--params-file", str(file)])
    assert (first.parameters.get("foxglove"), second.parameters.get("foxglove")) == (9000, None)


@pytest.mark.parametrize(
    "parameters",
    [
        {"record": 5},
        {"record": None},
        {"record": []},
        {"foxglove": "8765"},
        {"foxglove": None},
        {"foxglove": True},
        {"duration": "3"},
        {"mesh_uris": 9000},
        {"backend": 1},
    ],
    ids=str,
)
def test_a_value_of_another_type_in_a_file_is_left_to_the_node(
    parameters: dict[str, Any], tmp_path: Path
) -> None:
    ros_args = params_file(tmp_path, {"/**": parameters})
    made = fleet(ros_args=ros_args)
    assert [each.parameters for each in made] == [each.parameters for each in fleet()]
    assert made[0].ros_args == tuple(ros_args)


def test_the_backend_is_not_set_for_one_shard() -> None:
    with pytest.raises(OptionError, match=r"^backend is the same for all shards: set it for /\*\*$"):
        fleet(ros_args=["-p", "usd_ros_bridge_1:backend:=kinematic"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shards": 0}, "shards 0 is not possible: 1 to 1000"),
        ({"shards": 1001}, "shards 1001"),
        ({"node_name": "1x"}, "node name '1x'"),
        ({"ros_args": ["-p", "shard:=1/2"]}, "shard is set by the fleet"),
        ({"ros_args": ["-p", "foxglove:=x"]}, "foxglove 'x' is not possible: it takes a whole number"),
        ({"ros_args": ["-p", "foxglove:=70000"]}, "foxglove 70000 is not possible"),
        ({"ros_args": ["-p", "duration:=-1"]}, "duration -1 is not possible"),
        ({"ros_args": ["-p"]}, "-p needs NAME:=VALUE"),
    ],
)
def test_a_mistake_is_one_line(options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError) as raised:
        fleet(**options)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.process
def test_modules_in_the_working_directory_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('the wrong module')", encoding="utf-8")
    code = (
        "import subprocess, sys; sys.path[:] = [path for path in sys.path if path];"
        "from usd_ros_bridge.fleet.fleet import OWN_COMMAND;"
        "sys.exit(subprocess.run([*OWN_COMMAND, '--version']).returncode)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("usd_ros_bridge")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "mujoco",
        "1/2",
        "null",
        "true",
        "yes",
        "12",
        "1.5",
        "a b",
        "it's",
        'a "b"',
        "/x/y.usda",
        "a: b",
        "ü",
        True,
        3,
        2.0,
        1e-9,
    ],
)
def test_values_are_read_by_yaml_as_they_were(value: Any) -> None:
    read = yaml.safe_load(value_text(value))
    assert float(read) == value if isinstance(value, float) else read == value
    assert yaml.safe_load(value_text([str(value)])) == [str(value)]
    assert value_text([]) == '[""]'
    assert parameter_arguments({"a": 1}) == ["-p", "a:=1"]


@pytest.mark.parametrize("text", ["nan", "Inf", "infinity", "a\x7fb", "a\x85b", "a\u2028b", "\ufeffa"])
def test_texts_that_rcl_would_read_as_something_else_are_quoted(text: str) -> None:
    value = value_text(text)
    assert value[0] == value[-1] == '"'
    assert value.isprintable()
    assert yaml.safe_load(value) == text


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("tf_rate", "25", 25.0),
        ("strict", "True", True),
        ("max_prims", "7", 7),
        ("variants", "/a:x=1, /b:y=2", ["/a:x=1", "/b:y=2"]),
        ("variants", "['/a:x=1']", ["/a:x=1"]),
        ("contexts", "[ab]*", ["[ab]*"]),
        ("asset", "42", "42"),
    ],
)
def test_texts_of_launch_arguments(name: str, text: str, value: Any) -> None:
    assert typed_value(name, text) == value


@pytest.mark.parametrize(
    "text",
    [
        "tf_rate=abc",
        "tf_rate=-1",
        "strict=maybe",
        "max_prims=1.5",
        "tf_output=x",
        "shard=9",
        pytest.param("mesh_uris=http:" + "9" * 5000, id="a port of 5000 digits"),
    ],
)
def test_texts_that_are_not_possible(text: str) -> None:
    name, _, value = text.partition("=")
    with pytest.raises(BridgeError, match=name):
        typed_value(name, value)


def test_what_the_fleet_sets_are_options_of_the_node() -> None:
    for shard in fleet():
        assert set(shard.parameters) <= set(OPTIONS)
