// Scales, ticks and quantiles: the arithmetic of the charts.

/** Maps [from, to] to [low, high]. */
export function linear(from, to, low, high) {
  const slope = (high - low) / (to - from || 1);
  const map = (value) => low + (value - from) * slope;
  map.invert = (position) => from + (position - low) / (slope || 1);
  return map;
}

/** About `count` round ticks inside [from, to]. */
export function ticks(from, to, count) {
  const rough = (to - from) / Math.max(1, count);
  if (!(rough > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough - 1e-12);
  const out = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i += 1) out.push(Number((i * step).toPrecision(12)));
  return out;
}

const TIME_STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800];

/** Round offsets from now, in seconds. */
export function timeTicks(past, future, count) {
  const step = TIME_STEPS.find((s) => (past + future) / s <= count) ?? 3600;
  const out = [];
  for (let t = -Math.floor(past / step) * step; t <= future; t += step) out.push(t);
  return out;
}

/** The quantile `level` of column `step`; levels between two known ones are interpolated. */
export function quantileAt(path, level, step) {
  const { levels, values } = path;
  const above = levels.findIndex((known) => known >= level - 1e-9);
  if (above < 0) return values[levels.length - 1][step];
  if (above === 0 || Math.abs(levels[above] - level) < 1e-9) return values[above][step];
  const share = (level - levels[above - 1]) / (levels[above] - levels[above - 1]);
  const [low, high] = [values[above - 1][step], values[above][step]];
  return low === null || high === null ? null : low + share * (high - low);
}

/** How many steps a path has. */
export const stepsOf = (path) => path.values[0]?.length ?? 0;

/** Time of a step. */
export const timeOf = (path, step) => path.start_s + (step + 1) * path.step_s;

/** An axis from data: from zero when that wastes little, else padded; kept while it still fits, so it does not jitter. */
export function valueDomain(low, high, kept, ceiling = Infinity) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return kept ?? [0, 1];
  if (low === 0 && high === 0) return [0, 1];
  const span = high - low;
  const floor = low >= 0 && low < 0.6 * high ? 0 : low - Math.max(span * 0.25, Math.abs(high) * 0.01, 1e-9);
  const roof = Math.min(ceiling, high + Math.max((high - floor) * 0.08, 1e-9));
  if (kept && floor >= kept[0] - 1e-9 && roof <= kept[1] * 1.0001 && roof - floor > 0.6 * (kept[1] - kept[0])) return kept;
  return [floor, Math.max(roof, floor + 1e-9)];
}
