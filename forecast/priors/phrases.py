"""The phrases that a description in plain words may hold, one rule each, tried in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Match = re.Match[str]

NUMBER = r"(\d[\d_,]{0,20}(?:\.\d{1,9})?)"
SCALE = r"\s?(k|m|mn|million|b|bn|billion|t|trillion|thousand)?\b"
_SCALES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "b": 1e9, "bn": 1e9, "billion": 1e9}
_SCALES |= {"t": 1e12, "trillion": 1e12}
_SIZE = r"(?: |-|=|:| of | size | size of | degree | degree of )"
DEVICE = r"(?:nvidia |amd |instinct )*((?:v100|a100|l40s|h100|h200|gb200|gb300|b200|b300|mi3\d\dx|rtx ?pro ?6000)(?:[- ](?:sxm\d?|pcie|nvl|\d+ ?gb))*)s?\b"


@dataclass(frozen=True, slots=True)
class Phrase:
    """One rule.

    Args:
        pattern: what it looks for in lower-case text.
        read: match -> fields of the intent.
    """

    pattern: re.Pattern[str]
    read: Callable[[Match], dict[str, Any]]


def amount(number: str, scale: str | None) -> float:
    """``("4", "m")`` -> 4e6."""
    return float(number.replace(",", "").replace("_", "")) * _SCALES.get(scale or "", 1.0)


def _count(name: str, group: int = 1) -> Callable[[Match], dict[str, Any]]:
    return lambda match: {name: int(amount(match[group], None))}


def _scaled(name: str, *, whole: bool = False) -> Callable[[Match], dict[str, Any]]:
    def read(match: Match) -> dict[str, Any]:
        # Lengths in k are powers of two by custom: 8k is 8192.
        if whole and match[2] == "k" and float(match[1].replace(",", "")) < 2000:
            return {name: int(float(match[1].replace(",", "")) * 1024)}
        value = amount(match[1], match[2])
        return {name: int(value) if whole else value}

    return read


def _fixed(**values: Any) -> Callable[[Match], dict[str, Any]]:
    return lambda _: dict(values)


def _phrase(pattern: str, read: Callable[[Match], dict[str, Any]]) -> Phrase:
    # A number is read whole: never the 5 of 0.5, nor the last groups of one with more digits than any rule takes.
    return Phrase(re.compile(pattern.replace(r"\b(\d", r"(?<![\w.])(?<!\d,)(\d")), read)


def _parallel(words: str, name: str) -> list[Phrase]:
    return [
        _phrase(rf"\b(\d{{1,6}})[- ]way (?:{words})\b", _count(name)),
        _phrase(rf"\b(?:{words}){_SIZE}?\s?(\d{{1,6}})\b", _count(name)),
    ]


def _nodes(match: Match) -> dict[str, Any]:
    return {"gpu_count": int(match[1]) * int(match[2]), "gpus_per_node": int(match[2])}


def _network(match: Match) -> dict[str, Any]:
    bits = amount(match[1], None) * 1e9
    return {"nic_bytes_per_s": bits if match[2] == "gbyte" else bits / 8.0}


def _gpus_of(match: Match) -> dict[str, Any]:
    return {"gpu_count": int(amount(match[1], None)), "accelerator": match[2]}


PHRASES: tuple[Phrase, ...] = (
    _phrase(r"\b(?:micro[- ]?batch(?:es)?|mbs)(?: size)?(?: of)?[ =:]{0,2}(\d{1,6})(?: (?:sequences?|samples?))?\b", _count("micro_batch")),
    _phrase(rf"\b(?:global )?batch(?: size)?(?: of)?[ =:]{{0,2}}{NUMBER}{SCALE} ?tokens\b", _scaled("batch_tokens")),
    _phrase(rf"\b{NUMBER}{SCALE}[- ]?tokens? (?:global )?(?:batch(?:es)?|(?:per|a|each) (?:step|batch))\b", _scaled("batch_tokens")),
    _phrase(rf"\b(?:global )?batch(?: size)?(?: of)?[ =:]{{0,2}}{NUMBER}(k?)\b(?: (?:sequences?|samples?))?", lambda m: {"batch_sequences": int(amount(m[1], m[2]))}),
    _phrase(rf"\bgbs[ =:]{{0,2}}{NUMBER}\b", _count("batch_sequences")),
    _phrase(rf"\b(?:seq(?:uence)?(?:[- ]?len(?:gth)?)?s?|context(?:[- ](?:length|window))?)(?: of)?[ =:]{{0,2}}{NUMBER}{SCALE}(?: tokens)?", _scaled("sequence_length", whole=True)),
    _phrase(rf"\b{NUMBER}{SCALE}[- ](?:token )?(?:context|sequences?|seq(?: ?len(?:gth)?)?)(?: length| window)?\b(?! parallel)", _scaled("sequence_length", whole=True)),
    _phrase(rf"\b(?:for|on|over|through)? ?{NUMBER}{SCALE} ?tokens\b", _scaled("token_budget")),
    _phrase(r"\bwithout sequence[- ]parallel(?:ism)?\b|\bno sequence[- ]parallel(?:ism)?\b", _fixed(sequence_parallel=False)),
    _phrase(r"\b(?:with )?sequence[- ]parallel(?:ism)?\b", _fixed(sequence_parallel=True)),
    *_parallel(r"tensor[- ](?:model[- ])?parallel(?:ism)?|tp", "tensor_parallel"),
    *_parallel(r"pipeline[- ](?:model[- ])?parallel(?:ism)?|pp|pipeline stages", "pipeline_parallel"),
    *_parallel(r"context[- ]parallel(?:ism)?|cp", "context_parallel"),
    *_parallel(r"expert[- ]parallel(?:ism)?|ep", "expert_parallel"),
    _phrase(r"\b(?:without|no) zero\b|\bddp\b|\bplain data[- ]parallel(?:ism)?\b", _fixed(zero_stage=0)),
    _phrase(r"\bzero[- ]?(?:stage[- ]?)?([0-3])\b", _count("zero_stage")),
    _phrase(r"\bfsdp2?\b|\bfully[- ]sharded(?: data[- ]parallel)?\b", _fixed(zero_stage=3)),
    _phrase(r"\bdistributed optimi[sz]er\b", _fixed(zero_stage=1)),
    _phrase(r"\b(\d{1,6}) (?:nodes|servers|hosts)(?: of| with| x)? ?(\d{1,3})(?: ?x)?(?: gpus?\b)?", _nodes),
    _phrase(rf"\b(\d[\d,]{{0,8}}) ?(?:x|×)? ?{DEVICE}(?: gpus?| accelerators?)?", _gpus_of),
    _phrase(r"\b(\d[\d,]{0,8}) (?:gpus|gpu|accelerators|devices)\b", _count("gpu_count")),
    _phrase(rf"\b{DEVICE}(?: gpus?)?", lambda m: {"accelerator": m[1]}),
    _phrase(r"\b(\d{1,3}) (?:gpus )?(?:per|a) (?:node|server|host)\b", _count("gpus_per_node")),
    _phrase(r"\b(?:8[- ]?bit adamw?|adamw?[- ]?8[- ]?bit)\b", _fixed(optimizer="adam8bit")),
    _phrase(r"\b(adamw?|lion|adafactor|muon|momentum|sgd)\b(?: optimi[sz]er)?", lambda m: {"optimizer": m[1].removesuffix("w")}),
    _phrase(r"\b(?:nv|mx)?(fp4|fp8|fp16|fp32|bf16)\b", lambda m: {"precision": m[1]}),
    _phrase(r"\bbfloat16\b|\bmixed[- ]precision\b", _fixed(precision="bf16")),
    _phrase(r"\btf32\b", _fixed(precision="fp32")),
    _phrase(r"\b(?:without|no) (?:activation |gradient )?(?:re-?comput\w+|checkpointing)", _fixed(recompute="none")),
    _phrase(r"\bselective (?:activation )?(?:re-?comput\w+|checkpointing)", _fixed(recompute="selective")),
    _phrase(r"\b(?:with )?(?:full )?(?:(?:activation|gradient) (?:re-?comput\w+|checkpointing)|re-?comput(?:e|ation)\b)", _fixed(recompute="full")),
    _phrase(r"\b(?:without|no) flash[- ]?attention\b", _fixed(flash_attention=False)),
    _phrase(r"\bflash[- ]?attention(?:[- ]?[23])?\b", _fixed(flash_attention=True)),
    _phrase(r"\blora\b(?: adapters?)?", _fixed(method="lora")),
    _phrase(r"\bfull fine-?tun\w+\b|\bpre-?train\w*\b|\bfrom scratch\b", _fixed(method="full")),
    _phrase(r"\b(\d{1,4}) experts\b", _count("experts")),
    _phrase(r"\b(?:top[- ]?(\d{1,3})(?: routing| gating)?|(\d{1,3}) active experts)\b", lambda m: {"experts_active": int(m[1] or m[2])}),
    _phrase(r"\b(\d{1,4}) layers\b|\blayers[ =:]{1,2}(\d{1,4})\b", lambda m: {"layers": int(m[1] or m[2])}),
    _phrase(r"\bhidden(?: size| width)?(?: of)?[ =:]{1,2}(\d{1,7})\b", _count("hidden")),
    _phrase(r"\b(\d{1,4}) (?:attention )?heads\b", _count("heads")),
    _phrase(rf"\bvocab(?:ulary)?(?: size)?(?: of)?[ =:]{{1,2}}{NUMBER}{SCALE}", _scaled("vocabulary", whole=False)),
    _phrase(rf"\b{NUMBER} ?(?:gb/s|gbps|gbit/s|gbit|g|gb) (?:network|nics?|ethernet|infiniband|roce)\b()", _network),
    _phrase(rf"\b{NUMBER}\s?(b|bn|billion|m|million|t|trillion) active(?: parameters| params)?\b", _scaled("active_parameters")),
    _phrase(rf"\b{NUMBER}[\s-]?(b|bn|billion|m|million|t|trillion)\b(?:[- ](?:parameters?|params?|weights))?", _scaled("parameters")),
)  # fmt: skip

FILLERS = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "with",
        "on",
        "in",
        "of",
        "for",
        "to",
        "at",
        "by",
        "using",
        "use",
        "train",
        "training",
        "trained",
        "run",
        "running",
        "job",
        "model",
        "models",
        "transformer",
        "transformers",
        "llm",
        "llms",
        "language",
        "decoder",
        "decoder-only",
        "dense",
        "gpu",
        "gpus",
        "parameter",
        "parameters",
        "params",
        "weights",
        "please",
        "i",
        "we",
        "want",
        "would",
        "like",
        "my",
        "our",
        "it",
        "its",
        "is",
        "are",
        "be",
        "will",
        "that",
        "which",
        "per",
        "each",
        "step",
        "steps",
        "optimizer",
        "optimiser",
        "size",
        "length",
        "over",
        "across",
        "from",
        "then",
        "mixture",
        "moe",
        "large",
        "attention",
        "each's",
        "batch",
        "precision",
        "data",
        "parallel",
    ]
)
"""Words that change nothing."""
