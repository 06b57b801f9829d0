"""Settings: later source wins, and a wrong key is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.settings import Settings, load_settings
from forecast.advisor.types import Mode
from telemetry.errors import ConfigError


def test_defaults_listen_on_loopback_and_never_act() -> None:
    """Out of the box nothing is reachable from outside and nothing acts."""
    settings = load_settings(environment={})
    assert settings.host == "127.0.0.1"
    assert settings.advice.backend == "dry_run"
    assert set(settings.advice.modes.values()) <= {Mode.OBSERVE, Mode.RECOMMEND}


def test_flags_beat_environment_beats_file(tmp_path: Path) -> None:
    """A flag wins over the environment, which wins over the file."""
    file = tmp_path / "gpucast.toml"
    file.write_text("port = 1\n[scrape]\ntimeout_s = 1.0\nmax_bytes = 10\n", encoding="utf-8")
    environment = {"GPUCAST_PORT": "2", "GPUCAST_SCRAPE__TIMEOUT_S": "2", "HOME": "/nowhere"}
    settings = load_settings(file, environment, port=3)
    assert (settings.port, settings.scrape.timeout_s, settings.scrape.max_bytes) == (3, 2.0, 10)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prot = 1", "prot"),
        ("[scrape]\ntimeout = 1", "scrape.timeout"),
        ("port = 99999", "port"),
        ('host = "0.0.0.0"', "host"),
        ("[[scrape.targets]]\nurl = 'ftp://x'", "scrape.targets.0.url"),
        ("[advice.modes]\nshift = 'yolo'", "advice.modes.shift"),
        ("port = ", "TOML"),
        ("scrape = 3", "scrape"),
    ],
)
def test_wrong_setting_is_named(tmp_path: Path, text: str, named: str) -> None:
    """Every mistake is one sentence that names the key."""
    file = tmp_path / "gpucast.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=named):
        load_settings(file, {})


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A path that is not there is in the message."""
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        load_settings(tmp_path / "absent.toml", {})


def test_scalar_in_place_of_a_section_from_the_environment(tmp_path: Path) -> None:
    """A value where a section is expected does not crash."""
    file = tmp_path / "gpucast.toml"
    file.write_text("scrape = 3", encoding="utf-8")
    with pytest.raises(ConfigError, match="scrape"):
        load_settings(file, {"GPUCAST_SCRAPE__TIMEOUT_S": "2"})


def test_every_setting_has_a_description() -> None:
    """A setting that cannot be explained does not exist."""
    sections = [Settings]
    while sections:
        for name, info in sections.pop().model_fields.items():
            inner = info.annotation
            if isinstance(inner, type) and issubclass(inner, Settings.__mro__[1]):
                sections.append(inner)
            else:
                assert info.description, name
