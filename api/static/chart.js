// A fan chart: actual values, forecast bands, median and "now" on a time axis that flows.

import { el, svg, setAttributes, setText, keyed } from "./dom.js";
import { linear, ticks, timeTicks, quantileAt, stepsOf, timeOf, valueDomain } from "./scale.js";
import { duration, quantity, tickLabels, utc } from "./format.js";

export const MARGIN = { left: 68, right: 14, top: 10, bottom: 24 };
const BANDS = [
  ["band-95", 0.025, 0.975],
  ["band-80", 0.1, 0.9],
  ["band-50", 0.25, 0.75],
];
let serial = 0;

/** "−40 s", "+2 min"; one unit for the whole axis. */
function offsetLabel(offset, step) {
  const size = Math.abs(offset);
  return `${offset < 0 ? "−" : "+"}${step % 60 === 0 ? `${size / 60} min` : `${size} s`}`;
}

export class FanChart {
  #model = null;
  #base = 0;
  #now = 0;
  #domain = null;
  #unit = "";
  #cursor = null;

  /** `host` is an empty element; `axis` false leaves out time labels; `ceiling` caps the value axis. */
  constructor(host, { name, ceiling = Infinity } = {}) {
    this.host = host;
    this.name = name;
    this.ceiling = ceiling;
    this.size = { width: 0, height: 0 };
    this.#build();
    new ResizeObserver(() => this.#resize()).observe(host);
  }

  #build() {
    const clip = `clip-${(serial += 1)}`;
    this.clipRect = svg("rect", {});
    this.grid = svg("g", { class: "grid" });
    this.times = svg("g", { class: "times" });
    this.flow = svg("g", {});
    this.bands = BANDS.map(([name]) => svg("path", { class: `band ${name}` }));
    this.median = svg("path", { class: "median" });
    this.actual = svg("path", { class: "actual" });
    this.flow.append(...this.bands, this.actual, this.median);
    this.future = svg("rect", { class: "future" });
    this.limit = svg("g", { class: "limit" }, svg("line", {}), svg("text", {}));
    this.nowLine = svg("g", { class: "now" }, svg("line", {}), svg("text", { text: "now" }));
    this.cross = svg("g", { class: "cross", visibility: "hidden" }, svg("line", {}), svg("circle", { r: 3.5 }));
    const clipped = svg("g", { "clip-path": `url(#${clip})` }, this.flow);
    this.root = svg("svg", { "aria-hidden": "true" }, svg("defs", {}, svg("clipPath", { id: clip }, this.clipRect)));
    this.root.append(this.future, this.grid, this.times, clipped, this.limit, this.nowLine, this.cross);
    this.tip = el("div", { class: "tip", hidden: true, role: "status" });
    this.absence = el("div", { class: "absence", hidden: true }, el("p", {}, el("strong", {}), el("span", {})));
    this.stage = el("div", { class: "stage", tabindex: "0", role: "img" }, this.root);
    this.stage.addEventListener("pointermove", (event) => this.#point(event.offsetX));
    this.stage.addEventListener("pointerleave", () => this.#hide());
    this.stage.addEventListener("keydown", (event) => this.#key(event));
    this.stage.addEventListener("blur", () => this.#hide());
    this.host.append(this.stage, this.tip, this.absence);
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (!width || (width === this.size.width && height === this.size.height)) return;
    this.size = { width, height };
    setAttributes(this.root, { width, height, viewBox: `0 0 ${width} ${height}` });
    if (this.#model) this.draw(this.#model);
  }

  /**
   * Draw. `model`: {history, path, unit, past_s, future_s, now_s, limit, absence, key}; history and path may be null.
   */
  draw(model) {
    if (this.#model?.key !== model.key || this.#unit !== model.unit) this.#domain = null;
    this.#model = model;
    this.#unit = model.unit;
    this.#base = model.now_s;
    const { width, height } = this.size;
    if (!width) return;
    const inner = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
    this.inner = inner;
    this.x = linear(-model.past_s, model.future_s, inner.left, inner.right);
    this.#domain = valueDomain(...this.#extent(model), this.#domain, this.ceiling);
    this.y = linear(this.#domain[0], this.#domain[1], inner.bottom, inner.top);
    this.#frame(inner, model);
    this.#lines(model);
    this.#absent(model);
    this.tick(model.now_s);
  }

  /** Let time pass: moves what is drawn without rebuilding it. */
  tick(now_s) {
    this.#now = now_s;
    if (!this.#model || !this.x) return;
    this.flow.setAttribute("transform", `translate(${(this.x(0) - this.x(now_s - this.#base)).toFixed(2)} 0)`);
    if (this.#cursor !== null) this.#show(this.#cursor);
  }

  #extent({ history, path, past_s, future_s, now_s, limit }) {
    let low = limit ?? Infinity;
    let high = limit ?? -Infinity;
    const take = (value) => {
      if (value === null || value === undefined) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    history?.at_s.forEach((at, i) => at >= now_s - past_s && take(history.value[i]));
    for (let h = 0; path && h < stepsOf(path); h += 1) {
      if (timeOf(path, h) > now_s + future_s) break;
      take(quantileAt(path, 0.025, h));
      take(quantileAt(path, 0.975, h));
    }
    return [low, high];
  }

  #frame({ left, right, top, bottom }, { past_s, future_s, limit, unit }) {
    setAttributes(this.clipRect, { x: left, y: top - 2, width: Math.max(0, right - left), height: bottom - top + 4 });
    setAttributes(this.future, { x: this.x(0), y: top, width: Math.max(0, right - this.x(0)), height: bottom - top });
    const marks = ticks(this.#domain[0], this.#domain[1], Math.max(2, (bottom - top) / 46));
    const labels = tickLabels(marks, unit);
    const rows = marks.map((value, i) => ({ key: String(value), y: this.y(value).toFixed(1), label: labels[i] }));
    const line = () => svg("g", {}, svg("line", {}), svg("text", {}));
    keyed(this.grid, rows, (row) => row.key, line, (node, row) => {
      setAttributes(node.firstChild, { x1: left, x2: right, y1: row.y, y2: row.y });
      setAttributes(node.lastChild, { x: left - 8, y: row.y, dy: "0.32em" });
      setText(node.lastChild, row.label);
    });
    setAttributes(this.grid, { visibility: unit ? "visible" : "hidden" });
    const offsets = timeTicks(past_s, future_s, Math.max(3, (right - left) / 74));
    keyed(this.times, offsets.filter((t) => t !== 0), String, line, (node, offset) => {
      const x = this.x(offset).toFixed(1);
      setAttributes(node.firstChild, { x1: x, x2: x, y1: bottom, y2: bottom + 4 });
      setAttributes(node.lastChild, { x, y: bottom + 17, class: x > right - 12 ? "last" : null });
      setText(node.lastChild, offsetLabel(offset, offsets[1] - offsets[0]));
    });
    const zero = this.x(0);
    setAttributes(this.nowLine.firstChild, { x1: zero, x2: zero, y1: top, y2: bottom + 4 });
    setAttributes(this.nowLine.lastChild, { x: zero, y: bottom + 17 });
    setAttributes(this.limit, { visibility: limit === undefined ? "hidden" : "visible" });
    if (limit !== undefined) {
      const y = this.y(limit);
      setAttributes(this.limit.firstChild, { x1: left, x2: right, y1: y, y2: y });
      setAttributes(this.limit.lastChild, { x: right - 4, y: y - 5 });
      setText(this.limit.lastChild, `threshold ${quantity(limit, unit)}`);
    }
  }

  #lines({ history, path, past_s, future_s, now_s }) {
    const point = (at, value) => `${this.x(at - now_s).toFixed(1)} ${this.y(value).toFixed(1)}`;
    let d = "";
    let pen = "M";
    history?.at_s.forEach((at, i) => {
      const value = history.value[i];
      if (at < now_s - past_s - 10) return;
      if (value === null) pen = "M";
      else {
        d += pen + point(at, value);
        pen = "L";
      }
    });
    this.actual.setAttribute("d", d);
    const shown = [];
    for (let h = 0; path && h < stepsOf(path); h += 1) if (timeOf(path, h) <= now_s + future_s + 10) shown.push(h);
    const edge = (level) => shown.map((h) => [timeOf(path, h), quantileAt(path, level, h)]).filter(([, v]) => v !== null);
    BANDS.forEach(([, low, high], i) => {
      const outline = path ? [...edge(high), ...edge(low).reverse()] : [];
      const ring = outline.map(([at, value]) => point(at, value)).join("L");
      this.bands[i].setAttribute("d", ring ? `M${ring}Z` : "");
    });
    const middle = path ? edge(0.5).map(([at, value]) => point(at, value)).join("L") : "";
    this.median.setAttribute("d", middle ? `M${middle}` : "");
  }

  #absent({ absence, history }) {
    this.absence.hidden = !absence;
    // Over actual values it stands where the forecast would be.
    this.absence.classList.toggle("over", Boolean(absence && history));
    this.absence.style.left = absence && history ? `${this.x(0) + 8}px` : "";
    if (absence) {
      setText(this.absence.firstChild.firstChild, absence.title);
      setText(this.absence.firstChild.lastChild, absence.reason);
    }
    this.stage.setAttribute("aria-label", this.#spoken());
  }

  #spoken() {
    const { history, path, absence, unit } = this.#model;
    const last = history?.value.findLast((value) => value !== null);
    const parts = [this.name];
    if (last !== undefined) parts.push(`last value ${quantity(last, unit)}`);
    if (absence) parts.push(`${absence.title}: ${absence.reason}`);
    if (path) {
      const h = Math.min(stepsOf(path) - 1, Math.round(10 / path.step_s));
      const [low, high] = [quantity(quantileAt(path, 0.1, h), unit), quantity(quantileAt(path, 0.9, h), unit)];
      parts.push(`in ${duration((h + 1) * path.step_s)} ${quantity(quantileAt(path, 0.5, h), unit)}, 80 % between ${low} and ${high}`);
    }
    return `${parts.join("; ")}. Arrow keys read values.`;
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.key === "Escape") this.#hide();
    if (!step || !this.#model) return;
    event.preventDefault();
    const width = this.#model.path?.step_s ?? 1;
    const wanted = (this.#cursor ?? 0) + step * width;
    this.#show(Math.max(-this.#model.past_s, Math.min(this.#model.future_s, wanted)));
  }

  #point(position) {
    if (!this.x || position < this.inner.left || position > this.inner.right) this.#hide();
    else this.#show(this.x.invert(position));
  }

  #hide() {
    this.#cursor = null;
    this.tip.hidden = true;
    this.cross.setAttribute("visibility", "hidden");
  }

  #show(offset) {
    this.#cursor = offset;
    const at = this.#now + offset;
    const rows = this.#readings(at);
    const x = this.x(offset);
    const y = rows.length ? this.y(rows[0].value) : null;
    setAttributes(this.cross, { visibility: "visible" });
    setAttributes(this.cross.firstChild, { x1: x, x2: x, y1: this.inner.top, y2: this.inner.bottom });
    setAttributes(this.cross.lastChild, { cx: x, cy: y ?? -9, visibility: y === null ? "hidden" : "inherit" });
    const sign = offset < 0 ? "−" : "+";
    this.tip.hidden = false;
    const lines = rows.map((row) => el("div", { class: "row" }, el("span", { text: row.label }), el("b", { text: row.text })));
    const time = el("div", { class: "when", text: `${utc(at, 1)} UTC · ${sign}${duration(offset)}` });
    this.tip.replaceChildren(time, ...(lines.length ? lines : [el("div", { text: "no value here" })]));
    const flip = x > (this.inner.left + this.inner.right) / 2;
    this.tip.style.left = flip ? "" : `${x + 12}px`;
    this.tip.style.right = flip ? `${this.size.width - x + 12}px` : "";
  }

  #readings(at) {
    const { history, path, unit } = this.#model;
    const rows = [];
    const step = path?.step_s ?? 1;
    const i = history ? history.at_s.findLastIndex((t) => t <= at + 1e-6) : -1;
    if (i >= 0 && at - history.at_s[i] <= Math.max(2 * step, 1) && history.value[i] !== null) {
      rows.push({ label: "actual", value: history.value[i], text: quantity(history.value[i], unit) });
    }
    const h = path ? Math.round((at - path.start_s) / path.step_s) - 1 : -1;
    if (path && h >= 0 && h < stepsOf(path)) {
      const value = (level) => quantileAt(path, level, h);
      rows.push({ label: "median", value: value(0.5), text: quantity(value(0.5), unit) });
      for (const [name, low, high] of [["50 %", 0.25, 0.75], ["80 %", 0.1, 0.9], ["95 %", 0.025, 0.975]]) {
        rows.push({ label: name, value: value(0.5), text: `${quantity(value(low), unit)} … ${quantity(value(high), unit)}` });
      }
    }
    return rows;
  }
}
