"""Answers to what is pushed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.http.schemas.base import Answer

LossText = Annotated[str, Field(pattern=r"^[+-]?(?i:nan|inf|infinity)$")]


class StepIn(BaseModel):
    """One step of a job, or the begin or end of a checkpoint. Name the job by one of `job`, `slurm_job_id` or `pod`."""

    model_config = ConfigDict(extra="forbid")
    job: str | None = Field(None, description="Id of the job.", examples=["slurm:81234"])
    slurm_job_id: str | int | None = Field(None, description="Its number under Slurm.")
    namespace: str | None = Field(None, description="Of the pod; `default` when not given.")
    pod: str | None = Field(None, description="The reporting pod; its name without the replica's part is the job's.")
    rank: int | None = Field(None, ge=0, description="Rank of the reporting process, 0 when not given.")
    step: int | None = Field(None, ge=0, description="Number of the step that has just ended.")
    at_s: float | None = Field(
        None, description="When it ended, Unix seconds of the job's host; needed where several reports come at once."
    )
    step_s: float | None = Field(None, ge=0, le=1e6, description="How long it took.")
    loss: float | LossText | None = Field(None, description="Its loss; `nan` and `inf` as text.")
    tokens: float | None = Field(None, ge=0, description="Tokens in it, over the whole job.")
    checkpoint: Literal["begin", "end"] | None = Field(None, description="A checkpoint begins or has ended.")
    data_wait_s: float | None = Field(None, ge=0, le=1e6, description="Time in it spent waiting for data.")


class StepsOut(Answer):
    """What became of the reports."""

    accepted: int = Field(description="Taken; on disk by now.")
    duplicates: int = Field(description="Known already by job and step; sending again does no harm.")
    other_ranks: int = Field(
        description="Of those accepted: the lowest rank heard speaks for its job, of others the time of each step is kept."
    )
    rejected: int = Field(description="That cannot be used.")
    faults: list[str] = Field(description="Why, the first few.")
