"""The description of a fleet: what each bridge is started with, for both doors."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.fleet.discovery_server import DiscoveryServer, parse_discovery_server, server_command
from usd_ros_bridge.fleet.fleet import OWN_COMMAND, Fleet, FleetOptions, make_fleet
from usd_ros_bridge.fleet.machines import Machine, RemoteShell, deal, parse_machines
from usd_ros_bridge.fleet.parameter_text import parameter_arguments, typed_value, value_text
from usd_ros_bridge.fleet.process_keeper import RestartDelays
from usd_ros_bridge.options import OPTIONS
from usd_ros_bridge.process_settings import STATUS_PREFIX

ROOT = Path(__file__).resolve().parents[3]
ASSET = str(ROOT / "examples" / "fleet" / "fleet.usda")


def fleet(**options: Any) -> Fleet:
    """A fleet of the example."""
    parameters = {"backend": "kinematic", **options.pop("parameters", {})}
    return make_fleet(FleetOptions(asset=ASSET, parameters=parameters, **{"shards": 2, **options}))


def test_the_description_needs_neither_ros_nor_openusd() -> None:
    code = (
        "import sys; import usd_ros_bridge.fleet.fleet, usd_ros_bridge.fleet.supervisor; "
        "print([name for name in ('pxr', 'rclpy', 'numpy', 'mujoco', 'launch') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_each_shard_has_its_part_and_the_first_one_what_a_domain_has_once() -> None:
    first, second, third = fleet(shards=3).shards
    assert [each.parameters["shard"] for each in (first, second, third)] == ["1/3", "2/3", "3/3"]
    assert [each.full_name for each in (first, second)] == ["/usd_ros_bridge_1", "/usd_ros_bridge_2"]


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
        (only,) = make_fleet(FleetOptions(**{**described, "shards": 1})).shards
        assert only.parameters["backend"] == backend


def test_files_and_ports_are_not_shared() -> None:
    given = {"record": "/tmp/run.mcap", "foxglove": 8765, "mesh_uris": "http:127.0.0.1:9000"}
    first, second = fleet(parameters=given).shards
    assert (first.parameters["record"], second.parameters["record"]) == ("/tmp/run_1.mcap", "/tmp/run_2.mcap")
    assert (first.parameters["foxglove"], second.parameters["foxglove"]) == (8765, 8766)
    assert second.parameters["mesh_uris"] == "http:127.0.0.1:9001"
    for same in ({"foxglove": 0, "mesh_uris": "http:0"}, {"mesh_uris": "http:" + "9" * 5000}):
        assert {name: fleet(parameters=same).shards[1].parameters[name] for name in same} == same
    with pytest.raises(OptionError, match="port 65536"):
        fleet(parameters={"foxglove": 65535})


def test_ros_arguments_go_to_all_but_what_cannot_be_shared_is_derived(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump({"/**": {"ros__parameters": {"foxglove": 9000, "tf_rate": 10.0}}}))
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
    _, second = fleet(ros_args=ros_args).shards
    assert second.full_name == "/hall/robots_2"
    assert second.parameters["record"] == "x_2.mcap"
    assert second.parameters["foxglove"] == 9001
    assert second.ros_args == ("-p", "tf_rate:=20.0", "--params-file", str(file), "--log-level", "warn")
    arguments = second.arguments()
    # The last one has precedence in ROS 2: the file must not give all shards one port.
    assert arguments.index("foxglove:=9001") > arguments.index("--params-file")


def params_file(folder: Path, sections: dict[str, Any]) -> list[str]:
    """The ROS arguments for a parameter file with the parameters of some nodes."""
    file = folder / "parameters.yaml"
    file.write_text(yaml.safe_dump({node: {"ros__parameters": each} for node, each in sections.items()}))
    return ["--params-file", str(file)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("duration", 3.0), ("duration", 3), ("record", "x.mcap")],
)
def test_parameters_of_ros_arguments_are_as_those_of_options(
    name: str, value: str | float, tmp_path: Path
) -> None:
    expected = [each.parameters[name] for each in fleet(parameters={name: value}).shards]
    for ros_args in (["-p", f"{name}:={value}"], params_file(tmp_path, {"/**": {name: value}})):
        shards = fleet(ros_args=ros_args).shards
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
    found = [each.parameters for each in fleet(ros_args=ros_args).shards]
    assert found == [each.parameters for each in fleet().shards]
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
    assert [each.parameters.get("record") for each in made.shards] == recorded


def test_a_shard_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    sections = {"/**": {"record": "run.mcap"}, "/usd_ros_bridge_2": {"record": "second.mcap"}}
    ros_args = params_file(tmp_path, sections)
    found = [each.parameters["record"] for each in fleet(shards=3, ros_args=ros_args).shards]
    assert found == ["run_1.mcap", "second.mcap", "run_3.mcap"]
    given = fleet(ros_args=ros_args, parameters={"record": "x.mcap"})
    assert [each.parameters["record"] for each in given.shards] == ["x_1.mcap", "x_2.mcap"]


def test_namespaces_may_be_keys_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "nested.yaml"
    file.write_text("hall:\n  usd_ros_bridge_1:\n    ros__parameters:\n      foxglove: 9000\n")
    first, second = fleet(namespace="hall", ros_args=["--params-file", str(file)]).shards
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
    assert [each.parameters for each in made.shards] == [each.parameters for each in fleet().shards]
    assert made.shards[0].ros_args == tuple(ros_args)


def test_the_backend_is_not_set_for_one_shard() -> None:
    with pytest.raises(OptionError, match=r"^backend is the same for all shards: set it for /\*\*$"):
        fleet(ros_args=["-p", "usd_ros_bridge_1:backend:=kinematic"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shards": 0}, "shards 0 is not possible: 1 to 1000"),
        ({"shards": 1001}, "shards 1001"),
        ({"machines": ["a,b,c"]}, "2 shards are too few for 3 machines"),
        ({"machines": ["-oProxyCommand=x"]}, "machine '-oProxyCommand=x' is not possible"),
        ({"machines": ["a*0"]}, "its weight is a whole number, 1 to 1000"),
        ({"machines": ["a*" + "9" * 5000]}, "its weight is a whole number, 1 to 1000"),
        ({"machines": ["a,a"]}, "'a' is there twice"),
        ({"machines": ["a,b"], "machine": "c"}, "machine 'c' is not among machines; there are: a, b"),
        ({"discovery_server": "here"}, "give auto or ADDRESS:PORT"),
        ({"discovery_server": "127.0.0.1:" + "9" * 5000}, "give auto or ADDRESS:PORT"),
        ({"discovery_server": "0.0.0.0:11811"}, "give the address by which nodes reach the server"),
        ({"discovery_server": "auto", "machines": ["a"]}, "other machines do not reach"),
        ({"discovery_server": "127.0.0.1:11811", "machines": ["localhost,a"]}, "other machines do not reach"),
        (
            {"discovery_server": "localhost:11811", "machines": ["a"]},
            "'localhost:11811' is 127.0.0.1, on the",
        ),
        ({"discovery_server": "127.0.1.1:11811", "machines": ["a,b"], "machine": "b"}, "do not reach"),
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


def test_a_discovery_server_is_for_fast_dds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_zenoh_cpp")
    with pytest.raises(OptionError, match="discovery_server is for Fast DDS"):
        fleet(discovery_server="auto")


def test_the_port_of_the_server_is_in_use() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(OptionError, match=f"the UDP port {port} is in use"):
            fleet(discovery_server=f"127.0.0.1:{port}")


def test_the_server_is_started_where_its_address_is() -> None:
    # 192.0.2.0/24 is for documentation: no machine has it, unless this one is made like that.
    there = DiscoveryServer(address="203.0.113.7", port=11811)
    assert not there.is_of_this_machine()
    assert fleet(discovery_server="203.0.113.7:11811").starts_server is False
    assert fleet(discovery_server="203.0.113.7:11811").environment == {
        "ROS_DISCOVERY_SERVER": "203.0.113.7:11811"
    }
    assert parse_discovery_server("") is None


def test_only_the_address_of_the_loopback_interface_limits_the_server_to_it() -> None:
    """Fast DDS knows no interface with another address of 127.0.0.0/8, and would not start."""
    limited = {
        address: "interfaceWhiteList" in DiscoveryServer(address=address, port=11811).profile_xml()
        for address in ("127.0.0.1", "127.0.1.1", "192.0.2.17")
    }
    assert limited == {"127.0.0.1": True, "127.0.1.1": False, "192.0.2.17": False}


@pytest.fixture
def server_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program of the discovery server: a script that does nothing yet."""
    program = tmp_path / "prefix" / "bin" / "fast-discovery-server"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "prefix"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return program


def test_a_profile_that_cannot_be_written_is_one_line(server_program: Path, tmp_path: Path) -> None:
    server = DiscoveryServer(address="127.0.0.1", port=11811)
    command = server_command(server)
    assert command.words[0] == str(server_program)
    profile = Path(command.words[-1])
    assert profile.is_relative_to(tmp_path)
    profile.unlink()
    profile.mkdir()
    with pytest.raises(OptionError, match="cannot be written: Is a directory"):
        server_command(server)


def test_the_files_in_config_are_what_the_fleet_uses() -> None:
    text = (ROOT / "config" / "fastdds_discovery_server.xml").read_text()
    profile = DiscoveryServer(address="127.0.0.1", port=11811).profile_xml()
    assert profile.partition("<profiles")[2] == text.partition("<profiles")[2]


@given(shards=st.integers(1, 60), weights=st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_machines_get_blocks_of_their_weight(shards: int, weights: list[int]) -> None:
    machines = [Machine(host=f"m{number}", weight=weight) for number, weight in enumerate(weights)]
    if shards < len(machines):
        with pytest.raises(OptionError, match="too few"):
            deal(shards, machines)
        return
    dealt = deal(shards, machines)
    assert len(dealt) == shards
    assert list(dict.fromkeys(dealt)) == machines  # each one, in order
    assert dealt == sorted(dealt, key=machines.index)  # in blocks
    if shards % sum(weights) == 0:
        assert [dealt.count(each) for each in machines] == [shards // sum(weights) * w for w in weights]


def test_one_machine_of_several_is_started_here_without_ssh() -> None:
    made = fleet(shards=5, machines=["a*2,b*3"], machine="b")
    assert [each.number for each in made.shards] == [3, 4, 5]
    assert all(each.machine.is_local for each in made.shards)
    assert made.count == 5


def test_another_machine_gets_one_command_by_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "7")
    remote = RemoteShell(
        ssh="ssh -p 2222", setup="source '/opt/my ros/setup.bash'", command="/opt/x/usd_ros_bridge"
    )
    made = fleet(machines=["localhost,user@b"], remote=remote, parameters={"variants": ["/A:it=isn't $HOME"]})
    local, other = made.shards
    assert made.command(local, {})[: len(OWN_COMMAND)] == OWN_COMMAND
    *command, host, script = made.command(other, {"MARK": "a b"})
    assert host == "user@b"
    assert command[:3] == ["ssh", "-p", "2222"]
    assert {"-oBatchMode=yes", "-oLogLevel=ERROR"} <= set(command)
    # What a shell at the other end makes of it.
    assert "my ros/setup.bash" in script
    echo = script.replace("exec env", 'exec printf "%s\\n" env', 1).replace("source ", "true ", 1)
    words = subprocess.run(
        ["bash", "-c", echo], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert {"MARK=a b", "ROS_DOMAIN_ID=7", "/opt/x/usd_ros_bridge"} <= set(words)
    assert words[-len(other.arguments()) :] == other.arguments()
    assert shlex.join(words)


def test_modules_in_the_working_directory_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('the wrong module')")
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
    ("setup", "status"),
    [
        ("true;", 0),
        ("true\n", 0),
        ("true  # a comment", 0),
        ("cd / &&\ntrue", 0),
        ("false", 126),
        ("false;", 126),
        ("true && false", 126),
        ("if", 126),
        ("echo 'x", 126),
        ("( true", 126),
    ],
)
def test_the_setup_of_another_machine_is_a_command_of_bash(setup: str, status: int) -> None:
    remote = RemoteShell(setup=setup, command="true")
    *_, script = remote.command_line("b", ["run"], {"MARK": "1"})
    assert subprocess.run(["sh", "-c", script], capture_output=True, check=False).returncode == status


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


def test_a_machine_says_that_it_was_reached() -> None:
    made = fleet(machines=["b"])
    (shard,) = made.shards[:1]
    *_, script = made.command(shard, {STATUS_PREFIX: "it's "})
    printed = script.replace("exec env", "exec true", 1)
    done = subprocess.run(["bash", "-c", printed], capture_output=True, text=True, check=True)
    assert done.stdout == 'it\'s {"state": "reached"}\n'


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


def test_machines_are_parsed() -> None:
    assert parse_machines([]) == (Machine(),)
    assert parse_machines(["a, u@b*3", "localhost"]) == (
        Machine(host="a"),
        Machine(host="u@b", weight=3),
        Machine(),
    )


def test_waits_grow_and_begin_anew_after_a_minute_of_health() -> None:
    delays = RestartDelays(most_s=30.0)
    assert [delays.after(0.1) for _ in range(8)] == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert [delays.after(61.0), delays.after(0.1)] == [0.0, 1.0]
    never = RestartDelays(most_s=0.0)
    assert [never.after(0.1) for _ in range(4)] == [0.0] * 4


def test_what_the_fleet_sets_are_options_of_the_node() -> None:
    for shard in fleet().shards:
        assert set(shard.parameters) <= set(OPTIONS)
