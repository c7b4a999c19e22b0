"""`openinfer plugins` and `openinfer devices`: tables and JSON of what is installed and what it can do."""

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from openinfer.cli import main
from openinfer.cli.terminal import table
from openinfer.plugins.environment import Environment, PluginInfo, Status
from openinfer.plugins.types import Availability, DeviceSpec, Fallback


def offer(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """Make an environment the process's default."""
    environment = Environment(**fields)
    monkeypatch.setattr("openinfer.plugins.loader.default_environment", lambda: environment)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


PLUGINS = (
    PluginInfo(name="core", distribution="openinfer-core", version="0.2.0", status=Status.OK),
    PluginInfo(name="bad", distribution="bad-dist", version="1.0", status=Status.FAILED, reason="raised \x1b[2J"),
)


def test_plugins_are_listed_with_reasons_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, plugins=PLUGINS)

    lines = run("plugins").output.splitlines()

    assert lines[0].split() == ["name", "distribution", "version", "status", "reason"]
    assert lines[1].split() == ["core", "openinfer-core", "0.2.0", "ok"]
    assert lines[2].split(maxsplit=4) == ["bad", "bad-dist", "1.0", "failed", "raised \\x1b[2J"]
    assert "OPENINFER_PLUGINS_BLOCK=NAME" in lines[-1]


def test_plugins_as_json_have_their_fields_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, plugins=PLUGINS)

    core = {"name": "core", "distribution": "openinfer-core", "version": "0.2.0", "status": "ok", "reason": ""}
    bad = {"name": "bad", "distribution": "bad-dist", "version": "1.0", "status": "failed", "reason": "raised \x1b[2J"}
    assert json.loads(run("plugins", "--json").output) == [{**core, "options": []}, {**bad, "options": []}]


def test_a_switch_that_names_no_plugin_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, plugins=PLUGINS)

    result = run("--plugins-block", "cor,bad-dist", "plugins", "--json")

    assert result.stderr == "a switch names the plugin 'cor', which is not installed: did you mean `core`?\n"
    assert len(json.loads(result.stdout)) == 2


def probe_present() -> Availability:
    return Availability(available=True, detail="a fine device")


def probe_raising() -> Availability:
    raise OSError("bus on fire")


def probe_detailed() -> Availability:
    facts = {"lanes": 4096, "half floats": True, "driver": "fine\x1b[2J"}
    return Availability(available=True, detail="a fine device", hardware={"detailed:1": facts})


def probe_muddled() -> Availability:
    return Availability(available=True, detail="a fine device", hardware={"muddled": {"lanes": [1]}})  # type: ignore[dict-item]


def probe_confused() -> str:
    return "yes"


def device(name: str, probe: str) -> DeviceSpec:
    return DeviceSpec(name=name, summary=name, probe=probe, backend="x:y", expression_dtypes=frozenset())


OTHERS = {"a": "present", "b": "broken", "c": "nobody"}


def offer_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = {"present": "probe_present", "raising": "probe_raising", "confused": "probe_confused", "gone": "absent"}
    specs = {name: device(name, f"{__name__}:{probe}") for name, probe in probes.items()}
    offer(monkeypatch, devices=specs, providers={("device", name): "test" for name in specs})


def test_every_device_is_probed_and_a_broken_probe_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    offer_devices(monkeypatch)

    result = run("devices", "--json")

    found = {row["name"]: row for row in json.loads(result.output)}
    assert result.exit_code == 0
    assert [name for name, row in found.items() if row["available"]] == ["present"]
    assert found["present"]["detail"] == "a fine device"
    assert found["present"]["plugin"] == "test"
    assert "raised OSError: bus on fire" in found["raising"]["detail"]
    assert "returned 'yes' (str), expected an Availability" in found["confused"]["detail"]
    assert "has no attribute 'absent'" in found["gone"]["detail"]


def test_devices_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    offer_devices(monkeypatch)

    lines = [line.split(maxsplit=3) for line in run("devices").output.splitlines()]

    assert lines[0] == ["name", "available", "plugin", "detail"]
    assert ["present", "yes", "test", "a fine device"] in lines
    assert [line[1] for line in lines[1:]].count("no") == 3


def test_devices_show_facts_about_hardware_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = {name: device(name, f"{__name__}:probe_{name}") for name in ("detailed", "muddled")}
    offer(monkeypatch, devices=specs, providers={("device", name): "test" for name in specs})

    table, facts = run("devices", "--verbose").output.split("\n\n")
    found = {row["name"]: row for row in json.loads(run("devices", "--json").output)}

    assert "lanes" not in table
    assert [line.split(maxsplit=1)[0] for line in table.splitlines()[1:]] == ["detailed", "muddled"]
    assert facts.splitlines() == [
        "detailed:1",
        "lanes        4,096",
        "half floats  yes",
        "driver       fine\\x1b[2J",
    ]
    assert found["detailed"]["hardware"]["detailed:1"]["lanes"] == 4096
    assert not found["muddled"]["available"]
    assert "returned hardware that is not facts by name" in found["muddled"]["detail"]
    assert "lanes" not in run("devices").output


def test_devices_report_what_they_leave_to_another_and_whether_that_can_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = {name: Fallback(device=other, dtypes=frozenset({"i64", "f64"})) for name, other in OTHERS.items()}
    there, gone = f"{__name__}:probe_present", f"{__name__}:absent"
    specs = {name: replace(device(name, there), fallback=fallback) for name, fallback in left.items()}
    specs |= {"present": device("present", there), "broken": device("broken", gone)}
    offer(monkeypatch, devices=specs, providers={("device", name): "test" for name in specs})

    details = {line.split()[0]: line.split(maxsplit=3)[3] for line in run("devices").output.splitlines()}
    rows = {row["name"]: row for row in json.loads(run("devices", "--json").output)}

    assert details["a"] == "a fine device; leaves what it does not support for f64, i64 to present"
    assert (
        details["b"]
        == "a fine device; leaves what it does not support for f64, i64 to broken, which cannot be used here"
    )
    assert (
        details["c"]
        == "a fine device; leaves what it does not support for f64, i64 to nobody, which no loaded plugin offers"
    )
    assert details["present"] == rows["a"]["detail"] == "a fine device"
    assert rows["a"]["fallback"] == {"device": "present", "dtypes": ["f64", "i64"]}
    assert rows["present"]["fallback"] is None


def test_without_devices_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)

    assert "install a backend such as openinfer-backend-cpu" in run("devices").output


def test_a_table_is_aligned_and_harmless() -> None:
    assert table(("a", "bb"), [("long", "x"), ("\x1b", "y")]) == "a     bb\nlong  x\n\\x1b  y"
