"""The process in which models run, so that the API process stays light and answers while they think."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

from api.champions import Champions
from api.plugin_models import TriedModels, tried_models
from forecast.predict.worker import PredictReply, PredictRequest
from telemetry.errors import ModelError

_END_WITHIN_S = 1.0


_models = TriedModels()
"""Of the process that forecasts."""


def _start(models: Sequence[str] = (), store: Path | None = None) -> None:
    # Two BLAS pools on one small machine only steal from each other.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # Ctrl-C goes to the whole process group; who ends this process is the service.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if models:
        global _models
        _models = tried_models(models)
    if store is not None:
        _models.champions = Champions(store, _models.guards)
    threading.Thread(target=_end_with_the_service, name="end with the service", daemon=True).start()


def _predict(request: PredictRequest) -> PredictReply:
    return _models.predict(request)


def _end_with_the_service() -> None:
    """A service that is killed tells nobody, and its worker would wait for requests for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


@contextmanager
def _without_interrupt() -> Iterator[None]:
    """A process started inside inherits that Ctrl-C is held back, so it cannot hit it while it still imports."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ForecastWorker:
    """One spawned process that turns requests into forecasts, replaced when it dies.

    Args:
        timeout_s: longest wait for one reply.
        models: of other packages, to be tried beside the built-in ones.
        store: folder of the model store, whose champions serve; None for the built-in models alone.
    """

    def __init__(self, timeout_s: float = 60.0, models: Sequence[str] = (), store: Path | None = None) -> None:
        self._timeout_s = timeout_s
        self._models = tuple(models)
        self._store = store
        self._pool = self._new_pool()
        self.restarts_total = 0

    def _new_pool(self) -> ProcessPoolExecutor:
        spawned = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, mp_context=spawned, initializer=_start, initargs=(self._models, self._store))

    async def predict(self, request: PredictRequest) -> PredictReply:
        """Run one request in the worker.

        Raises:
            ModelError: the worker died or took too long; a new one is ready for the next call.
        """
        loop = asyncio.get_running_loop()
        try:
            # Not wait_for: before Python 3.12 it can swallow a cancellation that arrives with the answer.
            async with asyncio.timeout(self._timeout_s):
                with _without_interrupt():  # the first request starts the process
                    answer = loop.run_in_executor(self._pool, _predict, request)
                return await answer
        except BrokenProcessPool as error:
            self._replace()
            raise ModelError("the forecast worker died", mend="It was started again") from error
        except TimeoutError as error:
            self._replace()
            raise ModelError(
                f"the forecast worker took over {self._timeout_s:g} s", mend="It was started again"
            ) from error

    def _replace(self) -> None:
        self.restarts_total += 1
        self.close()
        self._pool = self._new_pool()

    def close(self) -> None:
        """End the process, also one that hangs."""
        processes = list((getattr(self._pool, "_processes", None) or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(_END_WITHIN_S)
            if process.is_alive():
                process.kill()
