"""What hz and bw print, from times and sizes that are known."""

from __future__ import annotations

import pytest

from usd_ros_bridge.cli.graph.topic_statistics import MessageArrivals, Sizes, rate_text

pytestmark = pytest.mark.app

MS = 1_000_000


def arrivals(*times_ms: int, window: int = 100) -> MessageArrivals:
    made = MessageArrivals(window)
    for time_ms in times_ms:
        made.add(time_ms * MS)
    return made


def test_a_single_topic_is_two_lines() -> None:
    assert rate_text({"/a": arrivals(10, 20, 40)}) == (
        "average rate: 66.667\n\tmin: 0.010s max: 0.020s std dev: 0.00500s window: 2"
    )


def test_nothing_is_printed_without_a_new_message() -> None:
    found = arrivals(10, 20)
    assert rate_text({"/a": found})
    assert rate_text({"/a": found}) == ""
    found.add(30 * MS)
    assert rate_text({"/a": found}).endswith("window: 2")
    assert rate_text({"/a": arrivals(10)}) == ""


def test_only_the_window_counts() -> None:
    assert rate_text({"/a": arrivals(10, 1000, 1010, 1020, window=2)}).startswith("average rate: 100.000\n")


def test_a_time_that_goes_back_begins_anew_and_zero_is_no_time() -> None:
    assert rate_text({"/a": arrivals(500, 600, 0, 10, 20)}).endswith("window: 1")
    assert rate_text({"/a": arrivals(0, 0, 0)}) == ""


def test_several_topics_are_a_table() -> None:
    found = {"/a": arrivals(10, 20), "/longer": arrivals(10, 510), "/silent": arrivals()}
    assert rate_text(found).splitlines() == [
        " topic      rate    min_delta   max_delta   std_dev   window",
        "=" * 60,
        "/a        100.000   0.010       0.010       0.00000   1     ",
        "/longer   2.000     0.500       0.500       0.00000   1     ",
    ]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (100, "200 B/s from 2 messages\n\tMessage size mean: 100 B min: 100 B max: 100 B"),
        (1500, "3.00 KB/s from 2 messages\n\tMessage size mean: 1.50 KB min: 1.50 KB max: 1.50 KB"),
        (2_000_000, "4.00 MB/s from 2 messages\n\tMessage size mean: 2.00 MB min: 2.00 MB max: 2.00 MB"),
    ],
)
def test_bandwidth_has_the_unit_of_its_size(size: int, expected: str) -> None:
    sizes = Sizes(10)
    assert sizes.text(0) == ""
    sizes.add(1000 * MS, size)
    assert sizes.text(1500 * MS) == ""
    sizes.add(1500 * MS, size)
    assert sizes.text(2000 * MS) == expected


def test_bandwidth_begins_anew_where_time_goes_back() -> None:
    sizes = Sizes(10)
    sizes.add(1000 * MS, 1)
    sizes.add(1500 * MS, 1)
    assert sizes.text(500 * MS) == "WARNING: time is reset!"
    assert sizes.text(600 * MS) == ""
