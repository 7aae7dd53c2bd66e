#!/usr/bin/env bash
# Check the files of the project that no compiler sees: `make lint`. Workflows, templates and the citation against their schemas,
# workflows for unsafe steps (zizmor, offline), the words of documents, docstrings and messages, and the spelling of documents. The tools are in .venv-project.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/own_venv.sh
# Keep a sourced ROS 2 or an activated environment out of this environment.
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE

readonly PROJECT_VENV=.venv-project
readonly REQUIREMENTS=tools/project-requirements.txt

if needs_venv "$PROJECT_VENV" "$REQUIREMENTS"; then
  echo "check-project: installing zizmor, codespell, proselint and others into $PROJECT_VENV" >&2
  new_venv
  install --requirement "$REQUIREMENTS"
  venv_is_whole
fi
PATH="$PWD/$PROJECT_VENV/bin:$PATH"

status=0
check() { "$@" || { echo "check-project: failed: $*" >&2; status=1; }; }
schema() { check check-jsonschema --quiet --builtin-schema "vendor.$1" "${@:2}"; }

schema github-workflows .github/workflows/*.yml
schema github-issue-forms .github/ISSUE_TEMPLATE/{bug,feature,rep_question}.yml
schema github-issue-config .github/ISSUE_TEMPLATE/config.yml
schema dependabot .github/dependabot.yml
schema citation-file-format CITATION.cff
check zizmor --offline --quiet .github
check pre-commit validate-config .pre-commit-config.yaml
check codespell --ignore-words tools/words/spelling.txt ./*.md docs .github docker
check python tools/check_words.py
exit "$status"
