// Talking to the service this page came from: conditional requests, a time limit, problems as errors.

const LIMIT_MS = 8000;

/** The service answered with a problem document. */
export class ProblemError extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title ?? "unknown problem");
    this.status = problem.status;
  }
}

/** The service did not answer. */
export class DownError extends Error {}

/** Remembers the last reply of each address, so that an unchanged one costs a 304 and no parsing. */
export class Client {
  #kept = new Map();

  /** The answer at `path`; the very same object while it is unchanged. */
  async get(path) {
    const kept = this.#kept.get(path);
    const headers = kept?.tag ? { "If-None-Match": kept.tag } : {};
    const reply = await this.#ask(path, { headers });
    if (reply.status === 304 && kept) return kept.data;
    const data = await this.#read(reply);
    if (this.#kept.size > 300) this.#kept.clear();
    this.#kept.set(path, { tag: reply.headers.get("ETag"), data });
    return data;
  }

  /** Post without a body. */
  async post(path) {
    return this.#read(await this.#ask(path, { method: "POST" }));
  }

  async #ask(path, options) {
    try {
      return await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(LIMIT_MS), ...options });
    } catch (error) {
      throw new DownError(error.name === "TimeoutError" ? "no answer within 8 s" : "the connection was refused or lost");
    }
  }

  async #read(reply) {
    let data;
    try {
      data = await reply.json();
    } catch {
      throw new DownError(`an unreadable answer (HTTP ${reply.status})`);
    }
    if (!reply.ok) throw new ProblemError(data);
    return data;
  }
}

const encoded = (id) => encodeURIComponent(id).replaceAll("%3A", ":");
export const jobPath = (id, tail = "") => `/v1/jobs/${encoded(id)}${tail}`;
export const linkPath = (id, tail = "") => `/v1/links/${encoded(id)}${tail}`;
export const advicePath = (id, verb) => `/v1/advice/${encoded(id)}:${verb}`;
