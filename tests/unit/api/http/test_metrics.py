"""``/metrics``, read back by prometheus_client's own parser."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from api.http.metrics import exposition
from api.http.settings import HttpSettings
from api.reads import Health
from tests.kit.fake_reads import FakeReads


class OddReads(FakeReads):
    """Counters with names that break the format, or clash, and a source with quotes in its address."""

    def health(self) -> Health:
        """Health with odd names."""
        health = super().health()
        odd = replace(health.targets[0], source='http://a"b\\c\nd/metrics', findings={"torn": 2})
        counters = {
            "gpucast_ok_total": 3.0,
            'gpucast_labelled_total{kind="a\\"b"}': 4.0,
            "gpucast bad name": 1.0,
            'gpucast_open{x="': 1.0,
            "gpucast_jobs": 99.0,
            "gpucast_nan": float("nan"),
        }
        return replace(health, targets=(odd, *health.targets[1:]), counters=counters)


def _samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_page_parses_and_every_family_has_help_and_type() -> None:
    """Each family appears once, with HELP and TYPE before its samples."""
    text = exposition(FakeReads(), HttpSettings(version="1.2.3"))
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation and family.type in {"gauge", "counter"} for family in families)
    assert _samples(text)[("gpucast_build_info", (("version", "1.2.3"),))] == 1.0


def test_sources_findings_and_skill_are_there_with_their_labels() -> None:
    """What an alert rule needs."""
    samples = _samples(exposition(FakeReads(), HttpSettings()))
    assert samples[("gpucast_target_up", (("source", "http://gpu-12:9400/metrics"),))] == 0.0
    assert (
        samples[("gpucast_findings_total", (("problem", "timeout"), ("source", "http://gpu-12:9400/metrics")))] == 19.0
    )
    skill = (
        "gpucast_forecast_skill_ratio",
        (("job", "slurm:81234"), ("metric", "gpu_power_watts"), ("model", "lightgbm")),
    )
    assert 0.0 < samples[skill] < 1.0
    absent = [labels for (name, labels) in samples if name == "gpucast_forecast_absent"]
    assert {dict(labels)["why"] for labels in absent} == {"idle", "stale", "sampling_too_coarse"}


def test_odd_names_are_escaped_or_left_out_and_never_break_the_page() -> None:
    """A counter that clashes with a family of ours does not overwrite it."""
    samples = _samples(exposition(OddReads(), HttpSettings()))
    names = {name for name, _ in samples}
    assert samples[("gpucast_ok_total", ())] == 3.0
    assert samples[("gpucast_labelled_total", (("kind", 'a"b'),))] == 4.0
    assert samples[("gpucast_jobs", ())] == 6.0
    assert ("gpucast_target_up", (("source", 'http://a"b\\c\nd/metrics'),)) in samples
    assert not names & {"gpucast_open", "gpucast_nan", "gpucast"}


def test_the_number_of_series_is_bounded_and_what_is_left_out_is_counted() -> None:
    """Ten thousand jobs do not make a page that Prometheus cannot take."""
    samples = _samples(exposition(FakeReads(), HttpSettings(max_metric_series=3)))
    assert sum(name == "gpucast_forecast_skill_ratio" for name, _ in samples) == 3
    assert samples[("gpucast_series_omitted", (("family", "gpucast_forecast_skill_ratio"),))] == 9.0
