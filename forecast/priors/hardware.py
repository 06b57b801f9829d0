"""Accelerators: peak rates, memory, links and board power, as their makers' data sheets give them.

Peaks are dense (no sparsity), bandwidths are per device and per direction, memory is in decimal bytes as sold. The
network interface is the one of the maker's reference server; a site's own may be given beside the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

TERA = 1e12
GIGA = 1e9


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One kind of device.

    Args:
        name: our word for it, lower case.
        vendor: maker.
        generation: devices of one generation scale alike.
        peak_flops: precision -> dense FLOP/s.
        hbm_bytes: device memory.
        hbm_bytes_per_s: its bandwidth.
        scale_up_bytes_per_s: NVLink, xGMI or PCIe per device and direction.
        scale_up_gpus: how many devices the scale-up links join.
        nic_bytes_per_s: network per device and direction in the reference server.
        board_watts: board power limit.
        source: where the figures are printed.
    """

    name: str
    vendor: str
    generation: str
    peak_flops: Mapping[str, float]
    hbm_bytes: float
    hbm_bytes_per_s: float
    scale_up_bytes_per_s: float
    scale_up_gpus: int
    nic_bytes_per_s: float
    board_watts: float
    source: str

    def peak(self, precision: str) -> float:
        """Dense FLOP/s at a precision; the nearest wider one where the device lacks it."""
        ladder = ("fp4", "fp8", "bf16", "fp16", "fp32")
        for wider in ladder[ladder.index(precision) :] if precision in ladder else ():
            if wider in self.peak_flops:
                return self.peak_flops[wider]
        return self.peak_flops.get("bf16", max(self.peak_flops.values()))


def _device(
    name: str,
    vendor: str,
    generation: str,
    *,
    bf16: float,
    fp8: float = 0.0,
    fp4: float = 0.0,
    fp32: float,
    hbm_gb: float,
    hbm_tb_per_s: float,
    link_gb_per_s: float,
    domain: int = 8,
    nic_gb_per_s: float,
    watts: float,
    source: str,
) -> Accelerator:
    peaks = {"fp4": fp4, "fp8": fp8, "bf16": bf16, "fp16": bf16, "fp32": fp32}
    return Accelerator(
        name,
        vendor,
        generation,
        MappingProxyType({word: value * TERA for word, value in peaks.items() if value}),
        hbm_gb * GIGA,
        hbm_tb_per_s * TERA,
        link_gb_per_s * GIGA,
        domain,
        nic_gb_per_s * GIGA,
        watts,
        source,
    )


_DEVICES = (
    _device("v100", "nvidia", "volta", bf16=125, fp32=15.7, hbm_gb=32, hbm_tb_per_s=0.9, link_gb_per_s=150, nic_gb_per_s=12.5, watts=300, source="NVIDIA V100 data sheet; bf16 stands for fp16, which is all it has"),
    _device("a100", "nvidia", "ampere", bf16=312, fp32=156, hbm_gb=80, hbm_tb_per_s=2.04, link_gb_per_s=300, nic_gb_per_s=25, watts=400, source="NVIDIA A100 80 GB SXM data sheet; fp32 is TF32"),
    _device("a100-40gb", "nvidia", "ampere", bf16=312, fp32=156, hbm_gb=40, hbm_tb_per_s=1.56, link_gb_per_s=300, nic_gb_per_s=25, watts=400, source="NVIDIA A100 40 GB SXM data sheet; fp32 is TF32"),
    _device("l40s", "nvidia", "ada", bf16=362, fp8=733, fp32=183, hbm_gb=48, hbm_tb_per_s=0.86, link_gb_per_s=32, nic_gb_per_s=25, watts=350, source="NVIDIA L40S data sheet; PCIe 4 instead of NVLink"),
    _device("h100", "nvidia", "hopper", bf16=989, fp8=1979, fp32=494, hbm_gb=80, hbm_tb_per_s=3.35, link_gb_per_s=450, nic_gb_per_s=50, watts=700, source="NVIDIA H100 SXM data sheet; fp32 is TF32"),
    _device("h100-pcie", "nvidia", "hopper", bf16=756, fp8=1513, fp32=378, hbm_gb=80, hbm_tb_per_s=2.0, link_gb_per_s=64, nic_gb_per_s=25, watts=350, source="NVIDIA H100 PCIe data sheet; PCIe 5 instead of NVLink"),
    _device("h200", "nvidia", "hopper", bf16=989, fp8=1979, fp32=494, hbm_gb=141, hbm_tb_per_s=4.8, link_gb_per_s=450, nic_gb_per_s=50, watts=700, source="NVIDIA H200 SXM data sheet"),
    _device("b200", "nvidia", "blackwell", bf16=2250, fp8=4500, fp4=9000, fp32=1100, hbm_gb=180, hbm_tb_per_s=7.7, link_gb_per_s=900, nic_gb_per_s=50, watts=1000, source="NVIDIA HGX B200 data sheet"),
    _device("b300", "nvidia", "blackwell", bf16=2250, fp8=4500, fp4=13500, fp32=1100, hbm_gb=270, hbm_tb_per_s=7.7, link_gb_per_s=900, nic_gb_per_s=100, watts=1100, source="NVIDIA HGX B300 data sheet"),
    _device("gb200", "nvidia", "blackwell", bf16=2500, fp8=5000, fp4=10000, fp32=1250, hbm_gb=186, hbm_tb_per_s=8.0, link_gb_per_s=900, domain=72, nic_gb_per_s=50, watts=1200, source="NVIDIA GB200 NVL72 data sheet"),
    _device("gb300", "nvidia", "blackwell", bf16=2500, fp8=5000, fp4=15000, fp32=1250, hbm_gb=279, hbm_tb_per_s=8.0, link_gb_per_s=900, domain=72, nic_gb_per_s=100, watts=1400, source="NVIDIA GB300 NVL72 data sheet"),
    _device("rtx-pro-6000", "nvidia", "blackwell-pcie", bf16=504, fp8=1007, fp4=2015, fp32=252, hbm_gb=96, hbm_tb_per_s=1.6, link_gb_per_s=64, nic_gb_per_s=50, watts=600, source="NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet; PCIe 5 instead of NVLink"),
    _device("mi300x", "amd", "cdna3", bf16=1307, fp8=2615, fp32=654, hbm_gb=192, hbm_tb_per_s=5.3, link_gb_per_s=448, nic_gb_per_s=50, watts=750, source="AMD Instinct MI300X data sheet; seven xGMI links of 64 GB/s"),
    _device("mi325x", "amd", "cdna3", bf16=1307, fp8=2615, fp32=654, hbm_gb=256, hbm_tb_per_s=6.0, link_gb_per_s=448, nic_gb_per_s=50, watts=1000, source="AMD Instinct MI325X data sheet"),
    _device("mi350x", "amd", "cdna4", bf16=2307, fp8=4614, fp4=9227, fp32=577, hbm_gb=288, hbm_tb_per_s=8.0, link_gb_per_s=538, nic_gb_per_s=50, watts=1000, source="AMD Instinct MI350X data sheet; seven xGMI links of 76.8 GB/s"),
    _device("mi355x", "amd", "cdna4", bf16=2517, fp8=5033, fp4=10066, fp32=629, hbm_gb=288, hbm_tb_per_s=8.0, link_gb_per_s=538, nic_gb_per_s=50, watts=1400, source="AMD Instinct MI355X data sheet"),
)  # fmt: skip

ACCELERATORS: Mapping[str, Accelerator] = MappingProxyType({device.name: device for device in _DEVICES})
"""Name -> device."""

_FORMS = {"h100-nvl": "h100-pcie", "a100-80gb": "a100", "rtxpro6000": "rtx-pro-6000"}


def find_accelerator(text: str) -> Accelerator | None:
    """The device that a maker's or user's name means (``NVIDIA H200-SXM5-141GB``), None where none is named."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    for form, name in _FORMS.items():
        if form in words:
            return ACCELERATORS[name]
    if re.search(r"rtx-?pro-?6000", words):
        return ACCELERATORS["rtx-pro-6000"]
    found = re.search(r"(?<![a-z0-9])(v100|a100|l40s|h100|h200|gb200|gb300|b200|b300|mi3\d\dx)(?![a-z0-9])", words)
    if found is None or found[1] not in ACCELERATORS:
        return None
    if found[1] == "a100" and "40gb" in words:
        return ACCELERATORS["a100-40gb"]
    if found[1] == "h100" and "pcie" in words:
        return ACCELERATORS["h100-pcie"]
    return ACCELERATORS[found[1]]
