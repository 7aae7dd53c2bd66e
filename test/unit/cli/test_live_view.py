"""The live view shows what the status says, at three sizes of a terminal, for any status."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from html import unescape
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, RichLog, Static

from usd_ros_bridge.cli.live_app import (
    COLUMNS,
    Findings,
    InterfaceTable,
    LiveApp,
    detail_text,
    findings_text,
    head_text,
)
from usd_ros_bridge.cli.live_view import FrameNames, ViewUpdate
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.reporting import Reported
from usd_ros_bridge.ros.bridge_status import BridgeStatus, InterfaceStatus, TimeStatus

pytestmark = pytest.mark.app

SIZES = [(80, 24), (120, 40), (200, 50)]
TEXT = re.compile(
    r'<text [^>]*?x="([\d.]+)"[^>]*?clip-path="url\([^)]*-line-(\d+)\)">(.*?)</text>', re.DOTALL
)
CELL = 12.2
"""Width of a character in textual's pictures."""
LONG = "the joint /rover/wheel turns without end and says so in a sentence that no line of a terminal has room for"


def row(name: str, **changes: object) -> InterfaceStatus:
    values: dict[str, object] = {
        "kind": "topic", "role": "publisher", "path": f"/r{name}", "name": name, "type": "sensor_msgs/msg/Imu",
        "authored_rate": 200.0, "achieved_rate": 199.5, "matched": 2, "count": 1234, "state": "active",
        "qos": QosPlan(reliability="best_effort"),
    }  # fmt: skip
    return InterfaceStatus(**{**values, **changes})  # type: ignore[arg-type]


ROWS = (
    row("/rover/imu"),
    row("/rover/scan", type="sensor_msgs/msg/LaserScan", achieved_rate=9.9, authored_rate=10.0, matched=1),
    row(
        "/rover/led", kind="service", role="server", type="std_srvs/srv/SetBool", state="disabled",
        reason="no such type", qos=None,
    ),
)  # fmt: skip
DIAGNOSTICS = (
    Diagnostic(code="a", severity="info", path="/r", message="by the way"),
    Diagnostic(code="b", severity="error", path="/r", message="broken"),
)


def status(**changes: object) -> BridgeStatus:
    values: dict[str, object] = {
        "asset": "robot.usda", "backend": "kinematic", "time_ns": 1, "ticks": 3, "tick_seconds": 5e-5,
        "backend_errors": 0, "moving_frames": 1, "static_frames": 1, "diagnostics": (), "reports": (), "robots": (),
        "interfaces": ROWS,
    }  # fmt: skip
    return BridgeStatus(**{**values, **changes})  # type: ignore[arg-type]


def update(
    *, diagnostics: tuple[Diagnostic, ...] = (), log: tuple[str, ...] = (), **changes: Any
) -> ViewUpdate:
    robots = (FrameNames(namespace="/rover", tops=("odom",), frames=(("base_link", False), ("lidar", True))),)
    return ViewUpdate(
        status=status(**changes), robots=robots, robot_count=1, diagnostics=diagnostics, log=log
    )


def screen_of(app: LiveApp) -> list[str]:
    """Return the lines that are on the screen, from textual's picture of it."""
    lines = [""] * app.size.height
    for x, number, text in TEXT.findall(app.export_screenshot()):
        line = int(number)
        lines[line] = lines[line].ljust(round(float(x) / CELL)) + unescape(text).replace("\xa0", " ")
    return [line.rstrip() for line in lines]


def view(
    shown: ViewUpdate,
    look: Callable[[LiveApp, Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (120, 40),
) -> None:
    async def run() -> None:
        app = LiveApp(make_echo=lambda _row: None)
        async with app.run_test(size=size) as pilot:
            app.show(shown)
            await pilot.pause()
            # The footer, with its keys, is drawn last; on a busy machine, the panels around it in several turns.
            deadline, before = time.monotonic() + 20.0, [""]
            while (screen_of(app) != before or not before[-1]) and time.monotonic() < deadline:
                before = screen_of(app)
                await pilot.pause(0.02)
            await look(app, pilot)

    asyncio.run(run())


@pytest.mark.parametrize("size", SIZES)
def test_findings_come_first_and_names_rates_peers_and_states_fit(size: tuple[int, int]) -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        lines = screen_of(app)
        found, broken = (
            next(number for number, line in enumerate(lines) if text in line)
            for text in ("slow (7x)", "broken")
        )
        imu = next(number for number, line in enumerate(lines) if line.startswith("/rover/imu "))
        assert found < broken < imu
        for text in ("/rover/imu", "199.5", " 2 ", "active"):
            assert text in lines[imu]
        assert any("/rover/led" in line and "off" in line for line in lines)
        assert "filter" in lines[-1]

    view(update(diagnostics=DIAGNOSTICS, reports=(Reported(kind="k", message="slow", count=7),)), look, size)


@pytest.mark.parametrize("size", SIZES)
def test_a_long_finding_is_wrapped_and_never_cropped(size: tuple[int, int]) -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        shown = " ".join(" ".join(screen_of(app)).replace("│", " ").split())
        assert LONG in shown

    view(update(diagnostics=(Diagnostic(code="b", severity="error", path="/r", message=LONG),)), look, size)


@pytest.mark.parametrize("size", SIZES)
def test_more_findings_than_lines_scroll_and_leave_room_for_interfaces(size: tuple[int, int]) -> None:
    many = tuple(
        Diagnostic(code="c", severity="warning", path="/r", message=f"number {number} {LONG}")
        for number in range(40)
    )

    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        assert any("/rover/imu" in line for line in screen_of(app))
        assert not any("number 39 " in line for line in screen_of(app))
        app.query_one(Findings).focus()
        await pilot.press("end")
        await pilot.wait_for_animation()
        assert any("number 39 " in line for line in screen_of(app))

    view(update(diagnostics=many), look, size)


def test_the_filter_lists_what_has_all_words_and_escape_lists_everything() -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        table = app.query_one(InterfaceTable)
        await pilot.press("slash", *"laser publisher")
        assert [each.name for each in table.rows] == ["/rover/scan"]
        assert not any("/rover/imu" in line for line in screen_of(app))
        await pilot.press("enter")
        assert table.has_focus
        assert len(table.rows) == 1
        await pilot.press("escape")
        assert len(table.rows) == len(ROWS)

    view(update(), look)


def test_the_letters_of_commands_can_be_typed_into_the_filter() -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"qlf1")
        assert app.query_one(Input).value == "qlf1"
        assert app.is_running

    view(update(), look)


@pytest.mark.parametrize(("key", "first"), [("1", "/rover/imu"), ("4", "/rover/led"), ("3", "/rover/imu")])
def test_a_digit_sorts_by_the_column_with_its_number_then_reverses(key: str, first: str) -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        table = app.query_one(InterfaceTable)
        await pilot.press(key)
        sorted_names = [each.name for each in table.rows]
        assert sorted_names[0] == first
        assert f"{COLUMNS[int(key) - 1].title} ^" in "\n".join(screen_of(app))
        await pilot.press(key)
        column = COLUMNS[int(key) - 1]
        keys = [column.key(each) for each in table.rows]
        assert keys == sorted(keys, reverse=True)
        await pilot.press(key)
        assert [each.name for each in table.rows] == [each.name for each in ROWS]

    view(update(), look)


def test_a_click_on_a_heading_sorts_by_it() -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        table = app.query_one(InterfaceTable)
        heading = next(line for line in screen_of(app) if "peers" in line)
        await pilot.click(InterfaceTable, offset=(heading.index("peers"), 0))
        assert [each.matched for each in table.rows] == [2, 2, 1]

    view(update(), look)


def test_the_selected_interface_stays_selected_when_others_come_and_go() -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        table = app.query_one(InterfaceTable)
        await pilot.press("down")
        assert table.selected is not None
        assert table.selected.name == "/rover/scan"
        app.show(update(interfaces=(row("/rover/a"), row("/rover/b"), *ROWS)))
        assert table.selected.name == "/rover/scan"
        app.show(update(interfaces=(row("/rover/a"),)))
        assert table.selected.name == "/rover/a"
        app.show(update(interfaces=()))
        assert table.selected is None

    view(update(), look, (80, 24))


def test_the_cursor_is_always_on_the_screen_among_ten_thousand_interfaces() -> None:
    rows = tuple(row(f"/robot_{number}/imu") for number in range(10_000))

    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        for key in ("end", "up", "pageup", "home", "pagedown"):
            await pilot.press(key)
            selected = app.query_one(InterfaceTable).selected
            assert selected is not None
            assert any(f"{selected.name} " in line for line in screen_of(app)), key

    view(update(interfaces=rows), look, (80, 24))


@pytest.mark.parametrize("size", SIZES)
def test_enter_opens_the_detail_of_a_service_with_the_reason_of_its_state(size: tuple[int, int]) -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "down")
        if not app.query_one("#detail").has_class("-shown"):
            await pilot.press("enter")
        text = "\n".join(screen_of(app))
        for part in ("std_srvs/srv/SetBool", "why no such type", "prim /r/rover/led"):
            assert part in text
        await pilot.press("enter")
        assert "why no such type" not in "\n".join(screen_of(app))

    view(update(), look, size)


def test_the_detail_of_a_topic_has_its_quality_of_service_and_counters() -> None:
    text = detail_text(row("/rover/imu", errors=3, dropped=4, last_error="no room"), None).plain
    for part in (
        "QoS best_effort, volatile, keep_last 10", "rate 199.5 Hz, authored 200 Hz", "count 1234, 3 failed, 4 dropped",
        "last error no room",
    ):  # fmt: skip
        assert part in text


def test_the_log_has_a_pane_of_its_own() -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        assert "[WARN] [1.5] [usd_ros_bridge]: a wheel slips" not in "\n".join(screen_of(app))
        await pilot.press("l")
        await pilot.pause()
        assert "[WARN] [1.5] [usd_ros_bridge]: a wheel slips" in "\n".join(screen_of(app))
        app.show(update(log=("another line",)))
        await pilot.pause()
        assert "another line" in "\n".join(screen_of(app))
        assert len(app.query_one(RichLog).lines) == 2

    view(update(log=("[WARN] [1.5] [usd_ros_bridge]: a wheel slips",)), look, (80, 24))


def test_a_tall_terminal_shows_the_log_and_a_wide_one_the_detail() -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        assert "a line of the log" in "\n".join(screen_of(app))
        assert "QoS" in "\n".join(screen_of(app))

    view(update(log=("a line of the log",)), look, (200, 50))


def test_frames_of_every_robot_are_named() -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        await pilot.press("f")
        await pilot.pause()
        text = "\n".join(screen_of(app))
        assert "/rover: odom base_link lidar" in text
        assert "1 moving, 1 static" in text

    view(update(), look)


def test_another_size_gives_the_name_other_room_and_shortens_it_in_the_middle_only() -> None:
    name = "/a_namespace_of_a_robot/another_one/of_its_modules/and_the_sensor_at_its_front"

    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        assert name in "\n".join(screen_of(app))
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        (line,) = [line for line in screen_of(app) if "sensor_at_its_front" in line]
        assert line.startswith("/a_names")
        assert "…" in line
        assert "199.5" in line

    view(update(interfaces=(row(name, state="idle"),)), look, (120, 40))


def test_domains_are_shown_where_there_are_several() -> None:
    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        assert "domain" not in "\n".join(screen_of(app))
        app.show(update(interfaces=(row("/a", domain_id=4), row("/b", domain_id=5))))
        await pilot.pause()
        assert "domain" in "\n".join(screen_of(app))

    view(update(), look)


def test_q_and_ctrl_c_ask_for_the_end_once_each() -> None:
    async def run() -> list[int]:
        asked: list[int] = []
        app = LiveApp(end=lambda: asked.append(1), make_echo=lambda _row: None)
        async with app.run_test(size=(80, 24)) as pilot:
            app.show(update())
            await pilot.press("q")
            app.show(update())
            await pilot.pause()
            assert "ending" in screen_of(app)[0]
            await pilot.press("ctrl+c")
        return asked

    assert asyncio.run(run()) == [1, 1]


@pytest.mark.parametrize(
    ("passing", "shown"),
    [
        (None, "kinematic  3 ticks"),
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
    assert shown in head_text(status(time=time, time_ns=12_500_000_000)).plain


@pytest.mark.parametrize(
    ("served_by", "shown"),
    [("built-in", "built-in"), ("/r/Controllers/arm", "arm (1 failed)"), ("", "idle")],
)
def test_who_serves_is_shown_instead_of_idle(served_by: str, shown: str) -> None:
    each = row("/rover/led", kind="service", state="idle", served_by=served_by, errors=int("/" in served_by))

    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        (led,) = [line for line in screen_of(app) if "/rover/led" in line]
        assert f" {shown} " in led

    view(update(interfaces=(each,)), look)


def test_reports_come_before_diagnostics_and_the_worst_diagnostic_first() -> None:
    shown = status(reports=(Reported(kind="k", message="slow", count=7),))
    text = findings_text(shown, DIAGNOSTICS).plain
    assert text.index("slow (7x)") < text.index("broken") < text.index("by the way")


@pytest.mark.parametrize("hostile", ["[bold]x[/bold]", "\x1b]0;owned\x07", "[/]"])
def test_text_from_an_asset_is_shown_and_never_interpreted(hostile: str) -> None:
    diagnostic = Diagnostic(code="c", severity="error", path=hostile, message=hostile)
    each = row(hostile, type=hostile, path=hostile, reason=hostile, served_by=hostile)
    escaped = hostile.replace("\x1b", "\\x1b").replace("\x07", "\\x07")

    async def look(app: LiveApp, pilot: Pilot[None]) -> None:
        text = "\n".join(screen_of(app))
        assert "\x1b" not in text
        assert "\x07" not in text
        assert text.count(escaped) >= 3
        assert isinstance(app.query_one("#head"), Static)

    view(
        update(diagnostics=(diagnostic,), asset=hostile, interfaces=(each,), log=(hostile,)), look, (200, 50)
    )
