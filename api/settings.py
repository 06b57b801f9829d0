"""Settings of the running service: defaults, a TOML file, ``GPUCAST_*`` environment variables, flags; later wins."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from collectors.custom_map import CustomEntry, CustomMap
from features.store.policy import StorePolicy
from forecast.advisor.types import Mode
from telemetry.errors import ConfigError


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False)


def _http_address(value: str) -> str:
    """The same text.

    Raises:
        ValueError: no http or https address with a host.
    """
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or any(letter.isspace() for letter in value):
        raise ValueError(f"{value!r} is not an http or https address")
    return value


class TargetSettings(_Section):
    """One exporter page."""

    url: str = Field(description="Address of the page, such as http://gpu-01:9400/metrics.")
    node: str = Field(
        default="", description="Host name to use where the page does not say its own; empty takes the URL's host."
    )

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        return _http_address(value)


class ScrapeSettings(_Section):
    """How exporters are read."""

    targets: list[TargetSettings] = Field(
        default_factory=lambda: [TargetSettings(url="http://127.0.0.1:9400/metrics")],
        description="Pages to read. The default is a dcgm-exporter on this host.",
    )
    targets_from: str = Field(
        default="", description="Address of a Prometheus http_sd list of targets, read once at start; empty for none."
    )

    local_gpus: bool = Field(
        default=False,
        description="Read this host's own GPUs through NVML too, where no dcgm-exporter runs; needs gpucast[nvml].",
    )
    interval_s: float | None = Field(
        default=None,
        gt=0,
        description="Fixed seconds between reads of one target; unset learns how often each source really changes.",
    )
    timeout_s: float = Field(default=5.0, gt=0, description="Longest wait for one page, seconds.")
    max_bytes: int = Field(default=64 * 2**20, gt=0, description="Largest page accepted, bytes.")
    max_scrapes_per_s: float = Field(default=120.0, gt=0, description="Reads per second over all targets.")

    @field_validator("targets_from")
    @classmethod
    def _is_http(cls, value: str) -> str:
        return _http_address(value) if value else value


class PrometheusSettings(_Section):
    """Reading a Prometheus-compatible server instead of exporters."""

    url: str = Field(default="", description="Base address, such as http://127.0.0.1:9090; empty reads exporters.")

    poll_s: float = Field(default=2.0, gt=0, description="Seconds between reads.")
    backfill_s: float = Field(default=900.0, ge=0, description="How far back to read at start, seconds.")
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one answer, seconds.")

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        return _http_address(value) if value else value


class SlurmSettings(_Section):
    """Reading Slurm: who has which GPU, and the queue."""

    enabled: bool = Field(default=False, description="Read Slurm, by squeue and scontrol unless rest_url is set.")
    poll_s: float = Field(default=15.0, ge=1.0, description="Seconds between reads; each is two calls in all.")
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one call, seconds.")
    rest_url: str = Field(default="", description="Address of slurmrestd, such as http://slurm-01:6820.")
    rest_user: str = Field(default="", description="Whose token it is; empty leaves that to the token.")
    rest_version: str = Field(default="", description="Such as v0.0.44; empty takes the newest that is served.")
    token_file: Path | None = Field(
        default=None, description="File with slurmrestd's token, read anew each time; unset sends none."
    )

    @field_validator("rest_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        return _http_address(value) if value else value


class KubernetesSettings(_Section):
    """Reading the Kubernetes API: whose pods have which GPUs. Nothing is ever written."""

    enabled: bool = Field(default=False, description="Read pods and nodes of the Kubernetes API.")
    poll_s: float = Field(default=15.0, ge=1.0, description="Seconds between reads.")
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one page of a list, seconds.")
    url: str = Field(default="", description="Address of the API; empty takes the one of the pod that this runs in.")
    token_file: Path | None = Field(
        default=None, description="File with a bearer token, read anew each time; unset takes the pod's own."
    )
    ca_file: Path | None = Field(
        default=None, description="Certificate of the API's issuer; unset takes the pod's own."
    )

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        return _http_address(value) if value else value


class NcclSettings(_Section):
    """Reading what NCCL tells of its collectives."""

    inspector_folders: list[Path] = Field(
        default_factory=list,
        description="Folders into which NCCL Inspector writes (NCCL_INSPECTOR_DUMP_DIR), or one above them; empty reads none.",
    )
    ras: list[str] = Field(
        default_factory=list,
        description="Addresses of NCCL RAS, host or host:port, one for each job to watch; empty asks none.",
    )
    poll_s: float = Field(default=5.0, gt=0, description="Seconds between reads.")
    settle_s: float = Field(
        default=30.0, ge=0, description="How long a collective waits for the other ranks' records, seconds."
    )
    lookback_s: float = Field(default=86400.0, gt=0, description="Records older than this are left out, seconds.")
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one answer of RAS, seconds.")
    ras_max_bytes: int = Field(default=64 * 2**20, gt=0, description="Largest answer of RAS accepted, bytes.")

    @field_validator("ras")
    @classmethod
    def _are_addresses(cls, value: list[str]) -> list[str]:
        for address in value:
            host, _, port = address.rpartition(":") if ":" in address else (address, "", "1")
            if not host or any(c.isspace() for c in address) or not (port.isascii() and port.isdigit()):
                raise ValueError(f"{address!r} is neither host nor host:port")
            if not 0 < int(port[:6]) < 65536:
                raise ValueError(f"{address!r} has no port from 1 to 65535")
        return value


class StoreSettings(_Section):
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


class ForecastSettings(_Section):
    """What is forecast, and from how much."""

    every_s: float = Field(default=2.0, gt=0, description="Seconds between forecasts.")
    horizon_s: float = Field(default=120.0, gt=0, description="How far demand is forecast, seconds.")
    window_s: float = Field(default=600.0, gt=0, description="Recent past a forecast rests on, seconds of source time.")
    max_age_s: float = Field(default=30.0, gt=0, description="Data older than this gives no forecast, seconds.")
    link_horizon_s: float = Field(default=30.0, gt=0, description="How far congestion is foreseen, seconds.")


class AdviceSettings(_Section):
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


class CustomSettings(_Section):
    """A metric of the site's own, written as [[custom]]; docs/sources/custom.md shows examples."""

    field: str = Field(description="Name of the Prometheus metric.")
    metric: str = Field(description="Metric of the catalogue, or a name of your own that starts with site_.")
    unit: str = Field(description="Unit in which it is printed, such as milliseconds or megabits per second.")
    level: str = Field(description="What it belongs to: link, node or gpu.")
    entity: str = Field(description="Template of the entity over labels and {node}, such as {switch}:{ifName}.")
    kind: str = Field(default="", description="gauge, counter or rate; a metric of the catalogue has its own.")
    only: dict[str, str] = Field(default_factory=dict, description="Label -> pattern that it has to match wholly.")
    add_over: list[str] = Field(
        default_factory=list, description="Labels whose values are parts of one number, to be added."
    )


class Settings(_Section):
    """Everything the service can be told."""

    host: str = Field(default="127.0.0.1", description="Address to listen on; only loopback is accepted for now.")
    port: int = Field(default=8470, ge=0, le=65535, description="TCP port of the API and the page; 0 takes a free one.")
    scrape: ScrapeSettings = Field(default_factory=ScrapeSettings)
    prometheus: PrometheusSettings = Field(default_factory=PrometheusSettings)
    slurm: SlurmSettings = Field(default_factory=SlurmSettings)
    kubernetes: KubernetesSettings = Field(default_factory=KubernetesSettings)
    nccl: NcclSettings = Field(default_factory=NcclSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    forecast: ForecastSettings = Field(default_factory=ForecastSettings)
    advice: AdviceSettings = Field(default_factory=AdviceSettings)
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


def custom_map(entries: Sequence[CustomSettings]) -> CustomMap:
    """The site's own metrics, checked.

    Raises:
        ConfigError: an entry that cannot work.
    """
    return CustomMap(
        CustomEntry(one.field, one.metric, one.unit, one.level, one.entity, one.kind, one.only, tuple(one.add_over))
        for one in entries
    )


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
