"""The live view: a textual app that shows the status of a running bridge.

It runs in a process of its own (`live_view`), so that drawing never delays a tick, and gets `ViewUpdate`s. Text from
assets and peers is made safe for a terminal: no markup, no control characters.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container, VerticalScroll
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, Input, RichLog, Static

from usd_ros_bridge.cli.live_view import STOP, FrameNames, ViewUpdate
from usd_ros_bridge.cli.topic_echo import TopicEcho
from usd_ros_bridge.cli.views import SEVERITY_STYLES, plain
from usd_ros_bridge.errors import escaped
from usd_ros_bridge.model.diagnostics import SEVERITIES, Diagnostic, grouped, worst_first
from usd_ros_bridge.ros.bridge_status import BridgeStatus, InterfaceStatus

if TYPE_CHECKING:
    from rich.segment import Segment

SLOW = 0.95
"""Part of the real-time factor below which time counts as slow."""

LOG_LINES = 5000
"""Lines that the log pane keeps."""

ECHO_SECONDS = 0.5
"""Period in which the detail pane shows the newest message, seconds."""

TIME_STYLES = {"playing": "green", "paused": "yellow", "stopped": "yellow"}
STATE_STYLES = {"active": "green", "idle": "dim", "silent": "yellow", "disabled": "red"}
STATES = ("disabled", "silent", "active", "idle")


# --- Rows of the interfaces --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InterfaceColumn:
    """A column of the interfaces.

    Attributes:
        title: Its heading.
        text: Return the cell of a row.
        key: Return what rows are sorted by.
        right: Align to the right.
    """

    title: str
    text: Callable[[InterfaceStatus], str]
    key: Callable[[InterfaceStatus], object]
    right: bool = False


def _is_off(row: InterfaceStatus) -> bool:
    return row.state == "disabled"


def _rate(row: InterfaceStatus) -> str:
    # A publisher without subscribers has no rate, which is not the same as 0 Hz.
    has_no_subscriber = row.state == "idle" and bool(row.reason)
    return "" if _is_off(row) or has_no_subscriber or row.kind != "topic" else f"{row.achieved_rate:.1f}"


def state_of(row: InterfaceStatus) -> str:
    """Return the state of an interface: who serves it rather than `idle`, and how many messages or calls failed."""
    state: str = "off" if _is_off(row) else row.state
    if row.served_by and row.state == "idle":
        state = row.served_by.rpartition("/")[2]
    return f"{state} ({row.errors} failed)" if row.errors else state


def _role(row: InterfaceStatus) -> str:
    return row.role if row.kind == "topic" else f"{row.kind} {row.role}"


def _state_key(row: InterfaceStatus) -> tuple[bool, int]:
    return not row.errors, STATES.index(row.state) if row.state in STATES else len(STATES)


COLUMNS = (
    InterfaceColumn("name", lambda row: row.name, lambda row: row.name),
    InterfaceColumn("Hz", _rate, lambda row: -row.achieved_rate, right=True),
    InterfaceColumn(
        "peers", lambda row: "" if _is_off(row) else str(row.matched), lambda row: -row.matched, right=True
    ),
    InterfaceColumn("state", state_of, _state_key),
    InterfaceColumn(
        "authored",
        lambda row: "" if row.authored_rate is None else f"{row.authored_rate:g}",
        lambda row: -(row.authored_rate or 0.0),
        right=True,
    ),
    InterfaceColumn(
        "count", lambda row: "" if _is_off(row) else str(row.count), lambda row: -row.count, right=True
    ),
    InterfaceColumn("role", _role, _role),
    InterfaceColumn("type", lambda row: row.type, lambda row: row.type),
    InterfaceColumn("prim", lambda row: row.path, lambda row: row.path),
)
_DOMAIN = InterfaceColumn(
    "domain", lambda row: str(row.domain_id or ""), lambda row: row.domain_id or 0, right=True
)
_NARROWEST = 24
"""Cells that a name has at least."""
_LIVE_CELLS = 32
"""Cells beside the name: rate, peers and state."""
_MAX_CELL = 256


def key_of(row: InterfaceStatus) -> tuple[object, ...]:
    """Return what distinguishes an interface from others."""
    return row.kind, row.role, row.path, row.name, row.domain_id


class InterfaceTable(ScrollView, can_focus=True):
    """The interfaces, one line each. Only lines on the screen are drawn: there may be tens of thousands."""

    DEFAULT_CSS = """
    InterfaceTable { height: 1fr; width: 1fr; min-height: 4; }
    """
    BINDINGS: ClassVar = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "move(-1000000000)", "first", show=False),
        Binding("end,G", "move(1000000000)", "last", show=False),
        Binding("left", "scroll_left", "left", show=False),
        Binding("right", "scroll_right", "right", show=False),
        Binding("enter", "choose", "detail"),
    ]

    class Moved(Message):
        """Another row is selected."""

    class Chosen(Message):
        """Enter was pressed on a row, or it was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._all: Sequence[InterfaceStatus] = ()
        self._rows: list[InterfaceStatus] = []
        self._columns: tuple[InterfaceColumn, ...] = COLUMNS
        self._widths = [len(column.title) for column in COLUMNS]
        self._filter = ""
        self._order: tuple[str, bool] | None = None
        self._selected: tuple[object, ...] | None = None
        self._cursor = 0

    @property
    def selected(self) -> InterfaceStatus | None:
        """Return the selected interface, None if there are none."""
        return self._rows[self._cursor] if self._rows else None

    @property
    def rows(self) -> Sequence[InterfaceStatus]:
        """Return the rows that are listed, in their order."""
        return self._rows

    @property
    def total(self) -> int:
        """Return the number of all interfaces."""
        return len(self._all)

    def set_rows(self, rows: Sequence[InterfaceStatus]) -> None:
        """Show other values. The selected interface stays selected."""
        self._all = rows
        several = len({row.domain_id for row in rows}) > 1
        self._columns = (*COLUMNS[:4], _DOMAIN, *COLUMNS[4:]) if several else COLUMNS
        self._arrange()

    def set_filter(self, text: str) -> None:
        """List interfaces only whose name, type, prim, role or state have all words of a text."""
        self._filter = text
        self._arrange()

    def sort_by(self, title: str) -> None:
        """Sort by a column; by the same one again in reverse, then as the asset has them."""
        if self._order is None or self._order[0] != title:
            self._order = (title, False)
        else:
            self._order = None if self._order[1] else (title, True)
        self._arrange()

    def sort_by_number(self, number: int) -> None:
        """Sort by the column with a number, from 1."""
        if 1 <= number <= len(self._columns):
            self.sort_by(self._columns[number - 1].title)

    def _arrange(self) -> None:
        words = self._filter.lower().split()
        rows = [row for row in self._all if _has_all(row, words)] if words else list(self._all)
        if self._order is not None:
            title, reverse = self._order
            column = next((each for each in self._columns if each.title == title), self._columns[0])
            rows.sort(key=column.key, reverse=reverse)  # type: ignore[arg-type]
        self._rows = rows
        self._find_cursor()
        self._measure()
        self.virtual_size = Size(sum(self._widths) + 2 * len(self._widths), len(rows) + 1)
        self.refresh()

    def _find_cursor(self) -> None:
        """Keep the cursor on the interface that was selected, wherever it is now."""
        rows = self._rows
        self._cursor = min(self._cursor, max(len(rows) - 1, 0))
        if not rows:
            return
        if self._selected is None:
            self._selected = key_of(rows[self._cursor])
        elif key_of(rows[self._cursor]) != self._selected:
            keys = (number for number, row in enumerate(rows) if key_of(row) == self._selected)
            self._cursor = next(keys, self._cursor)
            self._selected = key_of(rows[self._cursor])

    def _measure(self) -> None:
        widths = []
        for column in self._columns:
            texts = {column.text(row) for row in self._rows}
            longest = max((cell_len(escaped(text[:_MAX_CELL])) for text in texts), default=0)
            widths.append(max(longest, cell_len(self._title(column))))
        # The rate, the peers and the state of an interface stay on the screen beside its name.
        widths[0] = min(widths[0], max(_NARROWEST, self.size.width - _LIVE_CELLS))
        self._widths = widths

    def _title(self, column: InterfaceColumn) -> str:
        if self._order is None or self._order[0] != column.title:
            return column.title
        return f"{column.title} {'v' if self._order[1] else '^'}"

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        left, top = self.scroll_offset
        width = self.size.width
        if y == 0:
            strip = Strip(self._header())
        else:
            number = top + y - 1
            if number >= len(self._rows):
                return Strip.blank(width, self.rich_style)
            strip = Strip(self._line(self._rows[number], selected=number == self._cursor))
        return strip.crop_extend(left, left + width, self.rich_style)

    def _header(self) -> list[Segment]:
        style = self.rich_style + Style(bold=True, underline=True)
        cells = [
            (_fitted(self._title(column), width, right=column.right) + "  ", style)
            for column, width in zip(self._columns, self._widths, strict=True)
        ]
        return _segments(cells)

    def _line(self, row: InterfaceStatus, *, selected: bool) -> list[Segment]:
        base = self.rich_style + Style(reverse=selected and self.has_focus, bold=selected)
        cells = []
        for column, width in zip(self._columns, self._widths, strict=True):
            style = base
            if column.title == "state":
                style += Style.parse("red" if row.errors else STATE_STYLES.get(row.state, "dim"))
            elif column.title != "name" and not selected:
                style += Style(dim=column.title in ("role", "type", "prim"))
            text = escaped(column.text(row)[:_MAX_CELL])
            cells.append((_fitted(text, width, right=column.right) + "  ", style))
        return _segments(cells)

    # --- Keys and mouse ----------------------------------------------------------------------------------------

    def action_move(self, lines: int) -> None:
        """Move the cursor."""
        if not self._rows:
            return
        self._cursor = min(max(self._cursor + lines, 0), len(self._rows) - 1)
        self._selected = key_of(self._rows[self._cursor])
        # The header covers the first line.
        self.scroll_to_region(Region(self.scroll_offset.x, self._cursor, 1, 2), animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_page(self, pages: int) -> None:
        """Move the cursor by screens."""
        self.action_move(pages * max(self.size.height - 2, 1))

    def action_choose(self) -> None:
        """Open the detail of the selected row."""
        if self._rows:
            self.post_message(self.Chosen())

    def on_click(self, event: events.Click) -> None:
        """Select a row, or sort by a column."""
        if event.y == 0:
            at = event.x + self.scroll_offset.x
            for column, width in zip(self._columns, self._widths, strict=True):
                if at < width + 2:
                    self.sort_by(column.title)
                    return
                at -= width + 2
            return
        self.action_move(self.scroll_offset.y + event.y - 1 - self._cursor)
        self.action_choose()

    def on_resize(self) -> None:
        """Give the name the room that there is."""
        self._arrange()


def _has_all(row: InterfaceStatus, words: Sequence[str]) -> bool:
    text = f"{row.name} {row.type} {row.path} {_role(row)} {state_of(row)} {row.state}".lower()
    return all(word in text for word in words)


def _fitted(text: str, width: int, *, right: bool) -> str:
    """Return a text of exactly this many cells; of a long one the beginning and the end."""
    length = cell_len(text)
    if length > width:
        tail = (width - 1) * 2 // 3
        return set_cell_size(text, width - 1 - tail) + "…" + set_cell_size(text[::-1], tail)[::-1]
    return " " * (width - length) + text if right else text + " " * (width - length)


def _segments(cells: Sequence[tuple[str, Style]]) -> list[Segment]:
    from rich.segment import Segment

    return [Segment(text, style) for text, style in cells]


# --- Texts -------------------------------------------------------------------------------------------------------


def head_text(status: BridgeStatus) -> Text:
    """Return the first line: asset, backend, time and ticks."""
    return Text.assemble(
        plain(status.asset, style="bold cyan"),
        "  ",
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


def findings_text(status: BridgeStatus, diagnostics: Sequence[Diagnostic]) -> Text:
    """Return all findings, one paragraph each: reports of the run first, the newest on top, then the asset's faults."""
    lines = []
    for report in reversed(status.reports):
        counted = report.message if report.count == 1 else f"{report.message} ({report.count}x)"
        lines.append(Text.assemble(("warning ", SEVERITY_STYLES["warning"]), Text(escaped(counted))))
    for group in grouped(worst_first(diagnostics)):
        severity = group.first.severity
        text = escaped(str(group)).removeprefix(f"{severity} ")
        lines.append(Text.assemble((f"{severity} ", SEVERITY_STYLES[severity]), Text(text)))
    return Text("\n").join(lines)


def findings_title(status: BridgeStatus, diagnostics: Sequence[Diagnostic]) -> str:
    """Return the numbers of findings by severity."""
    counts = {severity: sum(each.severity == severity for each in diagnostics) for severity in SEVERITIES}
    counts["warning"] += len(status.reports)
    shown = [
        f"{number} {severity}{'' if number == 1 or severity == 'info' else 's'}"
        for severity, number in counts.items()
        if number
    ]
    return ", ".join(shown) or "no findings"


def frames_text(robots: Sequence[FrameNames], count: int, status: BridgeStatus) -> Text:
    """Return the frames of each robot, moving and static ones in different colours."""
    lines = []
    for robot in robots:
        line = Text.assemble(
            plain(robot.namespace or "/", style="bold"), ": ", plain(", ".join(robot.tops), style="dim")
        )
        for frame, static in robot.frames:
            line.append(" ").append(plain(frame, style="green" if static else "magenta"))
        lines.append(line)
    more = f", in {count} robots" if count > 1 else ""
    left = f", {count - len(robots)} robots are not listed" if count > len(robots) else ""
    lines.append(
        Text.assemble(
            (f"{status.moving_frames} moving", "magenta"),
            ", ",
            (f"{status.static_frames} static", "green"),
            more + left,
        )
    )
    return Text("\n").join(lines)


def detail_text(row: InterfaceStatus, echo: TopicEcho | None) -> Text:
    """Return everything known about one interface, its last message included."""
    lines = [plain(row.name, style="bold"), plain(f"{_role(row)}  {row.type}")]
    known = [
        ("prim", row.path if row.path.startswith("/") else ""),
        ("state", state_of(row)),
        ("why", row.reason),
        ("served by", row.served_by),
        ("QoS", "" if row.qos is None else qos_line(row)),
        ("rate", _rate_line(row)),
        ("peers", "" if _is_off(row) else str(row.matched)),
        ("count", "" if _is_off(row) else f"{row.count}, {row.errors} failed, {row.dropped} dropped"),
        ("last error", row.last_error),
        ("domain", "" if row.domain_id is None else str(row.domain_id)),
    ]
    lines += [Text.assemble((f"{name} ", "dim"), Text(escaped(value))) for name, value in known if value]
    if echo is not None:
        lines.append(Text.assemble(("latency ", "dim"), echo.latency_text()))
        lines.append(Text(echo.heading(), style="dim"))
        lines += [Text(escaped(line)) for line in echo.lines()]
    return Text("\n").join(lines)


def qos_line(row: InterfaceStatus) -> str:
    """Return the quality of service of a topic in one line."""
    from usd_ros_bridge.cli.views import qos_text

    return "" if row.qos is None else qos_text(row.qos).plain


def _rate_line(row: InterfaceStatus) -> str:
    if _is_off(row) or row.kind != "topic":
        return ""
    authored = "" if row.authored_rate is None else f", authored {row.authored_rate:g} Hz"
    return f"{row.achieved_rate:.1f} Hz{authored}"


# --- The app -----------------------------------------------------------------------------------------------------


class Findings(VerticalScroll):
    """All findings, wrapped. They scroll where they need more lines than they have."""

    DEFAULT_CSS = """
    Findings { height: auto; max-height: 40%; border-bottom: solid $warning; }
    Findings.-none { display: none; }
    """

    def compose(self) -> ComposeResult:
        """Yield the text."""
        yield Static(id="findings-text")


class LiveApp(App[None]):
    """The live view."""

    CSS = """
    Screen { layout: vertical; }
    #head { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #middle { height: 1fr; layout: horizontal; }
    .-narrow #middle { layout: vertical; }
    #detail { width: 64; border-left: solid $accent; display: none; }
    .-narrow #detail { width: 100%; height: 60%; border-left: none; border-top: solid $accent; }
    #detail.-shown { display: block; }
    #log { height: 12; border-top: solid $accent; display: none; }
    .-short #log { height: 8; }
    #log.-shown { display: block; }
    #frames { height: auto; max-height: 30%; border-top: solid $accent; display: none; }
    #frames.-shown { display: block; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    """
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as textual declares it
        (0, "-narrow"),
        (140, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012 - as textual declares it
        (0, "-short"),
        (36, "-tall"),
    ]
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [
        Binding("q", "stop", "end"),
        Binding("ctrl+c", "stop", "end", show=False, priority=True),
        Binding("slash", "filter", "filter"),
        Binding("d", "detail", "detail", show=False),
        Binding("l", "log", "log"),
        Binding("f", "frames", "frames"),
        Binding("1,2,3,4,5,6,7,8,9", "sort", "sort", key_display="1-9", show=True),
        Binding("tab", "app.focus_next", "next pane"),
        Binding("escape", "clear", "clear", show=False),
        Binding("ctrl+z", "suspend_process", "suspend", show=False, priority=True),
    ]

    def __init__(
        self,
        *,
        begin: Callable[[], None] | None = None,
        end: Callable[[], None] | None = None,
        make_echo: Callable[[InterfaceStatus], TopicEcho | None] = TopicEcho,
    ) -> None:
        """Store the arguments.

        Args:
            begin: Called once when updates can be shown.
            end: End the bridge; called when the user asks for it.
            make_echo: Subscribe to the topic of the detail pane.
        """
        super().__init__()
        self._begin, self._end, self._make_echo = begin, end, make_echo
        self._update: ViewUpdate | None = None
        self._robots: tuple[FrameNames, ...] = ()
        self._diagnostics: tuple[Diagnostic, ...] = ()
        self._findings: object = None
        self._echo: TopicEcho | None = None
        self._ending = False

    def compose(self) -> ComposeResult:
        """Yield the panes, from top to bottom."""
        yield Static(id="head")
        yield Findings(classes="-none")
        with Container(id="middle"):
            yield InterfaceTable()
            with VerticalScroll(id="detail"):
                yield Static(id="detail-text")
        with VerticalScroll(id="frames"):
            yield Static(id="frames-text")
        yield RichLog(id="log", max_lines=LOG_LINES, wrap=True, markup=False, highlight=False)
        yield Input(
            placeholder="words of name, type, prim, role or state; escape clears", id="filter", compact=True
        )
        yield Footer()

    def on_mount(self) -> None:
        """Show the panes that fit, and sometimes show the newest message of the selected topic."""
        self.query_one(InterfaceTable).focus()
        if self.size.height >= 36:
            self.query_one("#log").add_class("-shown")
        if self.size.width >= 140:
            self.query_one("#detail").add_class("-shown")
        self.set_interval(ECHO_SECONDS, self._show_detail)
        if self._begin is not None:
            self._begin()

    def on_unmount(self) -> None:
        """Leave the topic of the detail pane."""
        if self._echo is not None:
            self._echo.close()

    # --- Content -----------------------------------------------------------------------------------------------

    def show(self, update: ViewUpdate) -> None:
        """Show a new status."""
        self._update = update
        if update.robots is not None:
            self._robots = update.robots
        if update.diagnostics is not None:
            self._diagnostics = update.diagnostics
        status = update.status
        head = head_text(status)
        if self._ending:
            head.append("  ending", style="bold yellow")
        self.query_one("#head", Static).update(head)
        self._show_findings(status)
        table = self.query_one(InterfaceTable)
        table.set_rows(status.interfaces)
        frames = self.query_one("#frames")
        if frames.has_class("-shown"):
            text = frames_text(self._robots, update.robot_count, status)
            self.query_one("#frames-text", Static).update(text)
        self._show_detail()
        log = self.query_one("#log", RichLog)
        for line in update.log:
            log.write(_log_line(line))

    def _show_findings(self, status: BridgeStatus) -> None:
        found = (status.reports, self._diagnostics)
        if found == self._findings:
            return
        self._findings = found
        pane = self.query_one(Findings)
        pane.set_class(not (status.reports or self._diagnostics), "-none")
        pane.border_subtitle = findings_title(status, self._diagnostics)
        self.query_one("#findings-text", Static).update(findings_text(status, self._diagnostics))

    def _show_detail(self) -> None:
        if not self.query_one("#detail").has_class("-shown"):
            self._listen(None)
            return
        row = self.query_one(InterfaceTable).selected
        self._listen(row)
        text = Text("no interface") if row is None else detail_text(row, self._echo)
        self.query_one("#detail-text", Static).update(text)

    def _listen(self, row: InterfaceStatus | None) -> None:
        """Subscribe to the topic of a row, and to no other."""
        if row is not None and (row.kind != "topic" or _is_off(row)):
            row = None
        if self._echo is not None and (row is None or not self._echo.is_of(row)):
            self._echo.close()
            self._echo = None
        if row is not None and self._echo is None:
            self._echo = self._make_echo(row)

    # --- Keys --------------------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """End the bridge. The view ends with it."""
        self._ending = True
        if self._end is not None:
            self._end()
        else:
            self.exit()

    def action_filter(self) -> None:
        """Ask for words that the listed interfaces must have."""
        box = self.query_one("#filter", Input)
        box.display = True
        # At once: keys that are typed right after belong to the filter.
        self.screen.set_focus(box)

    def on_input_changed(self, event: Input.Changed) -> None:
        """List what fits the words so far."""
        self.query_one(InterfaceTable).set_filter(event.value)

    def on_input_submitted(self) -> None:
        """Go back to the list, which stays filtered."""
        self.query_one(InterfaceTable).focus()

    def action_clear(self) -> None:
        """Clear the filter; without one, close the detail pane."""
        box = self.query_one("#filter", Input)
        if box.display:
            box.value = ""
            box.display = False
        else:
            self.query_one("#detail").remove_class("-shown")
            self._listen(None)
        self.query_one(InterfaceTable).focus()

    def action_detail(self) -> None:
        """Open or close the detail pane."""
        self.query_one("#detail").toggle_class("-shown")
        self._show_detail()

    def on_interface_table_chosen(self) -> None:
        """Open the detail pane of the chosen row, or close it."""
        self.action_detail()

    def on_interface_table_moved(self) -> None:
        """Show the detail of the row that is selected now."""
        self._show_detail()

    def action_log(self) -> None:
        """Open or close the log."""
        self.query_one("#log").toggle_class("-shown")

    def action_frames(self) -> None:
        """Open or close the list of frames."""
        pane = self.query_one("#frames")
        pane.toggle_class("-shown")
        if self._update is not None:
            text = frames_text(self._robots, self._update.robot_count, self._update.status)
            self.query_one("#frames-text", Static).update(text)

    def on_key(self, event: events.Key) -> None:
        """Sort by the column with the number of the key."""
        if event.key.isdecimal() and not self.query_one("#filter", Input).has_focus:
            self.query_one(InterfaceTable).sort_by_number(int(event.key))
            event.stop()

    def action_sort(self) -> None:
        """Do nothing: `on_key` sorts. The footer needs an action to show the keys."""

    def action_suspend_process(self) -> None:
        """Suspend the whole job, the bridge included, as Ctrl-Z does in any program."""
        os.killpg(os.getpgrp(), signal.SIGTSTP)


def _log_line(line: str) -> Text:
    """Return a line of the log in the colour of its severity."""
    style = ""
    if line.startswith(("[ERROR]", "[FATAL]")):
        style = "red"
    elif line.startswith("[WARN]"):
        style = "yellow"
    return Text(escaped(line), style=style)


def serve(descriptor: int) -> None:
    """Draw what comes through a pipe until it ends: the main function of the child process.

    Args:
        descriptor: File descriptor of the pipe.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        # They reach the whole job. The bridge ends at them, and the view with it.
        signal.signal(number, signal.SIG_IGN)
    # A bridge under nohup outlives its terminal; a view does not.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for name in ("COLUMNS", "LINES"):
        # Of whoever started the bridge. The terminal has a size of its own, which changes.
        os.environ.pop(name, None)
    connection = Connection(descriptor)

    def receive() -> None:
        with suppress(EOFError, OSError, RuntimeError):
            while True:
                update = connection.recv()
                if not os.isatty(0):
                    # Closed, and no signal said so: textual would read its end again and again.
                    os._exit(1)
                app.call_from_thread(app.show, update)
        with suppress(RuntimeError):
            app.call_from_thread(app.exit)

    updates = threading.Thread(target=receive, name="updates", daemon=True)
    app = LiveApp(begin=updates.start, end=lambda: connection.send(STOP))
    app.run()
    sys.exit(app.return_code)
