"""Who uses a GPU, from the labels of its lines.

Rules: ``exported_*`` names win over plain ones (a Prometheus with ``honor_labels: false`` puts the exporter's own pod
into the plain ones); empty strings are no names; the exporter's own pod is never a workload; the old names of the 1.x
exporters are read too. Under Slurm the job number comes from the exporter's mapping files, or from AMD's exporter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from telemetry.catalogue import EXPORTER_POD_HINT
from telemetry.ids import JobId

BUSY_RATIO = 0.05
"""Above this a GPU without an owner is not idle: its owner is unknown."""

BUSY_METRICS = ("gpu_gr_engine_active_ratio", "gpu_util_ratio", "gpu_sm_active_ratio")

# The letters that Kubernetes uses in random name suffixes: no vowels, no 0, 1, 3 (apimachinery util/rand).
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
REPLICA_SUFFIX = re.compile(
    rf"-(?:worker|master|ps|chief|evaluator)-\d+$|-launcher(?:-{_RANDOM}{{5}})?$"
    rf"|-\d+(?:-\d+)?-[a-z0-9]{{5}}$|-\d+(?:-\d+)?$|(?:-{_RANDOM}{{8,10}})?-{_RANDOM}{{5}}$"
)
"""Cut from a pod's name it leaves the job's: Kubeflow roles, indexed Jobs, StatefulSets, Deployments and Jobs."""

_POD_LABELS = (
    ("exported_namespace", "exported_pod", "exported_container"),
    ("pod_namespace", "pod_name", "container_name"),
    ("namespace", "pod", "container"),
)


@dataclass(frozen=True, slots=True)
class OwnerRules:
    """A site's naming.

    Args:
        exporter_hint: a pod whose name holds this is the exporter itself.
        replica_suffix: cut from a pod's name it leaves the job's name.
    """

    exporter_hint: str = EXPORTER_POD_HINT
    replica_suffix: re.Pattern[str] = REPLICA_SUFFIX


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """Who uses a device.

    Args:
        job: the whole job.
        workload: ``namespace/pod/container`` under Kubernetes; empty under Slurm.
    """

    job: JobId
    workload: str = ""

    @property
    def pod(self) -> tuple[JobId, str]:
        """What counts as one user: containers of a pod are one."""
        return self.job, "/".join(self.workload.split("/")[:2])


def owner_of(labels: Mapping[str, str], rules: OwnerRules) -> Owner | None:
    """The user of the device that a line is about, None when the line names none."""
    if labels.get("hpc_job"):
        return Owner(JobId("slurm", labels["hpc_job"]))
    if labels.get("job_id") and labels.get("gpu_id"):  # AMD's exporter; elsewhere job_id may be anything
        return Owner(JobId("slurm", labels["job_id"]))
    for namespace_label, pod_label, container_label in _POD_LABELS:
        pod = labels.get(pod_label, "")
        if pod and rules.exporter_hint not in pod:
            # A pod always has a namespace; an exporter that leaves it out means the default one.
            namespace = labels.get(namespace_label, "") or "default"
            workload = "/".join(filter(None, (namespace, pod, labels.get(container_label, ""))))
            return Owner(JobId("kubernetes", f"{namespace}:{group_of(pod, rules)}"), workload)
        if pod_label in labels and pod_label != "pod":
            return None
    return None


def group_of(pod: str, rules: OwnerRules) -> str:
    """The job's name from one of its pods' names."""
    return rules.replica_suffix.sub("", pod, count=1) or pod


def sharers_of(owners: set[Owner]) -> int:
    """How many jobs or pods these owners are; containers of one pod count once."""
    return len({owner.pod for owner in owners})
