// Live accuracy: skill against persistence and coverage, losers too.

import { el, redrawn } from "./dom.js";
import { jobName, metricLabel, percent, skill } from "./format.js";

const HEADS = ["Series", "Metric", "Model", "Skill against persistence", "80 % holds", "95 % holds", "Scored"];

/** A diverging bar: right of the middle beats persistence, left of it loses. */
function skillCell(value) {
  const size = Math.min(1, Math.abs(value ?? 0));
  const fill = el("i", { class: value < 0 ? "loss" : "gain" });
  fill.style.width = `${size * 50}%`;
  return el("td", { class: "number" }, el("span", { class: "diverge", "aria-hidden": "true" }, fill), el("b", { text: skill(value) }));
}

function coverCell(value, asked) {
  const off = value !== null && Math.abs(value - asked) > 0.06;
  const title = off ? `asked ${percent(asked)}: the interval is too ${value < asked ? "narrow" : "wide"}` : null;
  return el("td", { class: off ? "number off" : "number", title, text: value === null ? "–" : `${percent(value)}${off ? " !" : ""}` });
}

/** What was trained: who serves since when, and the last thing that was done, with its reason. */
function modelLines(models) {
  return models.map((model) => {
    const last = model.events[model.events.length - 1];
    const serves = model.serving ? `${model.serving.slice(0, 8)} serves` : "the built-in models serve";
    const live = model.versions.find((one) => one.version === model.serving)?.live;
    return el("li", {},
      el("b", { text: `${model.name}: ${serves}` }),
      live ? ` live skill ${skill(live.skill)} over ${live.origins.toLocaleString("en")} forecasts.` : "",
      model.refused ? el("span", { class: "off", text: ` Refused: ${model.refused}` }) : "",
      last ? ` Last: ${last.kind.replace("_", " ")} ${last.version.slice(0, 8)} by ${last.by}, ${last.reason}.` : "");
  });
}

/** Draw the table, and the trained models below it. */
export function drawAccuracy(state) {
  const rows = state.accuracy?.items ?? [];
  const models = state.models?.items ?? [];
  redrawn(document.getElementById("accuracy"), [rows, Boolean(state.accuracy), models], () => {
    const trained = models.length ? el("ul", { class: "trained", "aria-label": "Trained models" }, ...modelLines(models)) : "";
    if (!rows.length) {
      const text = state.accuracy ? "Nothing has been scored yet: a forecast is scored once its horizon has passed." : "";
      return el("div", {}, el("p", { class: "empty", text }), trained);
    }
    const head = el("tr", {}, ...HEADS.map((name, i) => el("th", { scope: "col", class: i > 2 ? "number" : "", text: name })));
    const body = rows.map((row) =>
      el("tr", {},
        el("th", { scope: "row", title: row.subject, text: row.metric === "congestion" ? row.subject : jobName(row.subject).short }),
        el("td", { text: metricLabel(row.metric) }),
        el("td", { text: `${row.model} ${row.model_version}` }),
        skillCell(row.skill), coverCell(row.coverage80, 0.8), coverCell(row.coverage95, 0.95),
        el("td", { class: "number", text: row.scored.toLocaleString("en") }),
      ),
    );
    const table = el("table", {}, el("thead", {}, head), el("tbody", {}, ...body));
    return el("div", {}, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Live accuracy" }, table), trained);
  });
}
