"""Shapes and FLOPs against what the models' papers print."""

from __future__ import annotations

import pytest

from forecast.priors.hardware import ACCELERATORS, find_accelerator
from forecast.priors.shapes import PUBLISHED, published_shape, shape_of_size
from forecast.priors.work import flops_per_token


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("gpt2 small", 0.124),
        ("gpt2 xl", 1.557),
        ("gpt3 175b", 174.6),
        ("llama2 7b", 6.738),
        ("llama2 13b", 13.016),
        ("llama2 70b", 68.98),
        ("llama3 8b", 8.030),
        ("llama3 70b", 70.55),
        ("llama3 405b", 405.85),
        ("mistral 7b", 7.242),
        ("mixtral 8x7b", 46.70),
        ("mixtral 8x22b", 140.6),
    ],
)
def test_published_shapes_have_the_published_number_of_weights(name: str, billions: float) -> None:
    """Within 1 %: norms, biases and position embeddings are left out."""
    assert PUBLISHED[name].parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_mixture_of_experts_uses_a_part_of_its_weights() -> None:
    """Mixtral 8x7B is printed with 12.9 B active weights."""
    assert PUBLISHED["mixtral 8x7b"].active_parameters / 1e9 == pytest.approx(12.9, rel=0.01)


@pytest.mark.parametrize("size", [1e7, 1.3e8, 1e9, 7e9, 10e9, 50e9, 200e9, 1e12, 1e13])
def test_a_shape_made_up_for_a_size_has_that_size(size: float) -> None:
    """The width is solved for, so a made-up shape is never another model's."""
    assert shape_of_size(size).parameters == pytest.approx(size, rel=0.12)


def test_sizes_that_no_model_has_are_refused() -> None:
    """The sentence names the range."""
    with pytest.raises(ValueError, match="1e7 to 1e13"):
        shape_of_size(5.0)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Llama 3.1 8B", "llama3 8b"),
        ("meta-llama/Llama-2-70b-hf", "llama2 70b"),
        ("Mixtral-8x22B-v0.1", "mixtral 8x22b"),
        ("GPT-3 175B", "gpt3 175b"),
    ],
)
def test_names_are_found_as_people_write_them(text: str, name: str) -> None:
    """Hyphens, releases and owners do not matter."""
    found = published_shape(text)
    assert found is not None
    assert found[0] == name


@pytest.mark.parametrize("text", ["llama", "some 8b model", "", "gpt"])
def test_half_a_name_is_no_name(text: str) -> None:
    """Nothing is guessed from a family's name alone."""
    assert published_shape(text) is None


def test_flops_of_a_token_follow_the_paper() -> None:
    """PaLM's appendix B: 6 N + 12 L h s for full attention; the causal half of it is 6 L h s. GPT-3: 6 x 175e9 and little more."""
    shape = PUBLISHED["gpt3 175b"]
    token = flops_per_token(shape, shape.parameters, 2048)
    assert token == pytest.approx(6 * 174.6e9 + 6 * 96 * 12288 * 2048, rel=0.005)


def test_frozen_weights_need_a_third_less() -> None:
    """LoRA computes no gradients of the frozen weights."""
    shape = PUBLISHED["llama2 70b"]
    full = flops_per_token(shape, shape.parameters, 128)
    assert flops_per_token(shape, shape.parameters, 128, lora=True) / full == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA H200-SXM5-141GB", "h200"),
        ("NVIDIA Blackwell GPU (GB200)", "gb200"),
        ("NVIDIA Blackwell Ultra GPU (B300-SXM-270GB)", "b300"),
        ("AMD Instinct MI325X 256GB HBM3E DLC", "mi325x"),
        ("NVIDIA RTX Pro 6000 SE PCIe 96GB", "rtx-pro-6000"),
        ("A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
    ],
)
def test_devices_are_found_under_their_makers_names(text: str, name: str) -> None:
    """As nvidia-smi and published systems name them."""
    device = find_accelerator(text)
    assert device is not None
    assert device.name == name


@pytest.mark.parametrize("text", ["", "GTX 1080", "H1000", "a100x", "TPU v5p"])
def test_unknown_devices_are_not_guessed(text: str) -> None:
    """A device that is not in the table is none."""
    assert find_accelerator(text) is None


@pytest.mark.parametrize("device", ACCELERATORS.values(), ids=lambda device: device.name)
def test_narrower_numbers_are_never_slower(device) -> None:
    """A precision that a device lacks falls back to a wider one."""
    peaks = [device.peak(word) for word in ("fp32", "bf16", "fp8", "fp4")]
    assert peaks == sorted(peaks)
