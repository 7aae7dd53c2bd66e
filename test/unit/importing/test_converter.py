"""The converters' environment: found, said how to install, made completely or not at all."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.importing.converter import (
    REQUIREMENTS,
    VARIABLE,
    clean_environment,
    environment_directory,
    find_converter,
    find_python,
    make_environment,
)

pytestmark = pytest.mark.app

VENV_FITS = (3, 10) <= sys.version_info[:2] <= (3, 12)
needs_a_python = pytest.mark.skipif(not VENV_FITS, reason="this Python is none that the converters run on")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "cache"


def test_the_converters_are_pinned() -> None:
    lines = [
        line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    assert len(lines) == 6
    assert all(re.fullmatch(r"[a-z-]+==[0-9.]+", line) for line in lines)


@pytest.mark.parametrize("kind", ["urdf", "mjcf"])
def test_a_missing_converter_is_said_with_the_command_that_installs_it(kind) -> None:
    with pytest.raises(BridgeError) as refusal:
        find_converter(kind)
    text = str(refusal.value)
    assert "usd-converter is not installed: `usd_ros_bridge import --install-converter`" in text
    assert str(environment_directory()) in text
    assert VARIABLE in text
    assert "\n" not in text


@pytest.mark.parametrize("python", [sys.executable, "/nowhere/python", "/bin/false", "/bin/echo", "/"])
def test_a_python_without_the_converter_is_refused(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, python)
    with pytest.raises(OptionError, match=f"{VARIABLE}={python} is no Python that has urdf-usd-converter"):
        find_converter("urdf")


def test_another_python_inherits_no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/opt/ros/kilted/lib/python3")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/ros/kilted/lib")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    found = clean_environment()
    assert {"PYTHONPATH", "LD_LIBRARY_PATH"}.isdisjoint(found)
    assert found["HTTPS_PROXY"] == "http://proxy"


@needs_a_python
def test_the_python_of_an_environment_is_no_environment_itself() -> None:
    prefixes = subprocess.run(
        [find_python(), "-c", "import sys; print(sys.prefix == sys.base_prefix)"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert prefixes.stdout == "True\n"


def test_no_python_that_fits_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BridgeError, match=r"/nowhere/python is no Python 3\.10 to 3\.12 with venv and ensurepip"
    ):
        find_python("/nowhere/python")


@needs_a_python
def test_an_environment_is_made_once_and_repaired(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("# nothing\n", encoding="utf-8")
    target = tmp_path / "environments/one"
    make_environment(target, requirements=[requirements])
    assert [path.name for path in target.parent.iterdir()] == ["one"]
    (target / "kept").touch()
    make_environment(target, requirements=[requirements])
    assert (target / "kept").exists()
    # As after an update of the system's Python.
    (target / "bin/python").unlink()
    make_environment(target, requirements=[requirements])
    assert not (target / "kept").exists()
    subprocess.run([target / "bin/python", "-m", "pip", "--version"], check=True, capture_output=True)


@needs_a_python
def test_a_failed_installation_leaves_no_environment_and_says_why(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("./missing-1.0-py3-none-any.whl\n", encoding="utf-8")
    target = tmp_path / "environments/one"
    with pytest.raises(
        BridgeError, match=r"could not install the converters with .*: ERROR: .*missing"
    ) as refusal:
        make_environment(target, requirements=[requirements])
    assert "\n" not in str(refusal.value)
    assert list(target.parent.iterdir()) == []
