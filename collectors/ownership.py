"""One answer to who has which GPU, out of two: labels of the telemetry, and a scheduler's list. Pure.

Labels say which GPU a job has; a scheduler says which host and which number on it. Where both speak they must agree; where
they do not there is a finding, and this is what holds:

- a job in the labels that the scheduler does not run on that host is a leftover of an earlier job: the scheduler holds;
- a job that both see on the host, on other devices, means that the two number the devices differently: the labels hold, since
  they name the card itself;
- a label newer than the scheduler's last list is believed until the next one.

Where the labels name nobody, as when they are dropped to keep the number of series down, the scheduler holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from collectors.device_index import DeviceIndex, profile_of
from telemetry.ids import GpuId, JobId
from telemetry.roster import Claim, NodeGpus, NodeShare
from telemetry.samples import Finding, Problem, SampleBatch, Sighting

FRESH_S = 180.0
"""A scheduler that was silent for longer holds no more."""
GRACE_S = 90.0
"""Labels may lag behind the scheduler this long: 30 s of the exporter's own rhythm, the scrape, and the epilog."""
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Settled:
    """A scheduler's list joined with what the telemetry knows.

    Args:
        sightings: who has which device.
        shares: what is known by count only, with the reason.
        findings: conflicts and gaps, counted.
    """

    sightings: tuple[Sighting, ...] = ()
    shares: tuple[NodeShare, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Node:
    """The newest word of a scheduler on one host."""

    at_s: float
    owners: dict[GpuId, set[str]] = field(default_factory=dict)
    jobs: set[str] = field(default_factory=set)
    vague: set[str] = field(default_factory=set)
    """Jobs whose devices the scheduler does not tell, or not all of them: labels fill the gap."""
    by_label: bool = False
    """The labels hold here, since the devices are numbered differently."""


@dataclass(slots=True)
class _Label:
    job: JobId
    first_s: float
    last_s: float


class Ownership:
    """Keeps the newest word of either side.

    Args:
        fresh_s: how long a scheduler's list holds; several times its poll.
    """

    def __init__(self, fresh_s: float = FRESH_S) -> None:
        self.index = DeviceIndex()
        self._fresh_s = fresh_s
        self._nodes: dict[str, _Node] = {}
        self._labels: dict[str, dict[tuple[GpuId, str], _Label]] = {}
        self._pods: dict[str, JobId] = {}
        self._began_s: dict[str, float] = {}
        """Host -> when a scheduler first spoke of it."""

    def from_labels(self, sightings: Iterable[Sighting]) -> tuple[Sighting, ...]:
        """What the labels may say: those that a scheduler contradicts are left out, pods get their job's name."""
        kept = []
        for sighting in sightings:
            node = self._nodes.get(sighting.gpu.node)
            if sighting.job is not None:
                self._note(sighting)
                job = self._pods.get(_pod(sighting.workload)) if sighting.workload else None
                sighting = sighting if job is None else replace(sighting, job=job)
            if node is None or self._beyond(sighting, node) or self._agrees(sighting, node):
                kept.append(sighting)
        return tuple(kept)

    def settle(self, batch: SampleBatch) -> SampleBatch:
        """A batch of the telemetry with what its labels may say; a host that a scheduler speaks for lacks no labels."""
        sightings = self.from_labels(batch.sightings)
        if len(sightings) == len(batch.sightings) and sightings == batch.sightings:
            return batch
        lost = {sighting.gpu for sighting in sightings if not sighting.known}
        findings = [finding for finding in batch.findings if finding.problem is not Problem.OWNER_UNKNOWN or lost]
        return replace(batch, sightings=sightings, findings=tuple(findings))

    def speaks_for(self, node: str, at_s: float) -> bool:
        """Whether a scheduler tells who has the GPUs of a host, so that missing labels are no loss."""
        known = self._nodes.get(node)
        return known is not None and abs(at_s - known.at_s) <= self._fresh_s

    def from_scheduler(
        self, claims: Sequence[Claim], nodes: Sequence[NodeGpus], at_s: float, *, source: str, whole: bool = True
    ) -> Settled:
        """Join a scheduler's list with the devices that the telemetry knows.

        Args:
            claims: every job's hold.
            nodes: every host that the scheduler has.
            at_s: when it was listed, Unix seconds.
            source: its name, for findings.
            whole: False when other jobs' holds may be hidden; then nothing is called free.
        """
        self._pods.update({_pod(claim.workload): claim.job for claim in claims if claim.workload})
        by_node: dict[str, list[Claim]] = {node.node: [] for node in nodes}
        for claim in claims:
            by_node.setdefault(claim.node, []).append(claim)
        told = {node.node: node for node in nodes}
        joins = [self._join(name, held, told.get(name), at_s, whole) for name, held in by_node.items()]
        self._forget(at_s)
        notes: dict[tuple[Problem, str], list[str]] = {}
        for join in joins:
            for problem, kind, text in join.notes:
                notes.setdefault((problem, kind), []).append(text)
        return Settled(
            tuple(sighting for join in joins for sighting in join.sightings),
            tuple(share for join in joins for share in join.shares),
            tuple(_finding(problem, source, kind, texts) for (problem, kind), texts in notes.items()),
        )

    def _note(self, sighting: Sighting) -> None:
        assert sighting.job is not None
        who = _who(sighting.job, sighting.workload)
        labels = self._labels.setdefault(sighting.gpu.node, {})
        label = labels.get((sighting.gpu, who))
        if label is None or sighting.at_s - label.last_s > self._fresh_s:
            labels[(sighting.gpu, who)] = _Label(sighting.job, sighting.at_s, sighting.at_s)
        else:
            label.last_s = max(label.last_s, sighting.at_s)

    def _beyond(self, sighting: Sighting, node: _Node) -> bool:
        """Whether it is of a time for which the scheduler has not spoken."""
        began_s = self._began_s.get(sighting.gpu.node, node.at_s)
        return sighting.at_s < began_s or sighting.at_s - node.at_s > self._fresh_s

    def _agrees(self, sighting: Sighting, node: _Node) -> bool:
        if node.by_label:
            return True
        if sighting.job is None:
            return self._credible_nobody(sighting.gpu, node)
        who = _who(sighting.job, sighting.workload)
        if who in node.owners.get(sighting.gpu, ()) or who in node.vague:
            return True
        label = self._labels[sighting.gpu.node][(sighting.gpu, who)]
        return who not in node.jobs and label.first_s > node.at_s

    def _credible_nobody(self, gpu: GpuId, node: _Node) -> bool:
        """Whether labels that name nobody mean it: they are in use on the host, and named the last owner if there is one."""
        labels = self._labels.get(gpu.node, {})
        owners = node.owners.get(gpu)
        return any((gpu, who) in labels for who in owners) if owners else bool(labels)

    def _join(self, name: str, claims: list[Claim], listed: NodeGpus | None, at_s: float, whole: bool) -> _Join:
        used = listed.used if listed is not None else None
        host = self.index.name_of(name) or name
        join = _Join(at_s, self._labelled(host, at_s))
        owners: dict[GpuId, list[Claim]] = {}
        for claim in claims:
            for gpu in self._devices_of(claim, listed, join):
                owners.setdefault(gpu, []).append(claim)
        told = sum(claim.count or 0 for claim in claims if not claim.shared)
        hidden = used is not None and not any(claim.shared or claim.count is None for claim in claims) and used > told
        if hidden:
            text = f"{name} has {used} GPUs in use of which the listed jobs hold {told}"
            join.notes.append((Problem.OWNER_UNKNOWN, "jobs of other users seem to be hidden from us: ", text))
        node = _Node(at_s, {gpu: {_claimer(claim) for claim in held} for gpu, held in owners.items()})
        node.jobs, node.vague = {_claimer(claim) for claim in claims}, join.vague
        node.by_label = self._compare(host, node, claims, join)
        self._nodes[host] = node
        self._began_s.setdefault(host, at_s)
        if node.by_label:
            join.shares += [
                _share(claim, at_s, "Slurm and the telemetry number the devices differently") for claim in claims
            ]
            return join
        self._tell(owners, join)
        if whole and not hidden and not join.shares:
            free = self.index.devices(name) - owners.keys() - {gpu for held in join.labelled.values() for gpu in held}
            join.sightings += [Sighting(gpu, at_s, None, "", True, 0) for gpu in sorted(free)]
        return join

    def _devices_of(self, claim: Claim, listed: NodeGpus | None, join: _Join) -> list[GpuId]:
        """The devices of a claim; what cannot be told becomes a share of the host with the reason."""
        if claim.uuids:
            return [self.index.by_uuid(claim.node, uuid) for uuid in claim.uuids]
        if not self.index.name_of(claim.node):
            why = "no exporter page tells the GPUs of this host"
        elif claim.sliced:
            every = self.index.instances(claim.node, claim.gpu_type)
            if every and len(every) == claim.count == _instances_listed(claim, listed):
                return sorted(every)
            why = "the scheduler's number of a MIG instance is none that the telemetry has"
            if every:
                why += f"; the job has {claim.count} of {len(every)} {profile_of(claim.gpu_type)} there"
        elif claim.indices is None:
            why = "the scheduler tells how many GPUs, not which"
        else:
            found = [self.index.card(claim.node, index) for index in claim.indices]
            known = [gpu for gpu in found if gpu is not None]
            if len(known) == len(found):
                return known
            lost = ", ".join(str(i) for i, gpu in zip(claim.indices, found, strict=True) if gpu is None)
            why = f"the telemetry has no whole card with the index {lost} there"
            join.leave_open(replace(claim, count=len(found) - len(known)), why)
            return known
        join.leave_open(claim, why)
        return []

    def _labelled(self, host: str, at_s: float) -> dict[str, set[GpuId]]:
        """Devices of each user by the labels of the last while."""
        found: dict[str, set[GpuId]] = {}
        for (gpu, who), label in self._labels.get(host, {}).items():
            if at_s - label.last_s <= GRACE_S:
                found.setdefault(who, set()).add(gpu)
        return found

    def _compare(self, host: str, node: _Node, claims: list[Claim], join: _Join) -> bool:
        """Hold the labels against the list; True when the labels show another numbering of the devices."""
        since = {_claimer(claim): claim.since_s or 0.0 for claim in claims}
        other_order = False
        for (gpu, who), label in self._labels.get(host, {}).items():
            recent = node.at_s - label.last_s <= GRACE_S
            if not recent or who in node.owners.get(gpu, ()) or who in node.vague:
                continue
            holder = ", ".join(sorted(node.owners.get(gpu, ()))) or "nobody"
            if who in node.jobs:
                if label.last_s - since[who] > GRACE_S:
                    other_order = True
                    text = f"{gpu}: {who} by its labels, {holder} by the scheduler's device number"
                    join.notes.append((Problem.OWNER_CONFLICT, "numbered differently (the labels are kept): ", text))
            elif node.at_s - label.first_s > GRACE_S:
                text = f"{gpu}: {who} by its labels, which the scheduler does not run there; it says {holder}"
                join.notes.append((Problem.OWNER_CONFLICT, "labels left over (the scheduler is kept): ", text))
        return other_order

    def _tell(self, owners: dict[GpuId, list[Claim]], join: _Join) -> None:
        for gpu, held in sorted(owners.items()):
            users = {_claimer(claim) for claim in held}
            if len(users) > 1 and not all(claim.shared for claim in held):
                text = f"{gpu} is held by {' and '.join(sorted(users))}, and not as a share"
                join.notes.append((Problem.OWNER_CONFLICT, "", text))
            join.sightings += [
                Sighting(gpu, join.at_s, claim.job, claim.workload, True, len(users))
                for claim in {_claimer(claim): claim for claim in held}.values()
            ]

    def _forget(self, at_s: float) -> None:
        """Drop what is too old to matter."""
        for host, labels in list(self._labels.items()):
            old = [key for key, label in labels.items() if at_s - label.last_s > 2 * self._fresh_s]
            for key in old:
                del labels[key]
            if not labels:
                del self._labels[host]
        for host in [host for host, node in self._nodes.items() if at_s - node.at_s > 2 * self._fresh_s]:
            del self._nodes[host]
            self._began_s.pop(host, None)
        if len(self._pods) > 500_000:
            self._pods.clear()


@dataclass(slots=True)
class _Join:
    """What comes of one host."""

    at_s: float
    labelled: dict[str, set[GpuId]]
    vague: set[str] = field(default_factory=set)
    sightings: list[Sighting] = field(default_factory=list)
    shares: list[NodeShare] = field(default_factory=list)
    notes: list[tuple[Problem, str, str]] = field(default_factory=list)

    def leave_open(self, claim: Claim, why: str) -> None:
        """Keep a claim whose devices are unknown as a count, unless the labels tell them all."""
        who = _claimer(claim)
        self.vague.add(who)
        if claim.count is not None and len(self.labelled.get(who, ())) >= claim.count:
            return
        self.shares.append(_share(claim, self.at_s, why))
        self.notes.append((Problem.DEVICE_UNKNOWN, "", f"{claim.node}, job {claim.job.name}: {why}"))


def _instances_listed(claim: Claim, node: NodeGpus | None) -> int:
    """How many instances of the claim's profile the scheduler counts on the host."""
    wanted = profile_of(claim.gpu_type)
    return sum(count for kind, count in node.types.items() if profile_of(kind) == wanted) if node is not None else 0


def _share(claim: Claim, at_s: float, why: str) -> NodeShare:
    return NodeShare(claim.job, claim.node, claim.count, at_s, why, claim.gpu_type, claim.shared)


def _finding(problem: Problem, source: str, kind: str, texts: list[str]) -> Finding:
    shown = "; ".join(texts[:_EXAMPLES]) + ("; ..." if len(texts) > _EXAMPLES else "")
    return Finding(problem, source, f"{kind}{shown}", len(texts))


def _pod(workload: str) -> str:
    return "/".join(workload.split("/")[:2])


def _who(job: JobId, workload: str) -> str:
    """What counts as one user: a pod under Kubernetes, a job elsewhere."""
    return f"pod {_pod(workload)}" if workload else str(job)


def _claimer(claim: Claim) -> str:
    return _who(claim.job, claim.workload)
