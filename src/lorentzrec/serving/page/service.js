/** The HTTP service, as far as the page uses it. Every failure becomes one `Problem` with one readable line. */

/**
 * @typedef {{row?: number, id: string, title: string | null, category: string | null, new?: boolean, price?: number | null, image?: string | null}} Item row: -1 for a new item, which is not on the map
 * @typedef {"near" | "often_after" | "often_with" | "category_with" | "bought_before" | "trending"} ReasonKind
 * @typedef {{item: string, title: string | null, share: number, kind: ReasonKind, bought?: number | null}} Reason
 * @typedef {Item & {score: number, because?: Reason[]}} RecommendedItem
 * @typedef {{items: RecommendedItem[], model: string, fallback: string | null, fallback_kinds: string[], degraded: string | null, milliseconds: number, arm: string, rules?: string[], slots?: {category: string, items: string[]}[], price?: number | null}} Recommendations
 * @typedef {{name: string, select: object, boost?: number, bury?: number, exclude?: boolean, pin?: number}} Rule
 * @typedef {{revision: number, rules: Rule[], sets: Record<string, string[]>}} Rules
 * @typedef {{history?: string[], user?: string, context?: string[], k: number, categories: string[], diversity: number, arm?: string}} Query
 * @typedef {{arm: string, share: number, model: string | null, score: "distance" | "inner" | null}} Arm
 * @typedef {{time: number, ndcg: number | null, best_baseline: number | null, coverage: number | null, new_item_share: number | null}} Day
 * @typedef {{ndcg: number, best_baseline: string, best_baseline_ndcg: number, customers: number, events: "held-out" | "new"}} Check
 * @typedef {{created: number, newest_event: number | null, check: Check | null, compared_with: string | null, overlap: number | null, days: Day[] | null}} Version
 * @typedef {{model: string, items: number, geometry: string, dimension: number, score: "distance" | "inner", recency?: number, map: object | null, categories: string[], arms: Arm[], version: Version | null}} Model
 */

/** What went wrong, in one line for the reader. */
export class Problem extends Error {
  /** @param {string} message @param {number} status 0 if the service could not be reached */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const segment = encodeURIComponent;
/** Details of recommended items. */
const FIELDS = ["price", "image"];

export class Service {
  /** @param {(version: string) => void} sawModel called with the version that each response names */
  constructor(sawModel) {
    this.sawModel = sawModel;
    /** Needed only where the service was started with keys. */
    this.key = "";
  }

  /**
   * @param {string} path @param {RequestInit} [options]
   * @returns {Promise<Response>}
   */
  async #fetch(path, options) {
    const headers = this.key ? { ...options?.headers, "X-API-Key": this.key } : options?.headers;
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (options?.signal?.aborted) throw error;
      throw new Problem("The service cannot be reached.", 0);
    }
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    throw new Problem(problem.detail || problem.title || `The service responded with status ${response.status}.`, response.status);
  }

  /** @param {string} path @param {RequestInit} [options] */
  async #json(path, options) {
    const body = await (await this.#fetch(path, options)).json();
    if (typeof body?.model === "string" && (body.arm ?? "main") === "main") this.sawModel(body.model);
    return body;
  }

  /** @param {string} path @param {object} body @param {AbortSignal} [signal] */
  #post(path, body, signal) {
    return this.#json(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  }

  /** @returns {Promise<Model>} */
  model() {
    return this.#json("/v1/model");
  }

  /** The bytes of the map, with the version they belong to, to which a proxy that compresses may have added a suffix. */
  async map() {
    const response = await this.#fetch("/v1/map");
    const version = (response.headers.get("ETag") ?? "").replace(/^W\//, "").replaceAll('"', "");
    return { bytes: await response.arrayBuffer(), version };
  }

  /** @param {Query} query @param {AbortSignal} [signal] @returns {Promise<Recommendations>} */
  recommend(query, signal) {
    return this.#post("/v1/recommend", { ...query, reasons: true, fields: FIELDS }, signal);
  }

  /** What goes with items. @param {string[]} basket @param {object} options @param {AbortSignal} [signal] @returns {Promise<Recommendations>} */
  outfits(basket, options, signal) {
    return this.#post("/v1/outfits", { ...options, basket, reasons: true, fields: FIELDS }, signal);
  }

  /**
   * What is more popular than usual in the last days.
   * @param {number} k @param {string} arm @param {AbortSignal} [signal]
   * @returns {Promise<{items: (Item & {reason: string})[], model: string}>}
   */
  trending(k, arm, signal) {
    return this.#json(`/v1/trending?${new URLSearchParams([["k", String(k)], ["arm", arm]])}`, { signal });
  }

  /** The rules of the shop. @returns {Promise<Rules>} */
  rules() {
    return this.#json("/v1/rules");
  }

  /** Replaces them for everyone, unless somebody else has changed them. @param {Rules} rules @param {string} reason */
  setRules({ revision, rules, sets }, reason) {
    const body = JSON.stringify({ rules, sets, reason, instead_of: revision });
    return this.#json("/v1/rules", { method: "PUT", headers: { "Content-Type": "application/json" }, body });
  }

  /**
   * The list that a request would have with other rules. Nothing is stored.
   * @param {Rules} rules @param {object} request @param {string} arm @param {AbortSignal} [signal] @returns {Promise<Recommendations>}
   */
  async preview({ rules, sets }, request, arm, signal) {
    const found = await this.#post("/v1/rules/preview", { rules, sets, ...request }, signal);
    return { ...found, arm, fallback_kinds: [], degraded: null, milliseconds: 0 };
  }

  /**
   * Similar items, or alternatives to it.
   * @param {string} id @param {string} kind @param {{k: number, categories: string[], diversity: number, arm: string}} options @param {AbortSignal} [signal]
   * @returns {Promise<Recommendations>}
   */
  ofItem(id, kind, { k, categories, diversity, arm }, signal) {
    const parameters = new URLSearchParams([["k", String(k)], ["diversity", String(diversity)], ["arm", arm]]);
    for (const name of categories) parameters.append("categories", name);
    for (const name of FIELDS) parameters.append("fields", name);
    return this.#json(`/v1/items/${segment(id)}/${kind}?${parameters}`, { signal });
  }

  /** @param {string} query @param {number} limit @param {AbortSignal} [signal] @returns {Promise<Item[]>} */
  async search(query, limit, signal) {
    const body = await this.#json(`/v1/items?query=${segment(query)}&limit=${limit}`, { signal });
    return body.items;
  }

  /** @param {string} id @returns {Promise<Item>} */
  item(id) {
    return this.#json(`/v1/items/${segment(id)}`);
  }

  /** @param {number[]} rows one or more @returns {Promise<{items: Item[], model: string}>} */
  itemsOfRows(rows) {
    return this.#json(`/v1/map/items?rows=${rows.join(",")}`);
  }

  /** @param {string[]} items @returns {Promise<{rows: (number | null)[], model: string}>} */
  rowsOfItems(items) {
    return this.#post("/v1/map/rows", { items });
  }

  /** The stored history of a customer, oldest first. @param {string} user @returns {Promise<(Item & {disliked: boolean})[]>} */
  async history(user) {
    const { history } = await this.#json(`/v1/users/${segment(user)}/history?limit=200`);
    return history.map(({ item, title, weight }) => ({ id: item, title, category: null, disliked: weight < 0 }));
  }

  /** Durable when it returns. @param {string} user @param {string} item */
  sendEvent(user, item) {
    // Not randomUUID, which exists on https and localhost only.
    const id = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    return this.#post("/v1/events", { events: [{ user, item, id: `page-${id}` }] });
  }
}
