// The queue, the wiring and the collectives: what schedulers, topology sources and NCCL tell.

import { el, redrawn, setText } from "./dom.js";
import { duration, quantity } from "./format.js";

const QUEUED = 12;
const NAMED = 8;
const $ = (id) => document.getElementById(id);
const HEADS = ["Job", "User", "Queue", "GPUs", "Waits", "Expected", "Why it waits"];

/** A long time in one unit; charts use finer words. */
const long = (value_s) => (value_s === null ? "–" : value_s < 7200 ? duration(value_s) : value_s < 172800 ? `${(value_s / 3600).toFixed(1)} h` : `${(value_s / 86400).toFixed(1)} d`);

function scheduler(one) {
  const free = one.gpus_free === null ? "free GPUs unknown" : `${one.gpus_free} of ${one.gpus_total} GPUs free`;
  return `${one.source}: ${free} · ${one.running} run · ${one.waiting} wait for ${one.gpus_waited_for} GPUs`;
}

function queuedRow(job, now_s) {
  const many = job.task_count > 1 ? `${job.task_count} × ` : "";
  const types = Object.keys(job.gpu_types).filter(Boolean).join("+");
  const gpus = `${many}${job.gpus_asked ?? "?"}${types ? ` ${types}` : ""}`;
  const start_s = job.start_forecast.absent ? job.expected_start_s : job.start_forecast.start_s;
  const due = start_s === null ? "–" : start_s <= now_s ? "due" : `in ${long(start_s - now_s)}`;
  return el("tr", {},
    el("th", { scope: "row", title: job.id, text: job.name || job.id }),
    el("td", { text: job.user || job.account || "–" }),
    el("td", { text: job.partition || "–" }),
    el("td", { text: gpus }),
    el("td", { class: "number", text: job.submit_s === null ? "–" : long(Math.max(0, now_s - job.submit_s)) }),
    el("td", { class: "number", title: job.start_forecast.reason, text: due }),
    el("td", { text: job.reason || "–" }),
  );
}

/** Jobs that wait; the panel is hidden while no scheduler is read. */
export function drawQueue(state) {
  const queue = state.queue;
  $("queue-panel").hidden = !queue || queue.unread !== "";
  if ($("queue-panel").hidden) return;
  const waiting = queue.schedulers.reduce((sum, one) => sum + one.waiting, 0);
  setText($("queue-count"), `${waiting} waiting${queue.total > QUEUED ? `, first ${QUEUED} of ${queue.total} lines` : ""}`);
  // Waits are told by the minute: finer would only redraw.
  redrawn($("queue"), [queue.items, queue.schedulers.map((one) => ({ ...one, age_s: 0 })), Math.floor(state.now_s / 30)], () => {
    const facts = queue.schedulers.map((one) => el("p", { class: "sub", text: scheduler(one) }));
    if (!queue.items.length) return [...facts, el("p", { class: "empty", text: "No job waits." })];
    const head = el("tr", {}, ...HEADS.map((name, i) => el("th", { scope: "col", class: i === 4 || i === 5 ? "number" : "", text: name })));
    const rows = queue.items.slice(0, QUEUED).map((job) => queuedRow(job, state.now_s));
    const table = el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows));
    return [...facts, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Queue" }, table)];
  });
}

function named(hosts) {
  return hosts.length > NAMED ? `${hosts.slice(0, NAMED).join(", ")} and ${hosts.length - NAMED} more` : hosts.join(", ");
}

function leaves(wiring) {
  const under = new Map();
  for (const host of wiring.hosts) {
    const path = host.switches.length ? host.switches.map((one) => one ?? "?").join(" › ") : "leaf unknown";
    under.set(path, [...(under.get(path) ?? []), host.id]);
  }
  return [...under].sort(([a], [b]) => a.localeCompare(b)).map(([path, hosts]) => {
    const cables = wiring.links.filter((link) => link.tier !== "nic" && link.a === path.split(" › ")[0] && link.b && !hosts.includes(link.b));
    const speed = cables.reduce((sum, link) => sum + (link.capacity_bytes_per_s ?? NaN), 0);
    const up = cables.length ? `${cables.length} uplink${cables.length > 1 ? "s" : ""}${Number.isFinite(speed) ? `, ${quantity(speed, "bytes per second")}` : ", speed unknown"}` : "";
    return el("li", {}, el("b", { text: path }), el("span", { text: named(hosts) }), up && el("small", { text: up }));
  });
}

/** Where hosts stand, what belongs together, what sources do not agree on; hidden while nothing is known. */
export function drawWiring(state) {
  const wiring = state.wiring;
  $("wiring-panel").hidden = !wiring || !(wiring.host_count || wiring.sources.length);
  if ($("wiring-panel").hidden) return;
  const clash = wiring.conflicts.length;
  setText($("wiring-count"), `${wiring.host_count} hosts, ${wiring.link_count} links${clash ? `, ${clash} conflict${clash > 1 ? "s" : ""}` : ""}`);
  redrawn($("wiring"), [wiring.hosts, wiring.links, wiring.domains, wiring.conflicts, wiring.unknowns, wiring.sources.map((one) => [one.source, one.error])], () => {
    const domains = wiring.domains.map((one) => el("li", {}, el("b", { text: `${one.kind} ${one.name}` }), el("span", { text: named(one.hosts) })));
    const clashes = wiring.conflicts.map((one) => {
      const sides = one.says.map((side) => `${side.source} says ${side.value}`).join("; ");
      return el("li", { class: "bad" }, el("b", { text: `✗ ${one.what} of ${one.subject}` }), el("span", { text: `${sides}; ${one.kept ?? "nothing"} is used` }));
    });
    const failed = wiring.sources.filter((one) => one.error).map((one) => {
      const use = one.age_s === null ? "nothing of it is used" : `its content of ${long(one.age_s)} ago is used`;
      return el("li", { class: "bad" }, el("b", { text: `✗ ${one.source}` }), el("span", { text: `${one.error} (${use})` }));
    });
    const unknown = wiring.unknowns.map((text) => el("li", {}, el("span", { text: `unknown: ${text}` })));
    return el("ul", { class: "facts" }, ...clashes, ...failed, ...leaves(wiring), ...domains, ...unknown);
  });
}

/** What the scheduler lists of a job, in one line. */
export function scheduledLine(job) {
  const one = job.scheduled;
  if (!one) return "";
  const who = [one.name, one.user && `of ${one.user}`, one.account && `(${one.account})`].filter(Boolean).join(" ");
  const asked = one.gpus_asked !== null && one.gpus_asked !== one.gpus_held ? `asked for ${one.gpus_asked} GPUs` : "";
  const limit = one.unlimited ? "no time limit" : one.time_limit_s !== null ? `limit ${long(one.time_limit_s)}` : "";
  const again = one.restarts ? `restarted ${one.restarts} ×` : "";
  return [who, one.partition && `queue ${one.partition}`, one.priority !== null && `priority ${one.priority.toLocaleString("en")}`, asked, limit, again].filter(Boolean).join(" · ");
}

/** Troubles of the selected job's communicators. */
export function drawCollectives(state) {
  const mine = (state.collectives?.items ?? []).filter((one) => one.job === state.jobId && (one.in_trouble || one.missed_count));
  const lost = (state.collectives?.items ?? []).filter((one) => one.job === null && one.in_trouble);
  redrawn($("collectives"), [state.jobId, mine, lost], () =>
    [...mine, ...lost].map((one) => {
      const missed = one.missed_count ? `${one.missed_count} operations without a record` : "";
      const whose = one.job === null ? `job unknown: ${one.job_reason}` : "";
      const what = [...one.troubles.map((trouble) => trouble.sentence), missed, whose].filter(Boolean).join(" · ");
      return el("li", { class: one.in_trouble ? "bad" : "" }, el("b", { text: `${one.in_trouble ? "✗ " : ""}${one.id.split(":")[0]}` }), el("span", { text: what }));
    }),
  );
}
