"""``gpucast topology``: what is drawn, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api.cli import main

TREE = "SwitchName=core Switches=l[1-2]\nSwitchName=l1 Nodes=g[1-2]\nSwitchName=l2 Nodes=g3\n"
MATRIX = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV4\tPIX\t0-3\nGPU1\tNV4\t X \tSYS\t0-3\nNIC0\tPIX\tSYS\t X \n\n  NIC0: mlx5_0\n"


@pytest.fixture
def tree(tmp_path: Path) -> str:
    (tmp_path / "topology.conf").write_text(TREE)
    return str(tmp_path / "topology.conf")


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    (tmp_path / "matrix.txt").write_text(MATRIX)
    return tmp_path / "matrix.txt"


def test_the_tree_and_the_inside_of_hosts_are_drawn(
    tree: str, matrix: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 where nothing is wrong."""
    assert main(["topology", "--from", tree, f"{matrix}=g1", "--between", "g1:GPU0", "g3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:7] == [
        "3 hosts, 2 leaf switches, 2 GPUs in 1 host",
        "core",
        "├─ l1",
        "│  ├─ g1  2 x GPU",
        "│  └─ g2",
        "└─ l2",
        "   └─ g3",
    ]
    assert "    NVLink GPU0 GPU1: NV4" in lines
    assert "    GPU0: nearest NIC mlx5_0 (PIX)" in lines
    assert "g1:GPU0 to g3: SAME_SPINE (core)" in lines


def test_json_says_null_for_unknown(tree: str, matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And which source said what."""
    assert main(["topology", "--from", tree, "--from", f"{matrix}=g1", "--between", "g1", "g9", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["hosts"]["g1"]["switches"] == ["l1", "core"]
    assert document["hosts"]["g1"]["inside"]["gpus"][0]["numa"] is None
    assert document["hosts"]["g2"]["inside"] is None
    assert document["said_by"]["inside of g1"] == [str(matrix)]
    assert document["between"] == {"a": "g1", "b": "g9", "distance": None}
    assert [source["format"] for source in document["sources"]] == ["Slurm tree", "nvidia-smi topo -m"]


def test_a_source_that_cannot_be_used_is_degraded(tree: str, matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are drawn; the reason is on standard error."""
    matrix.write_text("".join(MATRIX.splitlines(keepends=True)[:2]))
    assert main(["topology", "--from", tree, f"{matrix}=g1"]) == 4
    out, err = capsys.readouterr()
    assert "└─ g3" in out
    assert "matrix cut: header names 3 devices, 1 row found" in err


def test_a_conflict_is_degraded(tree: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both sides are named."""
    other = tmp_path / "other.conf"
    other.write_text("SwitchName=l2 Nodes=g1,g3\n")
    assert main(["topology", "--from", tree, str(other)]) == 4
    assert f"leaf switch of g1: {tree} says l1; {other} says l2; l1 is used" in capsys.readouterr().out


def test_the_last_good_is_kept_with_its_age(matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A failing command, and a file that is gone."""
    arguments = ["topology", "--from", f"{matrix}=g1", "--keep", str(tmp_path / "kept.json")]
    assert main(arguments) == 0
    matrix.write_text("Failed to run topology matrix\n")
    assert main(arguments) == 4
    matrix.unlink()
    capsys.readouterr()
    assert main(arguments) == 4
    out = capsys.readouterr().out
    assert "NVLink GPU0 GPU1: NV4" in out
    assert "(last good)" in out


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No such file: exit code 2. A memory that is something else: 1."""
    assert main(["topology", "--from", str(tmp_path / "nosuch")]) == 2
    (tmp_path / "kept").write_text("[]")
    (tmp_path / "t").write_text(TREE)
    assert main(["topology", "--from", str(tmp_path / "t"), "--keep", str(tmp_path / "kept")]) == 1
    assert "holds no topology that gpucast kept" in capsys.readouterr().err


def test_a_file_with_an_equals_sign_in_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a name, not a host."""
    path = tmp_path / "a=b"
    path.write_text(TREE)
    assert main(["topology", "--from", str(path)]) == 0
    assert "3 hosts" in capsys.readouterr().out


def test_levels_alone_are_no_failure(tmp_path: Path) -> None:
    """They name labels; the nodes come from another source."""
    path = tmp_path / "k.yaml"
    path.write_text("kind: Topology\nspec:\n  levels:\n  - nodeLabel: a/b\n")
    assert main(["topology", "--from", str(path)]) == 0
