"""Who becomes champion: only what beats the champion and persistence on windows that came after all it learnt from.

There is no way around the gate; a rollback goes to a former champion, or to the built-in models.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from models.promotion_scores import PERSISTENCE, Losses, interval, ratios, skill_difference
from models.store import KEPT_BEFORE, ModelStore
from models.store_files import MANIFEST, digest, read_npz
from models.store_manifest import CHALLENGER, Figure, Manifest
from models.store_records import Event, Pointer
from telemetry.errors import IncompatibleModel, ModelError

LOSSES = "losses.npz"
BUILT_IN = "built-in"
LEAST_BLOCKS = 8
"""Fewer jobs or windows than this cannot say that something is better."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a challenger may become champion.

    Args:
        promote: it may.
        reason: sentences with the figures.
        gains: rival -> skill of the challenger minus its skill, paired, with 95 % interval.
    """

    promote: bool
    reason: str
    gains: dict[str, Figure]


def judge(losses: Losses, rival: str, *, seed: int = 0) -> Verdict:
    """Hold a challenger against persistence and one rival.

    Args:
        losses: of ``challenger``, ``persistence`` and the rival.
        rival: name among the losses; the champion's version, or ``built-in``.
        seed: of the bootstrap.
    """
    against = [PERSISTENCE] if rival == PERSISTENCE else [PERSISTENCE, rival]
    missing = [name for name in (CHALLENGER, *against) if name not in losses.loss]
    if missing:
        return Verdict(False, f"{', '.join(missing)} was not scored beside it", {})
    if losses.blocks < LEAST_BLOCKS:
        sentence = f"it was judged on {losses.blocks} separate jobs or windows, and {LEAST_BLOCKS} are needed"
        return Verdict(False, sentence, {})
    gains = {name: skill_difference(losses, CHALLENGER, name, seed=seed) for name in against}
    words = [
        f"skill over {_called(name)} {gain.value:+.3f} (95 % {gain.low:+.3f} .. {gain.high:+.3f})"
        for name, gain in gains.items()
    ]
    lost = [name for name, gain in gains.items() if not gain.low > 0]
    end = (
        f"not better beyond doubt than {' and '.join(_called(name) for name in lost)}: the lower end must be above 0"
        if lost
        else "better than each beyond doubt"
    )
    return Verdict(not lost, f"{'; '.join(words)}; {end}", gains)


def _called(rival: str) -> str:
    return rival if rival == PERSISTENCE else "the built-in models" if rival == BUILT_IN else f"champion {rival}"


def verdict_of(store: ModelStore, name: str, version: str) -> Verdict:
    """What the gate says of a version that lies in the store.

    Raises:
        IncompatibleModel: the version is damaged or missing.
    """
    folder, manifest = store.checked(name, version)
    quarantined = store.quarantined(name).get(version)
    if quarantined:
        return Verdict(False, f"it is in quarantine: {quarantined}", {})
    champion = _champion(store, name)
    if champion == version:
        return Verdict(False, "it is champion already", {})
    if LOSSES not in manifest.files:
        raise IncompatibleModel(f"{folder / LOSSES} is missing", mend="Train the model again with gpucast train")
    rival = champion or BUILT_IN
    losses = _losses(folder)
    if rival not in losses.loss:
        sentence = f"it was never judged beside the champion {rival}; run gpucast train again, which judges it beside"
        return Verdict(False, sentence, {})
    return judge(losses, rival, seed=manifest.seed)


def _losses(folder: Path) -> Losses:
    path = folder / LOSSES
    try:
        return Losses.from_arrays(read_npz(path))
    except (KeyError, ValueError) as error:
        raise IncompatibleModel(f"{path} holds no losses ({error})") from error


def _champion(store: ModelStore, name: str) -> str:
    pointer = store.pointer(name)
    return pointer.version if pointer else ""


def promote(store: ModelStore, name: str, version: str, *, now_s: float, by: str = "person") -> Verdict:
    """Make a version champion if the gate lets it through; either way the events tell of it.

    Raises:
        IncompatibleModel: the version is damaged or missing.
        ModelError: another process works on the model.
    """
    with store.writing(name):
        verdict = verdict_of(store, name, version)
        if not verdict.promote:
            store.tell(name, Event(now_s, "refused", version, verdict.reason, by))
            return verdict
        _point(store, name, version, now_s, verdict.reason, by)
    return verdict


def _point(store: ModelStore, name: str, version: str, now_s: float, why: str, by: str) -> None:
    before = store.pointer(name)
    kept = (*before.before, before.version)[-KEPT_BEFORE:] if before else ("",)
    sha = digest(store.folder(name, version) / MANIFEST)
    store.point(name, Pointer(version, sha, now_s, why, kept))
    store.tell(name, Event(now_s, "promoted", version, why, by))


def rollback(store: ModelStore, name: str, *, now_s: float, why: str, by: str = "person", only: str = "") -> str:
    """Go back to the newest former champion that still holds; gives its version, empty for the built-in models.

    Args:
        store: of the models.
        name: of the model.
        now_s: Unix seconds.
        why: told in the events.
        by: ``person`` or ``service``.
        only: do nothing unless this version is champion; gives the present champion then.

    Raises:
        ModelError: there is no champion to go back from, or another process works on the model.
        IncompatibleModel: what may not serve is unknown.
    """
    with store.writing(name):
        pointer = store.pointer(name)
        if only and (pointer is None or pointer.version != only):
            return pointer.version if pointer else ""
        if pointer is None or not pointer.version:
            raise ModelError(f"{name} has no champion; the built-in models serve", mend="Nothing to go back from")
        before = [version for version in pointer.before if version != pointer.version]
        target = ""
        while before:
            target = before.pop()
            if not target or _holds(store, name, target):
                break
            target = ""
        sha = digest(store.folder(name, target) / MANIFEST) if target else ""
        store.point(name, Pointer(target, sha, now_s, why, tuple(before)))
        store.tell(name, Event(now_s, "rolled_back", pointer.version, why, by))
    return target


def _holds(store: ModelStore, name: str, version: str) -> bool:
    if version in store.quarantined(name):
        return False
    try:
        store.checked(name, version)
    except IncompatibleModel:
        return False
    return True


def quarantine(store: ModelStore, name: str, version: str, *, now_s: float, why: str, by: str = "service") -> str:
    """Bar a version from serving and go back if it is champion; gives the champion after that."""
    with store.writing(name):
        if version not in store.quarantined(name):
            store.quarantine(name, version, why)
            store.tell(name, Event(now_s, "quarantined", version, why, by))
    return rollback(store, name, now_s=now_s, why=why, by=by, only=version)


def figures_of(losses: Losses, seed: int) -> dict[str, dict[str, Figure]]:
    """Loss against persistence's and skill of every model among the losses, with 95 % intervals."""
    names = sorted(losses.loss)
    table = ratios(losses, names, seed=seed)
    return {
        name: {"rel_loss": interval(table[:, k]), "skill": interval(1.0 - table[:, k])} for k, name in enumerate(names)
    }


def differences(first: Manifest, second: Manifest) -> list[tuple[str, str, str]]:
    """(what, in the first, in the second) of everything two versions differ in, in a fixed order."""
    left, right = _flat("", first.as_dict()), _flat("", second.as_dict())
    skipped = ("files.", "format")
    keys = [key for key in dict.fromkeys((*left, *right)) if not key.startswith(skipped)]
    return [(key, left.get(key, "-"), right.get(key, "-")) for key in keys if left.get(key) != right.get(key)]


def _flat(prefix: str, value: object) -> dict[str, str]:
    if isinstance(value, dict):
        found: dict[str, str] = {}
        for key, inner in value.items():
            found |= _flat(f"{prefix}.{key}" if prefix else str(key), inner)
        return found
    if isinstance(value, list) and len(value) == 3 and prefix.startswith("figures."):
        shown = ["-" if part is None else f"{part:.4g}" for part in value]
        return {prefix: f"{shown[0]} ({shown[1]} .. {shown[2]})"}
    return {prefix: f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)}
