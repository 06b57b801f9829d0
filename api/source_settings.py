"""Settings of what is read: exporters, Prometheus, schedulers, NCCL, wiring, metrics of the site's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from collectors.custom_map import CustomEntry, CustomMap

KUBERNETES = "kubernetes"
SLURM = "slurm"


class Section(BaseModel):
    """Nothing that is not a setting, nothing that is no number."""

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


class TargetSettings(Section):
    """One exporter page."""

    url: str = Field(description="Address of the page, such as http://gpu-01:9400/metrics.")
    node: str = Field(
        default="", description="Host name to use where the page does not say its own; empty takes the URL's host."
    )

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        return _http_address(value)


class ScrapeSettings(Section):
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


class PrometheusSettings(Section):
    """Reading a Prometheus-compatible server instead of exporters."""

    url: str = Field(default="", description="Base address, such as http://127.0.0.1:9090; empty reads exporters.")

    poll_s: float = Field(default=2.0, gt=0, description="Seconds between reads.")
    backfill_s: float = Field(default=900.0, ge=0, description="How far back to read at start, seconds.")
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one answer, seconds.")

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        return _http_address(value) if value else value


class SlurmSettings(Section):
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


class KubernetesSettings(Section):
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


class NcclSettings(Section):
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


class TopologySettings(Section):
    """Reading the wiring of the cluster: hosts under switches, NVLink domains, the inside of hosts."""

    sources: list[str] = Field(
        default_factory=list,
        description="Files or http addresses as `gpucast topology --from` takes them (=HOST says whose inside one shows), "
        "or kubernetes (labels of its nodes) and slurm (scontrol show topology); the most trusted first.",
    )
    poll_s: float = Field(
        default=60.0, ge=0.1, description="Seconds between looks; a file is read again only when it changed."
    )
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one source, seconds.")

    @field_validator("sources")
    @classmethod
    def _are_told_once(cls, value: list[str]) -> list[str]:
        for source in value:
            if not source.strip() or source == "-":
                raise ValueError(f"{source!r} is no file, no address, and neither kubernetes nor slurm")
            if value.count(source) > 1:
                raise ValueError(f"{source!r} is named twice")
        return value


class PluginSettings(Section):
    """One collector of another package, written as [[plugin.NAME]] with NAME its entry point in gpucast.collectors."""

    model_config = ConfigDict(extra="allow", validate_default=True, allow_inf_nan=False)

    interval_s: float = Field(default=5.0, ge=0.1, description="Seconds between reads of it.")
    lookback_s: float = Field(
        default=0.0, ge=0, description="Length of the windows asked for, seconds; 0 where it shows the present only."
    )
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one batch, seconds.")

    @property
    def options(self) -> dict[str, Any]:
        """Everything else in the table: what its factory is called with."""
        return dict(self.__pydantic_extra__ or {})


class CustomSettings(Section):
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


def custom_map(entries: Sequence[CustomSettings]) -> CustomMap:
    """The site's own metrics, checked.

    Raises:
        ConfigError: an entry that cannot work.
    """
    return CustomMap(
        CustomEntry(one.field, one.metric, one.unit, one.level, one.entity, one.kind, one.only, tuple(one.add_over))
        for one in entries
    )
