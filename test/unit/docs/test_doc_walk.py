"""What follows the pages: the comparison of outputs, the comments, what a terminal keeps, and what fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from doc_walk import DocWalk, Step, asks_the_graph, directive, matches, steps
from markdown_docs import DOCS, Block, blocks

pytestmark = pytest.mark.project


def test_outputs_are_compared_line_by_line() -> None:
    cases = {
        ("a\nb\n", "a\nb\n"): True,
        ("a\nb\n", "a\nb\nc\n"): False,
        ("a\n...\n", "a\nb\nc\n"): True,
        ("a\n...\nc\n", "a\nc\n"): True,
        ("...\nc\n", "a\nc\nb\n"): False,
        ("x=... m\n", "x=0.25 m\n"): True,
        ("x=... m\n", "x=0.25 s\n"): False,
        ("a (b)\n", "a (b)  \n"): True,
        ("", "a\n"): False,
    }
    assert {case: matches(*case) for case in cases} == cases


def parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> list[Step]:
    monkeypatch.setattr("doc_walk.DOCS", tmp_path)
    page = tmp_path / "tutorials" / "page.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(text, encoding="utf-8")
    return steps(page)


def walk(tmp_path: Path) -> DocWalk:
    directory = tmp_path / "reader"
    directory.mkdir()
    return DocWalk(directory, {})


def test_a_page_is_followed(tmp_path, monkeypatch) -> None:
    found = parsed(
        tmp_path,
        monkeypatch,
        """
```sh
mkdir inside && cd inside
export GREETING="good day"
```

1. Save this:

    ```python title="greet.py"
    import os
    print(os.environ["GREETING"])
    ```

```sh
python3 greet.py
echo 12.5 m
```
```text
good day
... m
```
<!-- run: status=3 -->
```sh
exit 3
```
```python
print("fresh", "GREETING")
```
```text
fresh GREETING
```
<!-- run: not "needs a moon" -->
```sh
false
```
""",
    )
    assert [step.treatment for step in found] == [
        "runs",
        "written to greet.py",
        "runs, output compared",
        "runs",
        "runs, output compared",
        "not run: needs a moon",
    ]
    reader = walk(tmp_path)
    for step in found:
        reader.follow(step)
    assert (tmp_path / "reader" / "inside" / "greet.py").read_text(encoding="utf-8").startswith("import os\n")


def test_a_program_runs_beside(tmp_path, monkeypatch) -> None:
    page = """
<!-- run: background ready="^ready" -->
```sh title="Terminal 1"
python3 -uc "import signal, sys; signal.signal(2, lambda *_: sys.exit(0)); print('ready'); signal.pause()"
```
<!-- run: stop -->
```sh
echo over
```
"""
    reader = walk(tmp_path)
    try:
        for step in parsed(tmp_path, monkeypatch, page):
            reader.follow(step)
    finally:
        reader.kill()


def test_a_block_that_only_reads_the_graph_is_known() -> None:
    cases = {
        "usd_ros_bridge topic list -t\n": True,
        "ROS_DOMAIN_ID=3 usd_ros_bridge topic info /imu | grep Node\n": True,
        "export A=b:$C\nusd_ros_bridge action list\nusd_ros_bridge topic echo --once /imu\n": True,
        "usd_ros_bridge topic echo --once \\\n  /imu\n": True,
        "usd_ros_bridge param get /arm rate | head -n 1\n": True,
        "usd_ros_bridge param set /arm rate 2.0\nusd_ros_bridge param get /arm rate\n": False,
        "usd_ros_bridge topic list\nusd_ros_bridge topic pub --once /a std_msgs/msg/Empty\n": False,
        "usd_ros_bridge listen\n": False,
    }
    found = {text: asks_the_graph(Block(page="page.md", line=1, language="sh", text=text)) for text in cases}
    assert found == cases


def test_a_list_is_asked_for_until_discovery_found_all(tmp_path, monkeypatch) -> None:
    program = tmp_path / "usd_ros_bridge"
    program.write_text(
        "#!/bin/sh\necho /imu >> graph\ntest $(wc -l < graph) -gt 2 && cat graph\n", encoding="utf-8"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    page = "```sh\nusd_ros_bridge topic list\n```\n```text\n/imu\n/imu\n/imu\n```\n"
    (step,) = parsed(tmp_path, monkeypatch, page)
    walk(tmp_path).follow(step)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```sh\nfalse\ntrue\n```\n", "status 1"),
        ("```sh\nfalse | cat\n```\n", "status 1"),
        ("```sh\necho a\n```\n```text\nb\n```\n", "prints something else"),
        ("<!-- run: timeout=0.2 -->\n```sh\ncat <(tail -f /dev/null)\n```\n", "did not end within 0.2 s"),
        ('<!-- run: background ready="^ready" timeout=20 -->\n```sh\ntrue\n```\n', "ended without a line"),
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path, monkeypatch, text, message) -> None:
    reader = walk(tmp_path)
    (step,) = parsed(tmp_path, monkeypatch, text)
    with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
        reader.follow(step)
    reader.kill()


def test_a_port_of_the_page_is_replaced_by_a_free_one(tmp_path, monkeypatch) -> None:
    page = """
<!-- run: port=8771 -->
```sh
echo at 127.0.0.1:8771, 18771 > port.txt
```
```sh
cat port.txt
```
```text
at 127.0.0.1:8771, 18771
```
"""
    reader = walk(tmp_path)
    for step in parsed(tmp_path, monkeypatch, page):
        reader.follow(step)
    text = (tmp_path / "reader" / "port.txt").read_text(encoding="utf-8")
    assert text.startswith("at 127.0.0.1:")
    assert text.endswith(", 18771\n")
    assert ":8771," not in text


@pytest.mark.parametrize("text", ["```yaml\na: 1\n```\n", "```text\nalone\n```\n"])
def test_a_block_that_nothing_checks_is_refused(tmp_path, monkeypatch, text) -> None:
    with pytest.raises(ValueError, match=r"page\.md:1"):
        parsed(tmp_path, monkeypatch, text)


def test_a_comment_has_known_words() -> None:
    with pytest.raises(ValueError, match="'later' is none of"):
        directive(Block("page.md", 1, "sh", "", directive=("later",)))


def test_all_comments_are_above_a_block() -> None:
    """A comment with a line between, or with a slip, would be ignored without a word."""
    for page in DOCS.rglob("*.md"):
        assert page.read_text(encoding="utf-8").count("<!-- run:") == sum(
            bool(block.directive) for block in blocks(page)
        ), page
