/** The page: actions of the reader become requests to the service, and its responses become lists and a picture. */

import { CatalogueMap, byFrequency } from "./catalogue_map.js";
import { Customer } from "./customer.js";
import { Disk } from "./disk.js";
import { byId, element, titleOf } from "./element.js";
import { Experiences } from "./experiences.js";
import { examplesOfCategories, examplesOfMap } from "./examples.js";
import { fillResults, fillHistory, markCentral } from "./item_lists.js";
import { KnownItems } from "./known_items.js";
import { Legend } from "./legend.js";
import { SCORES, factsOf, isPopular, isRecent, noticeOf, outfitPriceOf, rulesOf, trendingOf } from "./notices.js";
import { COLOURED } from "./palette.js";
import { Picture } from "./picture.js";
import { RuleTrial } from "./rule_trial.js";
import { Search } from "./search.js";
import { Problem, Service } from "./service.js";
import { beginTour, offerTour } from "./tour.js";
import { Tooltip } from "./tooltip.js";
import { fillVersion } from "./version_panel.js";

/**
 * @typedef {import("./service.js").Item} Item
 * @typedef {import("./service.js").Recommendations} Recommendations
 */

/** Items that are named as more popular than usual. */
const TRENDING = 3;
const SLIDER_PAUSE_MILLISECONDS = 150;
/** How often, and at which interval, model and map are requested until they are of one version. */
const MOST_ATTEMPTS = 10;
const ATTEMPT_MILLISECONDS = 500;

class Application {
  constructor() {
    this.service = new Service((version) => this.#sawModel(version));
    this.known = new KnownItems(this.service);
    this.customer = new Customer();
    this.disk = new Disk(byId("stage"), {
      point: (row, place, kind) => (row === null ? this.tooltip.hide() : this.tooltip.show(row, place, kind)),
      pick: (row, place, kind) => this.#pick(row, place, kind),
      hint: (text, place) => this.tooltip.say(text, place),
    });
    this.picture = new Picture(this.disk, this.known);
    this.tooltip = new Tooltip(async (row) => (await this.known.ofRows([row]))[0], (item) => this.add(item), () => this.disk.overlay.taken);
    this.legend = new Legend(byId("legend"), (code) => this.disk.highlight(code));
    this.search = new Search(this.service, (item) => this.add(item), (error) => this.fail(error, () => {}));
    this.trial = new RuleTrial({ attempt: (action) => this.#attempt(action), service: this.service, refresh: () => this.refresh() });
    this.experiences = new Experiences((name) => this.#showExperience(name));
    /** @type {import("./service.js").Model | null} */
    this.model = null;
    /** @type {Recommendations[]} of an arm, and of the arm that it is compared with */
    this.results = [];
    this.loading = false;
    this.request = new AbortController();
    this.#listen();
  }

  /** Loads model and map, then the results. Called at the start, and again when the service uses another version. */
  async load() {
    if (this.loading) return;
    this.loading = true;
    try {
      const { model, map } = await this.#modelAndMap();
      this.known.begin(model.model);
      this.model = model;
      this.disk.load(map && new CatalogueMap(map.bytes, model.categories));
      this.#showModel();
      if (this.customer.history.length === 0 && this.customer.id === null) await this.#begin();
      this.loading = false;
      await this.refresh();
      offerTour();
    } catch (error) {
      this.fail(error, () => this.load());
    } finally {
      this.loading = false;
    }
  }

  /** Model and map of one version. While workers switch to another, two of them may respond, each with its own. */
  async #modelAndMap() {
    for (let attempts = MOST_ATTEMPTS; ; attempts--) {
      const model = await this.service.model();
      const map = model.map ? await this.service.map() : null;
      if (!map || map.version.startsWith(model.model)) return { model, map };
      if (attempts === 1) throw new Problem("The service is switching to another version.", 503);
      await new Promise((resolve) => setTimeout(resolve, ATTEMPT_MILLISECONDS));
    }
  }

  /** The service uses another version: the map that is shown is outdated. @param {string} version */
  #sawModel(version) {
    if (this.model && version !== this.model.model && !this.loading) this.load();
  }

  #showModel() {
    const { model, disk } = this;
    if (!model) return;
    byId("model-facts").textContent = factsOf(model);
    fillVersion(model.version);
    byId("disk-side").hidden = !disk.map;
    byId("no-map").hidden = Boolean(disk.map);
    this.legend.begin(disk.map, disk.palette);
    this.#offerArms(model.arms.map(({ arm }) => arm));
    const select = byId("category");
    select.parentElement.hidden = model.categories.length === 0;
    const chosen = select.value;
    select.replaceChildren(element("option", { value: "" }, "All"), ...model.categories.map((name) => element("option", { value: name }, name)));
    select.value = model.categories.includes(chosen) ? chosen : "";
    this.examples = disk.map ? examplesOfMap(disk.map, this.known) : examplesOfCategories(model.categories, this.service);
    byId("examples").replaceChildren(
      ...this.examples.map(({ label, items }) => {
        const button = element("button", { type: "button" }, label);
        button.addEventListener("click", () => this.#attempt(async () => this.#replaceHistory(await items())));
        return button;
      }),
    );
  }

  /** Two arms can be compared where there are several. @param {string[]} names */
  #offerArms(names) {
    for (const [id, first] of /** @type {[string, string[]][]} */ ([["arm", []], ["other-arm", [""]]])) {
      const select = byId(id);
      const chosen = select.value;
      select.parentElement.hidden = names.length < 2;
      select.replaceChildren(...[...first, ...names].map((name) => element("option", { value: name }, name || "Nothing")));
      select.value = names.includes(chosen) ? chosen : first.length ? "" : names[0];
    }
  }

  /** The first history: the one in the address, or an example. */
  async #begin() {
    const address = new URLSearchParams(window.location.hash.slice(1));
    const ids = address.getAll("history").filter(Boolean);
    for (const id of ["arm", "other-arm"]) {
      const wanted = address.get(id);
      if (wanted && this.model?.arms.some(({ arm }) => arm === wanted)) byId(id).value = wanted;
    }
    if (address.get("customer")) await this.#become(/** @type {string} */ (address.get("customer")));
    else if (ids.length) this.customer.chosen = await Promise.all(ids.map((id) => this.service.item(id).catch(() => ({ id, title: null, category: null }))));
    else this.customer.chosen = (await this.examples[0]?.items()) ?? [];
  }

  /** Requests results for the current choices; an earlier request that is under way is cancelled. */
  async refresh() {
    this.request.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    this.#showHistory();
    byId("results").setAttribute("aria-busy", "true");
    try {
      const results = await Promise.all(this.#send(signal));
      if (signal.aborted) return;
      // Next to what is popular now, which is for those without a history.
      const trending = isRecent(results[0]) ? (await this.service.trending(TRENDING, results[0].arm, signal)).items : [];
      if (signal.aborted) return;
      byId("trending").textContent = trendingOf(trending);
      this.results = results;
      this.known.remember(results[0]);
      byId("problem").hidden = true;
      this.#showResults();
      const central = await this.picture.draw(this.customer.liked, results[0].items, this.experiences.item, this.model?.recency ?? 1);
      if (!signal.aborted) markCentral(byId("own-results"), central);
    } catch (error) {
      if (!signal.aborted) this.fail(error, () => this.refresh());
    } finally {
      if (!signal.aborted) byId("results").setAttribute("aria-busy", "false");
    }
  }

  /** @param {AbortSignal} signal @returns {Promise<Recommendations>[]} */
  #send(signal) {
    const k = Number(byId("k").value);
    const categories = byId("category").value ? [byId("category").value] : [];
    const diversity = Number(byId("diversity").value);
    const { experiences, service } = this;
    return [byId("arm").value, byId("other-arm").value].filter(Boolean).map((arm) => {
      const options = { k, categories, diversity, arm };
      const basket = this.customer.liked.map(({ id }) => id);
      const { tried } = this.trial;
      const outfit = { k, categories, arm };
      if (tried) {
        const shown = { ...options, fields: ["price", "image"] };
        const request = experiences.item
          ? { [experiences.shown]: { ...shown, item: experiences.item.id } }
          : experiences.shown === "outfits"
            ? { outfits: { ...outfit, fields: shown.fields, reasons: true, basket } }
            : { recommend: { ...shown, reasons: true, ...this.customer.query } };
        return service.preview(tried, request, arm, signal);
      }
      if (experiences.item) return service.ofItem(experiences.item.id, experiences.shown, options, signal);
      if (experiences.shown === "outfits") return service.outfits(basket, outfit, signal);
      return service.recommend({ ...this.customer.query, ...options }, signal);
    });
  }

  #showHistory() {
    const { history, id, chosen } = this.customer;
    const heading = byId("history-heading");
    heading.textContent = id === null ? "History" : `History of ${id}`;
    byId("history-note").textContent = history.length ? `${history.length} ${history.length === 1 ? "item" : "items"}, newest first` : "empty";
    fillHistory(byId("history"), history, (place) => this.#remove(place), byId("search"));
    byId("clear").hidden = chosen.length === 0;
    byId("leave-customer").hidden = id === null;
    this.#showWholeHistory(false);
    const address = new URLSearchParams();
    if (id !== null) address.set("customer", id);
    else for (const item of chosen) address.append("history", item.id); // not one list: ids may contain commas
    if (byId("other-arm").value) for (const name of ["arm", "other-arm"]) address.set(name, byId(name).value);
    window.history.replaceState(null, "", `#${address}`);
  }

  /** A long history is shown in part, with a button for the rest. @param {boolean} whole */
  #showWholeHistory(whole) {
    const list = byId("history");
    list.classList.toggle("whole", whole);
    const button = byId("whole-history");
    button.hidden = !whole && list.scrollHeight <= list.clientHeight;
    button.textContent = whole ? "Show fewer" : `Show all ${this.customer.history.length}`;
    button.setAttribute("aria-expanded", String(whole));
  }

  #showResults() {
    const [result, other] = this.results;
    const { experiences } = this;
    byId("results-heading").textContent = isRecent(result) ? "Popular now" : experiences.heading;
    byId("leave-item").hidden = !experiences.item;
    experiences.mark(this.customer.liked.length === 0);
    this.trial.offer(result.items, this.model?.categories ?? []);
    byId("rules-note").textContent = rulesOf(result.rules ?? [], this.trial.name);
    byId("milliseconds").textContent = this.trial.tried ? "" : `The service took ${result.milliseconds.toFixed(1)} ms.`;
    byId("diversity").disabled = experiences.shown === "outfits"; // an outfit has one item of each category
    byId("outfit-price").textContent = outfitPriceOf(result);
    const notice = noticeOf(result);
    byId("notice").textContent = notice;
    byId("notice").hidden = !notice;
    byId("notice").title = result.fallback ?? "";
    byId("other-side").hidden = byId("own-heading").hidden = !other;
    byId("results").classList.toggle("two", Boolean(other));
    byId("own-heading").textContent = result.arm;
    this.#colourCategories([...result.items, ...(other?.items ?? [])]);
    const ids = new Set(result.items.map(({ id }) => id));
    const shared = new Set(other?.items.map(({ id }) => id).filter((id) => ids.has(id)) ?? []);
    const scored = this.#scoreOf(result);
    const explained = experiences.explained && !isPopular(result);
    byId("score-help").textContent = SCORES[scored];
    byId("because-help").hidden = !explained;
    const options = {
      shared,
      scored,
      explained,
      ruled: Boolean(result.rules?.length),
      colourOf: (/** @type {string | null} */ category) => this.#colourOf(category),
      add: (/** @type {Item} */ item) => this.add(item),
      similar: (/** @type {Item} */ item) => this.#showItem("similar", item),
      alternatives: (/** @type {Item} */ item) => this.#showItem("alternatives", item),
      show: this.disk.map ? (/** @type {Item} */ item) => this.#showOnDisk(item) : null,
    };
    fillResults(byId("own-results"), result.items, { ...options, emphasise: (place) => this.disk.show({ emphasised: place }) });
    byId("shared").textContent = other ? `${shared.size} of ${result.items.length} items are in both lists.` : "";
    if (!other) return;
    byId("other-heading").textContent = other.arm;
    fillResults(byId("other-results"), other.items, { ...options, scored: this.#scoreOf(other) });
  }

  /** What the scores in a list are. @param {Recommendations} result @returns {import("./item_lists.js").Scored} */
  #scoreOf(result) {
    if (isPopular(result)) return "count";
    const used = this.model?.arms.find(({ arm }) => arm === result.arm);
    const { shown } = this.experiences;
    if (shown === "outfits") return result.fallback_kinds.includes("not_learned") ? (used?.score ?? "distance") : "outfits";
    return shown === "similar" || shown === "alternatives" ? shown : (used?.score ?? "distance");
  }

  /** @param {Item} item brought to the middle, and into sight where the disk is above the lists */
  async #showOnDisk(item) {
    const { disk } = this;
    const [row] = await this.known.rowsOf([item.id]);
    if (row === null || !disk.map || row >= disk.map.count) return;
    disk.goTo({ point: disk.map.at(row), label: titleOf(item) });
    disk.stage.scrollIntoView({ block: "nearest" });
  }

  /** The categories that the reader looks at have colours. @param {Item[]} items of the lists */
  #colourCategories(items) {
    const { map, palette } = this.disk;
    if (!map) return;
    const listed = byFrequency([...items, ...this.customer.history].map(({ category }) => category));
    const codes = [byId("category").value, ...listed].map((name) => map.categories.indexOf(name)).filter((code) => code >= 0);
    if (!map.colour(codes)) return;
    this.disk.recolour();
    this.legend.fill(map, palette);
  }

  /** @param {string | null} category */
  #colourOf(category) {
    const { map, palette } = this.disk;
    const place = map ? map.coloured.findIndex((code) => map.categories[code] === category) : -1;
    return palette[place < 0 ? COLOURED : place];
  }

  /** @param {Item} item */
  async add(item) {
    await this.#attempt(async () => {
      if (this.customer.id !== null && byId("send-events").checked) {
        await this.service.sendEvent(this.customer.id, item.id);
        this.customer.stored = await this.service.history(this.customer.id);
      } else {
        this.customer.choose(item);
      }
      this.experiences.show(this.experiences.shown === "outfits" ? "outfits" : "personal");
      await this.refresh();
    });
  }

  /** A finger that taps sees the card, and may press its button. @param {number | null} row @param {import("./poincare.js").Point} place @param {string} kind */
  #pick(row, place, kind) {
    if (row === null && kind === "keyboard") this.tooltip.say("No item here: move with the arrow keys", place);
    if (row === null || kind === "touch") return;
    this.tooltip.dismiss();
    this.#attempt(async () => {
      const [item] = await this.known.ofRows([row]);
      if (item) await this.add(item);
    });
  }

  /** @param {number} place */
  #remove(place) {
    this.customer.remove(place);
    this.refresh();
  }

  /** @param {Item[]} items */
  #replaceHistory(items) {
    this.customer.chosen = items;
    this.experiences.show("personal");
    return this.refresh();
  }

  /** @param {import("./experiences.js").Experience} name @param {Item | null} item null goes back to the recommendations */
  async #showItem(name, item) {
    this.experiences.show(name, item);
    await this.refresh();
    byId("results-heading").focus();
  }

  /** A tab about an item is about the one that was asked for, or the newest of the history. @param {import("./experiences.js").Experience} name */
  #showExperience(name) {
    const { liked } = this.customer;
    const about = name === "similar" || name === "alternatives";
    this.experiences.show(name, about ? (this.experiences.item ?? liked[liked.length - 1]) : null);
    return this.refresh();
  }

  /** @param {string | null} id a known customer, or null for a new one */
  async #become(id) {
    this.customer.become(id, id === null ? [] : await this.service.history(id));
    this.experiences.show("personal");
    byId("customer-id").value = id ?? "";
    byId("customer-found").textContent = id !== null && this.customer.stored.length === 0 ? `Nothing is stored about ${id}, so the popular items are shown.` : "";
    byId("customer-panel").open ||= id !== null;
  }

  /** Runs an action that may fail; the button to retry runs it again. @param {() => Promise<unknown>} action */
  async #attempt(action) {
    try {
      await action();
    } catch (error) {
      this.fail(error, () => this.#attempt(action));
    }
  }

  /** One clear line, and a button that tries again. @param {unknown} error @param {() => unknown} retry */
  fail(error, retry) {
    if (!(error instanceof Problem)) console.error(error); // an error of this page: log it for its developers
    const box = byId("problem");
    box.querySelector("p").textContent = error instanceof Error ? error.message : String(error);
    const key = byId("key");
    key.hidden = !(error instanceof Problem && error.status === 401);
    box.hidden = false;
    box.onsubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (!key.hidden) this.service.key = key.value;
      box.hidden = true;
      retry();
    };
  }

  #listen() {
    const { view } = this.disk;
    const press = (/** @type {string} */ id, /** @type {() => unknown} */ act) => byId(id).addEventListener("click", act);
    press("show-tour", () => beginTour());
    byId("version-panel").addEventListener("toggle", () => fillVersion(this.model?.version ?? null)); // ages grow
    press("zoom-in", () => view.zoomBy(1.4));
    press("zoom-out", () => view.zoomBy(1 / 1.4));
    press("reset-view", () => this.disk.showAll());
    press("whole-history", () => this.#showWholeHistory(!byId("history").classList.contains("whole")));
    press("reading", () => {
      const help = byId("reading-help");
      help.hidden = !help.hidden;
      byId("reading").setAttribute("aria-expanded", String(!help.hidden));
      byId("results").classList.toggle("scored", !help.hidden);
    });
    press("go-to-star", () => this.disk.goToStar());
    press("clear", () => {
      this.#replaceHistory([]);
      byId("search").focus();
    });
    press("leave-item", () => this.#showItem("personal", null));
    press("leave-customer", () => this.#attempt(async () => {
      await this.#become(null);
      await this.refresh();
    }));
    byId("customer-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      const id = byId("customer-id").value.trim();
      if (id) this.#attempt(async () => {
        await this.#become(id);
        await this.refresh();
      });
    });
    for (const id of ["k", "category", "arm", "other-arm"]) byId(id).addEventListener("change", () => this.refresh());
    let timer = 0;
    byId("diversity").addEventListener("input", () => {
      byId("diversity-value").textContent = Number(byId("diversity").value).toFixed(1);
      clearTimeout(timer);
      timer = window.setTimeout(() => this.refresh(), SLIDER_PAUSE_MILLISECONDS);
    });
    byId("options").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
    document.addEventListener("themechange", () => {
      this.disk.readColours();
      this.legend.fill(this.disk.map, this.disk.palette);
      if (this.results.length) this.#showResults();
    });
  }
}

new Application().load();
