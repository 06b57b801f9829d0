"""A made-up queue, wiring and collectives for the HTTP contract and the page."""

from __future__ import annotations

from api.outlook import Outlook
from api.reads import WiringView
from collectors.nccl.ras import Trouble, TroubleKind
from collectors.nccl.standing import CommunicatorState
from collectors.topology.keeper import SourceState
from forecast.predict.ends_types import RemainingTime, StartTime
from forecast.predict.types import Absence, Why
from telemetry.ids import CommunicatorId, JobId, LinkId
from telemetry.machine import Device, Machine
from telemetry.roster import JobRecord, JobState, NodeGpus, Roster
from telemetry.topology import NVLINK, Conflict, Link, Topology

HOSTS = ("gpu-01", "gpu-02", "gpu-05", "gpu-06", "gpu-09")
SPEED = 5e10


def made_up_roster(now_s: float) -> Roster:
    """Five nodes of eight GPUs, two jobs that run, three that wait for different reasons."""
    running = (
        JobRecord(
            JobId("slurm", "81234"), JobState.RUNNING, "RUNNING", "llama-10b", "mira", "nlp", "train",
            gpu_count=16, asked_gpu_count=16, gpu_types={"h100": 16}, node_count=2, nodes=("gpu-09", "gpu-10"),
            submit_s=now_s - 9000, start_s=now_s - 7200, time_limit_s=86400.0, priority=4120.0, restarts=1,
        ),
        JobRecord(
            JobId("kubernetes", "team-a:vision"), JobState.RUNNING, "Running", "vision", "", "team-a", "research",
            gpu_count=16, asked_gpu_count=16, node_count=2, nodes=("gpu-05", "gpu-06"), start_s=now_s - 900,
            time_limit_s=float("inf"),
        ),
    )  # fmt: skip
    waiting = (
        JobRecord(
            JobId("slurm", "81300"), JobState.WAITING, "PENDING", "sweep", "ola", "vision", "train", "81300",
            gpu_count=8, asked_gpu_count=8, gpu_types={"h100": 8}, node_count=1, submit_s=now_s - 4000,
            time_limit_s=14400.0, priority=3900.0, reason="Resources", task_count=4, expected_start_s=now_s + 5400,
        ),
        JobRecord(
            JobId("slurm", "81301"), JobState.WAITING, "PENDING", "evaluate <now>", "bo", "nlp", "train",
            gpu_count=2, asked_gpu_count=2, node_count=1, submit_s=now_s - 300, priority=3900.0, reason="Priority",
        ),
        JobRecord(
            JobId("slurm", "81290"), JobState.WAITING, "PENDING", "held", "bo", "nlp", "train",
            gpu_count=None, submit_s=now_s - 90000, priority=0.0, reason="JobHeldUser", time_limit_s=float("inf"),
        ),
    )  # fmt: skip
    nodes = [NodeGpus(name, 8, 8, {"h100": 8}, "ALLOCATED", partitions=("train",)) for name in HOSTS[:4]]
    nodes.append(NodeGpus("gpu-09", 8, 0, {"h100": 8}, "DRAINED", in_service=False, partitions=("train",)))
    return Roster(now_s - 6.0, "slurm", running + waiting, tuple(nodes))


def made_up_wiring() -> WiringView:
    """Two leaves under one spine."""
    leaf_of = {host: "leaf-1" if place < 2 else "leaf-2" for place, host in enumerate(HOSTS)}
    links = [Link(LinkId(f"{host}:mlx5_0", "1", "nic"), host, leaf, SPEED) for host, leaf in leaf_of.items()]
    links.append(Link(LinkId("leaf-1", "swp49", "leaf"), "leaf-1", "spine-1", SPEED))
    links.append(Link(LinkId("spine-1", "swp3", "spine"), "spine-1"))
    machine = Machine("gpu-01", (Device("GPU0", "gpu"), Device("mlx5_0", "nic")), gpu_count=8, product="H100")
    says = (("telemetry", "leaf-2"), ("/etc/slurm/topology.conf", "leaf-1"))
    topology = Topology(
        leaf_of=leaf_of,
        links=tuple(links),
        source="telemetry, /etc/slurm/topology.conf",
        paths={host: (leaf, "spine-1") for host, leaf in leaf_of.items()},
        domain_of={NVLINK: {"gpu-01": "clique-7", "gpu-02": "clique-7"}},
        machines={"gpu-01": machine},
        conflicts=(Conflict("gpu-05", "leaf switch", says, "leaf-2"),),
        unknowns=("inside of 4 hosts, such as gpu-02: no source tells it",),
    )
    sources = (
        SourceState("/etc/slurm/topology.conf", "", "Slurm tree", 0.0),
        SourceState("gpu-01.txt", "gpu-01", "PCIe matrix", 8000.0, "gpu-01.txt: has 7 rows of 8. Was the file cut?"),
        SourceState("kubernetes", "", "", None, "kubernetes: HTTP 403: may not list /api/v1/nodes"),
    )
    return WiringView(topology, sources)


def made_up_collectives(now_s: float) -> tuple[CommunicatorState, ...]:
    """One communicator with a dead rank and a lag, one without trouble."""
    bad, good = CommunicatorId("dp", "0x7f8c496ae9f661"), CommunicatorId("tp", "0x51aa")
    dead = Trouble(TroubleKind.DEAD, bad, "rank 11 (process 4711 on gpu-10) is considered dead", (11,), "gpu-10", 4711)
    lag = Trouble(
        TroubleKind.LAGGING,
        bad,
        "AllReduce: rank 3 launched 88, the furthest 95",
        (3,),
        "gpu-09",
        4703,
        1,
        7,
        "AllReduce",
    )
    return (
        CommunicatorState(
            bad, JobId("slurm", "81234"), "the folder of its records names the job", 16, ("gpu-09", "gpu-10"), 15, 1, 0,
            {"AllReduce": (95, 88)}, {"AllReduce": 12}, (dead, lag), now_s - 4, ("nccl-inspector", "nccl-ras:gpu-09:28028"),
        ),
        CommunicatorState(
            good, None, "2 jobs run on all of its hosts, and nothing tells them apart", 8, ("gpu-05",), 8, None, None,
            last_s=now_s - 2, sources=("nccl-inspector",),
        ),
    )  # fmt: skip


def made_up_outlooks(now_s: float) -> dict[str, Outlook]:
    """One start and one end are foreseen; the held job and the demand are not."""
    waiting, held, running = JobId("slurm", "81300"), JobId("slurm", "81290"), JobId("slurm", "81234")
    start = StartTime(
        waiting, now_s, now_s + 3600, now_s + 1200, now_s + 9000, 0, 50, "replay",
        "0 waiting jobs come before it and 0 of 32 GPUs are free; 50 replays of 2 running jobs' ends.",
    )  # fmt: skip
    end = RemainingTime(
        running, now_s, 7200.0, 5400.0, 1500.0, 20000.0, 79200.0, 412, 0.81, "history",
        "It has run 2.0 h; 412 jobs ended since watching began, the most alike counting most; its limit leaves 22.0 h.",
    )  # fmt: skip
    stays = Absence(Why.HELD, "Job slurm:81290 waits for something else than GPUs: JobHeldUser.")
    young = Absence(Why.INSUFFICIENT_HISTORY, "12 points of ten minutes were listed; 50 are needed.", 12, 50)
    return {"slurm": Outlook("slurm", now_s, {waiting: start, held: stays}, {running: end}, {"": young})}
