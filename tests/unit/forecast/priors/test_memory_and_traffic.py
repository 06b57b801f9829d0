"""Memory and bytes against published numbers and recorded workloads."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from forecast.priors.complete import complete
from forecast.priors.links import LinkFit, bus_factor
from forecast.priors.memory import layer_activation_bytes, memory_figures, state_bytes, weights_per_device
from forecast.priors.traffic import exchanges
from forecast.priors.types import Exchange, Intent, Plan


def plan(**said: object) -> Plan:
    """A completed intent."""
    return complete(Intent(**{"gpu_count": 64, "accelerator": "h100", **said}))  # type: ignore[arg-type]


def by(traffic: tuple[Exchange, ...], purpose: str, collective: str) -> Exchange:
    """One exchange."""
    return next(e for e in traffic if e.purpose == purpose and e.collective == collective)


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_model_states_are_those_of_the_zero_paper(stage: int, gigabytes: float) -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5 B weights over 64 replicas."""
    states = state_bytes(plan(parameters=7.5e9, zero_stage=stage))
    assert sum(states) / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_activations_of_a_layer_follow_the_recomputation_paper() -> None:
    """Korthikanti et al. 2022, equations 1 and 2: s b h (34 + 5 a s / h); dropout masks (2 s b h) are not kept today."""
    wide = plan(model="gpt3 175b", sequence_length=2048, micro_batch=1, flash_attention=False, batch_sequences=64)
    s, h, a = 2048, 12288, 96
    assert layer_activation_bytes(wide, "none") == pytest.approx(s * h * (32 + 5 * a * s / h), rel=1e-9)
    split = replace(wide, tensor=8, sequence_parallel=True)
    assert layer_activation_bytes(split, "none") == pytest.approx(layer_activation_bytes(wide, "none") / 8, rel=1e-9)
    whole = replace(wide, tensor=8, sequence_parallel=False, flash_attention=True)
    assert layer_activation_bytes(whole, "none") == pytest.approx(s * h * (8 + 24 / 8), rel=1e-9)
    assert layer_activation_bytes(wide, "full") == 2 * s * h


def test_experts_are_shared_only_by_their_own_replicas() -> None:
    """Eight experts over eight devices leave one copy of each in 64 devices' eight groups."""
    dense = plan(model="llama3 8b", zero_stage=1)
    moe = plan(model="mixtral 8x7b", zero_stage=1, expert_parallel=8)
    shape = moe.shape
    experts = shape.layers * shape.expert_parameters
    shared = shape.parameters - 8 * experts
    assert weights_per_device(moe) == pytest.approx(shared + experts, rel=1e-9)
    assert state_bytes(moe)[2] == pytest.approx(12 * (shared / 64 + experts / 8), rel=1e-9)
    assert state_bytes(dense)[2] == pytest.approx(12 * dense.parameters / 64, rel=1e-9)


def test_the_chance_of_running_out_goes_from_no_to_yes() -> None:
    """A model that surely fits, one that surely does not."""
    assert memory_figures(plan(parameters=1e9))["out_of_memory"].middle < 0.01
    assert memory_figures(plan(parameters=30e9))["out_of_memory"].middle > 0.99


def test_bus_factors_are_those_of_nccl_tests() -> None:
    """PERFORMANCE.md of nccl-tests."""
    assert bus_factor("all_reduce", 8) == pytest.approx(1.75)
    assert bus_factor("all_gather", 8) == pytest.approx(0.875)
    assert bus_factor("send", 2) == 1.0
    assert bus_factor("all_reduce", 1) == 0.0


def test_nothing_is_exchanged_on_one_device() -> None:
    """No group, no traffic."""
    assert exchanges(plan(parameters=1e8, gpu_count=1), LinkFit()) == ()


def test_tensor_parallel_stays_inside_a_node_and_data_parallel_leaves_it() -> None:
    """Ranks are laid out with tensor parallel innermost; one rack of GB200 is one domain."""
    traffic = exchanges(plan(parameters=10e9, tensor_parallel=8, zero_stage=1), LinkFit())
    assert {e.group: e.link for e in traffic} == {"tensor": "scale_up", "data": "network"}
    rack = exchanges(plan(parameters=10e9, tensor_parallel=8, zero_stage=1, accelerator="gb200"), LinkFit())
    assert {e.link for e in rack} == {"scale_up"}


def test_sharded_gradients_are_reduced_after_each_micro_batch() -> None:
    """ZeRO-2 has no room to add them up, ZeRO-1 has."""
    said = {"parameters": 10e9, "batch_sequences": 64 * 4, "micro_batch": 1}
    one = by(exchanges(plan(zero_stage=1, **said), LinkFit()), "gradients", "reduce_scatter")
    two = by(exchanges(plan(zero_stage=2, **said), LinkFit()), "gradients", "reduce_scatter")
    assert two.wire_bytes == pytest.approx(4 * one.wire_bytes)


def _recorded(shared_dir: Path, name: str) -> pd.DataFrame:
    path = shared_dir / "data" / "aicb_collectives" / f"workload_{name}.csv.gz"
    with gzip.open(path, "rt") as stream:
        lines = stream.read().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("comm_type"))
    table = pd.read_csv(path, skiprows=head)
    table["msg_size"] = pd.to_numeric(table["msg_size"], errors="coerce")
    return table


@pytest.mark.shared
def test_tensor_parallel_calls_are_those_of_a_recorded_workload(shared_dir: Path) -> None:
    """A 13 B GPT over 8 devices: two all-reduces a layer and pass, each of one micro-batch; embeddings add one."""
    table = _recorded(shared_dir, "G13B-M1-C01_GPT13B_megatron_tp8_pp1_mbs1")
    part = table[(table["comm_type"] == "CommType.all_reduce") & (table["comm_group"] == "CommGroup.tp_group")]
    part = part[part["stage"].str.startswith(("forward", "backward")) & (part["msg_size"] > 1e5)]
    ours = by(
        exchanges(
            plan(
                layers=40, hidden=5120, gpu_count=128, tensor_parallel=8, sequence_parallel=False, sequence_length=2048,
                batch_sequences=16, micro_batch=1, zero_stage=1,
            ),
            LinkFit(),
        ),
        "layer outputs",
        "all_reduce",
    )  # fmt: skip
    assert ours.bytes_per_call == part["msg_size"].max()
    assert ours.count * ours.bytes_per_call == pytest.approx(part["msg_size"].sum(), rel=0.02)


@pytest.mark.shared
@pytest.mark.parametrize(("name", "model"), [("L7B-D1-C02_Llama7B_zero3_mbs1", "llama2 7b"), ("L13B-D1-C04_Llama13B_zero3_mbs1", "llama2 13b")])  # fmt: skip
def test_sharded_weights_and_gradients_are_those_of_a_recorded_workload(
    shared_dir: Path, name: str, model: str
) -> None:
    """ZeRO-3 gathers all weights forward and backward and scatters the gradients once."""
    table = _recorded(shared_dir, name)
    steps = table[~table["stage"].str.startswith("init", na=False)]
    gathered = steps.loc[steps["comm_type"] == "CommType.all_gather", "msg_size"].sum()
    scattered = steps.loc[steps["comm_type"] == "CommType.reduce_scatter", "msg_size"].sum()
    traffic = exchanges(
        plan(model=model, gpu_count=128, zero_stage=3, batch_sequences=128, sequence_length=2048, micro_batch=1),
        LinkFit(),
    )
    weights, gradients = by(traffic, "weights", "all_gather"), by(traffic, "gradients", "reduce_scatter")
    assert weights.count * weights.bytes_per_call == pytest.approx(gathered, rel=0.01)
    assert gradients.count * gradients.bytes_per_call == pytest.approx(scattered, rel=0.01)
