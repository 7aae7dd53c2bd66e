"""Handlers are bound to what the plan has, by the embedder and by installed packages, and to nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from std_srvs.srv import SetBool

from ros_plans import JOINT_COMMANDS, JOINT_STATES, plan
from usd_ros_bridge import Bridge, BridgeError, BridgeOptions
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.plan import ActionPlan, ServicePlan
from usd_ros_bridge.ros.endpoints.handlers import EMBEDDER, Handlers, bind_installed

SERVER = ServicePlan(
    path="/arm/services/led", role="server", name="/arm/set_led", type="std_srvs/srv/SetBool"
)
CLIENT = ServicePlan(
    path="/arm/services/reboot", role="client", name="/arm/reboot", type="std_srvs/srv/Trigger"
)
ACTION = ActionPlan(
    path="/arm/actions/wave", role="server", name="/arm/wave", type="example_interfaces/action/Fibonacci"
)
EVERYTHING = plan(SERVER, CLIENT, ACTION, JOINT_STATES, JOINT_COMMANDS)


def handle(request, response):
    response.success = True
    return response


@pytest.fixture
def handlers() -> Handlers:
    return Handlers(EVERYTHING)


@pytest.mark.parametrize("target", [SERVER.path, SERVER.name])
def test_a_target_is_a_prim_path_or_a_name(handlers, target):
    handlers.registry().on_service(target, handle, timeout=3.0)
    bound = handlers.get("service", SERVER.path)
    assert (bound.handler, bound.owner, bound.timeout) == (handle, EMBEDDER, 3.0)


def test_each_kind_of_handler_finds_its_kind_of_interface(handlers):
    registry = handlers.registry()
    registry.on_service("/arm/set_led", handle)
    registry.on_action("/arm/wave", handle, accept=bool, timeout=5.0, concurrent=2)
    registry.on_message("/arm/joint_commands", handle)
    registry.source("/arm/joint_states", handle)
    assert handlers.get("action", ACTION.path).concurrent == 2
    assert handlers.get("topic", JOINT_COMMANDS.path).handler is handle
    assert handlers.get("topic", JOINT_STATES.path).handler is handle


def test_a_target_that_names_nothing_fitting_is_an_error_that_lists_what_does(handlers):
    for method, target, texts in (
        ("on_service", "/arm/nothing", ("'/arm/nothing'", "names no service server", "/arm/set_led", SERVER.path)),
        ("on_service", CLIENT.path, ("service client", "no service server")),
        ("on_service", "/arm/joint_states", ("topic publisher", "no service server")),
        ("on_service", "std_srvs/srv/SetBool", ("names no service server",)),
        ("on_service", "set_led", ("names no service server",)),
        ("on_action", "/arm/set_led", ("service server", "no action server", "/arm/wave")),
        ("on_message", "/arm/joint_states", ("topic publisher", "no subscription", "/arm/joint_commands")),
        ("source", "/arm/joint_commands", ("topic subscription", "no publisher", "/arm/joint_states")),
        ("source", "", ("names no publisher",)),
    ):  # fmt: skip
        bind = getattr(handlers.registry(), method)
        for given in ((target,), (target, handle)):
            with pytest.raises(BridgeError) as error:
                bind(*given)
            assert all(text in str(error.value) for text in texts), error.value
            assert "\n" not in str(error.value)


def test_impossible_options_are_errors(handlers):
    for timeout in (0.0, -1, float("nan")):
        with pytest.raises(BridgeError, match=rf"timeout '?{timeout}"):
            handlers.registry().on_service("/arm/set_led", handle, timeout=timeout)
    with pytest.raises(BridgeError, match="concurrent 0"):
        handlers.registry().on_action("/arm/wave", handle, concurrent=0)
    with pytest.raises(BridgeError, match="cannot be called: str"):
        handlers.registry().on_service("/arm/set_led", "handle")


def test_a_decorator_leaves_the_function_as_it_is(handlers):
    @handlers.registry().on_service("/arm/set_led", timeout=None)
    def decorated(request, response):
        return response

    assert decorated(1, 2) == 2
    assert handlers.get("service", SERVER.path).handler is decorated
    assert handlers.get("service", SERVER.path).timeout is None


def test_a_handler_is_replaced_removed_and_bound_for_a_while(handlers):
    registry = handlers.registry()
    first = registry.on_service("/arm/set_led", handle)
    second = registry.on_service(SERVER.path, print)
    assert handlers.get("service", SERVER.path).handler is print
    first.remove()
    assert handlers.get("service", SERVER.path).handler is print
    second.remove()
    second.remove()
    assert handlers.get("service", SERVER.path) is None
    with registry.on_service("/arm/set_led", handle):
        assert handlers.get("service", SERVER.path).handler is handle
    assert handlers.get("service", SERVER.path) is None


def test_the_embedder_comes_before_packages_and_packages_come_by_name(handlers):
    handlers.registry("package b").on_service("set_led", max)
    handlers.registry("package a").on_service("std_srvs/srv/SetBool", min)
    assert handlers.get("service", SERVER.path).owner == "package a"
    with handlers.registry().on_service("/arm/set_led", handle):
        assert handlers.get("service", SERVER.path).owner == EMBEDDER
    assert handlers.get("service", SERVER.path).owner == "package a"
    handlers.drop("package a")
    assert handlers.get("service", SERVER.path).owner == "package b"


def test_packages_bind_by_type_by_the_end_of_a_name_by_name_and_by_prim_and_may_find_nothing(handlers):
    for target in ("std_srvs/srv/SetBool", "set_led", "arm/set_led", "/arm/set_led", SERVER.path):
        with handlers.registry("package a").on_service(target, handle):
            assert handlers.get("service", SERVER.path) is not None, target
    for target in ("led", "std_srvs/srv/Trigger", "/other/set_led", "/set_led", ""):
        handlers.registry("package a").on_service(target, handle)
        assert handlers.get("service", SERVER.path) is None, target


def test_a_name_in_two_domains_names_both():
    there = ServicePlan(
        path="/arm2/led", role="server", name="/arm/set_led", type="std_srvs/srv/SetBool", domain_id=7
    )
    handlers = Handlers(plan(SERVER, there))
    binding = handlers.registry().on_service("/arm/set_led", handle)
    assert handlers.get("service", SERVER.path) is not None
    assert handlers.get("service", "/arm2/led") is not None
    binding.remove()
    assert handlers.get("service", "/arm2/led") is None


def test_changes_are_reported(handlers):
    told = []
    handlers.changed = lambda kind, path: told.append((kind, path))
    binding = handlers.registry().source("/arm/joint_states", handle)
    binding.remove()
    binding.remove()
    assert told == [("topic", JOINT_STATES.path)] * 2


# --- Installed packages -------------------------------------------------------------------------------------------


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """`install(name, code, entry points)`: a distribution as an installer leaves it behind."""

    def make(name: str, code: str, **entries: str) -> None:
        (tmp_path / f"{name}.py").write_text(dedent(code), encoding="utf-8")
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
        )
        lines = [f"{entry} = {value}" for entry, value in entries.items()]
        (info / "entry_points.txt").write_text(
            "\n".join(["[usd_ros_bridge.handlers]", *lines, ""]), encoding="utf-8"
        )

    monkeypatch.syspath_prepend(str(tmp_path))
    yield make
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


LED = """
    def bind(handlers):
        @handlers.on_service("set_led")
        def set_led(request, response):
            response.success = True
            response.message = f"led {'on' if request.data else 'off'} of {handlers.plan.asset}"
    """


def test_an_installed_package_binds_what_it_serves(install, handlers):
    install("led_package", LED, led="led_package:bind")
    with pytest.raises(OptionError, match=r"are not installed; there are: .*\bled\b"):
        bind_installed(handlers, ["lamp"], lambda *_: None)
    reports = []
    bind_installed(handlers, None, lambda *report: reports.append(report))
    assert handlers.get("service", SERVER.path).owner == "package led"
    assert reports == []


def test_the_documented_distribution_binds(install, handlers):
    page = Path(__file__).parents[2] / "docs" / "reference" / "handlers.md"
    text = page.read_text(encoding="utf-8")
    code = next(block for block in text.split("```python\n")[1:] if block.startswith("def bind")).split(
        "```"
    )[0]
    project = text.split("```toml\n")[1].split("```")[0]
    assert '[project.entry-points."usd_ros_bridge.handlers"]\nled = "led_handlers:bind"\n' in project
    install("led_handlers", code, led="led_handlers:bind")
    bind_installed(handlers, None, pytest.fail)
    bound = handlers.get("service", SERVER.path)
    response = SetBool.Response()
    assert bound.handler(SetBool.Request(data=True), response) is None
    assert (response.success, response.message) == (True, "led on")


def test_only_what_is_selected_is_even_imported(install):
    install("led_package", LED, led="led_package:bind")
    install("bomb_package", "raise SystemExit('imported')", bomb="bomb_package:bind")
    handlers = Handlers(EVERYTHING)
    bind_installed(handlers, ["led"], pytest.fail)
    assert handlers.get("service", SERVER.path) is not None
    none = Handlers(EVERYTHING)
    bind_installed(none, [], pytest.fail)
    assert none.get("service", SERVER.path) is None
    assert "bomb_package" not in sys.modules
    with pytest.raises(BridgeError, match=r"handlers 'nothing' are not installed; there are: bomb, led"):
        bind_installed(Handlers(EVERYTHING), ["nothing"], pytest.fail)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("raise RuntimeError('broken')", "bad_package:bind"),
        ("raise SystemExit(3)", "bad_package:bind"),
        ("", "bad_package:bind"),
        ("bind = 3", "bad_package:bind"),
        ("", "not_there:bind"),
        ("def bind(handlers):\n    handlers.on_service('set_led', print)\n    raise ValueError", "bad_package:bind"),
    ],
)  # fmt: skip
def test_a_package_that_fails_is_one_warning_and_binds_nothing(install, handlers, code, value):
    install("bad_package", code, bad=value)
    install("led_package", LED, led="led_package:bind")
    reports = []
    bind_installed(handlers, None, lambda *report: reports.append(report))
    assert [kind for kind, _ in reports] == ["handlers:bad"]
    assert "bad" in reports[0][1]
    assert handlers.get("service", SERVER.path).owner == "package led"


def test_an_asset_cannot_name_code(install, tmp_path, start):
    """What stands in an asset is compared with what is installed, and never looked for."""
    (tmp_path / "evil_code.py").write_text("raise SystemExit('executed')", encoding="utf-8")
    evil = ServicePlan(path="/arm/evil_code", role="server", name="/arm/evil_code", type="evil_code/srv/Bind")
    named = ServicePlan(
        path="/arm/bind", role="server", name="/arm/evil_code/bind", type="std_srvs/srv/Empty"
    )
    start(plan(evil, named))
    assert "evil_code" not in sys.modules


def test_a_bridge_says_what_is_not_installed():
    with pytest.raises(BridgeError, match="handlers 'nothing' are not installed"):
        Bridge(plan(), options=BridgeOptions(handlers=("nothing",))).open()


@pytest.mark.process
def test_an_installed_distribution_serves_a_service_of_a_bridge(install, tmp_path, ros_harness):
    install("led_package", LED, led="led_package:bind")
    # A process of its own, as a user's is: the distribution on its path, nothing of it in its code.
    script = dedent(
        """
        import sys
        from ros_plans import plan
        from usd_ros_bridge import Bridge
        from usd_ros_bridge.model.plan import ServicePlan

        led = ServicePlan(path="/arm/led", role="server", name="/arm/set_led", type="std_srvs/srv/SetBool")
        with Bridge(plan(led)) as bridge:
            print([row.served_by for row in bridge.status().interfaces if row.path == "/arm/led"], flush=True)
            sys.stdin.read()
        """
    )
    # After these, the path as it is: `colcon test` has the installed bridge there.
    path = [str(tmp_path), str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2])]
    environment = {"PYTHONPATH": ":".join([*path, *filter(None, [os.environ.get("PYTHONPATH")])])}
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        assert process.stdout.readline().strip() == "['package led']"
        client = ros_harness.node.create_client(SetBool, "/arm/set_led")
        ros_harness.wait_for(client.service_is_ready, what="the service")
        future = client.call_async(SetBool.Request(data=True))
        ros_harness.wait_for(future.done, what="the answer")
        assert (future.result().success, future.result().message) == (True, "led on of arm.usda")
    finally:
        process.communicate("", timeout=20.0)
    assert process.returncode == 0
