// What is slow and sick: findings with their evidence, worst first.

import { el, redrawn, setText } from "./dom.js";
import { duration } from "./format.js";

const SHOWN = 12;
const UNKNOWN = 4;
const MARKS = { critical: "✗", warning: "!", info: "·" };
const $ = (id) => document.getElementById(id);

function card(one, now_s, mine) {
  const name = [one.kind.replaceAll("_", " "), one.detail].filter(Boolean).join(" ");
  return el("li", { class: one.severity === "info" ? "" : "bad", title: one.to_do },
    el("b", { text: `${MARKS[one.severity]} ${name}` }),
    el("span", { text: `${one.entity}: ${one.evidence}` }),
    el("small", { text: `${mine ? "this job · " : ""}for ${duration(Math.max(0, now_s - one.since_s))} · ${one.to_do}` }),
  );
}

/** Findings of the selected job first; the panel is hidden until something was looked at. */
export function drawSick(state) {
  const told = state.findings;
  $("sick-panel").hidden = !told || told.looked_at_s === null;
  if ($("sick-panel").hidden) return;
  const bad = told.items.filter((one) => one.severity !== "info").length;
  setText($("sick-count"), told.total ? `${told.total} found${bad ? `, ${bad} of weight` : ""}` : `nothing found on ${told.seen.gpu ?? 0} GPUs`);
  redrawn($("sick"), [state.jobId, told.items.map((one) => [one.kind, one.entity, one.detail, one.evidence]), told.unknown.length, Math.floor(state.now_s / 30)], () => {
    const mine = (one) => one.jobs.includes(state.jobId);
    const sorted = [...told.items.filter(mine), ...told.items.filter((one) => !mine(one))];
    const rest = sorted.length > SHOWN ? [el("li", {}, el("span", { text: `and ${told.total - SHOWN} more: gpucast findings` }))] : [];
    const unknown = told.unknown.slice(0, UNKNOWN).map((one) => el("li", {}, el("span", { text: `unknown: ${one.reason}` })));
    return el("ul", { class: "facts" }, ...sorted.slice(0, SHOWN).map((one) => card(one, state.now_s, mine(one))), ...rest, ...unknown);
  });
}
