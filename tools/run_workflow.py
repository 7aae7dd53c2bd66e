"""Run the commands of a job of .github/workflows on this machine: what can be tried without GitHub.

`tools/run_workflow.py --list` shows every step with a command. This runs those of one job in order, in the root of the
clone, with the given values of the matrix: `tools/run_workflow.py wheels.yml build python=3.11 ros=jazzy`. `--only`
names the one step to run. Actions (`uses`) do not run here: check out, caches, artifacts, publishing.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
_MATRIX = re.compile(r"\$\{\{\s*matrix\.([\w-]+)\s*\}\}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--list", action="store_true", help="show all steps that have commands, and run nothing"
    )
    parser.add_argument("--only", metavar="NAME", help="the one step to run")
    parser.add_argument("--directory", type=Path, default=ROOT, help="where to run them (default: the clone)")
    parser.add_argument("workflow", nargs="?", help="a file of .github/workflows")
    parser.add_argument("job", nargs="?", help="a job of it")
    parser.add_argument("matrix", nargs="*", metavar="KEY=VALUE", help="values of the job's matrix")
    arguments = parser.parse_args()
    if arguments.list:
        list_steps()
        return 0
    if not (arguments.workflow and arguments.job):
        parser.error("name a workflow and a job, or give --list")
    job = load(WORKFLOWS / arguments.workflow)["jobs"][arguments.job]
    matrix = dict(pair.split("=", 1) for pair in arguments.matrix)
    for step in steps(job):
        if arguments.only in (None, step["name"]):
            status = run(step, job, matrix, arguments.directory)
            if status:
                return status
    return 0


def load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for step in job.get("steps", ()) if "run" in step]


def list_steps() -> None:
    for path in sorted(WORKFLOWS.glob("*.yml")):
        for name, job in load(path)["jobs"].items():
            for step in steps(job):
                print(f"{path.name} {name}: {step['name']}")


def run(step: dict[str, Any], job: dict[str, Any], matrix: dict[str, str], directory: Path = ROOT) -> int:
    """Run the command of a step as GitHub does, and return its status. `sh -e` is GitHub's default in a container."""

    def filled(text: object) -> str:
        return _MATRIX.sub(lambda found: matrix[found[1]], str(text))

    variables = {key: filled(value) for key, value in {**job.get("env", {}), **step.get("env", {})}.items()}
    unknown = [key for key, value in variables.items() if "${{" in value]
    # Expressions are GitHub's: what they give is set by the caller.
    for key in unknown:
        variables[key] = os.environ.get(key, "")
    print(f"== {step['name']}", flush=True)
    uses_bash = job.get("defaults", {}).get("run", {}).get("shell") == "bash"
    shell = ["bash", "-eo", "pipefail", "-c"] if uses_bash else ["sh", "-e", "-c"]
    done = subprocess.run([*shell, step["run"]], cwd=directory, env={**os.environ, **variables}, check=False)
    print(f"== {step['name']}: status {done.returncode}", flush=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
