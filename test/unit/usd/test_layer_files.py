"""Only regular files are opened, within limits; files are saved in place while they are read."""

from __future__ import annotations

import gc
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pxr import Sdf
from reading import read_asset

from case_tables import each_case
from usd_ros_bridge.errors import AssetError, BridgeError
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.spatial.transforms import IDENTITY
from usd_ros_bridge.usd import open_stage, quiet
from usd_ros_bridge.usd.edit.reload import reload
from usd_ros_bridge.usd.edit.spawn import Spawner

SAVES = int(os.environ.get("IN_PLACE_SAVES", "25"))
"""Saves in place of each format; the long form is IN_PLACE_SAVES=10000."""

HEADER = '#usda 1.0\n(\n    defaultPrim = "r"\n    metersPerUnit = 1\n    upAxis = "Z"\n    {}\n)\n'
FIFO = "it is a FIFO and no regular file"


def make_irregular(folder: Path, name: str) -> str:
    """Make what is no regular file; return why it is refused."""
    path = folder / name
    kind = name.partition(".")[0]
    if kind == "fifo":
        os.mkfifo(path)
        return FIFO
    if kind == "link":
        os.mkfifo(folder / "behind")
        path.symlink_to(folder / "behind")
        return FIFO
    if kind == "folder":
        path.mkdir()
        return "it is a directory and no regular file"
    if kind == "device":
        path.symlink_to("/dev/zero")
        return "it is a device and no regular file"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))
    return "it is a socket and no regular file"


ARCS = {
    "sublayer": (HEADER.format("subLayers = [@{0}@]"), 'def Xform "r"\n{{\n}}\n'),
    "reference": (HEADER.format(""), 'def Xform "r" (\n    references = @{0}@\n)\n{{\n}}\n'),
    "payload": (HEADER.format(""), 'def Xform "r" (\n    payload = @{0}@\n)\n{{\n}}\n'),
}


@each_case("arc", ARCS)
@each_case("name", ["fifo.usda", "fifo.usdc", "fifo.usdz", "link.usda", "folder.usda", "device.usda"])
def test_an_arc_to_no_regular_file_is_a_diagnostic(tmp_path: Path, arc: str, name: str) -> None:
    why = make_irregular(tmp_path, name)
    asset = tmp_path / "asset.usda"
    asset.write_text(
        "".join(ARCS[arc]).format(f"./{name}").replace("{{", "{").replace("}}", "}"), encoding="utf-8"
    )
    with quiet():
        stage, records = read_asset(str(asset))
    found = [each for each in records.diagnostics if each.code == "1.2.5.asset"]
    assert [each.path for each in found] == ["" if arc == "sublayer" else "/r"]
    assert why in found[0].message
    assert stage.GetPrimAtPath("/r")


@each_case("name", ["fifo.usda", "link.usdc", "device.usda", "folder.usda"])
def test_a_root_layer_that_is_no_regular_file_is_refused(tmp_path: Path, name: str) -> None:
    make_irregular(tmp_path, name)
    with pytest.raises(AssetError, match=r"cannot open .*(regular file|directory)"):
        open_stage(str(tmp_path / name))


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_irregular(tmp_path, "socket.usda")
    with pytest.raises(AssetError, match="a socket"):
        open_stage(str(tmp_path / "socket.usda"))


def test_a_package_path_and_a_value_clip_lead_to_a_fifo(tmp_path: Path) -> None:
    make_irregular(tmp_path, "fifo.usda")
    asset = tmp_path / "asset.usda"
    asset.write_text(
        HEADER.format("") + 'def Xform "r" (\n    references = @package://parts/fifo.usda@\n    clips = {\n'
        "        dictionary default = {\n            asset[] assetPaths = [@./fifo.usda@]\n"
        '            string primPath = "/r"\n            double2[] active = [(0, 0)]\n'
        "            double2[] times = [(0, 0)]\n        }\n    }\n)\n{\n    double x\n}\n",
        encoding="utf-8",
    )
    with quiet():
        _, records = read_asset(str(asset), ReadOptions(packages={"parts": str(tmp_path)}))
    assert sum(FIFO in each.message for each in records.diagnostics) >= 1


def test_a_fifo_is_refused_when_files_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "part.usda").write_text(HEADER.format("") + 'def Xform "r"\n{\n}\n', encoding="utf-8")
    asset = tmp_path / "asset.usda"
    plain = HEADER.format("") + 'def Xform "r" (\n    references = @./part.usda@\n)\n{\n}\n'
    asset.write_text(plain, encoding="utf-8")
    with quiet():
        stage = open_stage(str(asset))
    (tmp_path / "part.usda").unlink()
    os.mkfifo(tmp_path / "part.usda")
    with pytest.raises(AssetError, match=FIFO):
        reload(stage)
    os.mkfifo(tmp_path / "other.usda")
    asset.write_text(plain.replace("part.usda", "other.usda"), encoding="utf-8")
    with pytest.raises(AssetError, match=FIFO):
        reload(stage, {str(asset)})
    assert str(stage.GetPrimAtPath("/r").GetTypeName()) == "Xform"
    (tmp_path / "other.usda").unlink()
    (tmp_path / "other.usda").write_text(
        HEADER.format("") + 'def Scope "r"\n{\n    double y = 2\n}\n', encoding="utf-8"
    )
    reload(stage, {str(asset)})
    assert stage.GetPrimAtPath("/r").GetAttribute("y").Get() == 2


def test_what_is_spawned_is_a_regular_file(tmp_path: Path) -> None:
    asset = tmp_path / "asset.usda"
    asset.write_text(HEADER.format("") + 'def Xform "r"\n{\n}\n', encoding="utf-8")
    with quiet():
        stage = open_stage(str(asset))
    os.mkfifo(tmp_path / "fifo.usda")
    part = tmp_path / "part.usda"
    part.write_text(HEADER.format("subLayers = [@./fifo.usda@]") + 'def Xform "r"\n{\n}\n', encoding="utf-8")
    for file in (tmp_path / "fifo.usda", part):
        with pytest.raises(BridgeError, match=FIFO):
            Spawner(stage).spawn("new", file, namespace="", world_from_prim=IDENTITY)


def test_a_reload_that_takes_too_long_is_refused_and_the_next_one_works(tmp_path: Path) -> None:
    asset = tmp_path / "asset.usda"
    asset.write_text(HEADER.format("") + 'def Xform "r"\n{\n}\n', encoding="utf-8")
    with quiet():
        stage = open_stage(str(asset), ReadOptions(reload_timeout=1e-9))
    asset.write_text(HEADER.format("") + 'def Xform "r"\n{\n    double x = 1\n}\n', encoding="utf-8")
    with pytest.raises(AssetError, match="reload_timeout"):
        reload(stage)
    from usd_ros_bridge.usd.layer_files import LayerFiles, keep_files

    keep_files(stage, LayerFiles(ReadOptions()))
    reload(stage)
    assert stage.GetPrimAtPath("/r").GetAttribute("x").Get() == 1


# --- Limits ----------------------------------------------------------------------------------------------------


def bomb(kind: str, levels: int = 10) -> str:
    child = '    def "c{0}" (\n        {1} = </x{2}>\n    )\n    {{\n    }}\n'
    parts = [
        f'def "x{level}"\n{{\n' + "".join(child.format(each, kind, level + 1) for each in range(10)) + "}\n"
        for level in range(levels)
    ]
    return '#usda 1.0\n(\n    defaultPrim = "x0"\n)\n' + "".join(parts) + f'def "x{levels}"\n{{\n}}\n'


@pytest.mark.parametrize("kind", ["references", "payload", "inherits", "specializes"])
def test_arcs_that_multiply_are_refused_before_they_are_composed(
    write: Callable[..., str], kind: str
) -> None:
    asset = write(bomb(kind), header="")
    with pytest.raises(AssetError, match="more than 2,000,000 prims; max_prims"):
        open_stage(asset)


def test_prims_are_counted_as_they_are_composed(write: Callable[..., str]) -> None:
    asset = write(bomb("references", 2), header="")
    # The root, x0 with 10 and 100 below, x1 with 10, x2.
    number = 1 + 111 + 11 + 1
    with quiet():
        stage = open_stage(asset, ReadOptions(max_prims=number))
        assert 1 + len(list(stage.TraverseAll())) == number
        with pytest.raises(AssetError, match=f"more than {number - 1} prims"):
            open_stage(asset, ReadOptions(max_prims=number - 1))


def test_what_a_stage_adds_to_what_it_refers_to_is_counted(write: Callable[..., str]) -> None:
    robot = 'def "robot"\n{\n    def "base"\n    {\n        def "link"\n        {\n        }\n    }\n}\n'
    own = (
        "",
        "    double size = 1\n",
        '    over "base"\n    {\n        def "more"\n        {\n        }\n    }\n',
        '    def "top"\n    {\n    }\n',
    )
    asset = write(
        robot
        + "".join(f'def "r{n}" (\n    references = </robot>\n)\n{{\n{own[n % 4]}}}\n' for n in range(10))
    )
    with quiet():
        stage = open_stage(asset)
        number = 1 + len(list(stage.TraverseAll()))
        open_stage(asset, ReadOptions(max_prims=number))
        with pytest.raises(AssetError, match=f"more than {number - 1} prims"):
            open_stage(asset, ReadOptions(max_prims=number - 1))


@pytest.mark.skipif(not hasattr(Sdf.Layer, "HasRelocates"), reason="OpenUSD before 24.05 relocates nothing")
@pytest.mark.parametrize("robot_name", ["a", "b"])
def test_relocated_prims_are_counted_where_they_are(write: Callable[..., str], robot_name: str) -> None:
    big = "".join(f'        def "p{number}"\n        {{\n        }}\n' for number in range(50))
    robot = 'def "robot"\n{\n    def "base"\n    {\n    }\n}\n'
    box = f'def "box"\n{{\n    def "big"\n    {{\n{big}    }}\n}}\n'
    layer = Sdf.Layer.CreateAnonymous()
    assert layer.ImportFromString("#usda 1.0\n" + robot + box)
    asset = write(
        'def "a" (\n    references = @robot.usda@</robot>\n)\n{\n}\n'
        'def "b" (\n    references = @robot.usda@</robot>\n)\n{\n}\n'
        'def "c" (\n    references = @robot.usda@</box>\n)\n{\n}\n',
        header=f"#usda 1.0\n(\n    relocates = {{\n        </c/big>: </{robot_name}/base/big>\n    }}\n)\n",
    )
    layer.Export(str(Path(asset).parent / "robot.usda"))
    with quiet():
        stage = open_stage(asset)
        assert stage.GetPrimAtPath(f"/{robot_name}/base/big/p0")
        number = 1 + len(list(stage.TraverseAll()))
        open_stage(asset, ReadOptions(max_prims=number))
        with pytest.raises(AssetError, match=f"more than {number - 1} prims"):
            open_stage(asset, ReadOptions(max_prims=number - 1))


def test_instances_count_each(write: Callable[..., str]) -> None:
    body = 'def "a"\n{\n    def "b"\n    {\n    }\n}\n' + "".join(
        f'def "i{each}" (\n    instanceable = true\n    references = </a>\n)\n{{\n}}\n' for each in range(50)
    )
    with pytest.raises(AssetError, match="more than 100 prims"):
        open_stage(write(body), ReadOptions(max_prims=100))
    open_stage(write(body), ReadOptions(max_prims=103))


def test_prims_of_other_expression_variables_are_other_prims(tmp_path: Path) -> None:
    (tmp_path / "few.usda").write_text(
        '#usda 1.0\n(\n    defaultPrim = "p"\n)\ndef "p"\n{\n}\n', encoding="utf-8"
    )
    (tmp_path / "many.usda").write_text(
        '#usda 1.0\n(\n    defaultPrim = "p"\n)\ndef "p"\n{\n'
        + "".join(f'    def "c{each}"\n    {{\n    }}\n' for each in range(50))
        + "}\n",
        encoding="utf-8",
    )
    (tmp_path / "module.usda").write_text(
        '#usda 1.0\n(\n    defaultPrim = "m"\n)\ndef "m"\n{\n    def "below"\n    {\n        def "part" (\n'
        """            references = @`"./${SIZE}.usda"`@\n        )\n        {\n        }\n    }\n}\n""",
        encoding="utf-8",
    )
    for size in ("few", "many"):
        (tmp_path / f"with_{size}.usda").write_text(
            '#usda 1.0\n(\n    defaultPrim = "w"\n'
            f'    expressionVariables = {{\n        string SIZE = "{size}"\n    }}\n)\n'
            'def "w" (\n    references = @./module.usda@\n)\n{\n}\n',
            encoding="utf-8",
        )
    asset = tmp_path / "asset.usda"
    asset.write_text(
        "#usda 1.0\n"
        + "".join(
            f'def "{name}" (\n    references = @./with_{size}.usda@\n)\n{{\n}}\n'
            for name, size in (("a", "few"), ("b", "few"), ("c", "many"), ("d", "many"))
        ),
        encoding="utf-8",
    )
    number = 1 + 4 * 3 + 2 * 50
    with quiet():
        stage = open_stage(str(asset), ReadOptions(max_prims=number))
        assert 1 + len(list(stage.TraverseAll())) == number
        with pytest.raises(AssetError, match=f"more than {number - 1} prims"):
            open_stage(str(asset), ReadOptions(max_prims=number - 1))


def test_counting_prims_leaves_no_objects_behind(write: Callable[..., str]) -> None:
    asset = write(bomb("references", 2), header="")

    def count() -> int:
        gc.collect()
        # Not by isinstance, which asks expired objects for their class.
        return sum(type(each).__name__ == "LayerStack" for each in gc.get_objects())

    before = count()
    open_stage(asset)
    assert count() == before


@pytest.mark.parametrize(
    "text",
    [
        "#usda 1.0\n" + 'def "a" {\n' * 100_000 + "}\n" * 100_000,
        "#usda 1.0\n(\n customLayerData = {" + "dictionary a = {" * 100_000 + "}" * 100_000 + "}\n)\n",
    ],
    ids=["prims", "dictionaries"],
)
def test_nesting_that_would_crash_openusd_is_refused(tmp_path: Path, text: str) -> None:
    asset = tmp_path / "asset.usda"
    asset.write_text(text, encoding="utf-8")
    with pytest.raises(AssetError, match="more than 10,000 levels of nesting; max_nesting"):
        open_stage(str(asset))


def test_nesting_through_references_is_refused(tmp_path: Path) -> None:
    for level in range(4):
        (tmp_path / f"p{level}.usda").write_text(
            '#usda 1.0\n(\n    defaultPrim = "a"\n)\n'
            + 'def "a" {\n' * 50
            + f'over "q" (\n    references = @./p{level + 1}.usda@\n)\n{{\n}}\n'
            + "}\n" * 50,
            encoding="utf-8",
        )
    with pytest.raises(AssetError, match="more than 150 levels of nesting"):
        open_stage(str(tmp_path / "p0.usda"), ReadOptions(max_nesting=150))


def chain(arc: str, length: int) -> str:
    """Return prims of which each has the next one as its reference or base class."""
    prims = [f'def "c{each}" (\n    {arc} = </c{each + 1}>\n)\n{{\n}}\n' for each in range(length)]
    return "".join(prims) + f'def "c{length}"\n{{\n}}\n'


@pytest.mark.parametrize("arc", ["references", "inherits", "specializes"])
def test_arcs_without_end_are_refused(write: Callable[..., str], arc: str) -> None:
    asset = write(chain(arc, 600))
    with pytest.raises(AssetError, match=r"</c\d+>: more than 500 composition arcs or API schemas; max_arcs"):
        open_stage(asset)
    assert open_stage(write(chain(arc, 50)), ReadOptions(max_arcs=100)), "an arc to specialize counts twice"


def test_api_schemas_without_end_are_refused(write: Callable[..., str]) -> None:
    def applied(count: int) -> str:
        names = ", ".join(f'"CollectionAPI:c{each}"' for each in range(count))
        return f'def "robot" (\n    prepend apiSchemas = [{names}]\n)\n{{\n}}\n'

    with pytest.raises(
        AssetError, match=r"</robot>: more than 500 composition arcs or API schemas; max_arcs"
    ):
        open_stage(write(applied(20_000)))
    assert open_stage(write(applied(500)))


def test_brackets_in_strings_and_comments_do_not_nest(write: Callable[..., str]) -> None:
    body = 'def "Robot" (\n    doc = "' + "{" * 500 + '"\n)\n{\n    # ' + "[" * 500 + "\n}\n"
    assert open_stage(write(body), ReadOptions(max_nesting=100))


def test_layers_and_bytes_are_limited(tmp_path: Path) -> None:
    for each in range(5):
        (tmp_path / f"s{each}.usda").write_text(HEADER.format("") + 'over "r"\n{\n}\n', encoding="utf-8")
    sublayers = ", ".join(f"@./s{each}.usda@" for each in range(5))
    asset = tmp_path / "asset.usda"
    asset.write_text(HEADER.format(f"subLayers = [{sublayers}]") + 'def Xform "r"\n{\n}\n', encoding="utf-8")
    with pytest.raises(AssetError, match="more than 5 layers"):
        open_stage(str(asset), ReadOptions(max_layers=5))
    with pytest.raises(AssetError, match="more than 300 bytes in its files"):
        open_stage(str(asset), ReadOptions(max_bytes=300))
    assert open_stage(str(asset), ReadOptions(max_layers=6))


# --- Packages --------------------------------------------------------------------------------------------------


def test_expression_variables_do_not_leave_a_package(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "secret.usda").write_text(
        HEADER.format("") + 'def Xform "r"\n{\n    def "secret"\n    {\n    }\n}\n', encoding="utf-8"
    )
    # The variable of the layer that refers wins over that of the layer itself.
    (tmp_path / "part.usda").write_text(
        HEADER.format('expressionVariables = {\n        string UP = "."\n    }')
        + 'def Xform "r" (\n    references = @`"package://parts/${UP}/secret.usda"`@\n)\n{\n}\n',
        encoding="utf-8",
    )
    asset = tmp_path / "asset.usda"
    asset.write_text(
        HEADER.format('expressionVariables = {\n        string UP = ".."\n    }')
        + 'def Xform "r" (\n    references = @./part.usda@\n)\n{\n}\n',
        encoding="utf-8",
    )
    with quiet():
        stage, records = read_asset(str(asset), ReadOptions(packages={"parts": str(tmp_path / "package")}))
    (found,) = [each for each in records.diagnostics if each.code == "1.2.5.package"]
    assert "'package://parts/../secret.usda'" in found.message
    assert "not followed" in found.message
    assert not stage.GetPrimAtPath("/r/secret")


# --- Saved in place --------------------------------------------------------------------------------------------


def contents(folder: Path, extension: str) -> list[bytes]:
    """Layers of several sizes, as bytes."""
    made = []
    prim = '    def "p{0}"\n    {{\n        float[] v = [' + ", ".join(["1.5"] * 40) + "]\n    }}\n"
    for number in (1, 40, 400):
        body = "".join(prim.format(each) for each in range(number))
        text = HEADER.format("") + f'def Xform "r"\n{{\n    int count = {number}\n{body}}}\n'
        if extension == "usda":
            made.append(text.encode())
            continue
        layer = Sdf.Layer.CreateAnonymous(".usda")
        layer.ImportFromString(text)
        file = folder / f"made{number}.usdc"
        layer.Export(str(file))
        made.append(file.read_bytes())
    return made


@pytest.fixture
def saving(tmp_path: Path) -> Iterator[Callable[[Path, list[bytes]], threading.Event]]:
    """Save a file in place in another process, again and again, in pieces."""
    processes = []

    def start(file: Path, versions: list[bytes]) -> threading.Event:
        sources = []
        for index, content in enumerate(versions):
            sources.append(tmp_path / f"version{index}")
            sources[-1].write_bytes(content)
        script = (
            "import random, sys, time\n"
            "random.seed(14)\n"
            "contents = [open(each, 'rb').read() for each in sys.argv[2:]]\n"
            "while True:\n"
            "    content = random.choice(contents)\n"
            "    with open(sys.argv[1], 'r+b') as stream:\n"
            "        stream.truncate(0)\n"
            "        half = random.randrange(len(content))\n"
            "        stream.write(content[:half])\n"
            "        stream.flush()\n"
            "        time.sleep(random.choice((0, 0.001, 0.005)))\n"
            "        stream.write(content[half:])\n"
            "    print('saved', flush=True)\n"
            "    time.sleep(random.uniform(0.02, 0.1))\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(file), *map(str, sources)], stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        enough = threading.Event()

        def count() -> None:
            for number, _ in enumerate(process.stdout or (), start=1):
                if number >= SAVES:
                    enough.set()

        threading.Thread(target=count, daemon=True).start()
        return enough

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.process
@pytest.mark.parametrize("extension", ["usda", "usdc"])
def test_files_are_read_again_while_they_are_saved_in_place(
    tmp_path: Path, saving: Callable[[Path, list[bytes]], threading.Event], extension: str
) -> None:
    versions = contents(tmp_path, extension)
    file = tmp_path / f"part.{extension}"
    file.write_bytes(versions[0])
    asset = tmp_path / "asset.usda"
    asset.write_text(
        HEADER.format("") + f'def Xform "r" (\n    references = @./part.{extension}@\n)\n{{\n}}\n',
        encoding="utf-8",
    )
    with quiet():
        stage = open_stage(str(asset), ReadOptions(private_copies=True))
    enough = saving(file, versions)
    read = refused = 0
    while not enough.is_set():
        try:
            reload(stage, {str(file)})
            read += 1
        except AssetError:
            refused += 1
        root = stage.GetPrimAtPath("/r")
        # Whole versions only, the lazily read values of binary files included.
        assert len(root.GetChildren()) == root.GetAttribute("count").Get()
        for prim in random.sample(root.GetChildren(), 1):
            assert sum(prim.GetAttribute("v").Get()) == 60.0
    print(f"{extension}: {SAVES} saves, {read} read, {refused} refused")
    assert read
