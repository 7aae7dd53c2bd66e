"""The plan cache: a plan from it is the plan that would be made now, whatever has changed, or somebody put there."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.stages import write_fleet
from foreign_plugins import install_plugin
from planner_jobs import ARM, ASSETS, EXAMPLES, PLANNED, ROVER, Catalog, OddCatalog, differences, job
from usd_ros_bridge import plan_cache
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.urdf import UrdfExporter
from usd_ros_bridge.options import PlanOptions, ReadOptions, VariantSelection
from usd_ros_bridge.plan_cache import CachedPlan, PlanCache, PlanSources, plan_key
from usd_ros_bridge.planner_process import PlannerProcess
from usd_ros_bridge.usd import open_stage, quiet
from usd_ros_bridge.usd.edit.reload import source_files
from usd_ros_bridge.usd.population import left_out
from usd_ros_bridge.usd.session import DeferredStage, StageSession

SETTLE_S = 0.05
"""How long a file rests before it is planned: one that was changed after that is not kept."""


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    home = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home


@pytest.fixture
def plans(cache_home):
    """The directory of the plan cache."""
    return cache_home / "usd_ros_bridge" / "plans"


def rest(*files):
    """Wait until changes of files are older than what a planner would take for a change meanwhile."""
    newest = max((each.stat().st_ctime for each in files), default=0.0)
    while time.time() < newest + SETTLE_S:
        time.sleep(0.005)


def planned(asset, **changes):
    """Plan as a node does. Return the plan, its descriptions, and whether they came from the cache."""
    wanted = job(asset, uses_cache=True, **changes)
    with PlannerProcess(is_expected_in_cache=True) as planner:
        plan = planner.plan(wanted)
        describer = StageSession(plan.stage).take_describer()
        descriptions = list(describer.descriptions()) if describer is not None else []
        process = planner.process_id
        while describer is None and process is not None and Path(f"/proc/{process}").exists():
            time.sleep(0.005)
    return plan, descriptions, process is None


def bare(plan):
    return replace(plan, stage=None, catalog=None)


def is_cached(asset, **changes):
    return planned(asset, **changes)[2]


PLAIN = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    upAxis = "Z"
)

def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI"]
)
{
    def Xform "base" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI"]
    )
    {
    }

    def PhysicsFixedJoint "root"
    {
        rel physics:body1 = </robot/base>
    }
}
"""
TEXTURED = (
    PLAIN.replace(
        """    {
    }
""",
        """    {
        def Mesh "shape" (
            prepend apiSchemas = ["MaterialBindingAPI"]
        )
        {
            point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
            int[] faceVertexCounts = [3]
            int[] faceVertexIndices = [0, 1, 2]
            texCoord2f[] primvars:st = [(0, 0), (1, 0), (0, 1)] (
                interpolation = "vertex"
            )
            rel material:binding = </robot/look>
        }
    }
""",
    ).rstrip()[:-1]
    + """
    def Material "look"
    {
        token outputs:surface.connect = </robot/look/surface.outputs:surface>

        def Shader "surface"
        {
            uniform token info:id = "UsdPreviewSurface"
            color3f inputs:diffuseColor.connect = </robot/look/image.outputs:rgb>
            token outputs:surface
        }

        def Shader "image"
        {
            uniform token info:id = "UsdUVTexture"
            asset inputs:file = @look.png@
            float3 outputs:rgb
        }
    }
}
"""
)
ROOT = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    upAxis = "Z"
    subLayers = [
        @base.usda@
    ]
)
"""


def chain(folder, *, texture=False):
    """Write a robot of two layers, with a mesh that may have a texture. Return the root layer."""
    folder.mkdir(exist_ok=True)
    (folder / "base.usda").write_text(TEXTURED if texture else PLAIN)
    root = folder / "robot.usda"
    root.write_text(ROOT)
    rest(root, folder / "base.usda")
    return root


# --- What comes from the cache ---------------------------------------------------------------------------------


@pytest.mark.parametrize("physics", [False, True], ids=["plan", "physics"])
@pytest.mark.parametrize("asset", PLANNED, ids=lambda path: path.stem)
def test_a_plan_from_the_cache_is_the_plan_made_now_field_by_field(asset, physics):
    types = pytest.importorskip("usd_ros_bridge.ros.interface_types")
    options, catalog = PlanOptions(isaac_names=True), types.AmentCatalog()
    given_options = {"plan_options": options, "physics": physics, "catalog": catalog}
    assert not is_cached(asset, **given_options)
    got, _, cached = planned(asset, **given_options)
    assert cached
    with quiet():
        made = load_plan(str(asset), plan_options=options, physics=physics, catalog=catalog)
    assert list(differences(bare(made), bare(got))) == []
    assert isinstance(got.stage, DeferredStage)
    assert got.stage_owned
    assert got.catalog is catalog


def test_each_asset_of_the_tests_can_be_loaded_again(tmp_path):
    # The unpickler knows all that plans consist of.
    cache, checked = PlanCache(tmp_path / "plans"), 0
    for asset in [*EXAMPLES.rglob("*.usda"), *ASSETS.glob("*.usda")]:
        with quiet():
            try:
                plan = load_plan(str(asset), physics=True)
            except Exception:  # noqa: BLE001 - an asset that cannot be opened has no plan
                continue
            content = CachedPlan(plan=replace(plan, stage=None), switchable={})
        assert cache.store("key", content, sources())
        loaded = cache.load("key", None)
        assert loaded is not None, asset
        assert list(differences(content.plan, loaded.plan)) == [], asset
        checked += 1
    assert checked > 50


def test_descriptions_and_switches_come_from_the_cache(tmp_path):
    meshes = str(tmp_path / "meshes")
    _, made, cached = planned(ARM, describes=True, mesh_directory=meshes)
    assert not cached
    _, stored, cached = planned(ARM, describes=True, mesh_directory=meshes)
    assert cached
    assert stored == made
    exporter = UrdfExporter(load_plan(str(ARM), physics=True), meshes=MeshCache(meshes))
    assert stored[0][1].text == exporter.robot(0).text
    plan, _, _ = planned(ROVER)
    plan, _, cached = planned(ROVER)
    assert cached
    (service,) = plan.services
    assert StageSession(plan.stage).switches().is_switchable(service.path)
    assert not plan.stage.is_open


# --- What has changed ------------------------------------------------------------------------------------------


def change_root(folder):
    root = folder / "robot.usda"
    root.write_text(root.read_text() + 'over "robot"\n{\n    custom int a = 1\n}\n')


def change_sublayer(folder):
    base = folder / "base.usda"
    base.write_text(base.read_text().replace('"base"', '"hull"').replace("/base>", "/hull>"))


def change_without_a_trace(folder):
    """Change a letter, and set the time of change back: size and mtime are what they were."""
    base = folder / "base.usda"
    before = base.stat()
    base.write_text(base.read_text().replace('"base"', '"hull"').replace("/base>", "/hull>"))
    os.utime(base, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert base.stat().st_size == before.st_size


def replace_without_a_trace(folder):
    before = (folder / "base.usda").stat()
    other = folder / "other"
    other.write_text(
        (folder / "base.usda").read_text().replace('"base"', '"hull"').replace("/base>", "/hull>")
    )
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(folder / "base.usda")


def remove_sublayer(folder):
    (folder / "base.usda").unlink()


@pytest.mark.parametrize(
    "change",
    [change_root, change_sublayer, change_without_a_trace, replace_without_a_trace, remove_sublayer],
    ids=lambda each: each.__name__,
)
def test_a_changed_layer_is_planned_anew(tmp_path, change):
    asset = chain(tmp_path / "robot")
    assert not is_cached(asset)
    assert is_cached(asset)
    change(tmp_path / "robot")
    rest(*(tmp_path / "robot").iterdir())
    plan, _, cached = planned(asset)
    assert not cached
    with quiet():
        made = load_plan(str(asset))
    assert list(differences(bare(made), bare(plan))) == []


def test_the_same_content_is_the_same_asset(tmp_path):
    asset = chain(tmp_path / "robot")
    assert not is_cached(asset)
    # As a new clone, or a package that is installed again.
    for each in (tmp_path / "robot").iterdir():
        content = each.read_bytes()
        each.unlink()
        each.write_bytes(content)
    assert is_cached(asset)


def test_textures_count(tmp_path):
    asset, image = chain(tmp_path / "robot", texture=True), tmp_path / "robot" / "look.png"
    described = {"describes": True, "mesh_directory": str(tmp_path / "meshes")}
    png = b"\x89PNG\r\n\x1a\n"
    assert not is_cached(asset, **described)
    assert is_cached(asset, **described), "the image is missing both times"
    image.write_bytes(png + b"first")
    rest(image)
    assert not is_cached(asset, **described)
    assert is_cached(asset, **described)
    image.write_bytes(png + b"other")
    rest(image)
    assert not is_cached(asset, **described)
    assert is_cached(asset, **described)
    image.unlink()
    assert not is_cached(asset, **described)


@pytest.mark.parametrize(
    "change", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["removed", "cut short"]
)
def test_mesh_files_are_made_again_where_they_are_gone(tmp_path, change):
    meshes = tmp_path / "meshes"
    described = {"describes": True, "mesh_directory": str(meshes)}
    assert not is_cached(ARM, **described)
    before = {each.name: each.read_bytes() for each in meshes.iterdir()}
    assert before
    change(sorted(meshes.iterdir())[0])
    assert not is_cached(ARM, **described)
    assert {each.name: each.read_bytes() for each in meshes.iterdir()} == before


def test_meshes_that_a_package_installs_are_named_by_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    share = tmp_path / "share" / "arm_description"
    index = tmp_path / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    (index / "arm_description").touch()
    share.mkdir()
    (share / "usd").symlink_to(ARM.parent)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    asset = share / "usd" / ARM.name

    def described():
        _, descriptions, cached = planned(asset, describes=True)
        bases = set(re.findall(r'filename="([^"]*)/', descriptions[0][1].text))
        return {base.partition(":")[0] for base in bases}, cached

    assert described() == ({"file"}, False)
    assert described() == ({"file"}, True)
    UrdfExporter(load_plan(str(ARM), physics=True), meshes=MeshCache(share / "meshes")).robot(0)
    assert described() == ({"package"}, False)
    assert described() == ({"package"}, True)
    min((share / "meshes").iterdir()).unlink()
    assert described() == ({"file", "package"}, False)


def test_installed_types_count():
    every = Catalog("sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry", "geometry_msgs/msg/Twist")
    assert not is_cached(ROVER, catalog=every)
    assert is_cached(ROVER, catalog=every)
    assert not is_cached(ROVER, catalog=Catalog("sensor_msgs/msg/JointState"))
    assert not is_cached(ROVER, catalog=every), "one entry for each key"
    # What no interface of the asset has is of no concern.
    assert is_cached(ROVER, catalog=Catalog(*every.names, "std_msgs/msg/Empty"))
    assert not is_cached(ROVER, catalog=None), "without a catalog, every type passes"
    assert is_cached(ROVER, catalog=every)


@pytest.mark.parametrize(
    "changes",
    [
        {"physics": True},
        {"describes": True},
        {"plan_options": PlanOptions(namespace="other")},
        {"read_options": ReadOptions(payloads="none")},
        {"read_options": ReadOptions(variants=(VariantSelection("/arm", "gripper", "suction"),))},
    ],
    ids=["physics", "describes", "plan_options", "payloads", "variants"],
)
def test_other_options_are_another_plan(changes):
    assert not is_cached(ARM)
    assert not is_cached(ARM, **changes)
    assert is_cached(ARM)
    assert is_cached(ARM, **changes)


def test_the_key_follows_packages_variables_plug_ins_and_the_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("USD_ROS_PACKAGE_PATH", str(tmp_path))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "prefix"))
    index = tmp_path / "prefix/share/ament_index/resource_index/packages"
    keys = [plan_key("asset")]
    (tmp_path / "my_robot").mkdir()
    keys.append(plan_key("asset"))
    index.mkdir(parents=True)
    keys.append(plan_key("asset"))
    (index / "my_robot").touch()
    keys.append(plan_key("asset"))
    monkeypatch.setenv("PXR_PLUGINPATH_NAME", "/somewhere")
    keys.append(plan_key("asset"))
    monkeypatch.chdir(tmp_path)
    keys.append(plan_key("asset"))
    site = tmp_path / "site"
    points = {"controllers": {"MecanumDriveAPI": "mecanum_drive:ROW"}}
    install_plugin(site, "mecanum-drive", entry_points=points, modules={})
    monkeypatch.syspath_prepend(str(site))
    keys.append(plan_key("asset"))
    keys.append(plan_key("other asset"))
    assert len(set(keys)) == len(keys)
    assert plan_key("other asset") == keys[-1]


def test_another_version_of_the_bridge_has_other_keys(tmp_path):
    copy = tmp_path / "code" / "usd_ros_bridge"
    shutil.copytree(Path(plan_cache.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = "from usd_ros_bridge.plan_cache import plan_key; print(plan_key('asset'))"

    def key():
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(copy.parent)!r}); {code}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    before = key()
    assert key() == before
    with (copy / "planning" / "names.py").open("a") as module:
        module.write("# another line\n")
    assert key() != before


# --- What is not kept ------------------------------------------------------------------------------------------


def sources(**changes):
    return PlanSources(
        **{"files": frozenset(), "types": {}, "products": frozenset(), "since_ns": 0, **changes}
    )


def small():
    return CachedPlan(plan=np.arange(3.0), switchable={"/light": True})  # type: ignore[arg-type]


def test_what_changed_while_it_was_read_is_not_kept(tmp_path):
    cache, file = PlanCache(tmp_path / "plans"), tmp_path / "layer.usda"
    file.write_text("new")
    assert not cache.store("key", small(), sources(files=frozenset({str(file)}), since_ns=time.time_ns()))
    rest(file)
    assert cache.store("key", small(), sources(files=frozenset({str(file)}), since_ns=time.time_ns()))
    assert cache.load("key", None) is not None


def test_a_plan_that_cannot_be_kept_arrives_all_the_same(tmp_path, capfd):
    described = {"describes": True, "mesh_directory": str(tmp_path / "meshes"), "catalog": OddCatalog()}
    plan, descriptions, _ = planned(ROVER, **described)
    assert plan.robots
    assert len(descriptions) == 1
    assert "the plan is not kept: TypeError" in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["directory", "fifo", "nul"])
def test_what_is_no_file_is_not_kept(tmp_path, kind):
    path = tmp_path / kind
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path = tmp_path / "a\0b"
    cache = PlanCache(tmp_path / "plans")
    assert not cache.store("key", small(), sources(files=frozenset({str(path)}), since_ns=2**62))
    assert cache.load("key", None) is None


CLIPS = """#usda 1.0
(
    defaultPrim = "robot"
)

def Xform "robot" (
    clips = {
        dictionary default = {
            double2[] active = [(0, 0)]
            asset[] assetPaths = [@clip.usda@]
            asset manifestAssetPath = @clip.usda@
            string primPath = "/robot"
            double2[] times = [(0, 0)]
        }
    }
)
{
}
"""
EXPRESSION = """#usda 1.0
(
    defaultPrim = "robot"
    expressionVariables = {
        string NAME = "base"
    }
    subLayers = [
        @`"${NAME}.usda"`@
    ]
)
"""
MISSING = PLAIN.replace('["RosContextAPI"]', '["RosContextAPI"]\n    references = @gone.usda@')


def with_value(path):
    return PLAIN.rstrip()[:-1] + f"    asset picture = @{path}@\n}}\n"


@pytest.mark.parametrize(
    "text",
    [
        MISSING,
        CLIPS,
        EXPRESSION,
        with_value("https://host/image.png"),
        with_value("package://gone/image.png"),
        with_value("base.usda:SDF_FORMAT_ARGS:a=b"),
    ],
    ids=["missing layer", "value clips", "expression", "URL", "unknown package", "format arguments"],
)
def test_what_more_than_files_decides_is_not_kept(tmp_path, text):
    for name in ("base.usda", "clip.usda"):
        (tmp_path / name).write_text(PLAIN)
    asset = tmp_path / "robot.usda"
    asset.write_text(text)
    with quiet():
        assert source_files(open_stage(str(asset))) is None


def test_a_value_beside_the_layer_is_a_source(tmp_path):
    asset = tmp_path / "robot.usda"
    asset.write_text(with_value("image.png"))
    with quiet():
        assert source_files(open_stage(str(asset))) == {str(asset), str(tmp_path / "image.png")}


def test_a_search_path_is_not_followed(tmp_path, monkeypatch):
    with quiet():
        stage = open_stage(str(ROVER))
        assert source_files(stage) is not None
        monkeypatch.setenv("PXR_AR_DEFAULT_SEARCH_PATH", str(tmp_path))
        assert source_files(stage) is None


def test_all_files_of_an_asset_are_found():
    with quiet():
        files = source_files(open_stage(str(ROVER)))
    assert files is not None
    folder = EXAMPLES / "rover"
    assert {
        str(folder / name) for name in ("world.usda", "base.usda", "physics.usda", "geometries.usdc")
    } <= files
    assert all(Path(each).is_absolute() for each in files)


def test_a_package_is_followed_to_its_files(tmp_path, monkeypatch):
    (tmp_path / "packages").mkdir()
    chain(tmp_path / "packages" / "my_robot")
    monkeypatch.setenv("USD_ROS_PACKAGE_PATH", str(tmp_path / "packages"))
    asset = tmp_path / "world.usda"
    asset.write_text(ROOT.replace("base.usda", "package://my_robot/robot.usda"))
    rest(asset)
    assert not is_cached(asset)
    assert is_cached(asset)
    change_sublayer(tmp_path / "packages" / "my_robot")
    rest(*(tmp_path / "packages" / "my_robot").iterdir())
    assert not is_cached(asset)


# --- What somebody put there -----------------------------------------------------------------------------------


class Evil:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_program_in_an_entry_does_not_run(tmp_path):
    cache, made = PlanCache(tmp_path / "plans"), tmp_path / "made"
    assert cache.store("key", Evil(made), sources())  # type: ignore[arg-type]
    assert cache.load("key", None) is None
    assert not made.exists()
    # The entry as such is whole.
    pickle.loads((tmp_path / "plans" / "key.plan").read_bytes().split(b"\n", 1)[1])
    assert made.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("usd_ros_bridge.options", "Path.touch"),
        ("usd_ros_bridge.model.plan", "replace"),
        ("usd_ros_bridge.model.plan", "Any"),
        ("usd_ros_bridge.plan_cache", "subprocess"),
        ("usd_ros_bridge.planner_process", "start_planner"),
        ("numpy", "load"),
    ],
)
def test_entries_name_nothing_but_data(tmp_path, module, name):
    # PROTO 4, two short strings, STACK_GLOBAL, STOP
    program = (
        b"\x80\x04"
        + b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name))
        + b"\x93."
    )
    with pytest.raises((pickle.UnpicklingError, AttributeError)):
        plan_cache.PlanUnpickler(program).load()


def test_the_cache_of_somebody_else_is_not_read(tmp_path, monkeypatch):
    cache, folder = PlanCache(tmp_path / "plans"), tmp_path / "plans"
    assert cache.store("key", small(), sources())
    assert cache.load("key", None) is not None
    entry = folder / "key.plan"
    for path in (folder, entry):
        mode = path.stat().st_mode
        for bit in (0o020, 0o002):
            path.chmod(mode | bit)
            assert cache.load("key", None) is None
            path.chmod(mode)
    folder.chmod(0o777)
    assert not cache.store("other", small(), sources())
    folder.chmod(0o700)
    assert cache.load("key", None) is not None
    real = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: real + 1)
    assert cache.load("key", None) is None
    assert not cache.store("other", small(), sources())


def test_a_link_or_fifo_in_the_place_of_an_entry_is_none(tmp_path):
    cache, folder = PlanCache(tmp_path / "plans"), tmp_path / "plans"
    assert cache.store("key", small(), sources())
    (folder / "key.plan").rename(tmp_path / "elsewhere")
    (folder / "key.plan").symlink_to(tmp_path / "elsewhere")
    assert cache.load("key", None) is None
    (folder / "key.plan").unlink()
    os.mkfifo(folder / "key.plan")
    assert cache.load("key", None) is None
    assert cache.store("key", small(), sources())
    assert cache.load("key", None) is not None


def test_a_directory_that_cannot_be_made_is_no_cache(tmp_path):
    (tmp_path / "file").write_text("")
    cache = PlanCache(tmp_path / "file" / "plans")
    assert not cache.store("key", small(), sources())
    assert cache.load("key", None) is None
    cache.remember(["run"], "key")
    assert not cache.expects(["run"])


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)

    def no_home():
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    cache = PlanCache()
    assert not cache.store("key", small(), sources())
    assert cache.load("key", None) is None


@given(data=st.data())
def test_a_damaged_entry_is_none(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged") / "plans"
    cache = PlanCache(folder)
    assert cache.store("key", small(), sources())
    entry = folder / "key.plan"
    content = bytearray(entry.read_bytes())
    if data.draw(st.booleans()):
        entry.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    else:
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= data.draw(st.integers(1, 255))
        entry.write_bytes(content)
    found = cache.load("key", None)
    # A damaged header may say the same in other words (`format` after a change of white space).
    assert found is None or found.plan.tobytes() == small().plan.tobytes()


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"{}", b"[" * 100_000, b'{"format": 1, "files": 1, "types": {}, "products": {}}', b"\xff"],
)
def test_a_header_of_another_form_is_none(tmp_path, header):
    cache = PlanCache(tmp_path / "plans")
    assert cache.store("key", small(), sources())
    (tmp_path / "plans" / "key.plan").write_bytes(header + b"\n" + pickle.dumps(small()))
    assert cache.load("key", None) is None


# --- Size ------------------------------------------------------------------------------------------------------


def entries(folder):
    return {each.stem for each in folder.glob("*.plan")}


def test_the_entry_that_was_not_used_for_longest_goes_first(tmp_path, monkeypatch):
    cache, folder = PlanCache(tmp_path / "plans"), tmp_path / "plans"
    monkeypatch.setattr(plan_cache, "MAX_ENTRIES", 3)
    for number, key in enumerate("abc"):
        assert cache.store(key, small(), sources())
        os.utime(folder / f"{key}.plan", (number, number))
    assert cache.load("a", None) is not None
    assert cache.store("d", small(), sources())
    assert entries(folder) == {"a", "c", "d"}
    monkeypatch.setattr(plan_cache, "MAX_BYTES", 2 * (folder / "a.plan").stat().st_size)
    assert cache.store("e", small(), sources())
    assert entries(folder) == {"d", "e"}


def test_a_plan_that_is_too_large_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_cache, "MAX_ENTRY_BYTES", 100)
    assert not PlanCache(tmp_path / "plans").store("key", small(), sources())
    assert not (tmp_path / "plans").exists()


def test_what_was_begun_and_never_completed_goes(tmp_path):
    cache, folder = PlanCache(tmp_path / "plans"), tmp_path / "plans"
    assert cache.store("key", small(), sources())
    for name, age in (("old.part", 7200.0), ("new.part", 0.0), ("foreign", 7200.0)):
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age,) * 2)
    assert cache.store("key", small(), sources())
    assert {each.name for each in folder.iterdir()} == {"key.plan", "new.part", "foreign"}


def test_processes_may_share_a_cache(tmp_path):
    folder = tmp_path / "plans"
    code = f"""
import sys
import numpy as np
from usd_ros_bridge.plan_cache import CachedPlan, PlanCache, PlanSources
cache = PlanCache({str(folder)!r})
sources = PlanSources(files=frozenset(), types={{}}, products=frozenset(), since_ns=0)
for number in range(200):
    value = np.full(5000, int(sys.argv[1]) * 1000 + number)
    assert cache.store("key", CachedPlan(plan=value, switchable={{}}), sources)
    found = cache.load("key", None)
    assert found is not None and len(set(found.plan.tolist())) == 1
"""
    children = [subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(3)]
    assert [child.wait(120.0) for child in children] == [0, 0, 0]
    assert [each.name for each in folder.iterdir()] == ["key.plan"]


# --- Which entry a command line leads to -----------------------------------------------------------------------


def test_a_command_line_is_expected_to_find_its_plan_again(tmp_path):
    cache, layer = PlanCache(tmp_path / "plans"), tmp_path / "layer.usda"
    layer.write_text("1")
    rest(layer)
    assert not cache.expects(["run", "a"])
    cache.remember(["run", "a"], "key")
    assert not cache.expects(["run", "a"]), "there is no entry yet"
    assert cache.store("key", small(), sources(files=frozenset({str(layer)}), since_ns=time.time_ns()))
    assert cache.expects(["run", "a"])
    assert not cache.expects(["run", "b"])
    layer.write_text("2")
    assert not cache.expects(["run", "a"])


def test_parameter_files_count_by_their_content(tmp_path):
    # ros2 launch writes a new one for each start.
    cache = PlanCache(tmp_path / "plans")
    assert cache.store("key", small(), sources())
    for name, text in (("one", "a"), ("two", "a"), ("three", "b")):
        (tmp_path / name).write_text(text)
    cache.remember(["--params-file", str(tmp_path / "one")], "key")
    assert cache.expects(["--params-file", str(tmp_path / "two")])
    assert not cache.expects(["--params-file", str(tmp_path / "three")])
    assert not cache.expects(["--params-file", str(tmp_path / "missing")])


def test_a_wrong_expectation_costs_time_alone():
    with PlannerProcess(["run"], is_expected_in_cache=True) as planner:
        plan = planner.plan(job(ARM, uses_cache=True))
    assert plan.robots


def test_a_planner_that_was_never_needed_ends_without_one():
    planner = PlannerProcess(["run"], is_expected_in_cache=True)
    planner.close()
    with pytest.raises(Exception, match="was ended"):
        planner.plan(job(ARM))


def test_the_header_says_what_an_entry_depends_on(plans):
    assert not is_cached(ROVER)
    (entry,) = plans.glob("*.plan")
    header = json.loads(entry.read_bytes().split(b"\n", 1)[0])
    assert str(ROVER) in header["files"]
    assert header["format"] == 1


def test_another_shard_is_another_plan(tmp_path):
    asset = write_fleet(tmp_path, robots=4, links=2)
    rest(asset, tmp_path / "robot.usda")
    for options in ({"shard": "1/2"}, {"shard": "2/2"}, {"contexts": ("robot_3",)}):
        assert not is_cached(asset, plan_options=PlanOptions(**options))
        again, _, cached = planned(asset, plan_options=PlanOptions(**options))
        assert cached
        expected = load_plan(str(asset), plan_options=PlanOptions(**options))
        assert not list(differences(bare(expected), bare(again)))
        assert left_out(StageSession(again.stage).stage) == left_out(expected.stage)


def test_files_of_robots_that_are_left_out_are_sources_of_a_plan(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.usda").write_text(
            '#usda 1.0\n( defaultPrim = "robot" )\ndef Xform "robot" ( prepend apiSchemas = ["RosContextAPI"] )\n'
            f'{{\n    string ros:context:namespace = "{name}"\n}}\n'
        )
    asset = tmp_path / "world.usda"
    asset.write_text(
        '#usda 1.0\n( defaultPrim = "World" )\ndef Xform "World"\n{\n'
        'def Xform "a" ( prepend references = @./a.usda@ ) {\n}\n'
        'def Xform "b" ( prepend references = @./b.usda@ ) {\n}\n}\n'
    )
    rest(asset, tmp_path / "a.usda", tmp_path / "b.usda")
    options = PlanOptions(contexts=("a",))
    assert not is_cached(asset, plan_options=options)
    assert is_cached(asset, plan_options=options)
    other = tmp_path / "b.usda"
    other.write_text(other.read_text().replace('"b"', '"renamed"'))
    rest(other)
    plan, _, cached = planned(asset, plan_options=options)
    assert not cached
    assert plan.context_namespaces == ("a", "renamed")
