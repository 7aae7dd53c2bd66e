"""Workflows, Dockerfiles and the citation against the files that they follow; the rules for words on small pages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import usd_ros_bridge
from markdown_docs import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import check_words
import run_workflow

pytestmark = pytest.mark.project

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DOCKERFILES = sorted((ROOT / "docker").glob("*Dockerfile"))


def workflow(name: str) -> dict[str, Any]:
    return run_workflow.load(ROOT / ".github" / "workflows" / name)


# --- Workflows ------------------------------------------------------------------------------------------------------


def test_ci_makes_what_the_script_makes() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    lanes = " ".join(re.findall(r"^(?:left|right)=\((.*)\)$", script, re.MULTILINE)).split()
    alone = re.findall(r"^alone \S+ make (\S+)", script, re.MULTILINE)
    made = workflow("ci.yml")["jobs"]["make"]["strategy"]["matrix"]["target"]
    # The site has a workflow of its own, which publishes it. `coverage` is `test` with `check-coverage`.
    assert sorted([*made, "docs", "test", "check-coverage"]) == sorted([*lanes, *alone, "coverage"])


def test_workflows_may_do_little() -> None:
    for path in WORKFLOWS:
        check_rights(run_workflow.load(path))


def check_rights(content: dict[str, Any]) -> None:
    assert content["permissions"] == {"contents": "read"}
    assert "concurrency" in content
    writing = {name: job["permissions"] for name, job in content["jobs"].items() if "permissions" in job}
    assert set(writing) <= {"publish"}, "only publishing may write"
    for name, job in content["jobs"].items():
        if name == "publish":
            assert not any("checkout" in step.get("uses", "") for step in job["steps"])
            assert job["environment"]["name"] in ("github-pages", "pypi")


def test_commands_of_workflows_are_in_the_repository() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in WORKFLOWS:
        for step in [
            step for job in run_workflow.load(path)["jobs"].values() for step in run_workflow.steps(job)
        ]:
            assert "${{" not in step["run"], (
                "values go through env: text from outside must not become a command"
            )
            for target in re.findall(r"\bmake ([a-z][a-z-]*)", step["run"]):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
            for script in re.findall(r"\btools/\w+\.(?:sh|py)", step["run"]):
                assert (ROOT / script).exists()


def test_the_pythons_are_those_of_the_package() -> None:
    supported = re.findall(
        r"Programming Language :: Python :: (3\.\d+)", (ROOT / "setup.py").read_text(encoding="utf-8")
    )
    for name, job in (("pip.yml", "test"), ("wheels.yml", "build")):
        assert workflow(name)["jobs"][job]["strategy"]["matrix"]["python"] == supported


def test_wheels_are_built_for_every_distribution() -> None:
    files = {path.stem for path in (ROOT / "tools" / "requirements").glob("*.txt")}
    distros = files - {"run", "test", "all", "lint"}
    assert set(workflow("wheels.yml")["jobs"]["build"]["strategy"]["matrix"]["ros"]) == distros


def test_run_workflow_fills_the_matrix_and_stops_at_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    job = {"env": {"ROS": "${{ matrix.ros }}"}}
    assert run_workflow.run({"name": "one", "run": 'echo "for $ROS"'}, job, {"ros": "jazzy"}) == 0
    assert run_workflow.run({"name": "two", "run": "false\necho not reached"}, job, {"ros": "jazzy"}) == 1
    assert capfd.readouterr().out.splitlines() == [
        "== one",
        "for jazzy",
        "== one: status 0",
        "== two",
        "== two: status 1",
    ]


# --- Releases and citation ------------------------------------------------------------------------------------------


def test_the_citation_has_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == usd_ros_bridge.__version__
    assert f"<version>{usd_ros_bridge.__version__}</version>" in (ROOT / "package.xml").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("1.2.3", "a release has a tag such as v1.2.3, not '1.2.3'"),
        ("v99.0.0", "has no line '__version__ = \"99.0.0\"'"),
        ("v99.0.0", "CHANGELOG.md has no section '## 99.0.0'"),
    ],
)
def test_a_release_that_does_not_fit_is_refused(tag: str, reason: str) -> None:
    done = subprocess.run(
        [ROOT / "tools" / "check_release.sh", tag], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert reason in done.stderr


def test_a_release_that_fits_is_accepted(tmp_path: Path) -> None:
    version = usd_ros_bridge.__version__
    for name in ("tools/check_release.sh", "usd_ros_bridge/__init__.py", "package.xml", "CITATION.cff"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} (2026-12-01)\n", encoding="utf-8")
    done = subprocess.run(
        [tmp_path / "tools" / "check_release.sh", f"v{version}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"check-release: v{version} can be published\n")


# --- Containers -----------------------------------------------------------------------------------------------------


def test_images_run_without_rights_of_root() -> None:
    for text in [path.read_text(encoding="utf-8") for path in DOCKERFILES]:
        user = text.index("\nUSER 1000\n")
        assert text.rindex("\nRUN ") < user < text.index("\nENTRYPOINT ")


def test_images_copy_files_that_the_context_has() -> None:
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    texts = "".join(path.read_text(encoding="utf-8") for path in DOCKERFILES)
    for source in re.findall(r"^COPY (?:--\S+ )*(\S+) ", texts, re.MULTILINE):
        assert (ROOT / source).exists()
        assert source == "." or source.split("/")[0] in allowed
    for name in allowed:
        assert (ROOT / name).exists(), name
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    needed = {"Makefile", "setup.py", "setup.cfg", "pyproject.toml", "interfaces", "usd_ros_bridge"}
    assert needed | {name for name in manifest if (ROOT / name).is_dir() and "/" not in name} <= allowed


def test_the_development_container_is_json_with_comments() -> None:
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")
    content = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    assert "make setup-tests setup-lint" in content["postCreateCommand"]


# --- Words ----------------------------------------------------------------------------------------------------------


def hits(text: str, tmp_path: Path) -> list[str]:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    return check_words.check([page], check_words.load_rules())


def test_rules_are_valid() -> None:
    assert len(check_words.load_rules()) > 40


def test_a_phrase_is_a_hit(tmp_path: Path) -> None:
    for text in (
        "The bridge tells the node.",
        "It waits in vain.",
        "The plan is made anew.",
        "It publishes nothing but this.",
        "Who measures is the backend.",
        "What the leader does acts on all.",
        "Is the frame elsewhere, a warning says so.",
        "It has a job done.",
        "An array of nothing is written.",
        "Everything else is a handler's.",
        "The other shards go on.",
    ):
        found = hits(f"# Title\n\nFirst line.\n{text}\n", tmp_path)
        assert [":4: " in hit for hit in found] == [True], text


def test_a_phrase_may_go_over_lines(tmp_path: Path) -> None:
    (hit,) = hits("One line, and it waits in\nvain.\n", tmp_path)
    assert ":1: 'in vain'" in hit


def test_what_is_allowed_is_no_hit(tmp_path: Path) -> None:
    for text in (
        "`told` and [a link](docs/told.md)",
        "    indented: told",
        "```sh\ntold\n```",
        "~~~\ntold\n```\ntold\n~~~",
        "<!-- told -->",
        "It was told. <!-- words: ok -->",
        "Who may drive?",
        "What you see is what a client gets.",
        "It goes on to the next one.",
    ):
        assert hits(text, tmp_path) == [], text


def test_docstrings_are_searched(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        '"""Module.\n\nIt waits\nin vain.\n"""\n\nNAME = "told"  # told\n"""It is made anew."""\n\n\n'
        'class Robot:\n    """Robot.\n\n    Args:\n        name: Told, by\n            and by.\n    """\n\n'
        '    def go(self):\n        """What it does.\n\n            told = 1\n        """\n'
        '        return """told"""\n',
        encoding="utf-8",
    )
    found = check_words.check([file], check_words.load_rules())
    places = [hit.removeprefix(f"{file}:").partition(": write")[0] for hit in found]
    assert sorted(places) == ["15: 'Told'", "15: 'by and by'", "4: 'in vain'", "8: 'anew'"]


def test_messages_are_searched(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        'NAME = "told"\nKEYS = {"hear": 1}\n\n\ndef go(name):\n    """Go."""\n'
        '    log("the robot waits "\n        "in vain")\n'
        '    raise ValueError(\n        f"{name} is read "\n        f"anew {name!r:told}, in `vain`"\n    )\n',
        encoding="utf-8",
    )
    found = check_words.check([file], check_words.load_rules())
    places = [hit.removeprefix(f"{file}:").partition(": write")[0] for hit in found]
    assert sorted(places) == ["10: 'anew'", "7: 'in vain'"]


def test_an_invalid_rule_is_named(tmp_path: Path) -> None:
    rules = tmp_path / "phrases.txt"
    rules.write_text("# a comment\nfoo | bar\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"phrases.txt:2: 2 columns, not 3"):
        check_words.load_rules(rules)
    rules.write_text("(foo | bar | because\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"phrases.txt:1: missing"):
        check_words.load_rules(rules)
