"""The estimate as users meet it: HTTP, command line, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi import FastAPI

from api.cli import main
from api.estimates import answer_intent, asked
from api.http.app import create_app
from api.http.schemas import IntentIn
from telemetry.errors import ConfigError
from tests.kit.fake_reads import FakeReads
from tests.kit.http_client import call

URL = "/v1/intents:estimate"
SENTENCE = "a 10 B transformer with Adam on 64 H100, ZeRO-2, tensor parallel 4, sequence 4096, batch 4 M tokens"


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """The application over a stand-in."""
    return create_app(FakeReads())


def test_words_and_fields_give_the_same_answer(app: FastAPI) -> None:
    """What was read from text is what the fields say."""
    fields = {"parameters": "10B", "optimizer": "adam", "gpu_count": 64, "accelerator": "h100", "zero_stage": 2, "tensor_parallel": 4, "sequence_length": 4096, "batch_tokens": "4M"}  # fmt: skip
    words, named = call(app, "POST", URL, json={"text": SENTENCE}), call(app, "POST", URL, json=fields)
    assert (words.status_code, named.status_code) == (200, 200)
    assert words.json()["figures"] == named.json()["figures"]
    assert words.json()["exchanges"] == named.json()["exchanges"]
    assert named.json()["understood"] == []


def test_fields_add_to_words(app: FastAPI) -> None:
    """Both ways may be mixed where they agree."""
    answer = call(app, "POST", URL, json={"text": "a 7 B model on 8 H100", "precision": "fp8", "gpu_count": 8})
    assert answer.status_code == 200
    assert "precision" not in {item["name"] for item in answer.json()["assumed"]}


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, "empty"),
        ({"text": ""}, "empty"),
        ({"text": "soup"}, "nothing"),
        ({"text": "7 B on 8 H100", "gpu_count": 16}, "gpu_count"),
        ({"parameters": 1e10}, "number of GPUs"),
        ({"parameters": "ten", "gpu_count": 8}, "parameters"),
        ({"parameters": -1, "gpu_count": 8}, "parameters"),
        ({"parameters": True, "gpu_count": 8}, "parameters"),
        ({"parameters": 1e10, "gpu_count": 0}, "gpu_count"),
        ({"parameters": 1e10, "gpu_count": 8.5}, "gpu_count"),
        ({"parameters": 1e10, "gpus": 8}, "gpus"),
        ({"parameters": 1e10, "gpu_count": 8, "accelerator": "abacus"}, "abacus"),
        ({"parameters": 1e10, "gpu_count": 8, "zero_stage": 7}, "zero_stage"),
        ({"text": "x" * 3000}, "text"),
        ([], "body"),
    ],
)
def test_bad_intents_are_named(app: FastAPI, body: object, names: str) -> None:
    """422 with a sentence about the field."""
    answer = call(app, "POST", URL, json=body)
    assert answer.status_code == 422
    assert answer.json()["type"] in ("urn:gpucast:problem:bad-intent", "urn:gpucast:problem:bad-parameter")
    assert names in answer.json()["detail"]


def test_the_command_prints_what_it_understood_and_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader sees phrases, assumptions, unread words, figures with reasons, exchanges and the source."""
    assert main(["estimate", *SENTENCE.split(), "by", "friday"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "'zero-2' -> zero_stage 2",
        "recompute: none",
        "friday",
        "memory total",
        "ZeRO-2",
        "reduce_scatter",
        "not MLPerf results",
    ):
        assert part in shown


def test_json_is_what_the_api_answers(app: FastAPI, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs get one document from both."""
    assert main(["estimate", "--json", SENTENCE]) == 0
    assert json.loads(capsys.readouterr().out) == call(app, "POST", URL, json={"text": SENTENCE}).json()


def test_a_job_that_does_not_fit_ends_with_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    """So that a script may stop before it submits."""
    assert main(["estimate", "a 70 B model on 8 H100"]) == 4
    assert "may not fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ["model: llama3 8b\ngpu_count: 64\ntoken_budget: 15T\n", '{"model": "llama3 8b", "gpu_count": 64}']
)
def test_files_are_read_as_yaml_or_json(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Either form; what is said beside the file counts as well."""
    path = tmp_path / "intent.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["estimate", "--file", str(path), "FSDP on H200", "--json"]) in (0, 4)
    answer = json.loads(capsys.readouterr().out)
    assert "ZeRO-3" in answer["figures"]["memory_weights"]["because"]
    assert ("training_time" in answer["figures"]) == ("token_budget" in text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu_count: 64\nparametres: 10B\n", "parametres"),
        ("- 1\n- 2\n", "names with values"),
        ("a: [1, 2\n", "neither YAML nor JSON"),
        ("", "names with values"),
        ("a: &x [1]\nb: [*x, *x]\n", "aliases"),
        ("gpu_count: [8]\n", "gpu_count"),
        ("\x00\x01", "neither YAML nor JSON"),
        ("[" * 5000, "nested"),
        ("a: 2026-13-45\n", "neither YAML nor JSON"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, names: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence and exit code 2."""
    path = tmp_path / "intent.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["estimate", "--file", str(path)]) == 2
    assert names in capsys.readouterr().err


def test_files_that_cannot_be_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing, a folder, too large, not text: a sentence each."""
    large, binary = tmp_path / "large", tmp_path / "binary"
    large.write_bytes(b"a" * 2_000_000)
    binary.write_bytes(b"\xff\xfe\xfa")
    for path, names in (
        (tmp_path / "none", "not a file"),
        (tmp_path, "not a file"),
        (large, "larger"),
        (binary, "neither"),
    ):
        assert main(["estimate", "--file", str(path)]) == 2
        assert names in capsys.readouterr().err
    assert main(["estimate"]) == 2
    assert "nothing to estimate" in capsys.readouterr().err


def test_a_document_from_elsewhere_is_checked() -> None:
    """The same checks for whoever calls from Python."""
    with pytest.raises(ConfigError, match="colour"):
        asked({"colour": "red"})
    assert answer_intent(IntentIn(model="llama3 8b", gpu_count=8)).figures["memory_total"].middle > 1e9
