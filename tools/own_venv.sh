# Sourced by scripts that keep a virtual environment of their own.
#
#     if needs_venv VENV FILE...; then new_venv; install --requirement FILE; venv_is_whole; fi
#
# The environment is made anew when one of the files changed, and after an installation that did not end.

needs_venv() {
  venv=$1
  stamp="$1/.installed-$(cat "${@:2}" | sha256sum | cut -c1-16)"
  [[ ! -e "$stamp" ]] || ! "$venv/bin/python" -c '' 2>/dev/null
}

new_venv() {
  local python
  python=$(tools/setup_env.sh --which)
  rm -rf "$venv"
  "$python" -m venv "$venv"
}

install() {
  local log
  log=$("$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" 2>&1) && return
  echo "$(basename "$0" .sh): pip could not install into $venv: $(grep -m 1 '^ERROR' <<<"$log" || tail -n 1 <<<"$log")" \
    "(is there a network?)" >&2
  exit 1
}

venv_is_whole() { touch "$stamp"; }
