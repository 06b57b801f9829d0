// Advice: what, why, what it will bring, what became of it; approve or reject where the mode allows.

import { el, keyed, setText, redrawn } from "./dom.js";
import { duration, jobName, percent } from "./format.js";

const $ = (id) => document.getElementById(id);
const VERB = { approve: "Approve", reject: "Reject", rollback: "Roll back" };
const DONE = new Set(["expired", "rejected", "rolled_back"]);

function value(number, metric) {
  if (number === null) return "–";
  return metric.endsWith("_ratio") ? percent(number) : String(Number(number.toPrecision(3)));
}

/** An interval bar from 0 to the larger of baseline and high, with median and (once graded) the measured value. */
function effectBar({ predicted, grade }) {
  const top = Math.max(predicted.baseline ?? 0, predicted.high ?? 0, grade?.measured ?? 0) * 1.05 || 1;
  const place = (node, from, to) => {
    node.style.left = `${(from / top) * 100}%`;
    if (to !== undefined) node.style.width = `${((to - from) / top) * 100}%`;
    return node;
  };
  const marks = [
    place(el("i", { class: "range" }), predicted.low ?? 0, predicted.high ?? 0),
    place(el("i", { class: "middle" }), predicted.median ?? 0),
    place(el("i", { class: "before" }), predicted.baseline ?? 0),
  ];
  if (grade && grade.measured !== null) marks.push(place(el("i", { class: "measured" }), grade.measured));
  return el("div", { class: "effect-bar", "aria-hidden": "true" }, ...marks);
}

function effect(advice) {
  const { predicted, grade } = advice;
  if (!predicted) return null;
  const name = predicted.metric.replace(/_ratio$/, "").replaceAll("_", " ");
  const show = (number) => value(number, predicted.metric);
  const words = `${name}: ${show(predicted.baseline)} now, ${show(predicted.median)} expected (80 %: ${show(predicted.low)} … ${show(predicted.high)})`;
  const parts = [el("p", { class: "effect", text: words }), effectBar(advice)];
  if (grade) parts.push(el("p", { class: `grade grade-${grade.verdict}` }, el("b", { text: grade.verdict }), ` ${grade.reason}`));
  return parts;
}

function body(advice, act) {
  const what = advice.job ? jobName(advice.job).short : "cluster";
  const action = Object.entries(advice.action).map(([name, v]) => `${name.replace(/_s$/, "").replaceAll("_", " ")} ${typeof v === "number" && name.endsWith("_s") ? duration(v) : v}`);
  const title = el("div", { class: "card-head" }, el("b", { text: `${advice.kind} ${what}` }), el("span", { class: `chip status-${advice.status}`, text: advice.status.replaceAll("_", " ") }));
  const where = [advice.link, ...action].filter(Boolean).join(" · ");
  const plan = advice.plan && el("details", { class: "plan" }, el("summary", { text: `Plan (${advice.plan.backend})` }), el("pre", { text: advice.plan.steps.join("\n"), tabindex: "0" }));
  const receipt = advice.receipt && el("p", { class: "sub", text: `${advice.receipt.applied ? "Applied" : "Not applied"}: ${advice.receipt.detail}` });
  const buttons = advice.verbs.map((verb) =>
    el("button", { type: "button", class: verb === "approve" ? "primary" : "", "aria-label": `${VERB[verb]} ${advice.kind} of ${what}`, onclick: (event) => act(advice, verb, event.currentTarget), text: VERB[verb] }),
  );
  const foot = el("div", { class: "card-foot" }, ...buttons, el("small", { class: "when" }));
  return [title, el("p", { class: "sub", text: where }), el("p", { text: advice.reason }), effect(advice), receipt, plan, foot];
}

function when(advice, now_s) {
  const age = `${duration(now_s - advice.made_at_s)} ago`;
  if (advice.status !== "open") return `${age} · mode ${advice.mode}`;
  const left = advice.expires_at_s - now_s;
  return `${age} · ${left > 0 ? `expires in ${duration(left)}` : "expired"} · mode ${advice.mode}`;
}

export class AdvicePanel {
  constructor(act) {
    this.act = act;
  }

  /** Draw the newest twenty. */
  draw(state) {
    const items = state.advice?.items ?? [];
    const open = items.filter((advice) => advice.status === "open").length;
    setText($("advice-count"), open ? `${open} open` : "none open");
    $("advice-empty").hidden = !state.advice || items.length > 0;
    keyed($("advice-list"), items.slice(0, 20), (advice) => advice.id, () => el("li", { class: "card" }), (node, advice) => {
      const { verbs, status, plan, grade, receipt, reason, predicted } = advice;
      const open_ = node.querySelector("details")?.open;
      redrawn(node, [verbs, status, plan?.steps, grade, receipt, reason, predicted], () => body(advice, this.act).flat());
      if (open_ && node.querySelector("details")) node.querySelector("details").open = true;
      node.classList.toggle("done", DONE.has(status));
      setText(node.querySelector(".when"), when(advice, state.now_s));
    });
  }
}
