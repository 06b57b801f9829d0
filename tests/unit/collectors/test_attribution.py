"""Labels -> owners."""

from __future__ import annotations

import re

import pytest

from collectors.attribution import Owner, OwnerRules, group_of, owner_of, sharers_of
from telemetry.ids import JobId

RULES = OwnerRules()


def test_exported_names_win_over_plain_ones():
    labels = {"exported_namespace": "a", "exported_pod": "train-0", "exported_container": "main", "pod": "other"}
    assert owner_of(labels, RULES) == Owner(JobId("kubernetes", "a:train"), "a/train-0/main")


def test_an_empty_exported_name_means_nobody_not_the_exporter():
    assert owner_of({"exported_pod": "", "pod": "metrics-agent", "namespace": "ops"}, RULES) is None


@pytest.mark.parametrize(
    "labels", [{}, {"pod": ""}, {"hpc_job": ""}, {"pod": "nvidia-dcgm-exporter-x", "namespace": "g"}]
)
def test_nobody(labels):
    assert owner_of(labels, RULES) is None


def test_the_exporters_own_name_can_be_set():
    rules = OwnerRules(exporter_hint="gpu-agent")
    assert owner_of({"pod": "gpu-agent-1", "namespace": "x"}, rules) is None


def test_slurm_job_from_the_mapping_file():
    assert owner_of({"hpc_job": "8123"}, RULES) == Owner(JobId("slurm", "8123"))


def test_old_label_names():
    labels = {"pod_name": "train-0", "pod_namespace": "team-a", "container_name": "main"}
    assert owner_of(labels, RULES) == Owner(JobId("kubernetes", "team-a:train"), "team-a/train-0/main")


@pytest.mark.parametrize(
    ("pod", "group"),
    [
        ("bert-worker-3", "bert"),
        ("bert-master-0", "bert"),
        ("bert-launcher", "bert"),
        ("bert-launcher-x7k2p", "bert"),
        ("bert-2-x7k2p", "bert"),
        ("bert-11", "bert"),
        ("bert-0-3", "bert"),
        ("bert-x7k2p", "bert"),
        ("bert-7d9f8c6b5d-x7k2p", "bert"),
        ("my-model", "my-model"),
        ("share-a", "share-a"),
        ("solo", "solo"),
    ],
)
def test_replica_suffixes_are_cut(pod, group):
    assert group_of(pod, RULES) == group


def test_the_suffix_can_be_set():
    assert group_of("bert.rank7", OwnerRules(replica_suffix=re.compile(r"\.rank\d+$"))) == "bert"


def test_containers_of_one_pod_are_one_sharer():
    job = JobId("kubernetes", "a:j")
    assert sharers_of({Owner(job, "a/j-0/main"), Owner(job, "a/j-0/side"), Owner(job, "a/j-1/main")}) == 2
