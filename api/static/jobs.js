// The list of jobs: name, rhythm, phase, skill, sparkline.

import { el, svg, keyed, setText, setAttributes } from "./dom.js";
import { jobName, metricLabel, period, skill, whyLabel } from "./format.js";
import { linear } from "./scale.js";

const SPARK = { width: 76, height: 24 };
const $ = (id) => document.getElementById(id);

/** Wire the list; `choose(id)` is called when a job is picked. */
export function installJobs(choose) {
  const list = $("jobs-list");
  list.addEventListener("click", (event) => {
    const row = event.target.closest("button.job");
    if (row) choose(row.parentElement.dataset.key);
  });
  list.addEventListener("keydown", (event) => {
    const rows = [...list.querySelectorAll("button.job")];
    const here = rows.indexOf(document.activeElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || !rows[to]) return;
    event.preventDefault();
    rows[to].focus();
    choose(rows[to].parentElement.dataset.key);
  });
}

function makeRow(job) {
  const name = jobName(job.id);
  const spark = svg("svg", { class: "spark", ...SPARK, viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, "aria-hidden": "true" });
  spark.append(svg("path", { class: "spark-line" }));
  const title = el("span", { class: "job-name" }, el("b", { text: name.short }), el("small", { text: name.from }));
  const facts = el("span", { class: "job-facts" }, el("span", { class: "rhythm" }), el("span", { class: "chip" }), el("span", { class: "badge" }));
  return el("li", {}, el("button", { class: "job", type: "button" }, title, spark, facts));
}

/** The chip of a phase or of an absence: {text, kind}. */
export function phaseChip(job) {
  if (job.phase.absent) return { text: whyLabel(job.phase.why), kind: "none" };
  return { text: job.phase.phase, kind: job.phase.phase };
}

function badge(job) {
  const headline = job.headline_metric && job.metrics[job.headline_metric];
  if (!headline || headline.absent) return { text: "no forecast", kind: "none" };
  if (headline.model === "persistence") return { text: "persistence", kind: "flat" };
  return { text: `skill ${skill(headline.skill.skill)}`, kind: "good" };
}

function updateRow(node, job, state) {
  const button = node.firstChild;
  const [rhythm, chip, mark] = button.querySelector(".job-facts").children;
  setText(rhythm, job.period.absent ? "no period" : period(job.period.period_s));
  const phase = phaseChip(job);
  setAttributes(chip, { class: `chip chip-${phase.kind}` });
  setText(chip, phase.text);
  const { text, kind } = badge(job);
  setAttributes(mark, { class: `badge badge-${kind}`, hidden: job.phase.absent && kind === "none" });
  setText(mark, text);
  const tip = job.headline_metric ? `${job.id}: ${metricLabel(job.headline_metric)} of the last minute` : job.id;
  setAttributes(button, { "aria-current": state.jobId === job.id ? "true" : null, title: tip });
  drawSpark(button.querySelector(".spark-line"), state.sparks.get(job.id));
}

function drawSpark(path, history) {
  if (!history || history.absent || history.at_s.length < 2) return path.setAttribute("d", "");
  const values = history.value.filter((value) => value !== null);
  const top = Math.max(...values, 1e-9);
  const x = linear(history.at_s[0], history.at_s.at(-1), 1, SPARK.width - 1);
  const y = linear(0, top, SPARK.height - 2, 2);
  let pen = "M";
  let d = "";
  history.value.forEach((value, i) => {
    if (value === null) pen = "M";
    else {
      d += `${pen}${x(history.at_s[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
  });
  return path.setAttribute("d", d);
}

/** Draw the list. */
export function drawJobs(state) {
  const { items, total } = state.jobs ?? { items: [], total: 0 };
  const filter = $("jobs-filter");
  filter.hidden = total <= 8;
  const wanted = filter.value.trim().toLowerCase();
  const shown = wanted ? items.filter((job) => job.id.toLowerCase().includes(wanted)) : items;
  setText($("jobs-count"), total > items.length ? `first ${items.length} of ${total}` : String(total));
  $("jobs-empty").hidden = !state.jobs || total > 0;
  keyed($("jobs-list"), shown, (job) => job.id, makeRow, (node, job) => updateRow(node, job, state));
}
