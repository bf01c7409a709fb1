/** A client of the HTTP service for browsers and Node. All types of requests and responses are those of its /schema. */

import type { components, operations } from "./schema.js";

type Schemas = components["schemas"];
type Parameters<Name extends keyof operations> = NonNullable<operations[Name]["parameters"]["query"]>;
/** What fields with a default may be left out of, at any depth. */
type Sent<Value> = Value extends readonly (infer Element)[]
  ? Sent<Element>[]
  : Value extends object
    ? { [Key in keyof Value]?: Sent<Value[Key]> }
    : Value;
/** A request body. */
type Body<Name extends keyof Schemas, Required extends keyof Schemas[Name] = never> = Sent<Schemas[Name]> &
  Pick<Schemas[Name], Required>;

/** Integers mean the same as their decimal text. Use text beyond 2^53, where JavaScript rounds numbers. */
export type Id = string | number;
/** A history, oldest first, or a customer whose history is in the store. */
export type Query = { history: Id[] } | { user: Id };
export type RecommendOptions = Omit<Body<"RecommendRequest">, "history" | "user">;
export type OutfitOptions = Omit<Body<"OutfitRequest">, "basket">;
export type Outfit = Schemas["OutfitResponse"];
/** Conditions on columns: a value, a list of values, or a range with `min`, `max` or both. */
export type Where = { [column: string]: Sent<Schemas["RecommendRequest"]["where"][string]> };
export type SimilarOptions = Omit<Parameters<"V1ItemsSimilarSimilarItems">, "where"> & { where?: Where };
export type AlternativesOptions = SimilarOptions;
export type TrendingOptions = Omit<Parameters<"V1TrendingTrending">, "where"> & { where?: Where };
export type Rule = Body<"Rule", "name">;
export type Sets = { [name: string]: Id[] };
export type RulesOptions = Omit<Body<"RulesRequest">, "rules" | "sets">;
export type PreviewOptions = Omit<Body<"PreviewRequest">, "rules" | "sets" | "recommend" | "similar" | "alternatives" | "outfits">;
export type PreviewedRequest =
  | { recommend: RecommendOptions & Query }
  | { similar: Body<"ItemPreview", "item"> }
  | { alternatives: Body<"ItemPreview", "item"> }
  | { outfits: Body<"OutfitRequest", "basket"> };
export type NewEvent = Body<"NewEvent", "user" | "item">;
export type ItemDetails = Body<"NewItemRequest">;
export type NewItemOptions = Parameters<"V1ItemsRemoveItems">;
export type Recommendations = Schemas["RecommendResponse"];
export type RecommendedItem = Schemas["RecommendedItem"];
export type Trending = Schemas["TrendingResponse"];
export type Reason = Schemas["Reason"];
export type Item = Schemas["Item"];
export type HistoryEvent = Schemas["HistoryEvent"];
export type Problem = Schemas["Problem"];

export interface ClientOptions {
  /** Browsers cannot keep a secret: give pages a read-only key, or none. */
  apiKey?: string | undefined;
  /** Milliseconds until a call is given up, with all its attempts and the pauses between them; 10,000 by default. */
  timeout?: number;
  /** How often a request is sent again if the service is unavailable (503) or cannot be reached; 2 by default. */
  retries?: number;
}

/** A request failed. `problem` is the problem document of the service; undefined if there was none. */
export class ServiceError extends Error {
  override name = "ServiceError";

  constructor(
    message: string,
    readonly problem?: Problem,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/**
 * Sends requests to a service.
 *
 *     const client = new Client("http://127.0.0.1:8000");
 *     const { items } = await client.recommend({ user: "ann" }, { k: 5, reasons: true });
 *
 * Requests that fail because the service is unavailable are sent again, after the pause that it asks for. That is safe
 * for events, too: the client gives each an id, so none counts twice.
 */
export class Client {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #timeout: number;
  readonly #retries: number;

  constructor(url: string, { apiKey, timeout = 10_000, retries = 2 }: ClientOptions = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#headers = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
    this.#timeout = timeout;
    this.#retries = retries;
  }

  /** The best items for a history, or for a customer. */
  recommend(query: Query, options: RecommendOptions = {}): Promise<Recommendations> {
    return this.#send("POST", "/v1/recommend", { body: { ...options, ...query } });
  }

  /** Items that go with those of a basket, one for each category that is not yet in it, or for each of `slots`. */
  outfits(basket: Id[], options: OutfitOptions = {}): Promise<Outfit> {
    return this.#send("POST", "/v1/outfits", { body: { ...options, basket } });
  }

  /** The items most similar to an item, by what customers buy. */
  similar(item: Id, options: SimilarOptions = {}): Promise<Recommendations> {
    return this.#send("GET", `/v1/items/${part(item)}/similar`, { parameters: options });
  }

  /** Items to buy instead of an item, such as one that is sold out: of its category, or else of the parent of that. */
  alternatives(item: Id, options: AlternativesOptions = {}): Promise<Recommendations> {
    return this.#send("GET", `/v1/items/${part(item)}/alternatives`, { parameters: options });
  }

  /** The items that have more customers than usual in the last days. */
  trending(options: TrendingOptions = {}): Promise<Trending> {
    return this.#send("GET", "/v1/trending", { parameters: options });
  }

  /** Store events; they are durable afterwards. Send the time that your training data will have: see docs/operating.md. */
  addEvents(events: NewEvent[]): Promise<Schemas["EventsResponse"]> {
    const sent = events.map((event) => ({ ...event, id: event.id ?? randomId() }));
    return this.#send("POST", "/v1/events", { body: { events: sent } });
  }

  /** The newest events of a customer, oldest first. */
  async history(user: Id, limit = 100): Promise<HistoryEvent[]> {
    const path = `/v1/users/${part(user)}/history`;
    return (await this.#send<Schemas["HistoryResponse"]>("GET", path, { parameters: { limit } })).history;
  }

  /** Erase a customer; the number of events erased. */
  async forget(user: Id): Promise<number> {
    return (await this.#send<Schemas["ErasureResponse"]>("DELETE", `/v1/users/${part(user)}`)).events;
  }

  /** Items by the words of their titles; without words, the most popular ones. */
  async search(query = "", limit = 20): Promise<Item[]> {
    return (await this.#send<Schemas["ItemsResponse"]>("GET", "/v1/items", { parameters: { query, limit } })).items;
  }

  /** The details of an item. */
  item(item: Id): Promise<Schemas["ItemResponse"]> {
    return this.#send("GET", `/v1/items/${part(item)}`);
  }

  /** The details of many items, and which ids are unknown. */
  lookup(ids: Id[]): Promise<Schemas["LookupResponse"]> {
    return this.#send("POST", "/v1/items/lookup", { body: { ids } });
  }

  /** Create an item that the version does not contain, or replace what was sent about it. */
  addItem(item: Id, details: ItemDetails): Promise<Schemas["NewItemResponse"]> {
    return this.#send("PUT", `/v1/items/${part(item)}`, { body: details });
  }

  /** Remove a new item. */
  removeItem(item: Id): Promise<Schemas["NewItemRemoved"]> {
    return this.#send("DELETE", `/v1/items/${part(item)}`);
  }

  /** Remove all new items of one origin, or only those with fewer customers (`fewer_than`); how many there were. */
  async removeItems(options: NewItemOptions): Promise<number> {
    return (await this.#send<Schemas["NewItemsRemoved"]>("DELETE", "/v1/items", { parameters: options })).removed;
  }

  /** Which items may be recommended: the only live `items`, or null for all except `removed`. */
  liveItems(): Promise<Schemas["LiveItemsResponse"]> {
    return this.#send("GET", "/v1/live");
  }

  /** Replace the live items; null makes all items live, also removed ones. A list that is probably a mistake needs `force`. */
  setLiveItems(items: Id[] | null, { force = false } = {}): Promise<Schemas["LiveItemsChanged"]> {
    return this.#send("PUT", "/v1/live", { body: { items, force } });
  }

  /** Make items live, and others not: what comes into stock, and what is sold out. */
  changeLiveItems(change: Body<"LiveItemsChange">): Promise<Schemas["LiveItemsChanged"]> {
    return this.#send("PATCH", "/v1/live", { body: change });
  }

  /** The rules of the shop, and its named sets of items. */
  rules(): Promise<Schemas["RulesResponse"]> {
    return this.#send("GET", "/v1/rules");
  }

  /** Replace all rules and sets. Rules with any fault are refused whole. */
  setRules(rules: Rule[], sets: Sets = {}, options: RulesOptions = {}): Promise<Schemas["RulesChanged"]> {
    return this.#send("PUT", "/v1/rules", { body: { ...options, rules, sets } });
  }

  /** Who changed the rules, when, and why; newest first. */
  async rulesLog(): Promise<Schemas["RuleChangeEntry"][]> {
    return (await this.#send<Schemas["RulesLogResponse"]>("GET", "/v1/rules/log")).changes;
  }

  /** The list that a request has with these rules, and without any. Nothing is stored. */
  previewRules(rules: Rule[], sets: Sets, request: PreviewedRequest, options: PreviewOptions = {}): Promise<Schemas["PreviewResponse"]> {
    return this.#send("POST", "/v1/rules/preview", { body: { ...options, ...request, rules, sets } });
  }

  /** The version in use. */
  model(): Promise<Schemas["ModelInformation"]> {
    return this.#send("GET", "/v1/model");
  }

  async #send<Message>(
    method: string,
    path: string,
    { body, parameters = {} }: { body?: object; parameters?: object } = {},
  ): Promise<Message> {
    if (path.split("/").some((segment) => segment === "." || segment === "..")) {
      throw new ServiceError(`the id in ${path} cannot be part of an address, from which . and .. are removed: use another id`);
    }
    const address = new URL(this.#url + path);
    for (const [name, value] of Object.entries(parameters)) {
      // An empty list is a parameter without a value: one that is left out has its default.
      const values = Array.isArray(value) && value.length === 0 ? [""] : [value].flat();
      for (const one of values) {
        if (one != null) address.searchParams.append(name, typeof one === "object" ? JSON.stringify(one) : String(one));
      }
    }
    const request: RequestInit = { method, headers: this.#headers };
    if (body !== undefined) {
      request.headers = { ...this.#headers, "Content-Type": "application/json" };
      request.body = JSON.stringify(body);
    }
    const end = performance.now() + this.#timeout;
    const signal = AbortSignal.timeout(this.#timeout);
    for (let left = this.#retries; ; left--) {
      let pause = 500;
      let failure: ServiceError;
      try {
        const response = await fetch(address, { ...request, signal });
        if (response.ok) return (await response.json()) as Message;
        failure = await failureOf(response);
        if (response.status !== 503) throw failure;
        pause = pauseOf(response.headers.get("Retry-After"));
      } catch (error) {
        if (error instanceof ServiceError) throw error;
        failure = new ServiceError(`${this.#url} cannot be reached: is it running?`, undefined, { cause: error });
      }
      // A pause that would not end before the deadline is pointless, so that a long Retry-After is an error at once.
      if (left === 0 || pause >= end - performance.now()) throw failure;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

function part(id: Id): string {
  return encodeURIComponent(String(id));
}

function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (number) => number.toString(36)).join("-");
}

/** The milliseconds of a Retry-After header, which is a number of seconds or a date; one second if it is neither. */
function pauseOf(header: string | null): number {
  if (header !== null && /^\d+$/.test(header)) return 1000 * Number(header);
  const until = Date.parse(header ?? "");
  return Number.isNaN(until) ? 1000 : Math.max(0, until - Date.now());
}

async function failureOf(response: Response): Promise<ServiceError> {
  if (response.headers.get("Content-Type")?.startsWith("application/problem+json")) {
    const problem = { detail: "", errors: [], ...((await response.json()) as Partial<Problem>) } as Problem;
    return new ServiceError(`${problem.title}: ${problem.detail}`, problem);
  }
  return new ServiceError(`${response.url} responded ${response.status} without a problem document: check the URL`);
}
