"""Pods and nodes of the API: jobs, holds and counts."""

from __future__ import annotations

import gzip
import json

import pytest

from collectors.kubernetes.devices import read_claims, read_pod_resources
from collectors.kubernetes.objects import job_name, read_instant, read_node, read_pod
from collectors.kubernetes.owners import claims_of, job_records, nodes_gpus
from telemetry.roster import JobState
from tests.kit.kubernetes import node, pod

UUID = "GPU-0a1b2c3d-0000-1111-2222-333344445555"


def _world(pods, nodes):
    return [read_pod(item) for item in pods], {one.name: one for one in map(read_node, nodes)}


def _owner(kind, name):
    return [{"kind": kind, "name": name, "controller": True}]


@pytest.mark.parametrize(
    ("labels", "owners", "name"),
    [
        ({"jobset.sigs.k8s.io/jobset-name": "set", "job-name": "set-workers-0"}, _owner("Job", "set-workers-0"), "set"),
        ({"training.kubeflow.org/job-name": "torch"}, _owner("PyTorchJob", "torch"), "torch"),
        ({}, _owner("Job", "batch"), "batch"),
        ({}, _owner("ReplicaSet", "web-6d4cf56db6"), "web"),
        ({}, _owner("StatefulSet", "stateful"), "stateful"),
        ({}, [{"kind": "Job", "name": "x", "controller": False}], "train"),
        ({}, "odd", "train"),
    ],
)
def test_the_job_of_a_pod(labels, owners, name):
    """The outermost controller's label, else the controller, else the pod's own name without its replica."""
    assert job_name("train-worker-0", labels, owners) == name


def test_a_gang_is_one_job():
    """GPUs, hosts, start and queue of all pods; waiting only while none has a host."""
    labels = {"labels": {"job-name": "train", "kueue.x-k8s.io/queue-name": "a"}}
    pods, nodes = _world(
        [
            pod("train-0", "gpu-01", 8, meta=labels, spec={"priority": 7}),
            pod("train-1", "gpu-02", 8, meta=labels, status={"startTime": "2026-11-30T19:00:00Z"}),
            pod("train-2", "", 8, meta=labels),
            pod("done-0", "gpu-03", 8, status={"phase": "Succeeded"}),
            pod(
                "later-0",
                "",
                4,
                status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
            ),
        ],
        [node("gpu-01", labels={"nvidia.com/gpu.product": "H100"})],
    )
    later, train = job_records(pods, nodes)
    assert (train.job.name, train.state, train.gpu_count, train.nodes) == (
        "ml:train",
        JobState.RUNNING,
        16,
        ("gpu-01", "gpu-02"),
    )
    assert (train.partition, train.priority, dict(train.gpu_types)) == ("a", 7.0, {"H100": 8, "": 8})
    assert train.start_s == read_instant("2026-11-30T19:00:00Z")
    assert (later.state, later.gpu_count, later.reason) == (JobState.WAITING, 4, "Unschedulable")
    assert read_pod(pod("cpu-only", "gpu-01", 0)) is None


def test_counts_of_a_host():
    """Capacity minus what its pods have; cordoned or silent hosts are out of service; too many are put into range."""
    pods, nodes = _world(
        [pod("a", "gpu-01", 3), pod("b", "gpu-01", 2, status={"phase": "Succeeded"}), pod("c", "gpu-04", 9)],
        [
            node("gpu-01"),
            node("gpu-02", spec={"unschedulable": True}),
            node("gpu-03", ready="Unknown"),
            node("gpu-04"),
            node("cpu-01", 0),
        ],
    )
    counted = {one.node: one for one in nodes_gpus(nodes.values(), pods)}
    assert {name: (one.total, one.used, one.free) for name, one in counted.items()} == {
        "gpu-01": (8, 3, 5),
        "gpu-02": (8, 0, 0),
        "gpu-03": (8, 0, 0),
        "gpu-04": (8, 8, 0),
        "cpu-01": (0, 0, 0),
    }
    assert [name for name, one in counted.items() if one.clamped] == ["gpu-04"]


def test_start_up_steps_do_not_add_to_the_running_containers():
    """A pod holds the larger of its steps and its running containers; side cars run beside."""
    container = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    spec = {
        "containers": [container, container],
        "initContainers": [
            {"resources": {"requests": {"nvidia.com/gpu": 3}}},
            {"restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
        ],
    }
    found = read_pod({"metadata": {"name": "a"}, "spec": spec})
    assert found.wanted.whole == 5
    assert found.job.name == "default:a"


def test_slices():
    """MIG resources count as slices, by profile, and are never joined to whole cards."""
    pods, nodes = _world(
        [pod("a", "gpu-01", 2, resource="nvidia.com/mig-1g.10gb"), pod("b", "gpu-02", 1)],
        [
            node("gpu-01", 0, capacity={"nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "1"}),
            node(
                "gpu-02", 7, labels={"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "H100-MIG-1g.10gb"}
            ),
        ],
    )
    one, two = claims_of(pods, nodes)
    assert (one.count, one.gpu_type, one.sliced, two.sliced) == (2, "1g.10gb", True, True)
    assert nodes_gpus(nodes.values(), pods)[0].free == 6


def test_shared_cards_have_no_count():
    """Replicas of a card are no cards: how many are behind a pod's share is unknown, and it is marked shared."""
    labels = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    pods, nodes = _world([pod("a", "gpu-01", 2)], [node("gpu-01", 32, labels=labels)])
    (claim,) = claims_of(pods, nodes)
    assert (claim.shared, claim.count) == (True, None)
    (counted,) = nodes_gpus(nodes.values(), pods)
    assert (counted.total, counted.used, counted.free) == (8, None, None)
    (record,) = job_records(pods, nodes)
    assert (record.shares_gpus, record.gpu_count) == (True, None)


def test_placeholders_are_no_work():
    """A pod that keeps room for a gang holds nothing and is no job, though its GPUs are taken."""
    pods, nodes = _world(
        [pod("tg-0", "gpu-01", 8, meta={"annotations": {"yunikorn.apache.org/placeholder": "true"}})], [node("gpu-01")]
    )
    assert claims_of(pods, nodes) == []
    assert job_records(pods, nodes) == []
    assert nodes_gpus(nodes.values(), pods)[0].used == 8


def test_devices_by_annotation():
    """Only annotations that schedulers write count; a sharing scheduler's devices are shares."""
    written = {
        "annotations": {"hami.io/vgpu-devices-allocated": f"{UUID},NVIDIA,1000,30:;", "note": UUID.replace("0a", "ff")}
    }
    pods, nodes = _world([pod("a", "gpu-01", 1, meta=written)], [node("gpu-01")])
    (claim,) = claims_of(pods, nodes)
    assert (claim.uuids, claim.shared, claim.workload) == ((UUID,), True, "ml/a")


@pytest.mark.parametrize("old", [False, True], ids=["v1", "v1beta1"])
def test_devices_by_resource_claim(old):
    """Claim -> device of a pool -> UUID; a claim of two pods is shared."""
    attributes = {"uuid": {"string": UUID}}
    device = {"name": "gpu-3", **({"basic": {"attributes": attributes}} if old else {"attributes": attributes})}
    slices = [{"spec": {"driver": "gpu.nvidia.com", "pool": {"name": "gpu-01"}, "devices": [device]}}]
    result = {"driver": "gpu.nvidia.com", "pool": "gpu-01", "device": "gpu-3", "request": "gpu"}
    claims = [
        {
            "metadata": {"namespace": "ml", "name": "claim-a"},
            "status": {
                "allocation": {"devices": {"results": [result]}},
                "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in "ab"],
            },
        }
    ]
    item = pod("a", "gpu-01", 0, spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]})
    item["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "claim-a"}]
    pods, nodes = _world([item], [node("gpu-01", 0)])
    (claim,) = claims_of(pods, nodes, read_claims(claims, slices))
    assert (claim.uuids, claim.shared, claim.node) == ((UUID,), True, "gpu-01")


def test_devices_by_the_kubelet():
    """Cards and slices of each pod; a replica of a shared card is a share; other devices are left out."""
    document = {
        "podResources": [
            {
                "namespace": "ml",
                "name": "a",
                "containers": [
                    {
                        "devices": [
                            {"resourceName": "nvidia.com/gpu", "deviceIds": [f"{UUID}::2"]},
                            {"resourceName": "nvidia.com/mig-1g.10gb", "deviceIds": ["MIG-4f"]},
                            {"resourceName": "rdma/hca", "deviceIds": ["mlx5_0"]},
                        ]
                    }
                ],
            },
            {"namespace": "ml", "name": "b", "containers": []},
        ]
    }
    found = read_pod_resources(document)
    assert list(found) == [("ml", "a")]
    devices = found[("ml", "a")]
    assert (devices.uuids, devices.slices, devices.shared) == ((UUID,), ("MIG-4f",), True)
    pods, nodes = _world([pod("a", "gpu-01", 1)], [node("gpu-01")])
    whole, _ = claims_of(pods, nodes, kubelet=found)
    assert whole.uuids == (UUID,)


@pytest.mark.parametrize(
    "item", [{}, {"metadata": 3}, {"metadata": {"name": "x"}, "spec": {"containers": [1, None, {"resources": []}]}}]
)
def test_odd_objects_give_nothing(item):
    """Shapes that the API never sends are no pods and no crash."""
    assert read_pod(item) is None


@pytest.mark.shared
def test_recorded_pods(shared_dir):
    """Pods of a real API server: every job has its name from its controller, its GPUs, and hosts once it runs."""
    seen = set()
    for path in sorted((shared_dir / "recipes" / "kubernetes-samples").glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                answer = json.loads(line)["response"]
                if isinstance(answer, dict) and answer.get("kind") == "PodList":
                    pods = [one for one in map(read_pod, answer["items"]) if one is not None]
                    for record in job_records(pods, {}):
                        assert record.gpu_count is not None
                        assert record.gpu_count > 0
                        assert record.nodes or record.state is JobState.WAITING
                        seen.add(record.job.name)
    assert {"default:a1", "default:js2", "default:kq5"} <= seen
