"""Rows of what jobs say about themselves. They come in as JSON by our own names, so no foreign field is named."""

from __future__ import annotations

from telemetry.metric import INF, Kind, Level, Metric

RANK_STEP_METRIC = Metric(
    "rank_step_duration_s",
    "seconds",
    Kind.GAUGE,
    Level.RANK,
    (),
    high=1e6,
    meaning="how long a step took one process of a job",
)
STEP_METRICS: tuple[Metric, ...] = (
    Metric("job_step_total", "steps", Kind.COUNTER, Level.JOB, (), meaning="number of the step that was just finished"),
    Metric("job_step_duration_s", "seconds", Kind.GAUGE, Level.JOB, (), high=1e6, meaning="how long that step took"),
    Metric("job_loss", "loss", Kind.GAUGE, Level.JOB, (), low=-INF, meaning="training loss of that step"),
    Metric(
        "job_tokens_per_s",
        "tokens per second",
        Kind.RATE,
        Level.JOB,
        (),
        meaning="tokens of that step over its duration",
    ),
    Metric(
        "job_checkpoint_flag",
        "flag",
        Kind.GAUGE,
        Level.JOB,
        (),
        high=1.0,
        meaning="1 when a checkpoint begins, 0 when it ends",
    ),
    Metric(
        "job_data_wait_s",
        "seconds",
        Kind.GAUGE,
        Level.JOB,
        (),
        high=1e6,
        meaning="part of that step in which the job waited for data",
    ),
)
