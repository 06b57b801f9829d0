"""A service in a box: ``FakeReads`` answers like the running service from seeded, made-up data that moves with time.

Six jobs (three rhythmic, one idle, one sampled too coarsely, one stale), nine links with one hot uplink, advice at
every stage, live accuracy, and five sources of which one is down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from api.model_keeper import ModelsView
from api.outlook import Outlook
from api.reads import AccuracyRow, AdviceRecord, DeviceView, Health, History, WiringView
from collectors.nccl.standing import CommunicatorState
from collectors.served import Twice
from collectors.status import TargetStatus
from forecast.advisor.types import Advice, Effect, Grade, Mode
from forecast.backends.base import Plan, Receipt
from forecast.predict.health.types import HealthReport
from forecast.predict.types import (
    Absence,
    Cause,
    DutyCycle,
    JobForecast,
    LinkForecast,
    Lull,
    Period,
    PhaseName,
    PhaseNow,
    QuantilePath,
    Skill,
    Why,
)
from models.base import LEVELS
from telemetry.errors import AdviceError
from telemetry.ids import JobId, LinkId
from telemetry.roster import JobRecord, Roster
from tests.kit.fake_cluster import made_up_collectives, made_up_outlooks, made_up_roster, made_up_wiring
from tests.kit.fake_models import made_up_models
from tests.kit.fake_sickness import made_up_sickness

FIXED_NOW_S = 1_796_074_200.0
_DEVICES = DeviceView(
    total=32,
    without_job_total=1,
    without_job=("gpu-12:GPU-7",),
    twice_total=1,
    nodes_of={"http://gpu-09:9400/metrics": ("gpu-09",), "http://gpu-12:9400/metrics": ("gpu-12",)},
    twice=(
        Twice(
            "GPU-3", (("http://gpu-09:9400/metrics", "gpu-09:GPU-3"), ("http://gpu-09:9500/metrics", "gpu-09:GPU-3"))
        ),
    ),
)
"""Tests that want the same bytes each time start here (an instant in 2026)."""
STEP_S = 0.5
HORIZON = 120
_Z = np.array([NormalDist().inv_cdf(level) for level in LEVELS])


@dataclass(frozen=True, slots=True)
class Signal:
    """One metric of one rhythmic job: high while it works, low in the lull.

    Args:
        metric: catalogue name.
        unit: in words.
        base: value in the lull.
        swing: added while it works.
        noise: standard deviation.
        top: greatest physical value.
        busy_ratio: share of the period at high level.
        offset_ratio: where in the period the high level starts.
        model: which model is served.
        skill: against persistence.
    """

    metric: str
    unit: str
    base: float
    swing: float
    noise: float
    top: float
    busy_ratio: float
    offset_ratio: float
    model: str = "phase"
    skill: float = 0.5

    def clean(self, at_s: NDArray[np.float64], period_s: float) -> NDArray[np.float64]:
        """The value without noise."""
        place = np.mod(at_s / period_s - self.offset_ratio, 1.0)
        rise = 1.0 / (1.0 + np.exp(-(place - 0.03) * 90.0))
        fall = 1.0 / (1.0 + np.exp((place - self.busy_ratio) * 70.0))
        shape: NDArray[np.float64] = np.clip(rise * fall, 0.0, 1.0)
        return self.base + self.swing * shape

    def observed(self, at_s: NDArray[np.float64], period_s: float) -> NDArray[np.float64]:
        """The value with noise that depends only on the instant, so that history never changes."""
        ticks = np.round(at_s / STEP_S).astype(np.int64)
        wave = np.sin(ticks * 12.9898 + self.base) * 43758.5453
        uniform = np.clip(wave - np.floor(wave), 1e-3, 1 - 1e-3)
        noise = self.noise * np.log(uniform / (1 - uniform)) * 0.55
        value: NDArray[np.float64] = np.clip(self.clean(at_s, period_s) + noise, 0.0, self.top)
        return value


def _signals(busy: float, skill: float) -> tuple[Signal, ...]:
    rate = "bytes per second"
    return (
        Signal("job_fabric_tx_bytes_per_s", rate, 1.5e9, 4.1e10, 1.6e9, 1e11, 1 - busy, busy, "phase", skill),
        Signal("gpu_tensor_active_ratio", "ratio", 0.04, 0.58, 0.025, 1.0, busy, 0.0, "phase", skill - 0.07),
        Signal("gpu_power_watts", "watts", 1450.0, 3600.0, 70.0, 5600.0, busy, 0.02, "lightgbm", skill - 0.2),
        Signal("gpu_memory_used_bytes", "bytes", 5.4e11, 0.0, 2.0e8, 6.4e11, busy, 0.0, "persistence", 0.0),
    )


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A rhythmic job of the box."""

    job: JobId
    nodes: tuple[str, ...]
    gpu_count: int
    period_s: float
    signals: tuple[Signal, ...]
    shared: bool = False


RHYTHMS: tuple[Rhythm, ...] = (
    Rhythm(JobId("kubernetes", "team-a:train-10b"), ("gpu-01", "gpu-02", "gpu-03"), 24, 9.6, _signals(0.64, 0.58)),
    Rhythm(JobId("kubernetes", "team-a:vision"), ("gpu-05", "gpu-06"), 16, 14.2, _signals(0.72, 0.44)),
    Rhythm(JobId("slurm", "81234"), ("gpu-09", "gpu-10"), 16, 22.0, _signals(0.55, 0.31), shared=True),
)
IDLE = JobId("kubernetes", "team-b:notebook")
COARSE = JobId("slurm", "81240")
STALE = JobId("kubernetes", "team-c:finetune")
HOT = LinkId("leaf-1", "swp49", "leaf")


class FakeReads:
    """Implements ``api.reads.Reads`` from made-up data.

    Args:
        clock: wall time; the default stands still.
        mode: how far shifts may go.
        ready: what ``health`` says.
    """

    def __init__(
        self, clock: Callable[[], float] = lambda: FIXED_NOW_S, *, mode: Mode = Mode.APPROVE, ready: bool = True
    ) -> None:
        self._clock = clock
        self._ready = ready
        self._started_s = clock() - 5400.0
        self._made: dict[str, tuple[float, JobForecast]] = {}
        self._records = _advice(clock(), mode)

    def now(self) -> float:
        """Wall time, Unix seconds."""
        return self._clock()

    def _tick(self) -> float:
        return math.floor(self._clock() / STEP_S) * STEP_S

    def jobs(self) -> list[JobForecast]:
        """Six jobs, sorted by id."""
        made = [self._forecast(rhythm) for rhythm in RHYTHMS]
        tick = self._tick()
        made += [_idle(tick), _coarse(tick), _stale(self._started_s + 5290.0)]
        return sorted(made, key=lambda job: str(job.job))

    def job(self, job: JobId) -> JobForecast | None:
        """One of the six."""
        return next((one for one in self.jobs() if one.job == job), None)

    def _forecast(self, rhythm: Rhythm) -> JobForecast:
        """The newest forecast; the same object until the next tick, as the service does."""
        tick = self._tick()
        kept = self._made.get(str(rhythm.job))
        if kept is None or kept[0] != tick:
            kept = (tick, _rhythmic(rhythm, tick))
            self._made[str(rhythm.job)] = kept
        return kept[1]

    def job_history(self, job: JobId, metric: str, window_s: float) -> History | None:
        """Made-up values on a half-second grid; a gap of 2 s now and then."""
        at_s = np.arange(self._tick() - min(window_s, 7200.0), self._tick() + 1e-6, STEP_S)
        for rhythm in RHYTHMS:
            for signal in rhythm.signals:
                if rhythm.job == job and signal.metric == metric:
                    value = signal.observed(at_s, rhythm.period_s)
                    value[np.mod(at_s, 97.0) < 2.0] = np.nan
                    return History(metric, signal.unit, at_s, value)
        if job == IDLE and metric == "gpu_tensor_active_ratio":
            return History(metric, "ratio", at_s, np.zeros_like(at_s))
        if job == COARSE and metric == "gpu_tensor_active_ratio":
            coarse = np.arange(self._tick() - min(window_s, 7200.0), self._tick(), 30.0)
            return History(metric, "ratio", coarse, 0.4 + 0.2 * np.sin(coarse))
        return None

    def phases(self, job: JobId) -> list[tuple[float, float, str]]:
        """Compute, communicate, and sometimes a checkpoint, over the last ten minutes."""
        rhythm = next((one for one in RHYTHMS if one.job == job), None)
        if rhythm is None:
            return []
        now, spans, busy = self._tick(), [], rhythm.signals[1].busy_ratio
        turn = math.floor((now - 600.0) / rhythm.period_s)
        while turn * rhythm.period_s < now:
            start = turn * rhythm.period_s
            cut, end = start + busy * rhythm.period_s, start + rhythm.period_s
            last = "checkpoint" if turn % 7 == 3 else "communicate"
            spans += [(start, min(cut, now), "compute"), (cut, min(end, now), last)]
            turn += 1
        return [(start, end, name) for start, end, name in spans if end > start]

    def links(self) -> list[LinkForecast]:
        """Nine links; the hot uplink first."""
        now = self._tick()
        names = [HOT, LinkId("leaf-2", "swp49", "leaf"), LinkId("leaf-1", "swp50", "leaf")]
        names += [LinkId(f"gpu-{n:02d}:mlx5_0", "1", "nic") for n in (1, 2, 5, 9)]
        made = [_link(link, rank, now) for rank, link in enumerate(names)]
        made += [_link_without(now), _link_idle(now)]
        return sorted(made, key=lambda one: -one.probability if isinstance(one.probability, float) else 1.0)

    def link(self, link: LinkId) -> LinkForecast | None:
        """One of the nine."""
        return next((one for one in self.links() if one.link == link), None)

    def link_history(self, link: LinkId, window_s: float) -> History | None:
        """Use of a link; none for the one without capacity."""
        at_s = np.arange(self._tick() - min(window_s, 7200.0), self._tick() + 1e-6, STEP_S)
        known = self.link(link)
        if known is None or known.capacity_bytes_per_s is None:
            return None
        return History("link_use_ratio", "ratio", at_s, _use_signal(link).observed(at_s, 9.6))

    def advice(self) -> list[AdviceRecord]:
        """Every advice kept, newest first."""
        return list(self._records)

    def advice_by_id(self, advice_id: str) -> AdviceRecord | None:
        """One advice; None when unknown."""
        return next((record for record in self._records if record.advice.id == advice_id), None)

    def decide(self, advice_id: str, verb: str) -> AdviceRecord:
        """Approve, reject or roll back, as the service would with a dry run."""
        record = self.advice_by_id(advice_id)
        if record is None:
            raise AdviceError(f"there is no advice {advice_id}")
        want = {"approve": {"open"}, "reject": {"open"}, "rollback": {"applied", "graded"}}[verb]
        if record.status not in want or record.mode is not Mode.APPROVE:
            raise AdviceError(f"advice {advice_id} is {record.status} in mode {record.mode}, so it takes no {verb}")
        status = {"approve": "applied", "reject": "rejected", "rollback": "rolled_back"}[verb]
        receipt = Receipt(advice_id, False, f"dry run: nothing was touched ({verb})", self.now())
        changed = replace(record, status=status, receipt=receipt if verb != "reject" else record.receipt)
        self._records = [changed if one is record else one for one in self._records]
        return changed

    def models(self) -> ModelsView:
        """One trained model."""
        return made_up_models(self.now())

    def accuracy(self) -> list[AccuracyRow]:
        """Live accuracy of every served metric, and of two links."""
        rows = [
            AccuracyRow(
                str(rhythm.job),
                signal.metric,
                signal.model,
                "1",
                round(signal.skill - 0.02 * (i + 1), 4) if signal.skill else 0.0,
                0.812 - 0.02 * i,
                0.951 - 0.01 * i,
                4200 - 900 * i,
            )
            for i, rhythm in enumerate(RHYTHMS)
            for signal in rhythm.signals
        ]
        rows[-2] = replace(rows[-2], skill=-0.04, coverage80=0.69)
        rows.append(AccuracyRow(str(HOT), "congestion", "phase-sum", "1", 0.41, None, None, 640))
        rows.append(AccuracyRow("leaf-2:swp49", "congestion", "phase-sum", "1", 0.18, None, None, 640))
        return rows

    def record(self, job: JobId) -> JobRecord | None:
        """What the scheduler lists of the first two."""
        return next((one for one in made_up_roster(self._tick()).jobs if one.job == job), None)

    def rosters(self) -> tuple[Roster, ...]:
        """One scheduler, five nodes, three jobs that wait."""
        return (made_up_roster(self._tick()),)

    def outlooks(self) -> dict[str, Outlook]:
        """One waiting job's start is known, one running job's end, and demand is not yet."""
        return made_up_outlooks(self._tick())

    def wiring(self) -> WiringView:
        """Two leaves under a spine, one source that fails, one that differs."""
        return made_up_wiring()

    def sickness(self) -> HealthReport:
        """One sick card with an XID and heat, one straggling rank, and signs that nobody can look for."""
        return made_up_sickness(self._tick())

    def collectives(self) -> tuple[CommunicatorState, ...]:
        """One communicator with a dead rank, one without trouble."""
        return made_up_collectives(self._tick())

    def health(self) -> Health:
        """Five sources, one of them down."""
        now = self._tick()
        targets = [
            TargetStatus(f"http://gpu-{n:02d}:9400/metrics", True, now - 0.2, 0.5, 0.5, 0.003, 176, {})
            for n in (1, 2, 5)
        ]
        targets.append(
            TargetStatus("http://gpu-09:9400/metrics", True, now, 0.5, 30.0, None, 176, {"blank_value": 12, "torn": 1})
        )
        down = "no answer within 5 s. Check that dcgm-exporter runs there"
        targets.append(
            TargetStatus("http://gpu-12:9400/metrics", False, now - 95, 5.0, None, None, 0, {"timeout": 19}, down)
        )
        missing = {"gpu_nvlink_tx_bytes_per_s": "NVLink traffic is not seen, so phases rest on power and tensor use"}
        counters = {
            "gpucast_samples_total": 1_284_331.0,
            'gpucast_forecasts_total{kind="job"}': 5210.0,
            "gpucast_store_bytes": 7.3e7,
        }
        reasons = () if self._ready else ("no source has given a sample yet", "the store cannot be written: disk full")
        return Health(self._ready, reasons, tuple(targets), missing, counters, self._started_s, _DEVICES)


def _skill(value: float) -> Skill:
    return Skill(value, 0.806, 0.949, 2400)


def _path(signal: Signal, period_s: float, now: float) -> QuantilePath:
    at_s = now + np.arange(1.0, HORIZON + 1) * STEP_S
    spread = signal.noise * (1.0 + 0.12 * np.sqrt(np.arange(HORIZON) + 1))
    middle = signal.clean(at_s, period_s)
    if signal.model == "persistence":
        spread = signal.noise * np.sqrt(np.arange(HORIZON) + 1.0)
    values = np.clip(middle[:, None] + spread[:, None] * _Z[None, :], 0.0, signal.top)
    reason = f"{signal.model} beats persistence by {signal.skill:.0%} over the last 20 origins"
    if signal.model == "persistence":
        reason = "nothing beat persistence here over the last 20 origins"
    return QuantilePath(
        signal.metric, signal.unit, now, STEP_S, LEVELS, values, signal.model, "1", _skill(signal.skill), reason
    )


def _duty(signal: Signal, period_s: float, now: float) -> DutyCycle:
    origin = math.floor(now / period_s) * period_s
    mean = signal.clean(origin + (np.arange(32) + 0.5) / 32 * period_s, period_s)
    return DutyCycle(
        signal.metric, period_s, origin, mean, np.maximum(mean - 1.3 * signal.noise, 0), mean + 1.3 * signal.noise
    )


def _rhythmic(rhythm: Rhythm, now: float) -> JobForecast:
    busy, length = rhythm.signals[1].busy_ratio, rhythm.period_s
    place = (now / length) % 1.0
    computing = place < busy
    share = {PhaseName.COMPUTE: 0.91, PhaseName.COMMUNICATE: 0.06, PhaseName.LOAD: 0.03}
    if not computing:
        share = {PhaseName.COMMUNICATE: 0.84, PhaseName.COMPUTE: 0.11, PhaseName.CHECKPOINT: 0.05}
    start = (math.floor(now / length) + 1) * length
    return JobForecast(
        job=rhythm.job,
        made_at_s=now,
        data_at_s=now,
        age_s=0.18,
        step_s=STEP_S,
        nodes=rhythm.nodes,
        gpu_count=rhythm.gpu_count,
        shared=rhythm.shared,
        period=Period(length, length * 0.992, length * 1.007, 0.93, 21, 24),
        phase=PhaseNow(
            PhaseName.COMPUTE if computing else PhaseName.COMMUNICATE,
            {name: share.get(name, 0.0) for name in PhaseName},
            now - (place if computing else place - busy) * length,
            f"tensor use {0.61 if computing else 0.05:.2f}, fabric {1.6 if computing else 42.4:.1f} GB/s",
        ),
        next_lull=Lull(start, start + busy * length, start - 0.35, start + 0.4, 1.5e9, "job_fabric_tx_bytes_per_s"),
        metrics={signal.metric: _path(signal, length, now) for signal in rhythm.signals},
        duty={signal.metric: _duty(signal, length, now) for signal in rhythm.signals[:3]},
    )


def _without(job: JobId, absence: Absence, now: float, *, age_s: float, step_s: float, gpus: int) -> JobForecast:
    return JobForecast(
        job=job,
        made_at_s=now,
        data_at_s=now,
        age_s=age_s,
        step_s=step_s,
        nodes=("gpu-12",),
        gpu_count=gpus,
        shared=False,
        period=absence,
        phase=absence,
        next_lull=absence,
        metrics={"gpu_tensor_active_ratio": absence},
    )


def _idle(now: float) -> JobForecast:
    reason = "all 4 GPUs stood at 0 % tensor use and under 75 W for the last 300 s, so there is nothing to foresee"
    return _without(IDLE, Absence(Why.IDLE, reason), now, age_s=0.3, step_s=STEP_S, gpus=4)


def _coarse(now: float) -> JobForecast:
    reason = (
        "samples come every 30 s and iterations of training jobs last 0.04 to 60 s: no period under 120 s can be seen"
    )
    absence = Absence(Why.SAMPLING_TOO_COARSE, reason, 20, 400)
    return _without(COARSE, absence, now, age_s=11.0, step_s=30.0, gpus=8)


def _stale(made_s: float) -> JobForecast:
    reason = "the newest sample is 95 s old and the limit is 30 s: gpu-12 does not answer"
    return _without(STALE, Absence(Why.STALE, reason), made_s, age_s=95.0, step_s=STEP_S, gpus=8)


def _use_signal(link: LinkId) -> Signal:
    hot = link == HOT
    swing = 0.58 if hot else 0.22 + 0.11 * (sum(map(ord, str(link))) % 4)
    return Signal("link_use_ratio", "ratio", 0.31 if hot else 0.08, swing, 0.025, 1.0, 0.36, 0.64, "phase-sum", 0.41)


def _link(link: LinkId, rank: int, now: float) -> LinkForecast:
    signal = _use_signal(link)
    chance = (0.93, 0.34, 0.12, 0.05, 0.04, 0.02, 0.01)[rank]
    at_s = now + np.arange(1.0, 61) * STEP_S
    use = signal.clean(at_s, 9.6)
    over = np.flatnonzero(use > 0.85)
    onset = float(at_s[over[0]]) if link == HOT and over.size else None
    path = _path(signal, 9.6, now)
    shares = (("kubernetes:team-a:train-10b", 0.61), ("kubernetes:team-a:vision", 0.36)) if rank < 3 else ()
    return LinkForecast(
        link=link,
        made_at_s=now,
        data_at_s=now,
        age_s=0.21,
        capacity_bytes_per_s=5e10,
        use_ratio=float(signal.observed(np.array([now]), 9.6)[0]),
        threshold_ratio=0.9,
        horizon_s=30.0,
        probability=chance,
        onset_s=onset,
        overload_s=float(over.size) * STEP_S * 0.6 if link == HOT else 0.0,
        causes=tuple(Cause(JobId.parse(job), share) for job, share in shares),
        path=replace(path, metric="link_use_ratio"),
        skill=Skill(0.41, math.nan, math.nan, 640),
        reason=f"bursts of {max(len(shares), 1)} job(s) reach {float(use.max()):.0%} of 50 GB/s within 30 s",
    )


def _link_without(now: float) -> LinkForecast:
    absence = Absence(Why.NO_CAPACITY, "spine-1:swp3 has no known speed, so its use is unknown")
    return replace(
        _link(LinkId("spine-1", "swp3", "spine"), 6, now),
        capacity_bytes_per_s=None,
        use_ratio=None,
        probability=absence,
        path=absence,
        causes=(),
        skill=None,
        reason=absence.reason,
    )


def _link_idle(now: float) -> LinkForecast:
    absence = Absence(Why.NO_TRAFFIC, "gpu-12:mlx5_0:1 carried no byte in the last 300 s")
    return replace(
        _link(LinkId("gpu-12:mlx5_0", "1", "nic"), 6, now),
        use_ratio=0.0,
        probability=absence,
        path=absence,
        causes=(),
        skill=None,
        reason=absence.reason,
    )


def _advice(now: float, mode: Mode) -> list[AdviceRecord]:
    job, shift = JobId("kubernetes", "team-a:vision"), {"offset_s": 4.6}
    effect = Effect("link_overload_ratio", 0.31, 0.02, 0.06, 0.14, 60.0)
    reason = (
        "train-10b and vision burst together on leaf-1:swp49 (chance 0.93 of passing 0.90 within 30 s); "
        "a shift of vision by 4.6 s puts its burst into the other's lull"
    )
    figures = {"probability": 0.93, "threshold_ratio": 0.9, "offset_s": 4.6, "skill": 0.44}
    first = Advice(
        "a1f03c", "shift", job, HOT, shift, reason, figures, effect, now - 12, now + 3600, {"offset_s": -4.6}
    )
    plan = Plan(
        "a1f03c",
        "dry_run",
        (
            "kubectl -n team-a annotate job/vision gpucast.io/shift-offset-s=4.6 --overwrite",
            "# the job's step hook waits 4.6 s once, before its next iteration",
        ),
        now - 12,
        now + 3600,
    )
    older = replace(first, id="9be211", made_at_s=now - 840, expires_at_s=now - 780)
    receipt = Receipt("9be211", True, "vision waited 4.6 s once at 21:14:02", now - 800)
    grade = Grade("9be211", "inside", 0.05, "overload fell from 0.31 to 0.05; 0.02 to 0.14 was predicted", now - 700)
    hold = Advice(
        "77d0aa",
        "hold",
        None,
        LinkId("leaf-2", "swp49", "leaf"),
        {},
        "leaf-2:swp49 has a chance of 0.34, below the 0.60 at which anything is moved",
        {"probability": 0.34, "min_probability": 0.6},
        None,
        now - 30,
        now + 30,
    )
    lapsed = replace(first, id="5c1e90", made_at_s=now - 2400, expires_at_s=now - 2340, job=RHYTHMS[2].job)
    worse = replace(older, id="3aa7f1", made_at_s=now - 3600, expires_at_s=now - 3540, job=RHYTHMS[2].job)
    return [
        AdviceRecord(first, mode, "open", plan),
        AdviceRecord(hold, Mode.RECOMMEND, "open"),
        AdviceRecord(older, mode, "graded", replace(plan, advice_id="9be211"), receipt, grade),
        AdviceRecord(lapsed, mode, "expired", replace(plan, advice_id="5c1e90")),
        AdviceRecord(
            worse,
            mode,
            "graded",
            replace(plan, advice_id="3aa7f1"),
            replace(receipt, advice_id="3aa7f1"),
            Grade(
                "3aa7f1", "worse", 0.22, "overload fell from 0.31 to 0.22 only; 0.02 to 0.14 was predicted", now - 3300
            ),
        ),
    ]
