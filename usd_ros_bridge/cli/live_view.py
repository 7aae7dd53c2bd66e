"""The live table of a running bridge: interfaces with their rates and peers, frames, what went wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from usd_ros_bridge.cli.terminal import SEVERITY_STYLES, TerminalConsole, plain
from usd_ros_bridge.model.diagnostics import SEVERITIES
from usd_ros_bridge.reporting import Reported
from usd_ros_bridge.ros.bridge_status import BridgeStatus, InterfaceStatus

REFRESH_SECONDS = 0.25
MAX_FINDINGS = 8
MAX_ROBOTS = 6
MAX_NAME = 48
MAX_REASON = 60

SLOW = 0.95
"""Part of the real-time factor below which time is shown as slow."""

TIME_STYLES = {"playing": "green", "paused": "yellow", "stopped": "yellow"}
STATE_STYLES = {"active": "green", "idle": "dim", "silent": "yellow", "disabled": "red"}


@contextmanager
def live_view(status: Callable[[], BridgeStatus], *, console: Console | None = None) -> Iterator[None]:
    """Show `status()` on a terminal, refreshed by a thread, for the duration of a `with` block.

    Args:
        status: Called from the refreshing thread.
        console: Where to draw; standard output by default.
    """
    ended = threading.Event()
    with Live(
        render(status()), console=console or TerminalConsole(), auto_refresh=False, vertical_overflow="crop"
    ) as live:

        def refresh() -> None:
            while not ended.wait(REFRESH_SECONDS):
                live.update(render(status()), refresh=True)

        thread = threading.Thread(target=refresh, name="live view", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def render(status: BridgeStatus) -> RenderableType:
    """Return the whole view of one moment."""
    parts: list[RenderableType] = [_head(status), _interfaces(status), *_frames(status)]
    findings = _findings(status)
    if findings.row_count:
        parts.append(findings)
    parts.append(Text("Ctrl-C ends", style="dim"))
    return Group(*parts)


def _head(status: BridgeStatus) -> Text:
    return Text.assemble(
        plain(status.asset, style="bold cyan"),
        "  backend ",
        plain(status.backend, style="bold"),
        *_time(status),
        f"  {status.ticks} ticks of {status.tick_seconds * 1e6:.0f} us",
        (f"  {status.backend_errors} backend errors", "bold red") if status.backend_errors else "",
    )


def _time(status: BridgeStatus) -> Iterator[str | tuple[str, str]]:
    """Yield the simulation time, its state, and its speed, if the bridge owns time."""
    passing = status.time
    if passing is None:
        return
    yield f"  time {(status.time_ns or 0) * 1e-9:.2f} s "
    yield passing.state, TIME_STYLES[passing.state]
    if passing.achieved_factor is not None:
        asked = passing.real_time_factor
        slow = passing.achieved_factor < SLOW * asked
        yield f" x{passing.achieved_factor:.2f}", "yellow" if slow else ""
        if slow:
            yield f" of {asked:g}"


def _frames(status: BridgeStatus) -> Iterator[Text]:
    """Yield one line for each robot: its frames, moving and static ones in different colours."""
    for robot in status.robots[:MAX_ROBOTS]:
        line = Text.assemble(
            "frames ", plain(robot.namespace, style="bold"), ": ", overflow="ellipsis", no_wrap=True
        )
        tops = dict.fromkeys(frame.parent for frame in robot.frames if frame.parent_index < 0)
        line.append(plain(", ".join(tops), style="dim"))
        for frame in robot.frames:
            line.append(" ").append(plain(frame.id, style="green" if frame.static else "magenta"))
        yield line
    more = f", in {len(status.robots)} robots" if len(status.robots) > 1 else ""
    yield Text.assemble(
        (f"{status.moving_frames} moving", "magenta"), ", ", (f"{status.static_frames} static", "green"), more
    )


def _interfaces(status: BridgeStatus) -> Table:
    with_domain = len({interface.domain_id for interface in status.interfaces}) > 1
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    names = [interface.name for interface in status.interfaces]
    table.add_column("interface", no_wrap=True)
    table.add_column("name", no_wrap=True, min_width=min(max(map(len, names), default=0), MAX_NAME))
    table.add_column("type", no_wrap=True)
    if with_domain:
        table.add_column("domain", justify="right")
    for title in ("Hz authored", "Hz", "peers", "count"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for interface in status.interfaces:
        table.add_row(*_row(interface, with_domain=with_domain))
    return table


def _row(interface: InterfaceStatus, *, with_domain: bool) -> list[RenderableType]:
    off = interface.state == "disabled"
    asked = "" if interface.authored_rate is None else f"{interface.authored_rate:g}"
    # A publisher that nobody listens to is asked for nothing: no rate is not the same as 0 Hz.
    unasked = interface.state == "idle" and bool(interface.reason)
    achieved = "" if off or unasked or interface.kind != "topic" else f"{interface.achieved_rate:.1f}"
    # Why a publisher is silent is long, and among the reports; why something is off may stand here alone.
    state = f"off: {interface.reason}"[:MAX_REASON] if off else interface.state
    if interface.served_by and interface.state == "idle":
        # Who would serve says more than that nobody asks; a controller by the last part of its path.
        state = interface.served_by.rpartition("/")[2][:MAX_REASON]
    if interface.errors:
        state += f" ({interface.errors} failed)"
    role = interface.role if interface.kind == "topic" else f"{interface.kind} {interface.role}"
    domain = [str(interface.domain_id or "")] if with_domain else []
    return [
        plain(role, style="dim"),
        plain(interface.name, style="" if off else "bold"),
        plain(interface.type),
        *domain,
        asked,
        achieved,
        "" if off else str(interface.matched),
        "" if off else str(interface.count),
        plain(state, style="red" if interface.errors else STATE_STYLES[interface.state]),
    ]


def _findings(status: BridgeStatus) -> Table:
    """Return the newest reports and the worst diagnostics, and the number of the others."""
    table = Table(show_header=False, box=None, pad_edge=False)
    rows: list[tuple[Text, Text]] = [
        (Text("warning", style=SEVERITY_STYLES["warning"]), plain(_counted(report)))
        for report in reversed(status.reports)
    ]
    for diagnostic in sorted(status.diagnostics, key=lambda d: SEVERITIES.index(d.severity)):
        style = SEVERITY_STYLES[diagnostic.severity]
        rows.append(
            (
                Text(diagnostic.severity, style=style),
                plain(f"[{diagnostic.code}] {diagnostic.path}: {diagnostic.message}"),
            )
        )
    for row in rows[:MAX_FINDINGS]:
        table.add_row(*row)
    if len(rows) > MAX_FINDINGS:
        table.add_row("", Text(f"and {len(rows) - MAX_FINDINGS} more; `inspect` lists them", style="dim"))
    return table


def _counted(report: Reported) -> str:
    return report.message if report.count == 1 else f"{report.message} ({report.count}x)"
