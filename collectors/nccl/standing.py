"""How every communicator stands, by what Inspector's records and RAS tell of it, and whose job it is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.nccl.communicators import CommunicatorView
from collectors.nccl.ras import RasCommunicator, RasReport, Trouble
from telemetry.ids import CommunicatorId, JobId


@dataclass(frozen=True, slots=True)
class RasAnswer:
    """One answer of RAS and where it came from."""

    source: str
    at_s: float
    report: RasReport


@dataclass(frozen=True, slots=True)
class CommunicatorState:
    """One communicator.

    Args:
        id: name and hash.
        job: whose; None when nothing tells.
        job_reason: a sentence: how the job is known, or why it is not.
        rank_count: ranks it should have; 0 when not told.
        hosts: where its ranks run, as far as they are named, sorted.
        recorded_ranks: ranks with a record of Inspector; None where it is not read.
        missing_ranks: ranks that RAS has no data of; None where RAS was not asked.
        failed_ranks: ranks that report an error or an abort; None where RAS was not asked.
        launched: operation -> (launched by the furthest rank, by the last).
        missed: operation -> operations that no record describes, over all ranks read.
        troubles: what RAS finds wrong.
        last_s: newest record or answer, Unix seconds.
        sources: who told.
    """

    id: CommunicatorId
    job: JobId | None = None
    job_reason: str = ""
    rank_count: int = 0
    hosts: tuple[str, ...] = ()
    recorded_ranks: int | None = None
    missing_ranks: int | None = None
    failed_ranks: int | None = None
    launched: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    missed: Mapping[str, int] = field(default_factory=dict)
    troubles: tuple[Trouble, ...] = ()
    last_s: float = 0.0
    sources: tuple[str, ...] = ()

    @property
    def in_trouble(self) -> bool:
        """Whether ranks are missing, failed or behind; missed records alone are usual (small messages have none)."""
        return bool(self.troubles or self.missing_ranks or self.failed_ranks)


def standing(
    views: Sequence[CommunicatorView],
    missed: Mapping[tuple[str, str], int],
    answers: Sequence[RasAnswer],
    jobs_on: Mapping[str, Collection[JobId]],
) -> tuple[CommunicatorState, ...]:
    """Every communicator that either source tells of; those in trouble first, then by job and id.

    Args:
        views: of Inspector's records.
        missed: (communicator hash, operation) -> operations without a record.
        answers: the newest of each RAS.
        jobs_on: host -> jobs that run there, for communicators whose records do not name their job.
    """
    holes: dict[str, dict[str, int]] = {}
    for (number, operation), count in missed.items():
        if count:
            holes.setdefault(number, {})[operation] = count
    by_hash: dict[str, list[tuple[RasAnswer, RasCommunicator]]] = {}
    for answer in answers:
        for one in answer.report.communicators:
            by_hash.setdefault(one.id.hash, []).append((answer, one))
    found: list[CommunicatorState] = []
    for view in views:
        told = by_hash.get(view.id.hash, [])
        # Communicators split from one another may share a hash; then RAS's stand for themselves.
        mine = by_hash.pop(view.id.hash)[0] if len(told) == 1 else None
        found.append(_state(view, holes.get(view.id.hash, {}), mine, jobs_on))
    for pairs in by_hash.values():
        found += [_state(None, {}, pair, jobs_on) for pair in pairs]
    found += _unlisted(answers, {state.id for state in found}, jobs_on)
    return tuple(sorted(found, key=lambda state: (not state.in_trouble, str(state.job or "~"), state.id)))


def _state(
    view: CommunicatorView | None,
    missed: Mapping[str, int],
    told: tuple[RasAnswer, RasCommunicator] | None,
    jobs_on: Mapping[str, Collection[JobId]],
) -> CommunicatorState:
    answer, ras = told if told is not None else (None, None)
    hosts = {member.host for member in view.members} if view is not None else set[str]()
    if ras is not None:
        hosts |= {rank.host for rank in ras.ranks} | {gone.host for gone in ras.missing}
    hosts.discard("")
    job, reason = _job(view, hosts, jobs_on)
    known = view.id if view is not None else ras.id if ras is not None else CommunicatorId("", "")
    sizes = (view.n_ranks if view is not None else 0, ras.size if ras is not None else 0)
    return CommunicatorState(
        id=known,
        job=job,
        job_reason=reason,
        rank_count=max(sizes),
        hosts=tuple(sorted(hosts)),
        recorded_ranks=len(view.members) if view is not None else None,
        missing_ranks=ras.n_missing if ras is not None else None,
        failed_ranks=sum(rank.failed for rank in ras.ranks) if ras is not None else None,
        launched={} if ras is None else {name: (most, fewest) for name, (most, fewest, _) in ras.launches().items()},
        missed=missed,
        troubles=_troubles(answer, ras),
        last_s=max(view.last_s if view is not None else 0.0, answer.at_s if answer is not None else 0.0),
        sources=(*(("nccl-inspector",) if view is not None else ()), *((answer.source,) if answer is not None else ())),
    )


def _troubles(answer: RasAnswer | None, ras: RasCommunicator | None) -> tuple[Trouble, ...]:
    if answer is None or ras is None:
        return ()
    return tuple(trouble for trouble in answer.report.troubles if trouble.communicator == ras.id)


def _unlisted(
    answers: Sequence[RasAnswer], known: Collection[CommunicatorId], jobs_on: Mapping[str, Collection[JobId]]
) -> list[CommunicatorState]:
    """A text answer lists troubles and not the communicators they are in."""
    found: list[CommunicatorState] = []
    for answer in answers:
        if answer.report.communicators:
            continue
        groups: dict[CommunicatorId, list[Trouble]] = {}
        for trouble in answer.report.troubles:
            groups.setdefault(trouble.communicator, []).append(trouble)
        for number, troubles in groups.items():
            hosts = {trouble.host for trouble in troubles if trouble.host}
            job, reason = _job(None, hosts, jobs_on)
            if number not in known:
                found.append(
                    CommunicatorState(
                        number,
                        job,
                        reason,
                        hosts=tuple(sorted(hosts)),
                        troubles=tuple(troubles),
                        last_s=answer.at_s,
                        sources=(answer.source,),
                    )
                )
    return found


def _job(
    view: CommunicatorView | None, hosts: Collection[str], jobs_on: Mapping[str, Collection[JobId]]
) -> tuple[JobId | None, str]:
    if view is not None and view.job is not None:
        return view.job, "the folder of its records names the job"
    if not hosts:
        return None, "no host of it is named"
    lost = sorted(host for host in hosts if not jobs_on.get(host))
    if lost:
        return None, f"no job is known on {lost[0]}" + (f" and {len(lost) - 1} more of its hosts" if lost[1:] else "")
    common = set.intersection(*(set(jobs_on[host]) for host in hosts))
    if len(common) == 1:
        return next(iter(common)), "the one job on all of its hosts"
    if common:
        return None, f"{len(common)} jobs run on all of its hosts, and nothing tells them apart"
    return None, "no single job runs on all of its hosts"
