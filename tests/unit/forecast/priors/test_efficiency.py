"""The fit of efficiencies on made-up runs, its document, and how it answers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from api.estimates import shipped
from forecast.priors.coefficients import Coefficients, from_document, to_document
from forecast.priors.efficiency import Z80, EfficiencyModel, fit_efficiency, row_blocks
from forecast.priors.links import LinkFit
from forecast.priors.runs import Runs
from telemetry.errors import IncompatibleModel

DEVICES = ("h100", "h200", "b200", "mi300x")
LEVEL = {"h100": 0.5, "h200": 0.55, "b200": 0.45, "mi300x": 0.35}
WORK = {"small": 3e14, "medium": 3e15, "large": 2e16}


def made_up(seed: int = 0, noise: float = 0.03) -> tuple[Runs, list[str]]:
    """Runs whose share of the peak depends on the device and falls with the number of devices."""
    random = np.random.default_rng(seed)
    rows = [(w, d, n) for w in WORK for d in DEVICES for n in (8, 16, 64, 256)]
    gpus = np.array([float(n) for _, _, n in rows])
    batch = gpus * 4.0
    flops = np.array([WORK[w] for w, _, _ in rows])
    blind = Runs(
        tuple(w for w, _, _ in rows),
        tuple(d for _, d, _ in rows),
        gpus,
        batch,
        np.ones(len(rows)),
        flops,
        flops * 0 + 1e9,
    )
    share = np.array([LEVEL[d] for _, d, _ in rows]) * (gpus / 8.0) ** -0.05
    rate = np.exp(blind.ideal_log) * share * gpus * np.exp(noise * random.standard_normal(len(rows)))
    runs = Runs(blind.workload, blind.accelerator, gpus, batch, rate, flops, blind.trained)
    return runs, [f"{d} {n}" for _, d, n in rows]


def error(model: EfficiencyModel, held: Runs) -> np.ndarray:
    """|foreseen / true - 1|."""
    median, _ = model.predict(held.blind())
    return np.abs(np.expm1(median - np.log(held.samples_per_s / held.gpus)))


def test_what_was_left_out_is_foreseen() -> None:
    """Systems and whole workloads that follow the same rule as the rest are foreseen nearly as well as noise allows."""
    runs, systems = made_up()
    for names, allowed in ((systems, 0.05), (runs.workload, 0.06)):
        misses = [
            error(fit_efficiency(runs.take(others), [systems[i] for i in others]), runs.take(held))
            for others, held in row_blocks(names)
        ]
        assert np.median(np.concatenate(misses)) < allowed


def test_intervals_hold_what_they_promise() -> None:
    """Over many made-up systems 80 % intervals hold about 80 %."""
    inside = []
    for seed in range(3):
        runs, systems = made_up(seed, noise=0.05)
        for others, held in row_blocks(systems)[::2]:
            model = fit_efficiency(runs.take(others), [systems[i] for i in others], rounds=8)
            median, sd = model.predict(runs.take(held).blind())
            miss = np.abs(median - np.log(runs.take(held).samples_per_s / runs.take(held).gpus))
            inside += list(miss <= Z80 * sd)
    assert 0.7 < np.mean(inside) < 0.92


def test_the_unknown_is_less_sure_than_the_known() -> None:
    """A workload or a device that was never seen has the wider interval."""
    runs, systems = made_up()
    model = fit_efficiency(runs, systems)
    one = runs.take([0]).blind()
    _, known = model.predict(one)
    other_work = Runs(("never seen",), one.accelerator, one.gpus, one.batch, one.samples_per_s, one.flops, one.trained)
    other_device = Runs(one.workload, ("gb300",), one.gpus, one.batch, one.samples_per_s, one.flops, one.trained)
    assert model.predict(other_work)[1][0] > known[0]
    assert model.predict(other_device)[1][0] > known[0]


def test_the_same_runs_give_the_same_fit_in_any_order() -> None:
    """No seed, no dependence on the order of rows."""
    runs, systems = made_up()
    order = np.random.default_rng(1).permutation(len(runs))
    first = fit_efficiency(runs, systems, rounds=5)
    again = fit_efficiency(runs.take(order), [systems[i] for i in order], rounds=5)
    np.testing.assert_allclose(first.predict(runs.blind())[0], again.predict(runs.blind())[0], rtol=1e-4)


def test_a_document_keeps_the_answers() -> None:
    """Saved and read back, through JSON, the answers differ by rounding only."""
    runs, systems = made_up()
    fitted = Coefficients(fit_efficiency(runs, systems, rounds=5), LinkFit(), "made up")
    back = from_document(json.loads(json.dumps(to_document(fitted), allow_nan=False)))
    for ours, theirs in zip(
        fitted.efficiency.predict(runs.blind()), back.efficiency.predict(runs.blind()), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3)
    assert back.source == "made up"
    assert back.links == LinkFit()


@pytest.mark.parametrize(
    "damage",
    [
        {"format": "other"},
        {"parts": {}},
        {"scale": {"system": -1.0, "workload": 1.0}},
        {"scale": {"system": None, "workload": 1.0}},
        {"runs": {"workload": ["a"], "accelerator": ["h100"], "gpus": [1, 2], "batch": [1], "samples_per_s": [1], "flops": [1], "trained": [1]}},
        {"runs": {"workload": ["a"], "accelerator": ["abacus"], "gpus": [1], "batch": [1], "samples_per_s": [1], "flops": [1], "trained": [1]}},
        {"runs": {"workload": ["a"], "accelerator": ["h100"], "gpus": [0], "batch": [1], "samples_per_s": [1], "flops": [1], "trained": [1]}},
        {"links": {}},
    ],
)  # fmt: skip
def test_damaged_documents_are_refused(damage: dict[str, object]) -> None:
    """A sentence, never a wrong estimate."""
    with pytest.raises(IncompatibleModel, match="coefficients"):
        from_document({**to_document(shipped()), **damage})


def test_what_is_shipped_names_its_sources_and_nobody_else() -> None:
    """Licence and trademark are named; who ran which row is not kept."""
    document = to_document(shipped())
    assert "Apache-2.0" in document["source"]
    assert "not MLPerf results" in document["source"]
    assert set(document["runs"]) == {"workload", "accelerator", "gpus", "batch", "samples_per_s", "flops", "trained"}
