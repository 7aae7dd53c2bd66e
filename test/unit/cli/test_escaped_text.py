"""Text from assets, peers and files never reaches a terminal, a log or a document as control characters or markup."""

from __future__ import annotations

import io
import json
import logging
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Usd
from rich.console import RenderableType

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.cli.main import main
from usd_ros_bridge.cli.views import TerminalConsole, plain, print_plan
from usd_ros_bridge.errors import AssetError, escaped
from usd_ros_bridge.export.plan_json import plan_summary_text, plan_to_json
from usd_ros_bridge.export.urdf import UrdfExporter
from usd_ros_bridge.export.urdf.document import document_text
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.reporting import OnceReporter, Reported, describe

ROOT = Path(__file__).parents[3]
ASSETS = ("examples/arm/arm.usda", "examples/rover/rover.usda", "test/assets/services_actions.usda")
EVIL = "\x1b]0;owned\x07\x9b31m\x7f\u202eevil\u2066[/x][bold red]\t"
STYLES = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]")


def assert_clean(text: str) -> None:
    """Check that text has no control character beside line ends and rich's own styles."""
    shown = STYLES.sub("", text)
    raw = {each for each in shown if not each.isprintable()} - {"\n"}
    assert not raw, [line for line in shown.splitlines() if not line.isprintable()][:3]
    assert "\x1b" not in shown


def printed(renderable: RenderableType) -> str:
    stream = io.StringIO()
    TerminalConsole(file=stream, width=200, force_terminal=True).print(renderable)
    return stream.getvalue()


def evil_stage(asset: str, name: str | None) -> Usd.Stage:
    """Return an asset with an escape sequence in one string property, by name, or in all that there are."""
    stage = Usd.Stage.Open(str(ROOT / asset))
    # All stages of this process share the layer of the file.
    stage.SetEditTarget(stage.GetSessionLayer())
    for prim in stage.Traverse():
        for attribute in prim.GetAuthoredAttributes():
            value = attribute.Get()
            if name in (None, attribute.GetName()) and isinstance(value, str):
                attribute.Set(f"{value}{EVIL}")
        prim.SetMetadata("displayName", EVIL)
    return stage


def string_properties() -> list[tuple[str, str]]:
    found = set()
    for asset in ASSETS:
        stage = Usd.Stage.Open(str(ROOT / asset))
        for prim in stage.Traverse():
            names = {each.GetName() for each in prim.GetAuthoredAttributes() if isinstance(each.Get(), str)}
            found |= {
                (asset, name) for name in names if name.startswith(("ros:", "usd_ros_bridge:", "physics:"))
            }
    return sorted(found)


def check_asset(stage: Usd.Stage) -> None:
    plan = load_plan(stage, physics=True)
    stream = io.StringIO()
    print_plan(plan, TerminalConsole(file=stream, width=200, force_terminal=True))
    assert_clean(stream.getvalue())
    assert_clean(plan_summary_text(plan))
    json.dumps(plan_to_json(plan), allow_nan=False)
    assert_clean("\n".join(map(str, plan.diagnostics)))
    exporter = UrdfExporter(plan)
    for robot in range(len(plan.robots)):
        urdf = exporter.robot(robot)
        ET.fromstring(urdf.text)
        assert_clean(urdf.text)
        assert_clean("\n".join(map(str, urdf.diagnostics)))


@pytest.mark.parametrize("asset", ASSETS)
def test_an_asset_with_escape_sequences_in_every_string_is_shown_without_them(asset: str) -> None:
    check_asset(evil_stage(asset, None))


@pytest.mark.heavy
def test_an_asset_with_escape_sequences_in_one_string_is_shown_without_them() -> None:
    for asset, name in string_properties():
        check_asset(evil_stage(asset, name))


def test_inspect_json_and_diff_print_printable_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = evil_stage(ASSETS[2], None)
    file = tmp_path / "evil.usda"
    stage.Flatten().Export(str(file))
    for arguments in (
        ["inspect", str(file)], ["inspect", str(file), "--json"], ["diff", str(ROOT / ASSETS[2]), str(file)],
        ["diff", str(ROOT / ASSETS[2]), str(file), "--json"], ["urdf", str(file)], ["inspect", f"{EVIL}.usda"],
        ["inspect", str(file), "--variant", f"/x:{EVIL}=b"], ["scaffold", str(file), "-o", str(tmp_path / "x.usda")],
        ["resolver"], [f"inspect{EVIL}"], ["inspect", f"--{EVIL}"],
    ):  # fmt: skip
        with pytest.raises(SystemExit):
            main(arguments)
        out = capsys.readouterr()
        assert_clean(out.out)
        assert_clean(out.err)


@pytest.mark.parametrize(
    "text", [f'def Xform "{EVIL}" {{', f"#usda 1.0\ndef {EVIL}", f"#usda 1.0\n(\nupAxis = {EVIL}"]
)
def test_a_parse_error_quotes_no_control_characters(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.usda"
    file.write_text(text if text.startswith("#") else f"#usda 1.0\n{text}", encoding="utf-8")
    with pytest.raises(AssetError) as caught:
        load_plan(str(file))
    assert_clean(str(caught.value))
    with pytest.raises(SystemExit):
        main(["inspect", str(file)])
    assert_clean(capsys.readouterr().err)


@pytest.mark.app
def test_the_live_view_shows_no_control_characters() -> None:
    from usd_ros_bridge.cli.live_app import detail_text, findings_text, frames_text, head_text
    from usd_ros_bridge.cli.live_view import FrameNames
    from usd_ros_bridge.ros.bridge_status import BridgeStatus, InterfaceStatus

    row = InterfaceStatus(
        kind=EVIL, role=EVIL, path=EVIL, name=EVIL, type=EVIL, state="disabled", reason=EVIL
    )
    finding = Diagnostic(code=EVIL, severity="error", path=EVIL, message=EVIL, remedy=EVIL)
    robot = FrameNames(namespace=EVIL, tops=(EVIL,), frames=((EVIL, True), (EVIL, False)))
    status = BridgeStatus(
        asset=EVIL, backend=EVIL, time_ns=1, ticks=1, tick_seconds=0.1, backend_errors=0, interfaces=(row,),
        moving_frames=1, static_frames=1, robots=(), diagnostics=(finding,),
        reports=(Reported(kind=EVIL, message=EVIL, count=2),),
    )  # fmt: skip
    for text in (
        head_text(status), findings_text(status, (finding,)), frames_text([robot], 1, status), detail_text(row, None)
    ):  # fmt: skip
        assert_clean(text.plain)


def test_markup_in_a_cell_is_text() -> None:
    assert "[bold red]x[/x]" in printed("[bold red]x[/x]")
    assert "[/x]" in printed(plain("[/x]"))


def test_logs_and_reports_show_no_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    from usd_ros_bridge.reporting import NodeLog

    with caplog.at_level(logging.INFO):
        log = NodeLog("usd_ros_bridge")
        log.warn(EVIL, EVIL)
        log.inform(EVIL, EVIL)
        OnceReporter()(EVIL, EVIL)
    assert len(caplog.messages) == 3
    assert_clean("\n".join(caplog.messages))
    assert_clean(describe(ValueError(EVIL)))


def test_a_document_has_no_characters_that_xml_forbids() -> None:
    root = ET.Element("robot", {"name": EVIL})
    ET.SubElement(root, "mesh", {"filename": f"file:///{EVIL}\x00\ufffe"})
    assert_clean(document_text(root))
    ET.fromstring(document_text(root))


def test_escaping_twice_is_escaping_once() -> None:
    assert escaped(escaped(EVIL)) == escaped(EVIL)
    assert escaped("\x1b[31m\udc80") == "\\x1b[31m\\udc80"
    assert escaped("plain 世界 ünï") == "plain 世界 ünï"
    assert escaped("a\nb", keep="\n") == "a\nb"
