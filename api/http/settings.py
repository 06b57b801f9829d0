"""What a site may set about the HTTP side."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from forecast.advisor.types import Mode
from telemetry.plugins import Plugin

LOOPBACK_HOSTS: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})
"""Host names a browser on this machine uses; anything else in ``Host`` is DNS rebinding."""


def installed_version() -> str:
    """Version of the installed distribution, ``unknown`` in a bare checkout."""
    try:
        return version("gpucast")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Settings of the HTTP side; the defaults suit a service bound to loopback.

    Args:
        allowed_hosts: names accepted in the ``Host`` header, without port; None accepts any (only for a service that
            is bound to an outside address on purpose).
        max_body_bytes: largest request body of most routes.
        max_write_bytes: largest body of a remote write request, packed.
        max_steps_bytes: largest body of reported steps.
        mode: the highest mode set for any kind of action, shown in the page's top bar.
        backend: name of the backend that would act, shown beside the mode.
        version: version of the build, for ``gpucast_build_info`` and ``/v1/health``.
        max_metric_series: most label sets of one family in ``/metrics``; the rest is counted as omitted.
        plugins: what other packages bring, shown at ``/v1/plugins``.
        plugins_in_use: (group, name) of those that the service runs.
    """

    allowed_hosts: frozenset[str] | None = LOOPBACK_HOSTS
    max_body_bytes: int = 64 * 1024
    max_write_bytes: int = 16 * 1024**2
    max_steps_bytes: int = 4 * 1024**2
    mode: Mode = Mode.RECOMMEND
    backend: str = "dry_run"
    version: str = ""
    max_metric_series: int = 500
    plugins: tuple[Plugin, ...] = ()
    plugins_in_use: frozenset[tuple[str, str]] = frozenset()

    @property
    def build_version(self) -> str:
        """The version to show: the one set, else the installed one."""
        return self.version or installed_version()
