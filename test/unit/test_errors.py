"""Suggestions for misspelt names."""

import difflib

import pytest

from usd_ros_bridge.errors import did_you_mean, nearest

TYPES = ["LaserScan", "LaserEcho", "Image", "Imu", "JointState", "CameraInfo"]


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("LaserScn", "did you mean LaserScan or LaserEcho?"),
        ("laserscan", "did you mean LaserScan or LaserEcho?"),
        ("Imuu", "did you mean Imu?"),
        ("Twist", ""),
        ("", ""),
    ],
)
def test_a_misspelt_name_is_answered_with_those_like_it(name, question):
    assert did_you_mean(name, TYPES) == question


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
