// The top bar: state, sources, freshness, mode, clock; the banner when the service is gone.

import { el, setText, setAttributes, redrawn } from "./dom.js";
import { duration, percent, utc } from "./format.js";
import { isHot, ordered } from "./links.js";
import { ageNow } from "./job.js";

const $ = (id) => document.getElementById(id);

/** Draw bar, banner and the page's title. */
export function drawTop(state) {
  drawState(state);
  const { health } = state;
  $("banner").hidden = !state.down;
  document.body.classList.toggle("down", Boolean(state.down));
  if (state.down) {
    const age = state.lastOk_ms ? duration((performance.now() - state.lastOk_ms) / 1000) : null;
    setText($("banner"), `The service does not answer: ${state.down}. ${age ? `What you see is ${age} old.` : "Nothing has been read yet."} Trying again.`);
  }
  drawTitle(state);
  if (!health) return;
  setText($("top-clock"), `${utc(state.now_s)} UTC`);
  setText($("top-sources"), `${health.sources_up} of ${health.sources_total} sources up`);
  setAttributes($("top-sources"), { class: health.sources_up < health.sources_total ? "quiet warn" : "quiet", "aria-label": `${health.sources_up} of ${health.sources_total} sources up, show them` });
  const ages = (state.jobs?.items ?? []).map((job) => ageNow(job, state.now_s));
  setText($("top-age"), ages.length ? `newest data ${duration(Math.min(...ages))} old` : "no data yet");
  $("top-age").classList.toggle("warn", ages.length > 0 && Math.min(...ages) > 30);
  setText($("top-mode"), `mode ${health.mode} · ${health.backend.replaceAll("_", " ")}`);
  drawSources(health, state.now_s);
}

function drawState({ health, down, paused }) {
  const [text, kind] = down
    ? ["Not reachable", "bad"]
    : !health
      ? ["Connecting", "wait"]
      : !health.ready
        ? [`Not ready: ${health.reasons.join("; ") || "starting"}`, "wait"]
        : paused
          ? ["Paused", "wait"]
          : ["Ready", "good"];
  setText($("top-state"), text);
  setAttributes($("top-state"), { class: `pill pill-${kind}`, title: text });
}

function drawTitle(state) {
  const hot = ordered(state.links?.items ?? []).find(isHot);
  const title = state.down ? "⚠ not reachable · gpucast" : hot ? `● ${hot.id} ${percent(hot.probability)} · gpucast` : "gpucast";
  if (document.title !== title) document.title = title;
}

function drawSources(health, now_s) {
  const seen = health.targets.map((one) => [one.source, one.up, one.findings, one.last_error, one.interval_s, one.refresh_s, one.samples]);
  redrawn($("sources"), [seen, health.missing_fields], () => {
    const rows = health.targets.map((one) => {
      const findings = Object.entries(one.findings).map(([problem, count]) => `${problem.replaceAll("_", " ")} × ${count}`).join(", ");
      const rate = one.refresh_s !== null && one.refresh_s > one.interval_s * 1.5 ? `read every ${duration(one.interval_s)}, changes every ${duration(one.refresh_s)}` : `every ${duration(one.interval_s)}`;
      const state = one.up ? `${one.samples} samples, ${rate}` : `down${one.last_ok_s ? `, last answer ${utc(one.last_ok_s)} UTC` : ""}: ${one.last_error}`;
      return el("li", { class: one.up ? "" : "bad" }, el("b", { text: `${one.up ? "✓" : "✗"} ${one.source}` }), el("span", { text: state }), findings && el("small", { text: findings }));
    });
    const missing = Object.entries(health.missing_fields).map(([metric, cost]) => el("li", {}, el("b", { text: metric }), el("span", { text: cost })));
    return [
      el("h2", { text: "Sources" }),
      rows.length ? el("ul", {}, ...rows) : el("p", { class: "empty", text: "No source is set." }),
      missing.length && el("h2", { text: "Not given by any source" }),
      missing.length && el("ul", {}, ...missing),
    ].filter(Boolean);
  });
}
