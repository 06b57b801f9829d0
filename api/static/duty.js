// One iteration: mean use around the circle with its 10..90 % band, and where the job is now.

import { el, svg, setAttributes, setText, keyed } from "./dom.js";
import { linear, ticks } from "./scale.js";
import { MARGIN } from "./chart.js";
import { period, tickLabels } from "./format.js";

export class DutyChart {
  #duty = null;
  #unit = null;

  constructor(host) {
    this.host = host;
    this.grid = svg("g", { class: "grid" });
    this.times = svg("g", { class: "times" });
    this.band = svg("path", { class: "band band-80" });
    this.mean = svg("path", { class: "median" });
    this.hand = svg("line", { class: "now-line" });
    this.root = svg("svg", { role: "img" }, this.grid, this.times, this.band, this.mean, this.hand);
    this.absence = el("div", { class: "absence", hidden: true }, el("p", {}, el("strong", {}), el("span", {})));
    host.append(this.root, this.absence);
    new ResizeObserver(() => this.#unit !== null && this.draw(this.#duty, this.#unit, null)).observe(host);
  }

  /** `duty` from the API or null; `unit` of its metric; `absence` {title, reason} when there is none. */
  draw(duty, unit, absence) {
    this.#duty = duty;
    this.#unit = unit;
    this.absence.hidden = Boolean(duty);
    if (absence) {
      setText(this.absence.firstChild.firstChild, absence.title);
      setText(this.absence.firstChild.lastChild, absence.reason);
    }
    const { clientWidth: width, clientHeight: height } = this.host;
    setAttributes(this.root, { width, height, viewBox: `0 0 ${width} ${height}`, visibility: duty ? "visible" : "hidden" });
    if (!duty || !width) return;
    this.bottom = height - MARGIN.bottom;
    this.x = linear(0, 1, MARGIN.left, width - MARGIN.right);
    const top = Math.max(...duty.high.filter((v) => v !== null)) * 1.05 || 1;
    const y = linear(0, top, this.bottom, MARGIN.top);
    const bins = duty.mean.length;
    const points = (row) => row.map((v, b) => (v === null ? null : `${this.x((b + 0.5) / bins).toFixed(1)} ${y(v).toFixed(1)}`)).filter(Boolean);
    this.band.setAttribute("d", `M${[...points(duty.high), ...points(duty.low).reverse()].join("L")}Z`);
    this.mean.setAttribute("d", `M${points(duty.mean).join("L")}`);
    this.#axes(y, top, unit, width, duty.period_s);
    this.root.setAttribute("aria-label", `Mean use over one iteration of ${period(duty.period_s)}`);
  }

  #axes(y, top, unit, width, length) {
    const marks = ticks(0, top, 3);
    const labels = tickLabels(marks, unit);
    const line = () => svg("g", {}, svg("line", {}), svg("text", {}));
    const rows = marks.map((value, i) => ({ key: String(value), at: y(value), label: labels[i] }));
    keyed(this.grid, rows, (row) => row.key, line, (node, { at, label }) => {
      setAttributes(node.firstChild, { x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at });
      setAttributes(node.lastChild, { x: MARGIN.left - 8, y: at, dy: "0.32em" });
      setText(node.lastChild, label);
    });
    keyed(this.times, [0, 0.5, 1], String, line, (node, share) => {
      const x = this.x(share);
      setAttributes(node.firstChild, { x1: x, x2: x, y1: this.bottom, y2: this.bottom + 4 });
      setAttributes(node.lastChild, { x, y: this.bottom + 17, class: share === 1 ? "last" : null });
      setText(node.lastChild, share === 0 ? "0" : period(share * length));
    });
  }

  /** Move the hand; `now_s` in the source's clock. */
  tick(now_s) {
    if (!this.#duty || !this.x) return;
    const turns = (now_s - this.#duty.origin_s) / this.#duty.period_s;
    const x = this.x(turns - Math.floor(turns)).toFixed(1);
    setAttributes(this.hand, { x1: x, x2: x, y1: MARGIN.top, y2: this.bottom });
  }
}
