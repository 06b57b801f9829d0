"""Settings of the running service: defaults, a TOML file, ``GPUCAST_*`` environment variables, flags; later wins."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator

from api.source_settings import (
    CustomSettings,
    KubernetesSettings,
    NcclSettings,
    PluginSettings,
    PrometheusSettings,
    ScrapeSettings,
    Section,
    SlurmSettings,
    TargetSettings,
    TopologySettings,
    custom_map,
)
from features.store.policy import StorePolicy
from forecast.advisor.types import Mode
from telemetry.errors import ConfigError

__all__ = [
    "AdviceSettings",
    "CustomSettings",
    "ForecastSettings",
    "KubernetesSettings",
    "NcclSettings",
    "PluginSettings",
    "PrometheusSettings",
    "ScrapeSettings",
    "Settings",
    "SlurmSettings",
    "StoreSettings",
    "TargetSettings",
    "TopologySettings",
    "custom_map",
    "load_settings",
]


class StoreSettings(Section):
    """Where samples are kept."""

    folder: Path = Field(
        default_factory=lambda: Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state")) / "gpucast",
        description="Folder of the sample store.",
    )
    flush_s: float = Field(default=0.5, gt=0, description="Longest time a sample waits in memory, seconds.")
    hot_window_s: float = Field(default=6 * 3600.0, gt=0, description="Age at which samples move to Parquet, seconds.")
    keep_days: float | None = Field(
        default=None, gt=0, description="Days that ended longer ago than this are deleted; unset keeps all."
    )
    downsample_after_days: float | None = Field(
        default=None,
        gt=0,
        description="Days that ended longer ago than this keep mean, min, max and count per step; unset for never.",
    )
    downsample_to_s: float = Field(default=60.0, ge=1, le=86_400, description="Step of down-sampled days, seconds.")
    max_series: int | None = Field(
        default=None,
        gt=0,
        description="New series beyond this many are refused and counted, known ones go on; unset for no limit.",
    )

    def policy(self) -> StorePolicy:
        """What happens to samples as they grow old."""
        return StorePolicy(self.keep_days, self.downsample_after_days, self.downsample_to_s)


class ForecastSettings(Section):
    """What is forecast, and from how much."""

    every_s: float = Field(default=2.0, gt=0, description="Seconds between forecasts.")
    horizon_s: float = Field(default=120.0, gt=0, description="How far demand is forecast, seconds.")
    window_s: float = Field(default=600.0, gt=0, description="Recent past a forecast rests on, seconds of source time.")
    max_age_s: float = Field(default=30.0, gt=0, description="Data older than this gives no forecast, seconds.")
    models: list[str] = Field(
        default_factory=list,
        description="Models of other packages, by entry point in gpucast.models, that are tried beside the built-in ones.",
    )
    trained: bool = Field(
        default=True, description="Champions that `gpucast train` made, in `models` in the data folder, serve."
    )
    link_horizon_s: float = Field(default=30.0, gt=0, description="How far congestion is foreseen, seconds.")


class AdviceSettings(Section):
    """What advice may do."""

    modes: dict[str, Mode] = Field(
        default_factory=lambda: {"shift": Mode.RECOMMEND, "hold": Mode.RECOMMEND},
        description="Per kind of action: observe, recommend, approve or auto. Nothing acts unless raised here.",
    )
    backend: str = Field(
        default="dry_run", description="Who carries advice out: dry_run, simulator, or one of a plug-in."
    )
    backend_url: str = Field(default="", description="Address of the backend, where it has one.")
    threshold_ratio: float = Field(default=0.9, gt=0, le=1, description="Link use that counts as congested, 0..1.")
    min_probability: float = Field(default=0.6, ge=0, le=1, description="Congestion chance below this moves nothing.")
    min_skill: float = Field(default=0.05, le=1, description="Forecast skill below this moves nothing.")


class Settings(Section):
    """Everything the service can be told."""

    host: str = Field(default="127.0.0.1", description="Address to listen on; only loopback is accepted for now.")
    port: int = Field(default=8470, ge=0, le=65535, description="TCP port of the API and the page; 0 takes a free one.")
    scrape: ScrapeSettings = Field(default_factory=ScrapeSettings)
    prometheus: PrometheusSettings = Field(default_factory=PrometheusSettings)
    slurm: SlurmSettings = Field(default_factory=SlurmSettings)
    kubernetes: KubernetesSettings = Field(default_factory=KubernetesSettings)
    nccl: NcclSettings = Field(default_factory=NcclSettings)
    topology: TopologySettings = Field(default_factory=TopologySettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    forecast: ForecastSettings = Field(default_factory=ForecastSettings)
    advice: AdviceSettings = Field(default_factory=AdviceSettings)
    plugin: dict[str, list[PluginSettings]] = Field(
        default_factory=dict,
        description="Collectors of other packages, each as [[plugin.NAME]]; keys beside those below are its own options.",
    )
    custom: list[CustomSettings] = Field(default_factory=list, description="Metrics of the site's own, one entry each.")

    @field_validator("custom")
    @classmethod
    def _can_work(cls, value: list[CustomSettings]) -> list[CustomSettings]:
        try:
            custom_map(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("host")
    @classmethod
    def _is_loopback(cls, value: str) -> str:
        if value not in {"127.0.0.1", "::1", "localhost"}:
            raise ValueError("the API has no access control yet, so it listens on 127.0.0.1, ::1 or localhost only")
        return value


def load_settings(path: Path | None = None, environment: dict[str, str] | None = None, **flags: Any) -> Settings:
    """Settings from file, environment and flags.

    Args:
        path: TOML file; None for none.
        environment: ``GPUCAST_PORT=9`` sets ``port``, ``GPUCAST_SCRAPE__TIMEOUT_S=2`` sets ``scrape.timeout_s``.
        flags: dotted names with ``__`` for the dot, such as ``scrape__timeout_s=2``; None is ignored.

    Raises:
        ConfigError: no such file, not TOML, an unknown key or a bad value; names the key.
    """
    tree: dict[str, Any] = {}
    if path is not None:
        try:
            tree = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(
                f"cannot read {path}: {error.strerror}", mend="Check the path given to --config"
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}", mend="docs/settings.md shows the form") from error
    for name, value in sorted((environment if environment is not None else dict(os.environ)).items()):
        if name.startswith("GPUCAST_"):
            _set(tree, name.removeprefix("GPUCAST_").lower(), value)
    for name, value in flags.items():
        if value is not None:
            _set(tree, name, value)
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        what = "is not a setting" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"setting {key}: {what}", mend="docs/settings.md lists every setting") from error


def _set(tree: dict[str, Any], name: str, value: Any) -> None:
    *parents, leaf = name.split("__")
    for parent in parents:
        branch = tree.setdefault(parent, {})
        if not isinstance(branch, dict):
            raise ConfigError(f"setting {parent} is a value, so {name.replace('__', '.')} cannot be set")
        tree = branch
    tree[leaf] = value
