"""Sightings folded into allocations: who had which GPU from when to when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from features.store.spans import HEARTBEAT_S, INF, SILENCE_S, SILENT_SIGHTINGS, Device, Span
from features.store.standing import Standing
from telemetry.ids import GpuId, JobId
from telemetry.jobs import Allocation
from telemetry.samples import Sighting, SightingsAt


class AllocationBook:
    """Folds sightings as they come and answers who had what at any moment.

    Sightings may repeat and may come late, as long as a late one does not contradict the middle of a stretch
    that is already known (such a one is ignored). A sighting with ``known=False`` neither extends nor ends
    anything: the GPU is busy, but the source lost its mapping.
    """

    def __init__(self) -> None:
        self._devices: dict[GpuId, Device] = {}
        self._standing: dict[int, Standing] = {}
        """By the identity of their ``base``, which they keep alive."""

    def add(self, sightings: Iterable[Sighting]) -> list[Sighting]:
        """Fold in sightings; gives back those that a store must keep to rebuild the book later.

        These are every change and one heartbeat each ``HEARTBEAT_S``: after a crash an allocation may end that
        much early, and the next sighting continues it.
        """
        return self.add_all([sightings if isinstance(sightings, SightingsAt) else tuple(sightings)])

    def add_all(self, groups: Sequence[Sequence[Sighting]]) -> list[Sighting]:
        """``add`` of several groups at once; those that tell nothing but a later time cost next to nothing."""
        other = [group for group in groups if len(group) and not self._stands(group)]
        for group in other:  # what shares a device with these is to be folded with them in one order of time
            for sighting in group.base if isinstance(group, SightingsAt) else group:
                self._release(self._devices.get(sighting.gpu))
        quick = [group for group in groups if isinstance(group, SightingsAt) and self._stands(group)]
        keep = self._fold([group for group in groups if not self._stands(group)]) if other else []
        for group in sorted(quick, key=lambda group: group.at_s):
            standing = self._standing.get(id(group.base))
            if standing is None or not standing.advance(group.at_s):
                keep += self._fold([group])
        return keep

    def _stands(self, group: Sequence[Sighting]) -> bool:
        return isinstance(group, SightingsAt) and id(group.base) in self._standing

    def _release(self, device: Device | None) -> None:
        if device is not None and device.standing is not None:
            del self._standing[id(device.standing.base)]
            device.standing.dissolve()

    def _fold(self, groups: Sequence[Sequence[Sighting]]) -> list[Sighting]:
        """Every sighting on its own, in order of time."""
        moments: dict[tuple[GpuId, float], list[Sighting]] = {}
        for group in groups:
            for sighting in group:
                if sighting.known:
                    moments.setdefault((sighting.gpu, sighting.at_s), []).append(sighting)
        keep: list[Sighting] = []
        for (gpu, at_s), seen in sorted(moments.items(), key=lambda item: item[0][1]):
            device = self._devices.setdefault(gpu, Device())
            self._release(device)
            self._observe(device, at_s, seen, keep)
        for group in groups:
            if isinstance(group, SightingsAt):
                self._stand(group)
        return keep

    def _stand(self, seen: SightingsAt) -> None:
        """From now on this group is followed as one, where that is exact."""
        if any(sighting.known and self._devices[sighting.gpu].standing for sighting in seen.base):
            return
        standing = Standing.of(seen, self._devices)
        if standing is not None:
            self._standing[id(seen.base)] = standing

    def _settle(self) -> None:
        for standing in self._standing.values():
            standing.settle()

    def _observe(self, device: Device, at_s: float, seen: list[Sighting], keep: list[Sighting]) -> None:
        gap_s = at_s - device.seen_s
        jobs = {sighting.job for sighting in seen}
        ended = [span for span in device.live if span.to_s < at_s and span.job not in jobs]
        for span in ended:
            span.ended_s = at_s
            device.live.remove(span)
        keep.extend([sighting for sighting in seen if self._extend(device, at_s, sighting) or bool(ended)])
        if 0 < gap_s < INF:
            device.silence_s = max(SILENCE_S, SILENT_SIGHTINGS * gap_s)
        device.seen_s = max(device.seen_s, at_s)

    def _extend(self, device: Device, at_s: float, sighting: Sighting) -> bool:
        """Put one owner's sighting into its span; True when a store must keep it."""
        if sighting.job is None:
            return False
        for span in (*device.live, *reversed(device.spans)):
            near = span.from_s - device.silence_s <= at_s <= span.to_s + device.silence_s
            if span.job != sighting.job or not near or at_s > span.ended_s:
                continue
            changed = at_s < span.from_s
            if at_s >= span.to_s and span.sharers[-1][1] != sighting.sharers:
                span.sharers.append((at_s, sighting.sharers))
                changed = True
            span.from_s = min(span.from_s, at_s)
            span.to_s = max(span.to_s, at_s)
            if changed or at_s - span.stored_s >= HEARTBEAT_S:
                span.stored_s = max(span.stored_s, at_s)
                return True
            return False
        span = Span(sighting.job, at_s, at_s, sharers=[(at_s, sighting.sharers)], stored_s=at_s)
        device.live = [other for other in device.live if other.job != sighting.job]
        device.live.append(span)
        device.spans.append(span)
        device.spans.sort(key=lambda span: span.from_s)
        return True

    def unstored(self) -> list[Sighting]:
        """Last sightings that ``add`` did not give back yet; for a clean shutdown."""
        self._settle()
        tail = []
        for gpu, device in self._devices.items():
            for span in device.spans:
                if span.to_s > span.stored_s:
                    tail.append(Sighting(gpu, span.to_s, span.job, sharers=span.sharers[-1][1]))
                    span.stored_s = span.to_s
        return tail

    def rows(self) -> list[tuple[str, str, float, float, float, int]]:
        """Every stretch as (gpu, job, from_s, to_s, ended_s, sharers), for ``restore``."""
        self._settle()
        return [
            (str(gpu), str(span.job), span.from_s, span.to_s, span.ended_s, span.sharers[-1][1])
            for gpu, device in self._devices.items()
            for span in device.spans
        ]

    def restore(self, rows: Iterable[tuple[str, str, float, float, float, int]]) -> None:
        """Take in what ``rows`` gave; the past of ``sharers`` is reduced to its last value."""
        for gpu, job, from_s, to_s, ended_s, sharers in rows:
            span = Span(JobId.parse(job), from_s, to_s, ended_s, [(from_s, sharers)], to_s)
            device = self._devices.setdefault(GpuId.parse(gpu), Device())
            self._release(device)
            device.spans.append(span)
            device.spans.sort(key=lambda span: span.from_s)
            device.seen_s = max(device.seen_s, to_s)
            if ended_s == INF:
                device.live.append(span)

    def allocations(self, as_of_s: float, window_s: float) -> list[Allocation]:
        """Stretches that touch ``[as_of_s - window_s, as_of_s]``, as known at ``as_of_s``, sorted by job and GPU.

        ``to_s`` is None while the job still has the GPU at ``as_of_s``.
        """
        self._settle()
        found = []
        for gpu, device in self._devices.items():
            for span in device.spans:
                last_s = min(span.to_s, as_of_s)
                if span.from_s > as_of_s or last_s < as_of_s - window_s:
                    continue
                lasts = as_of_s < span.ended_s and as_of_s - last_s <= device.silence_s
                to_s = None if lasts else last_s
                found.append(Allocation(span.job, gpu, span.from_s, to_s, span.sharers_at(last_s)))
        return sorted(found, key=lambda a: (a.job, a.gpu, a.from_s))

    def forget(self, before_s: float) -> None:
        """Drop stretches that were over before ``before_s``."""
        for key in [key for key, standing in self._standing.items() if standing.at_s < before_s]:
            self._standing.pop(key).dissolve()
        self._settle()
        for gpu in list(self._devices):
            device = self._devices[gpu]
            device.spans = [span for span in device.spans if span.to_s >= before_s]
            device.live = [span for span in device.live if span.to_s >= before_s]
            if not device.spans and device.seen_s < before_s:
                del self._devices[gpu]
