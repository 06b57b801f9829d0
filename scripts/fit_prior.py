#!/usr/bin/env python3
"""Fit the priors on published measurements and write forecast/priors/coefficients.json.

Run as `.venv/bin/python scripts/fit_prior.py DATA`, with DATA the folder that holds mlperf_training_v51 and
nccl_collectives. Both sources are under the Apache License 2.0; what is written keeps per-row throughput of published
runs without names of who ran them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))
SOURCE = (
    "Efficiencies are fitted on entries of MLPerf Training v5.1 (github.com/mlcommons/training_results_v5.1, Apache-2.0); "
    "they are derived figures, not MLPerf results, and not verified by MLCommons. MLPerf is a trademark of MLCommons."
)


def main() -> int:
    """Fit and write; the number of runs and the file are printed."""
    from api.bench.mlperf import published
    from api.bench.nccl_links import fit_links
    from forecast.priors.coefficients import Coefficients, to_document
    from forecast.priors.efficiency import fit_efficiency

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "forecast" / "priors" / "coefficients.json")
    args = parser.parse_args()
    entries = published(args.data)
    fitted = fit_efficiency(entries.runs, entries.system, rounds=100)
    document = to_document(Coefficients(fitted, fit_links(args.data), SOURCE))
    args.out.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    for note in entries.notes:
        print(note)
    print(f"wrote {args.out} from {len(entries.runs)} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
