"""Texts of the page: frame trees, fields of messages, and text from outside as HTML."""

from __future__ import annotations

import math
from array import array
from html.parser import HTMLParser

import pytest

from builders.plans import PlanBuilder, rover
from usd_ros_bridge.view.frame_tree import tree_lines
from usd_ros_bridge.view.message_lines import message_rows, value_text
from usd_ros_bridge.view.page_text import facts, html_text, paragraph, preformatted

pytestmark = pytest.mark.app

EVIL = '<img src="http://elsewhere/x" onerror="alert(1)">\x1b[2J\u202e{1+1}&amp;'


class Tags(HTMLParser):
    """The tags and the text of a document."""

    def __init__(self, document):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data):
        self.text += data


def test_text_from_outside_is_no_markup():
    for document in (facts([(EVIL, EVIL)]), paragraph(EVIL), preformatted([EVIL, EVIL])):
        found = Tags(document)
        assert {tag for tag, _ in found.tags} <= {"div", "span", "pre"}
        assert {name for _, names in found.tags for name in names} <= {"style"}
        assert '<img src="http://elsewhere/x" onerror="alert(1)">\\x1b[2J\\u202e{1+1}&amp;' in found.text


def test_long_texts_are_cut():
    assert html_text("x" * 1000, limit=10) == "xxxxxxxxxx..."


def test_a_tree_is_drawn_with_what_moves():
    lines = tree_lines(rover().build().robots[0])
    assert lines[0] in ("odom", "world")
    assert lines[1].startswith("└── ")
    assert any(line.endswith(" *") for line in lines)
    assert len(lines) == 1 + len(rover().build().robots[0].frames)


def test_a_deep_tree_is_drawn_without_recursion_and_cut():
    builder = PlanBuilder()
    robot = builder.robot("/chain")
    robot.body("link_0")
    for number in range(1, 2000):
        robot.body(f"link_{number}")
        robot.joint(f"joint_{number}", f"link_{number - 1}", f"link_{number}")
    lines = tree_lines(builder.build().robots[0], limit=50)
    assert len(lines) == 52
    assert lines[-1] == "... 1950 more"
    assert lines[1:4] == ["└── link_0 *", "    └── link_1 *", "        └── link_2 *"]


class Message:
    """A message as rclpy makes them."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def get_fields_and_field_types(self):
        return dict.fromkeys(vars(self), "")


def test_fields_of_a_message_are_rows_without_the_stamp():
    header = Message(stamp=Message(sec=1, nanosec=5), frame_id="gps")
    message = Message(
        header=header,
        status=Message(status=0, service=1),
        latitude=48.123456789,
        position_covariance=array("d", [0.5] * 9),
        axis=Message(x=1.0, y=0.0, z=math.nan),
        since=Message(sec=2, nanosec=500_000_000),
        valid=True,
    )
    assert message_rows(message) == [
        ("header.frame_id", "gps"),
        ("status.status", "0"),
        ("status.service", "1"),
        ("latitude", "48.1234568"),
        ("position_covariance", "[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, ... 9]"),
        ("axis", "1 0 nan"),
        ("since", "2.500 s"),
        ("valid", "true"),
    ]


def test_a_large_message_is_cut():
    rows = message_rows(Message(**{f"field_{number}": number for number in range(40)}), limit=5)
    assert len(rows) == 6
    assert rows[-1] == ("...", "35 more")


def test_values_of_every_kind_are_text():
    assert value_text("x" * 100) == "x" * 80 + "... (100 characters)"
    assert value_text([Message(a=1), Message(a=2)]) == "2 of Message"
    assert value_text([]) == "[]"
    assert value_text(b"\x01\xff") == "01 ff"
    assert value_text(["a", "b"]) == "[a, b]"
    assert value_text(2**40) == "1.09951163e+12"
