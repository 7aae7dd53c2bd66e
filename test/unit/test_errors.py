"""Suggestions for misspelt names."""

import difflib
import math

import numpy as np
import pytest

from usd_ros_bridge.errors import alternatives, did_you_mean, nearest, one_of, quoted, quoted_path

TYPES = ["LaserScan", "LaserEcho", "Image", "Imu", "JointState", "CameraInfo"]


def test_a_misspelt_name_is_answered_with_those_like_it():
    questions = {
        "LaserScn": "did you mean LaserScan or LaserEcho?",
        "laserscan": "did you mean LaserScan or LaserEcho?",
        "Imuu": "did you mean Imu?",
        "Twist": "",
        "": "",
    }
    assert {name: did_you_mean(name, TYPES) for name in questions} == questions


def test_names_are_those_of_difflib_the_most_similar_first():
    names = [f"joint_{number}" for number in range(200)]
    assert (
        nearest("jiont_17", names, count=5)
        == sorted(
            difflib.get_close_matches("jiont_17", names, n=200),
            key=lambda name: (-difflib.SequenceMatcher(None, name, "jiont_17").ratio(), name),
        )[:5]
    )


def test_a_candidate_is_suggested_once_and_equal_names_first():
    assert nearest("arm", ["Arm", "arm", "arms", "arm"]) == ["Arm", "arm", "arms"]


def test_a_name_of_a_megabyte_costs_no_more_than_its_beginning():
    assert nearest("x" * 1_000_000, ["x" * 128, "y"]) == ["x" * 128]


def test_few_alternatives_are_all_listed_after_the_question():
    assert alternatives("nul", ["null", "mujoco"]) == "did you mean null? there are: mujoco, null"
    assert alternatives("x", ["null", "mujoco"]) == "there are: mujoco, null"
    assert alternatives("x", []) == "there are: none"


def test_of_many_alternatives_a_few_are_listed_the_nearest_first():
    joints = [f"joint_{number:04}" for number in range(1000)]
    text = alternatives("jiont_0500", joints)
    assert text.startswith("did you mean joint_0500")
    listed = text.partition("there are: ")[2]
    assert listed.startswith("joint_0500, ")
    assert listed.endswith(" and 992 more")
    assert len(text) < 300


def test_one_of_a_few_values_is_suggested_before_all_are_named():
    assert one_of("Publisher", ("publisher", "subscription")) == (
        "did you mean publisher? use one of publisher, subscription"
    )
    assert one_of("x", ("publisher", "subscription")) == "use one of publisher, subscription"


def test_a_path_is_shown_whole_and_as_it_is_written():
    long = "/tmp/" + "über/" * 80 + "robot.usda"
    assert quoted_path(long) == f"'{long}'"
    assert quoted_path("a\nb\x1b[2J\u202e\udcfc") == "'a\\nb\\x1b[2J\\u202e\\udcfc'"
    assert len(quoted_path("/a" * 10_000)) < 600
    assert quoted(long).endswith("...'")
    assert "\\xfc" in quoted(long)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float(np.float32(0.1)), "0.1"),
        (float(np.finfo(np.float32).max), "3.4028235e+38"),
        (float(np.float32(1 / 3)), "0.33333334"),
        (1 / 3, "0.3333333333333333"),
        (1e300, "1e+300"),
        (-math.inf, "-inf"),
        ((float(np.float32(1.6)), 2), "(1.6, 2)"),
        (True, "True"),
    ],
)
def test_a_number_has_the_digits_of_its_layer(value: object, text: str) -> None:
    assert quoted(value) == f"'{text}'"
