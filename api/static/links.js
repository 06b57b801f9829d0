// Links by their chance of congestion, and the chart of the selected one.

import { el, keyed, setText, setAttributes } from "./dom.js";
import { FanChart } from "./chart.js";
import { duration, jobName, percent, quantity, whyLabel } from "./format.js";
import { sourceNow } from "./job.js";

/** From this chance on a link is hot. */
export const HOT = 0.5;
const SHOWN = 40;
const $ = (id) => document.getElementById(id);
export const isHot = (link) => typeof link.probability === "number" && link.probability >= HOT;

/** Hot ones by chance, the rest by whole percent and name: rows then stay where they are while little changes. */
export function ordered(links) {
  const rank = (link) => (typeof link.probability !== "number" ? -1 : isHot(link) ? link.probability + 1 : Math.round(link.probability * 100) / 100);
  return [...links].sort((a, b) => rank(b) - rank(a) || a.id.localeCompare(b.id));
}

function makeRow(link) {
  const name = el("span", { class: "link-name" }, el("b", { text: link.id }), el("small", { text: link.tier }), el("small", {}));
  const bar = el("span", { class: "bar", "aria-hidden": "true" }, el("i", {}), el("u", {}));
  const facts = el("span", { class: "link-facts" });
  return el("li", {}, el("button", { class: "link", type: "button" }, name, el("b", { class: "chance" }), bar, facts));
}

function updateRow(node, link, state) {
  const button = node.firstChild;
  const [name, chance, bar, facts] = button.children;
  const absent = typeof link.probability !== "number";
  const hot = isHot(link);
  setText(chance, absent ? whyLabel(link.probability.why) : percent(link.probability));
  setAttributes(chance, { class: absent ? "chance none" : "chance", title: absent ? link.probability.reason : `chance to pass ${percent(link.threshold_ratio)} within ${duration(link.horizon_s)}` });
  bar.firstChild.style.width = `${Math.min(1, link.use_ratio ?? 0) * 100}%`;
  bar.lastChild.style.left = `${link.threshold_ratio * 100}%`;
  setText(name.lastChild, link.use_ratio === null ? "use unknown" : `${percent(link.use_ratio)} used`);
  setText(facts, onset(link, state.now_s));
  // Quiet links take one line less.
  facts.hidden = !facts.textContent || !(hot || link.probability >= 0.05 || link.id === state.linkId);
  setAttributes(button, {
    class: hot ? "link hot" : "link",
    "aria-current": link.id === state.linkId ? "true" : null,
    "aria-label": `${link.id}, ${absent ? link.probability.reason : `${percent(link.probability)} chance of congestion`}, ${name.lastChild.textContent}, ${facts.textContent}`,
  });
}

function onset(link, now_s) {
  const jobs = link.causes.map((cause) => jobName(cause.job).short).join(" + ");
  if (link.onset_s !== null) {
    const left = link.onset_s - sourceNow(link, now_s);
    const words = left > 0.3 ? `congests in ${duration(left)}` : link.use_ratio >= link.threshold_ratio ? "congested now" : "congestion due now";
    return jobs ? `${words}: ${jobs}` : words;
  }
  return jobs;
}

export class LinksPanel {
  constructor(choose) {
    this.chart = new FanChart($("link-fan"), { name: "Link use", ceiling: 1.04 });
    $("links-list").addEventListener("click", (event) => {
      const row = event.target.closest("button.link");
      if (row) choose(row.parentElement.dataset.key);
    });
  }

  /** Draw the list and the selected link. */
  draw(state) {
    const items = ordered(state.links?.items ?? []);
    const hot = items.filter(isHot).length;
    const total = state.links?.total ?? 0;
    setText($("links-count"), `${hot ? `${hot} of ${total} hot` : total}${items.length > SHOWN ? `, first ${SHOWN} shown` : ""}`);
    $("links-empty").hidden = !state.links || items.length > 0;
    keyed($("links-list"), items.slice(0, SHOWN), (link) => link.id, makeRow, (node, link) => updateRow(node, link, state));
    this.#selected(items.find((link) => link.id === state.linkId), state);
  }

  #selected(link, state) {
    setText($("link-title"), link ? `Link ${link.id}` : "Link");
    if (!link) return;
    const detail = state.congestion?.id === link.id ? state.congestion : null;
    const now = sourceNow(link, state.now_s);
    this.offset = now - state.now_s;
    const path = detail && !detail.path.absent ? detail.path : null;
    const history = state.linkHistory?.id === link.id ? state.linkHistory : null;
    const absence = detail?.path.absent ? { title: `No forecast: ${whyLabel(detail.path.why)}`, reason: detail.path.reason } : null;
    const future_s = Math.max(15, Math.min(60, link.horizon_s));
    this.chart.name = `Use of link ${link.id}`;
    this.chart.draw({ history, path, unit: "ratio", past_s: 45, future_s, now_s: now, limit: link.threshold_ratio, absence, key: link.id });
    const causes = link.causes.map((cause) => `${jobName(cause.job).short} ${percent(cause.share_ratio)}`).join(", ");
    const speed = link.capacity_bytes_per_s === null ? "" : ` of ${quantity(link.capacity_bytes_per_s, "bytes per second")}`;
    const parts = [`${link.use_ratio === null ? "use unknown" : percent(link.use_ratio)}${speed}`];
    if (causes) parts.push(`carried by ${causes}`);
    if (link.overload_s > 0) parts.push(`${duration(link.overload_s)} above threshold expected`);
    if (!absence) parts.push(link.reason);
    setText($("link-reason"), parts.join(" · "));
  }

  /** Let time pass. */
  tick(now_s) {
    if (this.offset !== undefined) this.chart.tick(now_s + this.offset);
  }
}
