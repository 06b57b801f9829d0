"""The one place where the service is put together; tests put it together with other parts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from api.beside import Beside
from api.collectives import Collectives
from api.desk import AdviceDesk
from api.forecast_worker import ForecastWorker
from api.http.app import create_app
from api.http.settings import HttpSettings
from api.intake import Intake
from api.interpreter import tuned_for_pages
from api.plugin_collectors import PluginCollectors
from api.plugins import SIMULATOR, Plugins, find_plugins
from api.push import Push
from api.schedulers import Schedulers
from api.service import Service
from api.settings import Settings, custom_map
from api.sources import ExporterSource, PrometheusSource
from api.topology import TopologyFeed
from collectors.wall_clock import WallClock
from features.ring import Ring
from features.store.duck import DuckStore
from forecast.backends.base import Backend
from telemetry.clock import Clock
from telemetry.errors import ConfigError
from telemetry.topology import ClusterSnapshot

STOP_WITHIN_S = 4.5
"""After this a stop no longer waits for anybody: what was acknowledged is on disk."""
CONNECTIONS_WITHIN_S = 2
MODELS_FOLDER = "models"
"""Of the data folder: the model store."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect it."""

RING_SLACK = 1.25
"""The ring holds this much more than a forecast's window, for sources whose clocks lag behind."""


@dataclass(slots=True)
class Built:
    """A service that is put together and not yet running."""

    service: Service
    app: FastAPI
    settings: Settings


def build(settings: Settings, *, clock: Clock | None = None, backend: Backend | None = None) -> Built:
    """Put the service together.

    Raises:
        ConfigError: a backend that needs an address has none.
        StoreError: the store cannot be opened.
    """
    clock = clock or WallClock()
    service: Service | None = None

    def snapshot() -> ClusterSnapshot:
        assert service is not None  # the backend is only asked once the service runs
        return service.snapshot()

    plugins = find_plugins()
    chosen = backend or _backend(settings, clock, snapshot, plugins)
    store = _open_store(settings)
    ring = Ring(settings.forecast.window_s * RING_SLACK)
    intake = Intake(
        ring,
        store,
        flush_s=settings.store.flush_s,
        now=clock.now,
        spill_after_s=settings.store.hot_window_s,
    )
    schedulers = Schedulers(settings.slurm, settings.kubernetes)
    custom = custom_map(settings.custom)
    beside = Beside(
        schedulers,
        Collectives(settings.nccl, settings.store.folder),
        TopologyFeed(settings.topology, settings.slurm, settings.kubernetes, settings.store.folder),
        PluginCollectors(settings.plugin, plugins.found),
    )
    source = (
        PrometheusSource(settings.prometheus, intake.take, clock, beside, custom)
        if settings.prometheus.url
        else ExporterSource(settings.scrape, intake.take, clock, beside, custom)
    )
    push = Push(intake, clock.now, schedulers.ownership, custom)
    trained = settings.store.folder / MODELS_FOLDER if settings.forecast.trained else None
    desk = AdviceDesk(chosen, settings.advice.modes)
    service = Service(
        settings,
        clock=clock,
        ring=ring,
        intake=intake,
        source=source,
        worker=ForecastWorker(models=settings.forecast.models, store=trained),
        desk=desk,
        rules=plugins.rules(),
        push=push,
        beside=beside,
        trained=trained,
    )
    http = HttpSettings(
        mode=desk.mode,
        backend=desk.backend_name,
        plugins=plugins.found,
        plugins_in_use=plugins.in_use(settings.plugin, settings.forecast.models, settings.advice.backend),
    )
    app = create_app(service, settings=http, push=push)
    return Built(service, app, settings)


def _open_store(settings: Settings) -> DuckStore:
    folder = settings.store.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make the data folder {folder}: {error.strerror}", mend="Choose another with --data-dir"
        ) from error
    return DuckStore(
        folder / "samples.duckdb",
        hot_window_s=settings.store.hot_window_s,
        cold_dir=folder / "cold",
        max_series=settings.store.max_series,
        policy=settings.store.policy(),
    )


def _backend(settings: Settings, clock: Clock, snapshot: Callable[[], ClusterSnapshot], plugins: Plugins) -> Backend:
    name = settings.advice.backend
    if name == SIMULATOR:
        if not settings.advice.backend_url:
            raise ConfigError("advice.backend is simulator, but advice.backend_url is empty")
        from forecast.simulator.backend import SimulatedBackend

        return SimulatedBackend(settings.advice.backend_url, clock)
    factories = plugins.backends()
    if name not in factories:
        failed = next((p.error for p in plugins.found if (p.group, p.name) == ("gpucast.backends", name)), "")
        known = ", ".join(sorted({*factories, SIMULATOR}))
        why = f"cannot be loaded: {failed}" if failed else "is not known"
        raise ConfigError(f"setting advice.backend: {name!r} {why}", mend=f"Known are {known}")
    try:
        made = factories[name](snapshot, clock)
    except Exception as error:  # a third party's factory may fail in any way
        raise ConfigError(f"setting advice.backend: {name!r} cannot be made: {error}") from error
    if not isinstance(made, Backend):
        raise ConfigError(f"setting advice.backend: {name!r} gives {type(made).__name__}, which is no backend")
    return made


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: the port is taken or may not be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)  # only this makes sure that nobody else has the port
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}",
            mend="Choose another with --port, or 0 for a free one",
        ) from error
    return sock


@contextlib.asynccontextmanager
async def running(built: Built, sock: socket.socket):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """The service and its HTTP server, running while the context lasts. Gives the server's task."""
    config = uvicorn.Config(
        built.app, log_level="warning", access_log=False, timeout_graceful_shutdown=CONNECTIONS_WITHIN_S, lifespan="off"
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    service = asyncio.create_task(built.service.run(), name="service")
    http = asyncio.create_task(server._serve([sock]), name="http")
    try:
        yield service
    finally:
        server.should_exit = True
        service.cancel()
        await asyncio.gather(service, http, return_exceptions=True)


def serve(settings: Settings) -> int:
    """Run until SIGINT or SIGTERM; gives 130 after the first and 0 after the second."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    with bind(settings.host, settings.port) as sock, tuned_for_pages():
        return asyncio.run(_serve(build(settings), sock))


async def _serve(built: Built, sock: socket.socket) -> int:
    stop = asyncio.Event()
    code = 0

    def end(with_code: int) -> None:
        nonlocal code
        if not stop.is_set():
            code = with_code
            _end_at_last(built, with_code)
        stop.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, end, INTERRUPTED)
    loop.add_signal_handler(signal.SIGTERM, end, 0)
    host, port = sock.getsockname()[:2]
    async with running(built, sock) as service:
        shown = f"[{host}]" if ":" in host else host
        logging.getLogger("gpucast").info("serving the page and the API at http://%s:%d", shown, port)
        waiter = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait({waiter, service}, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if service in done and not service.cancelled() and service.exception() is not None:
            raise _reason(service.exception())
    return code


def _end_at_last(built: Built, code: int) -> None:
    """End the process when an orderly stop takes too long, such as on a disk or a scheduler that hangs."""

    def give_up() -> None:
        logging.getLogger("gpucast").error("could not stop in order within %g s; ends now", STOP_WITHIN_S)
        built.service.end_worker()
        os._exit(code)

    timer = threading.Timer(STOP_WITHIN_S, give_up)
    timer.daemon = True
    timer.start()


def _reason(error: BaseException | None) -> BaseException:
    """The first real error inside a group, so that the user reads one sentence."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert error is not None
    return error
