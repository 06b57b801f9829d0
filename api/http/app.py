"""The HTTP application, built from what the service can be asked."""

from __future__ import annotations

from fastapi import FastAPI

from api.http import (
    accuracy,
    advice,
    collectives,
    findings,
    health,
    intents,
    jobs,
    links,
    metrics,
    models,
    plugins,
    queue,
    steps,
    topology,
    write,
)
from api.http.answers import RenderedOnce
from api.http.openapi import API_VERSION, DESCRIPTION, TITLE, describe
from api.http.page import install_page
from api.http.problems import install_problem_handlers
from api.http.security import GuardMiddleware
from api.http.settings import HttpSettings
from api.push import STEPS_PATH, WRITE_PATH, Push
from api.reads import Reads


def create_app(reads: Reads, *, settings: HttpSettings | None = None, push: Push | None = None) -> FastAPI:
    """The application that serves ``reads``.

    Args:
        reads: the running service, or a stand-in.
        settings: hosts, limits and what the page shows as mode; the defaults suit loopback.
        push: takes in what others send; without it those routes answer 503.
    """
    chosen = settings or HttpSettings()
    # Docs pages are off: they would load scripts from another origin.
    app = FastAPI(
        title=TITLE,
        version=API_VERSION,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.reads = reads
    app.state.push = push
    app.state.settings = chosen
    app.state.rendered = RenderedOnce()
    for room in (
        jobs,
        links,
        queue,
        collectives,
        findings,
        topology,
        intents,
        advice,
        accuracy,
        models,
        health,
        plugins,
        write,
        steps,
        metrics,
    ):
        app.include_router(room.router)
    install_page(app)
    install_problem_handlers(app)
    app.add_middleware(
        GuardMiddleware,
        allowed_hosts=chosen.allowed_hosts,
        max_body_bytes=chosen.max_body_bytes,
        larger={WRITE_PATH: chosen.max_write_bytes, STEPS_PATH: chosen.max_steps_bytes},
    )
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app
