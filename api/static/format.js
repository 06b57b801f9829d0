// Numbers, times and names as people read them.

const LABELS = {
  job_fabric_tx_bytes_per_s: "Fabric send",
  gpu_tensor_active_ratio: "Tensor",
  gpu_sm_active_ratio: "SM active",
  gpu_power_watts: "Power",
  gpu_memory_used_bytes: "Memory",
  gpu_dram_active_ratio: "DRAM",
  gpu_sm_occupancy_ratio: "Occupancy",
  gpu_gr_engine_active_ratio: "Engine",
  gpu_util_ratio: "GPU use",
  gpu_mem_copy_util_ratio: "Memory copy",
  gpu_memory_used_ratio: "Memory",
  gpu_temperature_celsius: "Temperature",
  gpu_nvlink_tx_bytes_per_s: "NVLink send",
  gpu_nvlink_rx_bytes_per_s: "NVLink receive",
  gpu_nvlink_bytes_per_s: "NVLink",
  gpu_pcie_tx_bytes_per_s: "PCIe out",
  gpu_pcie_rx_bytes_per_s: "PCIe in",
  gpu_sm_clock_hertz: "SM clock",
  congestion: "Congestion",
};
const WHY = {
  idle: "idle",
  stale: "stale",
  sampling_too_coarse: "too coarse",
  no_rhythm: "no rhythm",
  irregular: "irregular",
  insufficient_history: "learning",
  missing_field: "field missing",
  job_unmatched: "unmatched",
  no_data: "no data",
  partial: "partial",
  no_capacity: "no capacity",
  no_traffic: "no traffic",
  model_error: "model error",
  held: "held",
};

const ORDER = Object.keys(LABELS);

/** Place of a metric in a list: those that tell much about a training job first. */
export const metricRank = (metric) => (ORDER.includes(metric) ? ORDER.indexOf(metric) : ORDER.length);

/** A catalogue metric in a word or two. */
export function metricLabel(metric) {
  if (LABELS[metric]) return LABELS[metric];
  const words = metric.replace(/^(gpu|job|port)_/, "").replace(/_(ratio|bytes_per_s|watts|celsius|hertz|total|bytes)$/, "");
  const text = words.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Why there is nothing, in a word or two. */
export const whyLabel = (why) => WHY[why] ?? why.replaceAll("_", " ");

const PREFIXES = [
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];

function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function si(value, unit) {
  const [factor, prefix] = PREFIXES.find(([limit]) => Math.abs(value) >= limit) ?? [1, ""];
  return `${digits(value / factor)} ${prefix}${unit}`;
}

/** A value with its unit. */
export function quantity(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "ratio") return percent(value);
  if (unit === "bytes per second") return si(value, "B/s");
  if (unit === "bytes") return si(value, "B");
  if (unit === "watts") return si(value, "W");
  if (unit === "hertz") return si(value, "Hz");
  if (unit === "celsius") return `${value.toFixed(0)} °C`;
  return `${digits(value)} ${unit}`.trim();
}

/** Tick labels of one axis: one prefix and as few digits as tell them apart. */
export function tickLabels(ticks, unit) {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  if (unit === "ratio") return ticks.map((tick) => `${(tick * 100).toFixed(step < 0.01 ? 1 : 0)} %`);
  const short = { "bytes per second": "B/s", bytes: "B", watts: "W", hertz: "Hz", celsius: "°C" }[unit] ?? "";
  const top = Math.max(...ticks.map(Math.abs));
  const [factor, prefix] = PREFIXES.find(([limit]) => top >= limit) ?? [1, ""];
  const places = Math.max(0, Math.min(3, -Math.floor(Math.log10(step / factor) + 1e-9)));
  return ticks.map((tick) => `${(tick / factor).toFixed(places)} ${prefix}${short}`.trim());
}

/** 0.934 as "93 %"; small chances keep their meaning. */
export function percent(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.005) return "<1 %";
  return `${(value * 100).toFixed(0)} %`;
}

/** A duration: 0.35 s, 9.6 s, 2 min 05 s, 3 h 20 min. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds);
  if (size < 1) return `${size.toFixed(2)} s`;
  if (size < 10) return `${size.toFixed(1)} s`;
  if (size < 100) return `${size.toFixed(0)} s`;
  if (size < 5400) return `${Math.floor(size / 60)} min ${String(Math.floor(size % 60)).padStart(2, "0")} s`;
  return size < 172800
    ? `${Math.floor(size / 3600)} h ${String(Math.floor((size % 3600) / 60)).padStart(2, "0")} min`
    : `${Math.floor(size / 86400)} d`;
}

/** A period with three digits. */
export function period(seconds) {
  return `${seconds < 10 ? seconds.toFixed(2) : seconds < 100 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
}

/** 21:14:02.5 UTC, without the word. */
export function utc(seconds, places = 0) {
  const text = new Date(seconds * 1000).toISOString();
  return text.slice(11, places ? 20 + places : 19);
}

/** Skill with its sign, two digits. */
export function skill(value) {
  if (value === null || value === undefined) return "–";
  return (value < 0 ? "−" : "") + Math.abs(value).toFixed(2);
}

/** `kubernetes:team-a:train` as its short name and where it comes from. */
export function jobName(id) {
  const parts = id.split(":");
  return { short: parts.at(-1), from: parts.slice(0, -1).join(" · ") };
}
