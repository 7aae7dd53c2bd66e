"""The live table draws what the status says, for any status."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from usd_ros_bridge.cli.views import MAX_FINDINGS, live_view, render_status
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import FramePlan, RobotPlan
from usd_ros_bridge.reporting import Reported
from usd_ros_bridge.ros.bridge_status import BridgeStatus, InterfaceStatus, TimeStatus
from usd_ros_bridge.spatial.pose import Pose

FRAMES = (
    FramePlan(id="base_link", parent="odom", path="/r", static=False, parent_from_frame=Pose()),
    FramePlan(
        id="lidar", parent="base_link", path="/r/l", static=True, parent_from_frame=Pose(), parent_index=0
    ),
)


def status(**changes: object) -> BridgeStatus:
    values: dict[str, object] = {
        "asset": "robot.usda", "backend": "kinematic", "time_ns": 1, "ticks": 3, "tick_seconds": 5e-5,
        "backend_errors": 0, "moving_frames": 1, "static_frames": 1, "diagnostics": (), "reports": (),
        "robots": (RobotPlan(path="/r", namespace="/rover", domain_id=None, frames=FRAMES),),
        "interfaces": (
            InterfaceStatus(
                kind="topic", role="publisher", path="/r/imu", name="/rover/imu", type="sensor_msgs/msg/Imu",
                domain_id=4, authored_rate=200.0, achieved_rate=199.5, matched=2, count=1234, state="active",
            ),
            InterfaceStatus(
                kind="service", role="server", path="/r/s", name="/rover/led", type="std_srvs/srv/SetBool",
                state="disabled", reason="no such type",
            ),
        ),
    }  # fmt: skip
    return BridgeStatus(**{**values, **changes})  # type: ignore[arg-type]


def drawn(shown: BridgeStatus, *, width: int = 160) -> str:
    console = Console(width=width, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(render_status(shown))
    return capture.get()


def test_every_interface_is_a_row_with_its_figures() -> None:
    lines = drawn(status()).splitlines()
    (imu,) = [line for line in lines if "/rover/imu" in line]
    assert all(
        text in imu for text in ("sensor_msgs/msg/Imu", "200", "199.5", " 2 ", "1234", "active", " 4 ")
    )
    (led,) = [line for line in lines if "/rover/led" in line]
    assert "off: no such type" in led


@pytest.mark.parametrize(
    ("passing", "shown"),
    [
        (None, "backend kinematic  3 ticks"),
        (("playing", 1.0, None), "time 12.50 s playing  3 ticks"),
        (("playing", 1.0, 0.997), "time 12.50 s playing x1.00  3 ticks"),
        (("playing", 1.0, 0.412), "time 12.50 s playing x0.41 of 1  3 ticks"),
        (("playing", 0.0, 31.4), "time 12.50 s playing x31.40  3 ticks"),
        (("paused", 1.0, None), "time 12.50 s paused  3 ticks"),
    ],
)
def test_time_that_the_bridge_owns_is_shown(passing: tuple[Any, ...] | None, shown: str) -> None:
    time = None
    if passing is not None:
        state, factor, achieved = passing
        time = TimeStatus(state=state, real_time_factor=factor, achieved_factor=achieved)
    assert shown in drawn(status(time=time, time_ns=12_500_000_000)).splitlines()[0]


@pytest.mark.parametrize(
    ("served_by", "shown"),
    [("built-in", "built-in"), ("/r/Controllers/arm", "arm (1 failed)"), ("", "idle")],
)
def test_who_serves_is_shown_instead_of_idle(served_by: str, shown: str) -> None:
    row = InterfaceStatus(
        kind="service", role="server", path="/r/s", name="/rover/led", type="std_srvs/srv/SetBool", state="idle",
        served_by=served_by, errors=int("/" in served_by),
    )  # fmt: skip
    (led,) = [line for line in drawn(status(interfaces=(row,))).splitlines() if "/rover/led" in line]
    assert led.rstrip().endswith(shown)


def test_domains_are_shown_where_there_are_several() -> None:
    assert "domain" in drawn(status())
    (only, _) = status().interfaces
    assert "domain" not in drawn(status(interfaces=(only,)))


def test_frames_of_every_robot_are_named() -> None:
    text = drawn(status())
    assert "frames /rover: odom base_link lidar" in text
    assert "1 moving, 1 static" in text


def test_reports_come_before_diagnostics_and_the_worst_diagnostic_first() -> None:
    diagnostics = (
        Diagnostic(code="a", severity="info", path="/r", message="by the way"),
        Diagnostic(code="b", severity="error", path="/r", message="broken"),
    )
    text = drawn(status(diagnostics=diagnostics, reports=(Reported(kind="k", message="slow", count=7),)))
    assert text.index("slow (7x)") < text.index("broken") < text.index("by the way")


def test_findings_beyond_the_limit_are_counted() -> None:
    diagnostics = tuple(
        Diagnostic(code="c", severity="info", path="/r", message=f"m{number}")
        for number in range(MAX_FINDINGS + 3)
    )
    text = drawn(status(diagnostics=diagnostics))
    assert "and 3 more" in text
    assert f"m{MAX_FINDINGS}" not in text


@pytest.mark.parametrize("hostile", ["[bold]x[/bold]", "\x1b]0;owned\x07", "[/]"])
def test_text_from_an_asset_is_shown_and_never_interpreted(hostile: str) -> None:
    diagnostic = Diagnostic(code="c", severity="error", path=hostile, message=hostile)
    text = drawn(status(asset=hostile, diagnostics=(diagnostic,)))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert hostile.replace("\x1b", "\\x1b").replace("\x07", "\\x07") in text


def test_the_view_draws_until_its_block_ends() -> None:
    console = Console(width=160, force_terminal=True, record=True)
    calls: list[int] = []

    def now() -> BridgeStatus:
        calls.append(1)
        return status()

    with console.capture() as capture, live_view(now, console=console):
        pass
    assert calls
    assert "/rover/imu" in capture.get()
