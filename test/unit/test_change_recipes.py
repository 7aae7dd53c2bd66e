"""The recipes of docs/explanation/architecture.md, followed exactly in a copy of the repository.

Each test makes the edits that its recipe names, and runs what they add, or the tests that the recipe says will agree.
Recipes for packages of others have tests of their own; CONTRIBUTING.md lists all of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("click", reason="click is not installed: make setup")

ROOT = Path(__file__).resolve().parents[2]
RUN_S = 250.0

pytestmark = [pytest.mark.walk, pytest.mark.timeout(2 * RUN_S)]


class Tree:
    """A copy of the repository. `restore` takes all edits back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._originals: dict[Path, str | None] = {}

    def write(self, name: str, text: str) -> None:
        """Write a new file."""
        path = self.root / name
        assert not path.exists()
        self._originals[path] = None
        path.write_text(text, encoding="utf-8")

    def replace(self, name: str, old: str, new: str) -> None:
        """Replace a text that stands once in a file."""
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times"
        self._originals.setdefault(path, text)
        path.write_text(text.replace(old, new), encoding="utf-8")

    def before(self, name: str, anchor: str, new: str) -> None:
        """Insert text before another one that stands once in a file."""
        self.replace(name, anchor, new + anchor)

    def after(self, name: str, anchor: str, new: str) -> None:
        """Insert text behind another one that stands once in a file."""
        self.replace(name, anchor, anchor + new)

    def restore(self) -> None:
        for path, text in self._originals.items():
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")
        self._originals.clear()

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python on the copy."""
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.root, capture_output=True, text=True, timeout=RUN_S, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(self.root), os.environ.get("PYTHONPATH", "")])},
        )  # fmt: skip

    def run(self, code: str) -> str:
        """Run code on the copy. Return what it prints."""
        done = self.python("-c", f"import usd_ros_bridge\nprint(usd_ros_bridge.__file__)\n{code}")
        assert done.returncode == 0, done.stderr
        where, _, output = done.stdout.partition("\n")
        assert Path(where).is_relative_to(self.root), "the copy is the one that is imported"
        return output

    def command(self, *arguments: str) -> str:
        """Run the command line on the copy. Return what it prints."""
        done = self.python("-m", "usd_ros_bridge", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def test(self, *names: str, expected: str = "passed", update: bool = False) -> None:
        """Run tests of the copy: all of them pass, or one of them fails."""
        more = ["--update"] if update else []
        done = self.python("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *more, *names)
        assert (done.returncode == 0) is (expected == "passed"), done.stdout[-4000:] + done.stderr[-2000:]
        assert re.search(rf"\d+ {expected}", done.stdout), done.stdout[-2000:]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone: which files belong to the sources is not known")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    root = tmp_path_factory.mktemp("clone")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    return Tree(root)


@pytest.fixture
def tree(clone: Tree) -> Iterator[Tree]:
    yield clone
    clone.restore()


STAGE = """#usda 1.0
(
    defaultPrim = "rover"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "rover" (
    prepend apiSchemas = ["RosContextAPI", "PhysicsRigidBodyAPI"]
)
{
    string ros:context:namespace = "rover"
    double3 xformOp:translate = (1, 2, 3)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Scope "where" ( prepend apiSchemas = ["RosTopicAPI"] )
    {
        token ros:topic:role = "publisher"
        string ros:topic:name = "where"
        string ros:topic:type = "geometry_msgs/msg/PointStamped"
        double ros:topic:publish_rate = 50
    }
}
"""


def test_add_a_message_type(tree: Tree, tmp_path: Path) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
    codecs, types = "usd_ros_bridge/ros/codecs/geometry_msgs.py", "usd_ros_bridge/model/message_types.py"
    tree.before(
        codecs,
        "CODECS: Mapping",
        "def encode_point(topic: TopicPlan, plan: BridgePlan) -> Encoding:\n"
        "    return Encoding(values=lambda snapshot: (snapshot.body(topic.body)[:3],), blocks=('point',))\n\n\n",
    )
    tree.after(
        codecs,
        '    "geometry_msgs/msg/AccelStamped": MessageCodec(encode=encode_accel),\n',
        '    "geometry_msgs/msg/PointStamped": MessageCodec(encode=encode_point),\n',
    )
    tree.replace(types, '    POINT_STAMPED: MessageType(display="PointStamped"),\n', "")
    row = '    POINT_STAMPED: MessageType(of_body=True, in_world=True, display="PointStamped"),\n'
    tree.before(types, "    POSE_STAMPED: MessageType(", row)
    table = "test/unit/docs/test_tables_doc.py::test_published_and_commanding_types"
    tree.test(table, expected="failed")
    tree.before(
        "docs/reference/topics.md",
        "| `geometry_msgs/msg/PoseStamped` | pose",
        "| `geometry_msgs/msg/PointStamped` | position of the body in the world |\n",
    )
    tree.test(table)
    (tmp_path / "rover.usda").write_text(STAGE, encoding="utf-8")
    printed = tree.run(
        "from pathlib import Path\n"
        "from usd_ros_bridge import BridgeOptions, load_plan\n"
        "from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge\n"
        "from rclpy.serialization import deserialize_message\n"
        "from geometry_msgs.msg import PointStamped\n"
        "from mcap.reader import make_reader\n"
        f"plan, path = load_plan({str(tmp_path / 'rover.usda')!r}), Path({str(tmp_path / 'rover.mcap')!r})\n"
        "with OfflineBridge(plan, 'kinematic', options=BridgeOptions(record=str(path))) as bridge:\n"
        "    for step in range(20):\n"
        "        bridge.step(step * 10_000_000)\n"
        "with path.open('rb') as stream:\n"
        "    for _, channel, message in make_reader(stream).iter_messages(topics=['/rover/where']):\n"
        "        found = deserialize_message(message.data, PointStamped)\n"
        "print(found.header.frame_id, found.point.x, found.point.y, found.point.z)\n"
    )
    assert printed.splitlines()[-1] == "world 1.0 2.0 3.0"
    tree.test("test/unit/model/test_message_types.py")


def test_add_a_controller(tree: Tree, tmp_path: Path) -> None:
    tree.before(
        "usd_ros_bridge/model/records.py",
        "@dataclass(frozen=True, slots=True, kw_only=True)\nclass RigidBodyTwistRecord(",
        "@dataclass(frozen=True, slots=True, kw_only=True)\n"
        "class ScaledPositionRecord(ControllerRecord):\n"
        '    """A scaled command."""\n\n'
        '    subscriber: tuple[str, ...] | None = attribute("scaled:subscriber", "rel")\n'
        '    joints: tuple[str, ...] | None = attribute("scaled:joints", "rel")\n'
        '    scale: float | None = attribute("scaled:scale", "double", 2.0)\n\n\n',
    )
    schemas = "usd_ros_bridge/model/controller_schemas.py"
    tree.after(schemas, "    RigidBodyTwistRecord,\n", "    ScaledPositionRecord,\n")
    tree.after(
        schemas,
        "CONTROLLER_SCHEMAS: Final[Mapping[str, ControllerSchema]] = {\n",
        '    "ScaledPositionAPI": ControllerSchema(\n'
        "        record=ScaledPositionRecord,\n"
        '        group="usd_ros_bridge.controllers.scaled_positions:ScaledPositions",\n'
        '        ports=(ControllerPort(field="subscriber", kind="topic", role="subscription",\n'
        '            types=frozenset({"std_msgs/msg/Float64MultiArray"})),),\n'
        '        joints=("joints",),\n'
        '        ranges={"scale": NumberRange(low=0.5, high=4.0)},\n'
        "    ),\n",
    )
    tree.write(
        "usd_ros_bridge/controllers/scaled_positions.py",
        "import numpy as np\n\n"
        "from usd_ros_bridge.controllers.controller_group import PassiveGroup\n\n\n"
        "class ScaledPositions(PassiveGroup):\n"
        "    def __init__(self, context, plans):\n"
        "        super().__init__(context, plans)\n"
        "        self.pending = {}\n\n"
        "    @property\n"
        "    def busy(self):\n"
        "        return bool(self.pending)\n\n"
        "    def receive(self, row, sample, *, time_ns):\n"
        "        self.pending[row] = self.plans[row].parameters['scale'] * np.asarray(sample.values)\n\n"
        "    def command(self, time_ns, state, commands):\n"
        "        for row, values in self.pending.items():\n"
        "            commands.joint_position[list(self.plans[row].dofs)] = values\n"
        "        self.pending.clear()\n",
    )
    asset = tmp_path / "robot.usda"
    printed = tree.run(
        "import sys; sys.path.insert(0, 'test/support')\n"
        "import numpy as np\n"
        "from pathlib import Path\n"
        "from foreign_plugins import SCALED_ARM\n"
        "from usd_ros_bridge import load_plan\n"
        "from usd_ros_bridge.backends.kinematic import KinematicBackend\n"
        "from usd_ros_bridge.model.state import ArraySample\n"
        "from usd_ros_bridge.runtime.runtime import Runtime\n"
        f"path = Path({str(asset)!r})\n"
        "path.write_text(SCALED_ARM.replace('SCHEMA', 'ScaledPositionAPI'))\n"
        "plan = load_plan(path)\n"
        "runtime = Runtime(plan, KinematicBackend()).open()\n"
        "(topic,) = (each for each in plan.topics if each.path == '/robot/command')\n"
        "binding = runtime.bind_sink(topic)\n"
        "runtime.tick(1_000_000_000)\n"
        "binding.deliver(ArraySample(values=np.array([0.25])))\n"
        "runtime.tick(1_010_000_000)\n"
        "runtime.tick(1_020_000_000)\n"
        "print(runtime.snapshot.state.joint_position.tolist())\n"
        "runtime.close()\n"
    )
    assert printed.splitlines()[-1] == "[0.75]"


def test_add_a_backend(tree: Tree) -> None:
    tree.write(
        "usd_ros_bridge/backends/still.py",
        '"""A backend that does nothing."""\n\n'
        "from usd_ros_bridge.backends.null import NullBackend\n\n\n"
        "class StillBackend(NullBackend):\n"
        '    """Nothing moves."""\n',
    )
    tree.after(
        "usd_ros_bridge/backends/registry.py",
        '        "null": f"{_PACKAGE}.null:NullBackend",\n',
        '        "still": f"{_PACKAGE}.still:StillBackend",\n',
    )
    tree.test("test/unit/backends/test_registry.py", expected="failed")
    tree.after(
        "usd_ros_bridge/backends/backend_options.py",
        '    "null": BackendInfo(summary="shows the state as authored", options={}),\n',
        '    "still": BackendInfo(summary="does nothing", options={}),\n',
    )
    tree.test("test/unit/backends/test_registry.py")
    tables = "test/unit/docs/test_tables_doc.py"
    tests = (f"{tables}::test_backends", f"{tables}::test_options")
    tree.test(*tests, expected="failed")
    tree.after(
        "docs/reference/backends.md",
        "| [`null`](#null) | as authored | dropped |\n",
        "| [`still`](#still) | as authored | dropped |\n",
    )
    tree.before("docs/reference/backends.md", "## null\n", "## still\n\nNo options. It does nothing.\n\n")
    tree.test(*tests)
    assert "does nothing" in tree.command("backends")
    tree.run(
        "from usd_ros_bridge import load_plan\n"
        "from usd_ros_bridge.backends.registry import load_backend\n"
        "from usd_ros_bridge.runtime.runtime import Runtime\n"
        "runtime = Runtime(load_plan('examples/rover/world.usda'), load_backend('still')).open()\n"
        "assert runtime.tick(1_000_000_000)\n"
        "runtime.close()\n"
    )


def test_add_a_signal_of_sweeps(tree: Tree) -> None:
    tests = ("test/unit/sweep/test_sweep_file.py", "test/unit/docs/test_sweep_file_doc.py")
    signals, schema = "usd_ros_bridge/sweep/signals.py", "usd_ros_bridge/sweep/sweep.schema.json"
    tree.before(
        signals,
        "def _velocity(",
        "def _zero(signal: Signal, run: RunContext) -> Measure:\n    return lambda: 0.0\n\n\n",
    )
    tree.before(signals, '    "travelled": _travelled,\n', '    "zero": _zero,\n')
    tree.test(*tests, expected="failed")
    path = tree.root / schema
    tree.replace("docs/reference/sweep_file.md", "| `travelled` |", "| `zero` | 0 | |\n| `travelled` |")
    tree.test(*tests, expected="failed")
    # The name stands twice: of stop conditions, and of metrics.
    text = path.read_text(encoding="utf-8")
    tree.replace(
        schema, text, re.sub(r'^( *)"travelled",$', r'\1"zero",\n\1"travelled",', text, flags=re.MULTILINE)
    )
    tree.test(*tests)


def test_add_an_export_format_and_a_command(tree: Tree) -> None:
    tree.after(
        "usd_ros_bridge/model/exporters.py",
        '        "json": "usd_ros_bridge.export.plan_formats:JSON",\n',
        '        "names": "usd_ros_bridge.export.topic_names:NAMES",\n',
    )
    tree.write(
        "usd_ros_bridge/export/topic_names.py",
        "class NamesFormat:\n"
        "    suffix = '.txt'\n"
        "    options = ()\n\n"
        "    def write(self, context, stream):\n"
        "        stream.write(''.join(f'{each.name}\\n' for each in context.plan.topics).encode())\n"
        "        return ()\n\n\n"
        "NAMES = NamesFormat()\n",
    )
    assert (
        "/rover/cmd_vel" in tree.command("export", "examples/rover/world.usda", "--format", "names").split()
    )
    tree.after(
        "usd_ros_bridge/cli/command_group.py",
        '        "recover": f"{_CLI}.recover_command:recover",\n',
        '        "greet": f"{_CLI}.greet_command:greet",\n',
    )
    tree.write(
        "usd_ros_bridge/cli/greet_command.py",
        "import click\n\n\n@click.command()\ndef greet() -> None:\n"
        '    """Greet the robot."""\n    click.echo("hello, robot")\n',
    )
    assert tree.command("greet") == "hello, robot\n"
    assert re.search(r"^ +greet +Greet the robot", tree.command("--help"), re.MULTILINE)


def test_add_an_option(tree: Tree) -> None:
    tests = ("test/unit/docs/test_parameters_doc.py", "test/unit/ros/test_parameters.py")
    tests = tuple(name for name in tests if (tree.root / name).exists())
    tree.before(
        "usd_ros_bridge/options.py",
        "    start_paused: bool = _parameter(",
        "    patience: float = _parameter(\n"
        '        1.0, "Seconds of patience.", range=ranges.FACTOR, flag="--patience", metavar="SECONDS", launch=True\n'
        "    )\n",
    )
    launch = "launch/bridge.launch.py"
    declaration = 'DeclareLaunchArgument(\n                "{}",\n'
    default = '                default_value="",\n                description="Patience.",\n            ),\n'
    steps = [
        ("config/bridge.yaml", "    # Start with simulated time paused. ~", "    patience: 1.0\n\n"),
        (launch, '    "start_paused": bool,\n', '    "patience": float,\n'),
        (
            launch,
            declaration.format("start_paused"),
            f"{declaration.format('patience')}{default}            ",
        ),
    ]
    for name, anchor, text in steps:
        tree.test(*tests, expected="failed")
        tree.before(name, anchor, text)
    tree.test(*tests, expected="failed")
    tree.before("usd_ros_bridge/cli/subcommands.py", '    "start_paused",\n', '    "patience",\n')
    printed = tree.run(
        "from usd_ros_bridge.options import OPTIONS\nprint(OPTIONS['patience'].default, OPTIONS['patience'].flag)"
    )
    assert printed == "1.0 --patience\n"
    tree.test(*tests, expected="failed")
    # No change: the file is restored with all others.
    tree.before("docs/reference/parameters.md", "<!-- table: node parameters -->", "")
    assert tree.python("tools/reference_tables.py", "--write").returncode == 0
    assert "| `patience` |" in (tree.root / "docs" / "reference" / "parameters.md").read_text(
        encoding="utf-8"
    )
    tree.test(*tests)


def test_add_a_schema_attribute(tree: Tree, tmp_path: Path) -> None:
    test = "test/unit/usd/test_closed_world.py"
    schema = tree.root / "usd_ros_bridge" / "usd" / "schemas" / "generatedSchema.usda"
    (head,) = re.findall(
        r'class "RosContextAPI" \(.*?\)\n\{\n', schema.read_text(encoding="utf-8"), re.DOTALL
    )
    tree.after(schema.relative_to(tree.root).as_posix(), head, '    string ros:context:mood = "calm"\n')
    tree.test(test, expected="failed")
    records = tree.root / "usd_ros_bridge" / "model" / "records.py"
    pattern = r'^    \w+: [^\n]* = attribute\("ros:context:domain_id".*\n'
    (field,) = re.findall(pattern, records.read_text(encoding="utf-8"), re.MULTILINE)
    tree.after(
        "usd_ros_bridge/model/records.py",
        field,
        '    mood: str | None = attribute("ros:context:mood", "string", "calm")\n',
    )
    tree.test(test)
    asset = tmp_path / "robot.usda"
    asset.write_text(
        STAGE.replace("    double3 xformOp", '    string ros:context:mood = "brave"\n    double3 xformOp'),
        encoding="utf-8",
    )
    printed = tree.run(
        "from usd_ros_bridge.usd.open import open_stage\n"
        "from usd_ros_bridge.usd.read.stage_reader import read_stage\n"
        f"records = read_stage(open_stage({str(asset)!r}), asset={str(asset)!r})\n"
        "print([each.mood for each in records.contexts])\n"
    )
    assert printed.splitlines()[-1] == "['brave']"


def test_add_a_rule_of_the_rep(tree: Tree) -> None:
    contexts = "usd_ros_bridge/planning/contexts.py"
    tree.before(
        contexts,
        "def _parent_frame(",
        "def _check_case(record: ContextRecord, findings: DiagnosticCollector) -> None:\n"
        "    if record.namespace != (record.namespace or '').lower():\n"
        '        findings.warning("2.1.namespace", record.path, "capital letters", "use small ones")\n\n\n',
    )
    tree.after(contexts, '    segment = record.namespace or ""\n', "    _check_case(record, findings)\n")
    small = (tree.root / "test" / "assets" / "context_namespace.usda").read_text(encoding="utf-8")
    assert '"robot_1"' in small
    tree.write("test/assets/context_case.usda", small.replace('"robot_1"', '"Robot_1"'))
    golden = "test/golden/context_case.json"
    test = "test/unit/assets/test_golden.py::test_plan_matches_golden"
    tree.test(f"{test}[context_case]", expected="failed")
    try:
        tree.test(f"{test}[context_case]", update=True)
        tree.test(f"{test}[context_case]")
        found = json.loads((tree.root / golden).read_text(encoding="utf-8"))["diagnostics"]
        assert [each["message"] for each in found if each["message"] == "capital letters"] == [
            "capital letters"
        ]
    finally:
        (tree.root / golden).unlink(missing_ok=True)
