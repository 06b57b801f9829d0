"""Made-up trained models."""

from __future__ import annotations

from api.model_keeper import LiveSkill, ModelsView
from forecast.predict.worker import TrainedState
from models.store_manifest import Figure, Manifest
from models.store_records import Event, Pointer, Shelf

CHAMPION, CHALLENGER = "0a1b2c3d4e5f6071", "9f8e7d6c5b4a3921"


def made_up_models(now_s: float) -> ModelsView:
    """One model with a champion and a challenger that lost."""
    versions = tuple(_manifest(version, skill, now_s - age_s) for version, skill, age_s in (
        (CHALLENGER, 0.41, 3600.0), (CHAMPION, 0.44, 90_000.0),
    ))  # fmt: skip
    why = "skill over persistence +0.440 (95 % +0.392 .. +0.481); better than each beyond doubt"
    pointer = Pointer(CHAMPION, "f" * 64, now_s - 86_400, why, ("",))
    events = (
        Event(now_s - 90_000, "trained", CHAMPION, "served+gbdt: skill over persistence 0.440"),
        Event(now_s - 86_400, "promoted", CHAMPION, why),
        Event(now_s - 3600, "refused", CHALLENGER, "not better beyond doubt than champion " + CHAMPION),
    )
    shelf = Shelf("jobs-1s", pointer, versions, {}, {}, events)
    live = {CHAMPION: LiveSkill(CHAMPION, 0.38, 420, 12)}
    return ModelsView((shelf,), (TrainedState("jobs-1s", CHAMPION),), live)


def _manifest(version: str, skill: float, created_s: float) -> Manifest:
    figures = {"challenger": {"skill": Figure(skill, skill - 0.05, skill + 0.04)}}
    data = {"sha256": "a" * 64, "source": "store", "from_s": created_s - 604_800, "until_s": created_s, "jobs": 31}
    judged = {"windows": 40, "series": 90, "blocks": 31, "embargo_steps": 60, "beside": ""}
    code = {"gpucast": "0.1.0", "sha256": "c" * 64}
    tried = {"persistence": 1.0, "served+gbdt": 0.57, "built-in": 0.61}
    return Manifest(version=version, name="jobs-1s", recipe="served+gbdt", parameters={}, seed=0, code=code, data=data,
                    figures=figures, judged=judged, tried=tried, created_s=created_s)  # fmt: skip
