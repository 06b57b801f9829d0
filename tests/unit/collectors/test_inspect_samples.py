"""``gpucast inspect`` knows every format of which a sample is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli import main
from collectors.inspect import inspect_source

PAGE, ANSWER, MATRIX = "Prometheus exposition page", "Prometheus API answer", "nvidia-smi topo -m"
FORMAT_OF = {
    "amd_gpu.prom": PAGE,
    "dcgm_1x_names.prom": PAGE,
    "dcgm_exp_and_links.prom": PAGE,
    "dcgm_k8s.prom": PAGE,
    "dcgm_mig.prom": PAGE,
    "dcgm_older_Hostname.prom": PAGE,
    "kueue_topology.yaml": "Kueue topology levels",
    "nccl_debug.log": "NCCL debug log",
    "nccl_inspector.jsonl": "NCCL Inspector records",
    "nccl_inspector.prom": PAGE,
    "nccl_ras.json": "NCCL RAS answer",
    "nccl_tests.txt": "nccl-tests output",
    "nccl_topo.xml": "NCCL topology XML",
    "node_exporter_ib.prom": PAGE,
    "node_labels.json": "Kubernetes node labels",
    "prom_error.json": ANSWER,
    "prom_matrix.json": ANSWER,
    "prom_vector.json": ANSWER,
    "slurm_sinfo.txt": "Slurm job or node list",
    "slurm_topology.yaml": "Slurm topology.yaml",
    "slurm_topology_block.conf": "Slurm blocks",
    "slurm_topology_tree.conf": "Slurm tree",
    "slurmrest_jobs.json": "Slurm job or node list",
    "topo_gb200_tray.txt": MATRIX,
    "topo_hgx_h100.txt": MATRIX,
    "topo_pcie4.txt": MATRIX,
    "topograph_graph.json": "Topograph graph",
}
WRITTEN_BY_US = {
    "alertmanager_webhook.json",
    "cloudevent.json",
    "external_metrics.json",
    "keda_get_metrics.json",
    "standard_webhook.http",
    "standard_webhook_secret.txt",
}
"""What gpucast sends or answers; none of it is telemetry."""


@pytest.mark.shared
def test_every_sample_is_known(shared_dir: Path) -> None:
    """A new sample has to be put on one of the two lists."""
    folder = shared_dir / "formats/samples"
    found = {path.name: inspect_source(path.read_bytes(), path.name).format for path in sorted(folder.iterdir())}
    assert {name: kind for name, kind in found.items() if kind} == FORMAT_OF
    assert {name for name, kind in found.items() if not kind} == WRITTEN_BY_US


@pytest.mark.shared
@pytest.mark.parametrize("name", FORMAT_OF)
def test_the_command_shows_it(name: str, shared_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 where something would be taken, 4 where not, and its format is named either way."""
    code = main(["inspect", str(shared_dir / "formats/samples" / name)])
    told = capsys.readouterr().out
    assert FORMAT_OF[name] in told
    assert code == (4 if name in ("prom_error.json", "prom_vector.json") else 0)
