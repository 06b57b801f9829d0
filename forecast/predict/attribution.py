"""Whose bytes are on a link: non-negative least squares of the link on the jobs' own traffic.

Two jobs with one rhythm that burst together cannot be told apart by their shape; a weak pull towards "each job sends
the same share of its traffic over this link" decides then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.ids import JobId, LinkId
from telemetry.topology import Topology

FloatArray = NDArray[np.float64]

PULL = 0.02
"""Weight of the pull, as a share of each job's own energy."""
MAX_CANDIDATES = 24
"""Largest senders tried per link."""
MIN_SHARE = 0.01
"""Jobs below this share of a link's bytes are not named."""


@dataclass(frozen=True, slots=True, eq=False)
class JobRows:
    """The jobs' traffic on the links' grid, one row per (job, leaf switch).

    Args:
        jobs: (n_rows,) whose.
        leaf: (n_rows,) leaf switch of the sending hosts; empty when unknown.
        nodes: (n_rows,) hosts of the job.
        values: (n_rows, n_points) bytes per second, no missing points.
    """

    jobs: tuple[JobId, ...]
    leaf: tuple[str, ...]
    nodes: tuple[tuple[str, ...], ...]
    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """How links are made of job rows.

    Args:
        weight: (n_links, n_rows) bytes on the link per byte that the row sends.
        background: (n_links,) constant bytes per second of nobody known.
        share: (n_links, n_rows) share of the link's bytes.
    """

    weight: FloatArray
    background: FloatArray
    share: FloatArray


def candidates(
    link: LinkId, rows: JobRows, topology: Topology, ends: Mapping[str, tuple[str, str]]
) -> NDArray[np.bool_]:
    """Which rows may cross a link, (n_rows,): all of them where the wiring is unknown.

    Args:
        link: which port.
        rows: the jobs' traffic.
        topology: what is known of the wiring.
        ends: text form of a link -> its two devices.
    """
    node = link.node
    if node:
        leaf = topology.leaf_of.get(node, "")
        return np.array(
            [node in hosts and at in ("", leaf) for hosts, at in zip(rows.nodes, rows.leaf, strict=True)], np.bool_
        )
    known = set(topology.leaf_of.values())
    leaves = {link.device, *ends.get(str(link), ())} & known
    if not leaves:
        return np.ones(len(rows.jobs), np.bool_)
    out = np.zeros(len(rows.jobs), np.bool_)
    for row, (hosts, at) in enumerate(zip(rows.nodes, rows.leaf, strict=True)):
        homes = set(topology.leaves(hosts))
        # A job whose hosts all stand under one leaf never leaves it.
        inside = len(homes) == 1 and homes <= leaves
        out[row] = not inside and (at in leaves if at else bool(homes & leaves) or not homes)
    return out


def mixture(bytes_per_s: FloatArray, rows: JobRows, allowed: NDArray[np.bool_]) -> Mixture:
    """Weights of job rows on links.

    Args:
        bytes_per_s: (n_links, n_points) without missing points.
        rows: the jobs' traffic on the same points.
        allowed: (n_links, n_rows) which rows may cross which link.
    """
    n_links, n_rows = allowed.shape
    weight, share = np.zeros((n_links, n_rows)), np.zeros((n_links, n_rows))
    background = bytes_per_s.mean(axis=1) if n_links else np.zeros(0)
    mean_row = rows.values.mean(axis=1) if n_rows else np.zeros(0)
    for link in range(n_links):
        pick = np.flatnonzero(allowed[link] & (mean_row > 0.0))
        if pick.size > MAX_CANDIDATES:
            pick = np.sort(pick[np.argsort(-mean_row[pick], kind="stable")[:MAX_CANDIDATES]])
        total = bytes_per_s[link].mean()
        if pick.size == 0 or total <= 0.0:
            continue
        fit, constant = _fit(bytes_per_s[link], rows.values[pick])
        weight[link, pick], background[link] = fit, constant
        share[link, pick] = np.clip(fit * mean_row[pick] / total, 0.0, 1.0)
    return Mixture(weight, background, share)


def _fit(y: FloatArray, rows: FloatArray) -> tuple[FloatArray, float]:
    """Non-negative weights of ``rows`` and a constant that make up ``y``, pulled towards equal weights."""
    # Here, not above: the service imports this module for its types and would start half a second later.
    from scipy.optimize import nnls

    scale = np.sqrt((rows**2).mean(axis=1))
    y_scale = float(np.sqrt((y**2).mean()))
    columns = np.vstack([rows / scale[:, None], np.ones(y.shape[0])]).T
    equal = float(y.sum() / rows.sum())
    n = rows.shape[0]
    pull = np.sqrt(PULL * y.shape[0])
    a = np.vstack([columns, np.hstack([pull * np.eye(n), np.zeros((n, 1))])])
    b = np.concatenate([y / y_scale, pull * equal * scale / y_scale])
    # The small square problem has the same answer and does not grow with the history.
    gram = a.T @ a
    root = np.linalg.cholesky(gram + 1e-9 * np.trace(gram) * np.eye(n + 1))
    answer, _ = nnls(root.T, np.linalg.solve(root, a.T @ b))
    return answer[:n] * y_scale / scale, float(answer[n] * y_scale)


def shares_by_job(share: FloatArray, jobs: Sequence[JobId]) -> list[tuple[JobId, float]]:
    """Shares of one link summed over each job's rows, largest first, ties by name."""
    total: dict[JobId, float] = {}
    for job, part in zip(jobs, share, strict=True):
        total[job] = total.get(job, 0.0) + float(part)
    named = [(job, min(1.0, part)) for job, part in total.items() if part >= MIN_SHARE]
    return sorted(named, key=lambda item: (-item[1], str(item[0])))
