"""Links as API models."""

from __future__ import annotations

from api.http import schemas
from api.http.render.base import absent, number, path, rfc3339, skill
from forecast.predict.types import Absence, LinkForecast


def link_fields(link: LinkForecast) -> dict[str, object]:
    """What both link models share."""
    return {
        "id": str(link.link),
        "device": link.link.device,
        "port": link.link.port,
        "tier": link.link.tier,
        "made_at": rfc3339(link.made_at_s),
        "made_at_s": link.made_at_s,
        "data_at_s": link.data_at_s,
        "age_s": number(link.age_s),
        "capacity_bytes_per_s": number(link.capacity_bytes_per_s),
        "use_ratio": number(link.use_ratio),
        "threshold_ratio": link.threshold_ratio,
        "horizon_s": link.horizon_s,
        "probability": absent(link.probability) if isinstance(link.probability, Absence) else float(link.probability),
        "onset_at": None if number(link.onset_s) is None else rfc3339(float(link.onset_s or 0.0)),
        "onset_s": number(link.onset_s),
        "overload_s": number(link.overload_s),
        "causes": [
            schemas.CauseOut(job=str(cause.job), share_ratio=number(cause.share_ratio)) for cause in link.causes
        ],
        "skill": None if link.skill is None else skill(link.skill),
        "reason": link.reason,
    }


def link_summary(link: LinkForecast) -> schemas.LinkSummary:
    """A link in short."""
    return schemas.LinkSummary.model_validate(link_fields(link))


def link_congestion(link: LinkForecast) -> schemas.LinkCongestion:
    """A link with the quantile path of its use."""
    return schemas.LinkCongestion.model_validate({**link_fields(link), "path": path(link.path)})
