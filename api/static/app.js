// Polls the service and keeps every panel in step.

import { Client, DownError, advicePath, jobPath, linkPath } from "./net.js";
import { installJobs, drawJobs } from "./jobs.js";
import { JobPanel, VIEWS } from "./job.js";
import { LinksPanel, isHot, ordered } from "./links.js";
import { stepsOf } from "./scale.js";
import { AdvicePanel } from "./advice.js";
import { drawAccuracy } from "./accuracy.js";
import { drawTop } from "./topbar.js";
import { drawSick } from "./sick.js";
import { drawCollectives, drawQueue, drawWiring } from "./cluster.js";

const POLL_MS = 1500;
const SLOW_MS = 6000;
const client = new Client();
const state = {
  health: null, jobs: null, links: null, advice: null, accuracy: null, models: null,
  queue: null, wiring: null, collectives: null, findings: null,
  jobId: null, metric: null, metricByUser: null, view: "3 min", viewByUser: false,
  forecast: null, history: null, phases: null,
  linkId: null, linkByUser: false, congestion: null, linkHistory: null,
  sparks: new Map(), paused: false, down: null, lastOk_ms: null, now_s: Date.now() / 1000,
};
let clock = { at_s: Date.now() / 1000, read_ms: performance.now() };
let slow_ms = -Infinity;
let timer = null;
let again = false;

const serviceNow = () => clock.at_s + (performance.now() - clock.read_ms) / 1000;

function choose(id) {
  if (id === state.jobId) return;
  state.jobId = id;
  settle();
  draw();
  soon();
}

/** Picks that follow from what is known: first job, its headline metric, a span that shows some iterations, the hottest link. */
function settle() {
  const jobs = state.jobs?.items ?? [];
  if (!jobs.some((job) => job.id === state.jobId)) state.jobId = jobs[0]?.id ?? null;
  const job = jobs.find((one) => one.id === state.jobId);
  const metrics = job ? Object.keys(job.metrics) : [];
  state.metric = metrics.includes(state.metricByUser) ? state.metricByUser : (job?.headline_metric ?? metrics[0] ?? null);
  if (!state.viewByUser && job) state.view = spanFor(job);
  const links = ordered(state.links?.items ?? []);
  const selected = links.find((link) => link.id === state.linkId);
  if (!selected) state.linkByUser = false;
  // A link stays selected until another one gets hot.
  if (!state.linkByUser && (!selected || (isHot(links[0]) && !isHot(selected)))) state.linkId = links[0]?.id ?? null;
}

/** The span that shows some iterations, and no more future than is foreseen. */
function spanFor(job) {
  const path = state.forecast?.id === job.id ? state.forecast.metrics[state.metric] : null;
  const ahead_s = path && !path.absent ? stepsOf(path) * path.step_s : Infinity;
  const period_s = job.period.absent ? 10 : job.period.period_s;
  return ahead_s < 30 || period_s < 5 ? "1 min" : "3 min";
}

const panel = new JobPanel({
  chooseMetric: (metric) => { state.metricByUser = metric; settle(); draw(); soon(); },
  chooseView: (view) => { state.view = view; state.viewByUser = true; draw(); soon(); },
});
const links = new LinksPanel((id) => { state.linkId = id; state.linkByUser = true; draw(); soon(); });
const advice = new AdvicePanel(async (one, verb, button) => {
  button.disabled = true;
  try {
    await client.post(advicePath(one.id, verb));
  } catch (error) {
    button.title = error.message;
    button.textContent = `Refused: ${error.message}`;
    return;
  }
  soon();
});
installJobs(choose);
document.getElementById("jobs-filter").addEventListener("input", draw);

function draw() {
  state.now_s = state.paused || state.down ? state.now_s : serviceNow();
  drawTop(state);
  drawJobs(state);
  panel.draw(state);
  links.draw(state);
  advice.draw(state);
  drawAccuracy(state);
  drawCollectives(state);
  drawSick(state);
  drawQueue(state);
  drawWiring(state);
}

async function readLists() {
  const [health, jobs, linkList, adviceList] = await Promise.all(
    ["/v1/health", "/v1/jobs?limit=300", "/v1/links?limit=200", "/v1/advice?limit=20"].map((path) => client.get(path)),
  );
  clock = { at_s: health.now_s, read_ms: performance.now() };
  Object.assign(state, { health, jobs, links: linkList, advice: adviceList });
  settle();
}

async function readSelected() {
  const { jobId, metric, linkId } = state;
  const window_s = VIEWS[state.view].past_s + 15;
  const wanted = {};
  if (jobId) {
    const query = metric ? `?metric=${encodeURIComponent(metric)}` : "";
    wanted.forecast = client.get(jobPath(jobId, `/forecast${query}`));
    wanted.phases = client.get(jobPath(jobId, "/phases"));
    if (metric) wanted.history = client.get(jobPath(jobId, `/history${query}&window_s=${window_s}`));
  }
  if (linkId) {
    wanted.congestion = client.get(linkPath(linkId, "/congestion"));
    wanted.linkHistory = client.get(linkPath(linkId, "/history?window_s=60"));
  }
  const names = Object.keys(wanted);
  const replies = await Promise.allSettled(Object.values(wanted));
  const gone = replies.find((reply) => reply.status === "rejected" && reply.reason instanceof DownError);
  if (gone) throw gone.reason;
  // A job may have ended between the list and its detail: then the old detail simply goes.
  names.forEach((name, i) => { state[name] = replies[i].status === "fulfilled" && !replies[i].value.absent ? replies[i].value : null; });
}

async function readSlow() {
  if (performance.now() - slow_ms < SLOW_MS) return;
  slow_ms = performance.now();
  [state.accuracy, state.models, state.queue, state.wiring, state.collectives, state.findings] = await Promise.all(
    ["/v1/accuracy?limit=200", "/v1/models", "/v1/queue?limit=20", "/v1/topology?limit=400", "/v1/collectives?limit=200", "/v1/findings?limit=60"].map((path) => client.get(path)),
  );
  const list = document.getElementById("jobs-list").getBoundingClientRect();
  const visible = (state.jobs?.items ?? []).filter((job) => {
    const row = document.querySelector(`#jobs-list > [data-key="${CSS.escape(job.id)}"]`)?.getBoundingClientRect();
    return job.headline_metric && (!row || (row.bottom > 0 && row.top < Math.max(innerHeight, list.top)));
  });
  await Promise.all(visible.slice(0, 40).map(async (job) => {
    const query = `?metric=${encodeURIComponent(job.headline_metric)}&window_s=60&max_points=300`;
    const history = await client.get(jobPath(job.id, `/history${query}`)).catch(() => null);
    state.sparks.set(job.id, history);
  }));
}

async function poll() {
  clearTimeout(timer);
  timer = null;
  if (!state.paused && !document.hidden) {
    try {
      await readLists();
      await readSelected();
      await readSlow();
      state.down = null;
      state.lastOk_ms = performance.now();
    } catch (error) {
      state.down = error.message;
    }
    draw();
  }
  timer = setTimeout(poll, again ? 0 : POLL_MS);
  again = false;
}

/** Read at once; while a reading is under way, another follows it. */
function soon() {
  if (timer === null) {
    again = true;
    return;
  }
  clearTimeout(timer);
  timer = setTimeout(poll, 0);
}

function pause() {
  state.paused = !state.paused;
  const button = document.getElementById("pause");
  button.setAttribute("aria-pressed", String(state.paused));
  button.textContent = state.paused ? "Resume" : "Pause";
  draw();
  soon();
}
document.getElementById("pause").addEventListener("click", pause);
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "p" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) pause();
});
document.addEventListener("visibilitychange", () => !document.hidden && soon());

const calm = matchMedia("(prefers-reduced-motion: reduce)");
let drawn_ms = 0;
function flow(at_ms) {
  if (!state.paused && !state.down && !calm.matches && at_ms - drawn_ms > 60) {
    drawn_ms = at_ms;
    panel.tick(serviceNow());
    links.tick(serviceNow());
  }
  requestAnimationFrame(flow);
}
requestAnimationFrame(flow);
draw();
poll();
