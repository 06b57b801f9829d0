// The selected job: tiles, fan chart, what is served and how well, phases, one iteration.

import { el, keyed, setText, setAttributes, redrawn } from "./dom.js";
import { FanChart } from "./chart.js";
import { Timeline } from "./timeline.js";
import { DutyChart } from "./duty.js";
import { duration, jobName, metricLabel, metricRank, percent, period, skill, whyLabel } from "./format.js";
import { phaseChip } from "./jobs.js";
import { scheduledLine } from "./cluster.js";

export const VIEWS = {
  "1 min": { past_s: 40, future_s: 20 },
  "3 min": { past_s: 110, future_s: 70 },
  "12 min": { past_s: 600, future_s: 120 },
};
const PILLS = 4;
const $ = (id) => document.getElementById(id);

/** Metrics that have a forecast first, in the order of telling much. */
function inOrder(metrics) {
  const rank = (key) => (metrics[key].absent ? 1000 : 0) + metricRank(key);
  return Object.keys(metrics).sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/** Now in the clock of the data: the newest sample's time, plus its age, plus what passed since. */
export const sourceNow = (forecast, now_s) => forecast.data_at_s + (forecast.age_s ?? 0) + (now_s - forecast.made_at_s);
/** Age of the data now. */
export const ageNow = (forecast, now_s) => Math.max(0, (forecast.age_s ?? 0) + now_s - forecast.made_at_s);

export class JobPanel {
  constructor(actions) {
    this.actions = actions;
    this.fan = new FanChart($("fan"), { name: "Forecast" });
    this.timeline = new Timeline($("timeline"));
    this.duty = new DutyChart($("duty"));
    this.tiles = ["Iteration", "Phase", "Next lull", "Skill", "Coverage", "Data age", "GPU memory"].map((name) => {
      const tile = el("div", { class: "tile" }, el("span", { class: "tile-name", text: name }), el("b", {}), el("small", {}));
      $("tiles").append(tile);
      return tile;
    });
    $("metric").addEventListener("click", (event) => this.#pick(event, actions.chooseMetric));
    $("metric-more").addEventListener("change", (event) => event.target.value && actions.chooseMetric(event.target.value));
    $("view").addEventListener("click", (event) => this.#pick(event, actions.chooseView));
  }

  #pick(event, act) {
    const button = event.target.closest("button");
    if (button) act(button.dataset.key);
  }

  /** Draw everything about the selected job. */
  draw(state) {
    const job = state.jobs?.items.find((one) => one.id === state.jobId);
    const forecast = state.forecast?.id === state.jobId ? state.forecast : null;
    if (!job) return this.#blank(state);
    const now = sourceNow(job, state.now_s);
    this.now = now;
    this.offset = now - state.now_s;
    this.#header(job, state);
    this.#segments(job, state);
    const metric = state.metric;
    // The list tells at once why there is none; the path itself comes with the forecast.
    const brief = job.metrics[metric];
    const found = forecast?.metrics[metric] ?? (brief?.absent ? brief : null);
    const path = found && !found.absent ? found : null;
    this.#tiles(job, path, state);
    this.#served(path, found, state);
    const span = VIEWS[state.view];
    const history = state.history?.id === job.id && state.history?.metric === metric ? state.history : null;
    const unit = path?.unit ?? history?.unit ?? "";
    const absence = found?.absent ? { title: `No forecast: ${whyLabel(found.why)}`, reason: found.reason } : null;
    this.fan.name = `${metricLabel(metric ?? "")} of ${jobName(job.id).short}`;
    this.fan.draw({ history, path, unit, ...span, now_s: now, absence, key: `${job.id} ${metric} ${state.view}` });
    const phases = state.phases?.id === job.id ? state.phases : null;
    const lull = phases && !phases.next_lull.absent ? phases.next_lull : null;
    const next = Object.values(phases?.next_phases ?? {});
    this.timeline.draw({ phases: phases?.phases ?? [], next, lull, ...span, now_s: now });
    const why = job.period.absent ? { title: "No iteration", reason: job.period.reason } : { title: "No duty cycle", reason: `None is kept for ${metricLabel(metric ?? "")}.` };
    this.duty.draw(forecast?.duty?.[metric] ?? null, unit, why);
  }

  #blank(state) {
    setText($("job-title"), state.jobs ? "No job yet" : "Loading");
    setText($("job-sub"), state.jobs ? "The first forecast appears about 30 s after the first samples." : "");
    this.fan.draw({ history: null, path: null, unit: "", ...VIEWS["1 min"], now_s: state.now_s, absence: null, key: "" });
  }

  #header(job, state) {
    const name = jobName(job.id);
    setText($("job-title"), name.short);
    const parts = [name.from, `${job.gpu_count} GPUs`, job.nodes.join(", ")];
    if (job.shared) parts.push("shares GPUs: figures are estimates");
    setText($("job-sub"), parts.filter(Boolean).join(" · "));
    const line = scheduledLine(job);
    setText($("job-scheduled"), line);
    $("job-scheduled").hidden = !line;
    $("fan").classList.toggle("stale", ageNow(job, state.now_s) > 30);
  }

  #segments(job, state) {
    const make = () => el("button", { type: "button" });
    const fillIn = (chosen, label) => (node, key) => {
      setText(node, label(key));
      setAttributes(node, { "aria-pressed": String(key === chosen) });
    };
    const metrics = inOrder(job.metrics);
    const pills = metrics.length > PILLS + 1 ? metrics.slice(0, PILLS) : metrics;
    const rest = metrics.slice(pills.length);
    keyed($("metric"), pills, (key) => key, make, fillIn(state.metric, metricLabel));
    $("metric-more").hidden = !rest.length;
    redrawn($("metric-more"), rest, () => [
      el("option", { value: "", text: `${rest.length} more` }),
      ...rest.map((key) => el("option", { value: key, text: metricLabel(key) })),
    ]);
    $("metric-more").value = rest.includes(state.metric) ? state.metric : "";
    setAttributes($("metric-more"), { class: rest.includes(state.metric) ? "more chosen" : "more" });
    keyed($("view"), Object.keys(VIEWS), (key) => key, make, fillIn(state.view, (key) => key));
  }

  #tiles(job, path, state) {
    const absentTile = (thing) => ["–", whyLabel(thing.why)];
    const beat = job.period.absent
      ? absentTile(job.period)
      : [period(job.period.period_s), job.period.source === 'telemetry'
          ? `${job.period.votes} of ${job.period.voters} agree`
          : `from the job's own ${job.period.source}`];
    const chip = phaseChip(job);
    const phase = job.phase.absent
      ? absentTile(job.phase)
      : [chip.text, `${percent(job.phase.probabilities[job.phase.phase])} sure`];
    const served = path
      ? [skill(path.skill.skill), `${path.model} ${path.model_version}`]
      : ["–", "nothing served"];
    const cover = path
      ? [`${percent(path.skill.coverage80).replace(/\s%/, "")} · ${percent(path.skill.coverage95)}`, "asked 80 · 95 %"]
      : ["–", ""];
    const data = [duration(ageNow(job, state.now_s)), `every ${duration(job.step_s)}`];
    const texts = [beat, phase, this.#lull(job), served, cover, data, this.#memory(job.memory)];
    texts.forEach(([value, note], i) => {
      setText(this.tiles[i].children[1], value);
      setText(this.tiles[i].children[2], note);
    });
    const beaten = path ? `${path.model}: 1 - its loss / the loss of persistence, here and lately` : null;
    setAttributes(this.tiles[3], { title: beaten });
    setAttributes(this.tiles[1].children[1], { class: `phase-text text-${chip.kind}` });
    setAttributes(this.tiles[1], { title: job.phase.absent ? job.phase.reason : job.phase.evidence });
    setAttributes(this.tiles[0], { title: job.period.absent ? job.period.reason : `90 % between ${period(job.period.low_s)} and ${period(job.period.high_s)}` });
    setAttributes(this.tiles[5], { class: ageNow(job, state.now_s) > 30 ? "tile warn" : "tile" });
  }

  #lull(job) {
    if (job.next_lull.absent) return ["–", whyLabel(job.next_lull.why)];
    const { start_s, end_s, start_low_s, start_high_s } = job.next_lull;
    const length = `for ${duration(end_s - start_s)}`;
    if (this.now >= start_s && this.now <= end_s) return ["now", `${duration(end_s - this.now)} left`];
    if (this.now > end_s) return ["passed", length];
    const half = start_high_s !== null && start_low_s !== null ? ` ± ${duration((start_high_s - start_low_s) / 2)}` : "";
    return [`in ${duration(start_s - this.now)}`, `${length}${half ? `,${half}` : ""}`];
  }

  #memory(memory) {
    setAttributes(this.tiles[6], { title: memory.reason });
    if (memory.absent) return ["–", whyLabel(memory.why)];
    const chance = memory.out_of_memory_probability;
    setAttributes(this.tiles[6], { class: chance >= 0.1 ? "tile warn" : "tile" });
    const full = memory.full_in_s === null ? memory.trend : `${memory.trend}, full in ${duration(memory.full_in_s)}`;
    return [`${(memory.headroom_bytes / 1e9).toFixed(1)} GB left`, `${full} · ${percent(chance)} in ${duration(memory.horizon_s)}`];
  }

  #served(path, found, state) {
    const signature = [path?.model, path?.model_version, path?.reason, path?.skill.scored, found?.reason, state.metric];
    redrawn($("served"), signature, () => {
      const key = ["actual", "median", "50", "80", "95"].map((name) =>
        el("li", {}, el("i", { class: `swatch key-${name}` }), /^\d/.test(name) ? `${name} %` : name),
      );
      const legend = el("ul", { class: "legend", "aria-label": "Legend" }, ...key);
      if (!path) return [legend];
      const words = `${path.model} ${path.model_version}: ${path.reason}. ${path.skill.scored.toLocaleString("en")} pairs scored.`;
      return [legend, el("p", { class: "sub", text: words })];
    });
  }

  /** Let time pass between polls; `now_s` is the service's wall time. */
  tick(now_s) {
    if (this.offset === undefined) return;
    this.now = now_s + this.offset;
    this.fan.tick(this.now);
    this.timeline.tick(this.now);
    this.duty.tick(this.now);
  }
}
