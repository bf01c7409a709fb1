/** The page: what the reader does becomes questions to the service, and its answers become lists and a picture. */

import { CatalogueMap, byFrequency } from "./catalogue_map.js";
import { Customer } from "./customer.js";
import { Disk } from "./disk.js";
import { byId, element, titleOf } from "./element.js";
import { examplesOfCategories, examplesOfMap } from "./examples.js";
import { fillAnswers, fillHistory } from "./item_lists.js";
import { KnownItems } from "./known_items.js";
import { Legend } from "./legend.js";
import { SCORES, factsOf, isPopular, noticeOf } from "./notices.js";
import { COLOURED } from "./palette.js";
import { Picture } from "./picture.js";
import { Search } from "./search.js";
import { Problem, Service } from "./service.js";
import { Tooltip } from "./tooltip.js";

/**
 * @typedef {import("./service.js").Item} Item
 * @typedef {import("./service.js").Answer} Answer
 */

const SLIDER_PAUSE_MILLISECONDS = 150;
/** How often, and how long after one another, model and map are asked for until they are of one version. */
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
    /** @type {import("./service.js").Model | null} */
    this.model = null;
    /** The item whose like are shown instead of recommendations. @type {Item | null} */
    this.similarTo = null;
    /** @type {Answer[]} the answer on the page, and that of the twin if it is beside */
    this.answers = [];
    this.loading = false;
    this.request = new AbortController();
    this.#listen();
  }

  /** Loads model and map, then asks. Called at the start, and again when the service has gone on to another version. */
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
      await this.ask();
    } catch (error) {
      this.fail(error, () => this.load());
    } finally {
      this.loading = false;
    }
  }

  /** Model and map of one version. While workers go on to another, two of them may answer, each with its own. */
  async #modelAndMap() {
    for (let attempts = MOST_ATTEMPTS; ; attempts--) {
      const model = await this.service.model();
      const map = model.map ? await this.service.map() : null;
      if (!map || map.version.startsWith(model.model)) return { model, map };
      if (attempts === 1) throw new Problem("The service goes from one version to another.", 503);
      await new Promise((resolve) => setTimeout(resolve, ATTEMPT_MILLISECONDS));
    }
  }

  /** Another version answers: the map that is shown is no longer its map. @param {string} version */
  #sawModel(version) {
    if (this.model && version !== this.model.model && !this.loading) this.load();
  }

  #showModel() {
    const { model, disk } = this;
    if (!model) return;
    byId("model-facts").textContent = factsOf(model);
    byId("disk-side").hidden = !disk.map;
    byId("no-map").hidden = Boolean(disk.map);
    byId("twin-switch").hidden = !model.twin;
    if (!model.twin) byId("twin").checked = false;
    this.legend.begin(disk.map, disk.palette);
    const select = byId("category");
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

  /** The first thing a visitor sees: what the address names, or an example. */
  async #begin() {
    const asked = new URLSearchParams(window.location.hash.slice(1));
    const ids = asked.getAll("history").filter(Boolean);
    if (this.model?.twin) byId("twin").checked = asked.has("twin");
    if (asked.get("customer")) await this.#become(/** @type {string} */ (asked.get("customer")));
    else if (ids.length) this.customer.chosen = await Promise.all(ids.map((id) => this.service.item(id).catch(() => ({ id, title: null, category: null }))));
    else this.customer.chosen = (await this.examples[0]?.items()) ?? [];
  }

  /** Asks for what is chosen now; a question asked before and not yet answered is dropped. */
  async ask() {
    this.request.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    this.#showHistory();
    byId("answers").setAttribute("aria-busy", "true");
    try {
      const answers = await Promise.all(this.#questions(signal));
      if (signal.aborted) return;
      this.answers = answers;
      this.known.remember(answers[0]);
      byId("problem").hidden = true;
      this.#showAnswers();
      await this.picture.draw(this.customer.history, answers[0].items, this.similarTo, this.model?.recency ?? 1);
    } catch (error) {
      if (!signal.aborted) this.fail(error, () => this.ask());
    } finally {
      if (!signal.aborted) byId("answers").setAttribute("aria-busy", "false");
    }
  }

  /** @param {AbortSignal} signal @returns {Promise<Answer>[]} */
  #questions(signal) {
    const k = Number(byId("k").value);
    const categories = byId("category").value ? [byId("category").value] : [];
    const diversity = Number(byId("diversity").value);
    const { similarTo, service } = this;
    return (byId("twin").checked ? [false, true] : [false]).map((twin) => {
      const wishes = { k, categories, diversity, twin };
      return similarTo ? service.similar(similarTo.id, wishes, signal) : service.recommend({ ...this.customer.question, ...wishes }, signal);
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
    else for (const item of chosen) address.append("history", item.id); // not one list: ids may hold commas
    if (byId("twin").checked) address.set("twin", "");
    window.history.replaceState(null, "", `#${address}`);
  }

  /** A long history is cut, and says so. @param {boolean} whole */
  #showWholeHistory(whole) {
    const list = byId("history");
    list.classList.toggle("whole", whole);
    const button = byId("whole-history");
    button.hidden = !whole && list.scrollHeight <= list.clientHeight;
    button.textContent = whole ? "Show fewer" : `Show all ${this.customer.history.length}`;
    button.setAttribute("aria-expanded", String(whole));
  }

  #showAnswers() {
    const [answer, twin] = this.answers;
    this.#colourCategories();
    byId("answers-heading").textContent = this.similarTo ? `Similar to ${titleOf(this.similarTo)}` : "Recommended";
    byId("leave-similar").hidden = !this.similarTo;
    byId("milliseconds").textContent = `${answer.milliseconds.toFixed(1)} ms`;
    const notice = noticeOf(answer);
    byId("notice").textContent = notice;
    byId("notice").hidden = !notice;
    byId("twin-side").hidden = byId("own-heading").hidden = !twin;
    byId("answers").classList.toggle("two", Boolean(twin));
    const ids = new Set(answer.items.map(({ id }) => id));
    const shared = new Set(twin?.items.map(({ id }) => id).filter((id) => ids.has(id)) ?? []);
    const scored = isPopular(answer) ? "count" : this.similarTo ? "distance" : (this.model?.score ?? "distance");
    const explained = !this.similarTo && !isPopular(answer);
    byId("score-help").textContent = SCORES[scored];
    byId("because-help").hidden = !explained;
    const options = {
      shared,
      scored,
      explained,
      colourOf: (/** @type {string | null} */ category) => this.#colourOf(category),
      add: (/** @type {Item} */ item) => this.add(item),
      similar: (/** @type {Item} */ item) => this.#showSimilar(item),
      show: this.disk.map ? (/** @type {Item} */ item) => this.#showOnDisk(item) : null,
    };
    fillAnswers(byId("own-answers"), answer.items, { ...options, emphasise: (place) => this.disk.show({ emphasised: place }) });
    if (twin) fillAnswers(byId("twin-answers"), twin.items, options);
    byId("shared").textContent = twin ? `${shared.size} of ${answer.items.length} items are in both lists.` : "";
  }

  /** Colours go to the categories of the answer, whose items are looked for on the disk. */
  #colourCategories() {
    const { disk } = this;
    if (!disk.map?.colour(byFrequency(this.answers.flatMap(({ items }) => items.map(({ category }) => category))))) return;
    disk.recolour();
    this.legend.fill(disk.map, disk.palette);
  }

  /** @param {Item} item brought to the middle, and into sight where the disk is above the lists */
  async #showOnDisk(item) {
    const { disk } = this;
    const [row] = await this.known.rowsOf([item.id]);
    if (row === null || !disk.map || row >= disk.map.count) return;
    disk.goTo({ point: disk.map.at(row), label: titleOf(item) });
    disk.stage.scrollIntoView({ block: "nearest" });
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
      this.similarTo = null;
      await this.ask();
    });
  }

  /** A finger that taps sees the card, and may press its button. @param {number | null} row @param {import("./poincare.js").Point} place @param {string} kind */
  #pick(row, place, kind) {
    if (row === null && kind === "keyboard") this.tooltip.say("No item here: move on with the arrow keys", place);
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
    this.ask();
  }

  /** @param {Item[]} items */
  #replaceHistory(items) {
    this.customer.chosen = items;
    this.similarTo = null;
    return this.ask();
  }

  /** @param {Item | null} item null goes back to the recommendations */
  async #showSimilar(item) {
    this.similarTo = item;
    await this.ask();
    byId("answers-heading").focus();
  }

  /** @param {string | null} id a known customer, or null for somebody new */
  async #become(id) {
    this.customer.stored = id === null ? [] : await this.service.history(id);
    this.customer.id = id;
    this.customer.chosen = [];
    this.similarTo = null;
    byId("customer-id").value = id ?? "";
    byId("customer-panel").open ||= id !== null;
  }

  /** Does something that may fail, with the same thing as the way to retry. @param {() => Promise<unknown>} action */
  async #attempt(action) {
    try {
      await action();
    } catch (error) {
      this.fail(error, () => this.#attempt(action));
    }
  }

  /** One clear line, and a button that tries again. @param {unknown} error @param {() => unknown} retry */
  fail(error, retry) {
    if (!(error instanceof Problem)) console.error(error); // a fault of this page: leave a trace for its author
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
    press("zoom-in", () => view.zoomBy(1.4));
    press("zoom-out", () => view.zoomBy(1 / 1.4));
    press("reset-view", () => this.disk.showAll());
    press("whole-history", () => this.#showWholeHistory(!byId("history").classList.contains("whole")));
    press("reading", () => {
      const help = byId("reading-help");
      help.hidden = !help.hidden;
      byId("reading").setAttribute("aria-expanded", String(!help.hidden));
    });
    press("go-to-star", () => this.disk.goToStar());
    press("clear", () => {
      this.#replaceHistory([]);
      byId("search").focus();
    });
    press("leave-similar", () => this.#showSimilar(null));
    press("leave-customer", () => this.#attempt(async () => {
      await this.#become(null);
      await this.ask();
    }));
    byId("customer-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      const id = byId("customer-id").value.trim();
      if (id) this.#attempt(async () => {
        await this.#become(id);
        await this.ask();
      });
    });
    for (const id of ["k", "category", "twin"]) byId(id).addEventListener("change", () => this.ask());
    let timer = 0;
    byId("diversity").addEventListener("input", () => {
      byId("diversity-value").textContent = Number(byId("diversity").value).toFixed(1);
      clearTimeout(timer);
      timer = window.setTimeout(() => this.ask(), SLIDER_PAUSE_MILLISECONDS);
    });
    byId("options").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
    document.addEventListener("themechange", () => {
      this.disk.readColours();
      this.legend.fill(this.disk.map, this.disk.palette);
      if (this.answers.length) this.#showAnswers();
    });
  }
}

new Application().load();
