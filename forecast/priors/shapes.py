"""Shapes of transformers: layers, widths, experts; from a published name, from what the user says, or from a size."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only transformer.

    Args:
        layers: transformer blocks.
        hidden: width of the residual stream.
        heads: attention heads.
        kv_heads: key and value heads; fewer than ``heads`` with grouped-query attention.
        feed_forward: inner width of one (expert's) feed-forward block.
        vocabulary: tokens.
        gated: three feed-forward matrices (SwiGLU) instead of two.
        tied: input and output embeddings are one matrix.
        experts: feed-forward blocks to choose from in a layer; 1 is a dense model.
        experts_active: how many of them a token passes.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int
    gated: bool = True
    tied: bool = False
    experts: int = 1
    experts_active: int = 1

    @property
    def attention_parameters(self) -> float:
        """Weights of one layer's attention."""
        kv = self.hidden * self.kv_heads / self.heads
        return 2.0 * self.hidden * self.hidden + 2.0 * self.hidden * kv

    @property
    def expert_parameters(self) -> float:
        """Weights of one feed-forward block."""
        return (3.0 if self.gated else 2.0) * self.hidden * self.feed_forward

    @property
    def embedding_parameters(self) -> float:
        """Weights of the embeddings, input and output."""
        return (1.0 if self.tied else 2.0) * self.vocabulary * self.hidden

    @property
    def parameters(self) -> float:
        """All weights; norms and biases are left out (under 0.1 %)."""
        return (
            self.layers * (self.attention_parameters + self.experts * self.expert_parameters)
            + self.embedding_parameters
        )

    @property
    def active_parameters(self) -> float:
        """Weights that one token passes."""
        return (
            self.layers * (self.attention_parameters + self.experts_active * self.expert_parameters)
            + self.embedding_parameters
        )


PUBLISHED: Mapping[str, ModelShape] = MappingProxyType(
    {
        "gpt2 small": ModelShape(12, 768, 12, 12, 3072, 50257, gated=False, tied=True),
        "gpt2 medium": ModelShape(24, 1024, 16, 16, 4096, 50257, gated=False, tied=True),
        "gpt2 xl": ModelShape(48, 1600, 25, 25, 6400, 50257, gated=False, tied=True),
        "gpt3 175b": ModelShape(96, 12288, 96, 96, 49152, 50257, gated=False, tied=True),
        "llama2 7b": ModelShape(32, 4096, 32, 32, 11008, 32000),
        "llama2 13b": ModelShape(40, 5120, 40, 40, 13824, 32000),
        "llama2 70b": ModelShape(80, 8192, 64, 8, 28672, 32000),
        "llama3 8b": ModelShape(32, 4096, 32, 8, 14336, 128256),
        "llama3 70b": ModelShape(80, 8192, 64, 8, 28672, 128256),
        "llama3 405b": ModelShape(126, 16384, 128, 8, 53248, 128256),
        "mistral 7b": ModelShape(32, 4096, 32, 8, 14336, 32000),
        "mixtral 8x7b": ModelShape(32, 4096, 32, 8, 14336, 32000, experts=8, experts_active=2),
        "mixtral 8x22b": ModelShape(56, 6144, 48, 8, 16384, 32768, experts=8, experts_active=2),
    }
)
"""Shapes as the models' own papers and configuration files give them."""

_LADDER = (
    (1.24e8, 12, 768),
    (3.5e8, 24, 1024),
    (1.3e9, 24, 2048),
    (2.7e9, 32, 2560),
    (6.7e9, 32, 4096),
    (13.0e9, 40, 5120),
    (33.0e9, 60, 6656),
    (70.0e9, 80, 8192),
    (175.0e9, 96, 12288),
    (405.0e9, 126, 16384),
    (1.0e12, 128, 25600),
)
"""(parameters, layers, hidden) of published dense models; sizes between them are interpolated."""


def published_shape(text: str) -> tuple[str, ModelShape] | None:
    """Name and shape of the published model that a text names, such as ``Llama 3.1 8B``; None where it names none."""
    plain = re.sub(r"[^a-z0-9]+", "", re.sub(r"(\d)\.\d(?!\d*x?\d*b)", r"\1", text.lower()))
    for name, shape in PUBLISHED.items():
        if name.replace(" ", "") in plain:
            return name, shape
    return None


def shape_of_size(parameters: float, vocabulary: int = 50_000) -> ModelShape:
    """A usual shape for a dense model of this size: layers from published models, width from the size itself.

    Raises:
        ValueError: outside 10 million to 10 trillion parameters.
    """
    if not 1e7 <= parameters <= 1e13:
        raise ValueError(f"a shape for {parameters:.3g} parameters is not known; sizes from 1e7 to 1e13 are")
    place = math.log(parameters)
    below = max((rung for rung in _LADDER if math.log(rung[0]) <= place), default=_LADDER[0])
    above = min((rung for rung in _LADDER if math.log(rung[0]) >= place), default=_LADDER[-1])
    gap = math.log(above[0]) - math.log(below[0])
    share = (place - math.log(below[0])) / gap if gap else 0.0
    layers = max(1, round(math.exp((1 - share) * math.log(below[1]) + share * math.log(above[1]))))
    # 12 h^2 weights a layer and one V h embedding: solve 12 L h^2 + V h = N for h, then round.
    root = (-vocabulary + math.sqrt(vocabulary**2 + 48.0 * layers * parameters)) / (24.0 * layers)
    multiple = 64 if root >= 512 else 8
    hidden = max(16, round(root / multiple) * multiple)
    heads = max(1, hidden // (64 if hidden < 2048 else 128))
    return ModelShape(layers, hidden, heads, heads, 4 * hidden, vocabulary, gated=False, tied=True)
