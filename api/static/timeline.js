// Past phases, the next ones foreseen and the predicted next lull, on the time axis of the fan chart above.

import { el, svg, setAttributes, keyed, redrawn } from "./dom.js";
import { linear } from "./scale.js";
import { MARGIN } from "./chart.js";
import { duration } from "./format.js";

export const PHASES = ["compute", "communicate", "load", "checkpoint", "evaluate", "init", "idle"];
const HEIGHT = 30;

export class Timeline {
  #base = 0;
  #model = null;

  constructor(host) {
    this.host = host;
    this.clipRect = svg("rect", { y: 0, height: HEIGHT });
    this.flow = svg("g", {});
    this.spans = svg("g", {});
    this.lull = svg("rect", { class: "lull", y: 3, height: HEIGHT - 6, fill: "url(#hatch)", visibility: "hidden" });
    this.lullText = svg("text", { class: "lull-text", y: HEIGHT / 2, dy: "0.34em" });
    this.whisker = svg("path", { class: "whisker" });
    this.ahead = svg("g", {});
    this.flow.append(this.spans, this.ahead, this.lull, this.lullText, this.whisker);
    this.now = svg("line", { class: "now-line", y1: 0, y2: HEIGHT });
    const stroke = svg("path", { d: "M-1 1L1 -1M0 7L7 0M6 8L8 6", class: "hatch-stroke" });
    const hatch = svg("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse" }, stroke);
    const clip = svg("clipPath", { id: "timeline-clip" }, this.clipRect);
    const clipped = svg("g", { "clip-path": "url(#timeline-clip)" }, this.flow);
    const title = svg("text", { class: "strip-title", x: MARGIN.left - 8, y: HEIGHT / 2, dy: "0.34em", text: "phase" });
    this.root = svg("svg", { role: "img", height: HEIGHT }, svg("defs", {}, hatch, clip), title, clipped, this.now);
    this.legend = el("ul", { class: "legend", "aria-label": "Legend" });
    this.next = el("ul", { class: "next-phases", "aria-label": "Next phases" });
    host.append(this.root, this.legend, this.next);
    new ResizeObserver(() => this.#model && this.draw(this.#model)).observe(host);
  }

  /** `model`: {phases, next, lull, past_s, future_s, now_s}; lull null when none is foreseen, `next` what is foreseen of phases. */
  draw(model) {
    this.#model = model;
    const width = this.host.clientWidth;
    if (!width) return;
    this.#base = model.now_s;
    const right = width - MARGIN.right;
    this.x = linear(-model.past_s, model.future_s, MARGIN.left, right);
    setAttributes(this.root, { width, viewBox: `0 0 ${width} ${HEIGHT}` });
    setAttributes(this.clipRect, { x: MARGIN.left, width: Math.max(0, right - MARGIN.left) });
    setAttributes(this.now, { x1: this.x(0), x2: this.x(0) });
    const place = (at) => this.x(at - model.now_s);
    const seen = model.phases.filter((span) => span.end_s > model.now_s - model.past_s - 10);
    const make = () => svg("g", {}, svg("rect", { y: 3, height: HEIGHT - 6 }, svg("title", {})), svg("text", { y: HEIGHT / 2, dy: "0.34em" }));
    keyed(this.spans, seen, (span) => `${span.start_s.toFixed(2)}${span.phase}`, make, (node, span) => {
      const [from, to] = [Math.max(place(span.start_s), -50), place(span.end_s)];
      const [rect, text] = node.children;
      setAttributes(rect, { class: `phase-${span.phase}`, x: from.toFixed(1), width: Math.max(0.5, to - from).toFixed(1) });
      rect.firstChild.textContent = `${span.phase}, ${duration(span.end_s - span.start_s)}`;
      const fits = to - from > span.phase.length * 7 + 10;
      setAttributes(text, { class: `on-${span.phase}`, x: ((Math.max(from, MARGIN.left) + to) / 2).toFixed(1) });
      text.textContent = fits ? span.phase : "";
    });
    this.#drawNext(model, place);
    this.#drawLull(model, place);
    const names = PHASES.filter((name) => seen.some((span) => span.phase === name));
    redrawn(this.legend, [names, Boolean(model.lull)], () => [
      ...names.map((name) => el("li", {}, el("i", { class: `swatch phase-${name}` }), name)),
      model.lull && el("li", {}, el("i", { class: "swatch hatched" }), "predicted next lull"),
    ]);
    const spoken = seen.slice(-3).map((span) => `${span.phase} ${duration(span.end_s - span.start_s)}`).join(", ");
    const ahead = model.lull ? `; next lull in ${duration(Math.max(0, model.lull.start_s - model.now_s))}` : "";
    this.root.setAttribute("aria-label", spoken ? `Last phases: ${spoken}${ahead}` : "No phases are known");
    this.tick(model.now_s);
  }

  // A light bar where it lasts, a whisker over its start; a sentence also when it lies beyond the view.
  #drawNext({ next, now_s }, place) {
    const foreseen = next.filter((phase) => !phase.absent && phase.start_s + phase.length_s > now_s);
    const make = () => svg("g", {}, svg("rect", { y: 3, height: HEIGHT - 6 }), svg("path", { class: "whisker" }));
    keyed(this.ahead, foreseen, (phase) => phase.phase, make, (node, phase) => {
      const [from, to] = [place(phase.start_s), place(phase.start_s + phase.length_s)];
      const [rect, path] = node.children;
      setAttributes(rect, { class: `ahead phase-${phase.phase}`, x: from.toFixed(1), width: Math.max(2, to - from).toFixed(1) });
      path.setAttribute("d", `M${place(phase.start_low_s).toFixed(1)} ${HEIGHT / 2}H${place(phase.start_high_s).toFixed(1)}`);
    });
    const ahead = (at) => duration(Math.max(0, at - now_s));
    const lines = foreseen.map((phase) => [
      phase.phase,
      ` in ${ahead(phase.start_s)} (${ahead(phase.start_low_s)} to ${ahead(phase.start_high_s)}), lasting ${duration(phase.length_s)} · ${phase.rule}`,
      phase.evidence,
    ]);
    redrawn(this.next, lines, () => lines.map(([name, when, why]) =>
      el("li", { title: why }, el("i", { class: `swatch ahead phase-${name}` }), `${name}${when}`)));
  }

  #drawLull({ lull }, place) {
    const visibility = lull ? "visible" : "hidden";
    setAttributes(this.lull, { visibility });
    setAttributes(this.whisker, { visibility });
    this.lullText.textContent = "";
    if (!lull) return;
    const [from, to] = [place(lull.start_s), place(lull.end_s)];
    setAttributes(this.lull, { x: from.toFixed(1), width: Math.max(1, to - from).toFixed(1) });
    if (to - from > 40) {
      setAttributes(this.lullText, { x: ((from + to) / 2).toFixed(1) });
      this.lullText.textContent = "lull";
    }
    const [early, late] = [place(lull.start_low_s ?? lull.start_s), place(lull.start_high_s ?? lull.start_s)];
    const middle = HEIGHT / 2;
    const mark = (x) => `M${x.toFixed(1)} ${middle - 5}V${middle + 5}`;
    this.whisker.setAttribute("d", `${mark(early)}${mark(late)}M${early.toFixed(1)} ${middle}H${late.toFixed(1)}`);
  }

  /** Let time pass. */
  tick(now_s) {
    if (this.x) this.flow.setAttribute("transform", `translate(${(this.x(0) - this.x(now_s - this.#base)).toFixed(2)} 0)`);
  }
}
