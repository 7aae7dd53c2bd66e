"""Follow a page of the documents as a reader does: its blocks in their order, in an empty directory.

Blocks of the languages `sh` and `python` run, those with a file name as title are written, and a `text` block behind
one that ran is its output. A comment `<!-- run: ... -->` above a block says what differs (CONTRIBUTING.md).
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest

from free_ports import free_port
from markdown_docs import DOCS, PAGES, Block, blocks
from programs import Program

TIMEOUT_S = 60.0
"""Time for a block; machines are loaded at times."""

WALKED = ("start", "tutorials", "how_to")
"""Folders of docs/ whose pages are followed from their first block to the last one."""

DISCOVERY_S = 90.0
"""Time in which a block that only asks the graph is run again: discovery has no event that marks its end."""

_ASKS = re.compile(
    r"(\w+=\S* )*usd_ros_bridge ((topic|service|action|param) (list|find|info|type|describe)|topic echo|param get)\b.*"
)
_SETTING = re.compile(r"export \w+=\S*")
_WORD = re.compile(r"(?P<key>[a-z]+)(?:=(?P<value>.*))?", re.DOTALL)
_KEYS = {"background", "ready", "stop", "status", "timeout", "needs", "port", "not"}
_KEPT = 'trap \'declare -px > "$WALK_STATE"; printf "cd %q\\n" "$PWD" >> "$WALK_STATE"\' EXIT\n'
"""What a block of a shell leaves to the next one, as a terminal does: variables and the directory."""


@dataclass(frozen=True)
class Step:
    """What a block of a page is for.

    Attributes:
        block: The block.
        output: The block with its output, if there is one.
        keys: What its comment says.
    """

    block: Block
    output: Block | None = None
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Return why the block is not run, "" if it is."""
        return self.keys.get("not", "")

    @property
    def writes(self) -> str:
        """Return the file that the block is written to, "" for none."""
        block = self.block
        return block.title if block.language not in ("sh", "text") and not self.reason else ""

    @property
    def treatment(self) -> str:
        """Return what is done with the block, for people."""
        if self.reason:
            return f"not run: {self.reason}"
        if self.writes:
            return f"written to {self.writes}"
        how = "runs beside the next ones" if "background" in self.keys else "runs"
        return f"{how}, output compared" if self.output is not None else how


def is_walked(page: Path) -> bool:
    """Return whether all of a page is followed."""
    return page.is_relative_to(DOCS) and page.relative_to(DOCS).parts[0] in (*WALKED, "index.md")


def walks() -> dict[Path, list[Step]]:
    """Return all pages with steps to follow: of those in other folders, the blocks of shells and files alone."""
    return {page: found for page in PAGES if (found := steps(page))}


def steps(page: Path) -> list[Step]:
    """Return the steps of a page.

    Raises:
        ValueError: A block that would neither run nor be written, nor say why not.
    """
    found: list[Step] = []
    whole = is_walked(page)
    ran = False
    language = ""
    for block in blocks(page):
        keys = directive(block)
        if block.language == "text" and not keys:
            if ran:
                found[-1] = Step(found[-1].block, output=block, keys=found[-1].keys)
            elif whole and language != "usda":
                raise ValueError(f'{block}: output of no block; say why with <!-- run: not "..." -->')
            ran = False
            continue
        step = Step(block, keys=keys)
        language = block.language
        followed = bool(language == "sh" or block.title or keys) or (whole and language == "python")
        if followed:
            found.append(step)
        elif whole and language not in ("mermaid", "usda"):
            # The site draws the ones, test_usda_blocks.py opens the others.
            raise ValueError(f'{block}: it has no file name, and no <!-- run: not "..." -->')
        ran = followed and runs(step)
    return found


def runs(step: Step) -> bool:
    """Return whether a block is a program that runs."""
    return step.block.language in ("sh", "python") and not step.writes and not step.reason


def directive(block: Block) -> dict[str, str]:
    """Return the keys of a block's comment.

    Raises:
        ValueError: A key that nobody knows.
    """
    found: dict[str, str] = {}
    words = iter(block.directive)
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None or match["key"] not in _KEYS:
            raise ValueError(f"{block}: {word!r} is none of {', '.join(sorted(_KEYS))}")
        found[match["key"]] = next(words, "") if match["key"] == "not" else match["value"] or ""
    return found


class DocWalk:
    """One reader: a directory, the variables of a shell, and programs in other terminals."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        """Store the arguments.

        Args:
            directory: Where the page begins.
            environment: Variables of every program.
        """
        self._directory = directory
        self._state = directory.parent / f"{directory.name}.state"
        # pytest, for one, prints other lines where it finds CI.
        inherited = {name: value for name, value in os.environ.items() if name != "CI"}
        self._environment = {**inherited, **environment, "WALK_STATE": str(self._state)}
        self._beside: dict[str, Program] = {}
        self._ports: dict[str, str] = {}

    def follow(self, step: Step) -> None:
        """Do what a block says; fail the test where it does something else than the page says."""
        block, keys = step.block, step.keys
        if step.reason:
            return
        if "needs" in keys:
            missing = [name for name in keys["needs"].split(",") if importlib.util.find_spec(name) is None]
            if missing:
                pytest.skip(f"{block}: {', '.join(missing)} is not installed")
        if "stop" in keys:
            self.stop(keys["stop"])
        if "port" in keys:
            self._ports[keys["port"]] = str(free_port())
        step = self._with_free_ports(step)
        block = step.block
        if step.writes:
            path = self.current / step.writes
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif "background" in keys:
            self._start(step)
        else:
            self._run(step)

    def _with_free_ports(self, step: Step) -> Step:
        """Replace the ports of the page, which another program may use, by free ones."""

        def replaced(block: Block) -> Block:
            text = block.text
            for port, free in self._ports.items():
                text = re.sub(rf"\b{port}\b", free, text)
            return replace(block, text=text)

        output = replaced(step.output) if step.output is not None else None
        return replace(step, block=replaced(step.block), output=output)

    @property
    def current(self) -> Path:
        """Return the directory in which the reader is."""
        if not self._state.exists():
            return self._directory
        (line,) = self._state.read_text(encoding="utf-8").splitlines()[-1:]
        return Path(shlex.split(line)[1])

    def stop(self, title: str = "") -> None:
        """Press Ctrl-C in the other terminals, or in one of them: each program ends with status 0."""
        for name in [title] if title else list(self._beside):
            program = self._beside.pop(name)
            with program:
                assert program.interrupt() == 0, program.output
                assert "Traceback" not in program.output, program.output

    def kill(self) -> None:
        """End what still runs, after a failure."""
        for program in self._beside.values():
            program.kill()

    def _start(self, step: Step) -> None:
        block, keys = step.block, step.keys
        name = block.title or str(block)
        timeout = float(keys.get("timeout", TIMEOUT_S))
        *before, command = block.text.replace("\\\n", " ").strip().splitlines()
        # The shell gives way to the program, which then gets the signals. `env` is for VARIABLE=value in front.
        script = "\n".join(["set -e", *before, f"exec env {command}"])
        program = Program(["bash", "-c", self._script(script)], cwd=self._directory, env=self._environment)
        self._beside[name] = program
        for line in step.output.text.splitlines() if step.output is not None else ():
            if line.strip() != "...":
                program.wait_for(f"^{pattern(line)}$", timeout=timeout)
        if "ready" in keys:
            if step.output is None:
                program.wait_for(keys["ready"], timeout=timeout)
            else:
                assert re.search(keys["ready"], program.output, re.MULTILINE), program.output

    def _script(self, text: str) -> str:
        """Return a script for bash that goes on where the block before it ended."""
        return f'if [ -e "$WALK_STATE" ]; then . "$WALK_STATE"; fi\n{text}'

    def _run(self, step: Step) -> None:
        block, keys = step.block, step.keys
        if block.language == "python":
            text = self._script(
                f"exec {shlex.quote(sys.executable)} - <<'WALKED_BLOCK'\n{block.text}WALKED_BLOCK\n"
            )
        else:
            text = self._script(f"set -e -o pipefail\n{_KEPT}{block.text}")
        wanted = int(keys.get("status", 0))
        deadline = time.monotonic() + (DISCOVERY_S if asks_the_graph(block) else 0.0)
        while True:
            status, output = self._shell(text, block, float(keys.get("timeout", TIMEOUT_S)))
            right = status == wanted and (step.output is None or matches(step.output.text, output))
            if right or time.monotonic() > deadline:
                break
        assert status == wanted, f"{block} ended with status {status}:\n{output}"
        assert "Traceback" not in output or step.output is not None, f"{block}:\n{output}"
        if step.output is not None:
            assert matches(step.output.text, output), f"{block} prints something else:\n" + difference(
                step.output.text, output
            )

    def _shell(self, text: str, block: Block, timeout: float) -> tuple[int, str]:
        process = subprocess.Popen(
            ["bash", "-c", text],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            pytest.fail(f"{block} did not end within {timeout:g} s:\n{output}")
        return process.returncode, output


def asks_the_graph(block: Block) -> bool:
    """Return whether a block reads what is in the graph, and changes nothing."""
    commands = block.text.replace("\\\n", "").splitlines()
    others = [line for line in commands if not _ASKS.fullmatch(line)]
    return block.language == "sh" and len(others) < len(commands) and all(map(_SETTING.fullmatch, others))


def pattern(line: str) -> str:
    """Return the regular expression of an expected line, in which `...` stands for any text."""
    return ".*".join(re.escape(part) for part in line.rstrip().split("..."))


def matches(expected: str, actual: str) -> bool:
    """Return whether an output is the expected one: a line `...` stands for any number of lines."""
    wanted, lines = expected.rstrip().splitlines(), [line.rstrip() for line in actual.rstrip().splitlines()]

    @cache
    def match(number: int, at: int) -> bool:
        if number == len(wanted):
            return at == len(lines)
        if wanted[number].strip() == "...":
            return match(number + 1, at) or (at < len(lines) and match(number, at + 1))
        return (
            at < len(lines)
            and re.fullmatch(pattern(wanted[number]), lines[at]) is not None
            and match(number + 1, at + 1)
        )

    return match(0, 0)


def difference(expected: str, actual: str) -> str:
    """Return the lines of both outputs side by side, as `diff` does."""
    return "\n".join(difflib.ndiff(expected.splitlines(), actual.splitlines()))


def treatments() -> Iterator[tuple[Block, str]]:
    """Yield every block of every walk with what is done with it."""
    for found in walks().values():
        for step in found:
            yield step.block, step.treatment
