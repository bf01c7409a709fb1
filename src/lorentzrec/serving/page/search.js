/** The search box: a combobox with a list of items, for mouse and keys (the ARIA pattern of that name). */

import { byId, element, titleOf } from "./element.js";

const PAUSE_MILLISECONDS = 160;
const LIMIT = 8;

export class Search {
  /**
   * @param {import("./service.js").Service} service
   * @param {(item: import("./service.js").Item) => void} choose
   * @param {(error: unknown) => void} failed
   */
  constructor(service, choose, failed) {
    this.service = service;
    this.choose = choose;
    this.failed = failed;
    this.input = byId("search");
    this.list = byId("search-options");
    /** @type {import("./service.js").Item[]} */
    this.found = [];
    this.active = -1;
    this.timer = 0;
    this.request = new AbortController();
    this.input.addEventListener("input", () => this.#typed());
    this.input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
    this.input.addEventListener("blur", () => this.#close());
    // mousedown, not click: it comes before blur, and preventDefault keeps the focus in the box.
    this.list.addEventListener("mousedown", (/** @type {MouseEvent} */ event) => {
      event.preventDefault();
      const option = /** @type {HTMLElement} */ (event.target).closest("[role=option]");
      if (option) this.#take(Number(option.dataset.place));
    });
  }

  #typed() {
    clearTimeout(this.timer);
    this.request.abort();
    const query = this.input.value.trim();
    if (!query) this.#close();
    else this.timer = window.setTimeout(() => this.#search(query), PAUSE_MILLISECONDS);
  }

  /** @param {string} query */
  async #search(query) {
    this.request = new AbortController();
    const { signal } = this.request;
    try {
      const found = await this.service.search(query, LIMIT, signal);
      if (!signal.aborted) this.#show(found);
    } catch (error) {
      if (!signal.aborted) this.failed(error);
    }
  }

  /** @param {import("./service.js").Item[]} found */
  #show(found) {
    this.found = found;
    const options = found.map((item, place) =>
      element(
        "li",
        { id: `search-option-${place}`, role: "option", "aria-selected": "false", data: { place: String(place) } },
        element("span", {}, titleOf(item)),
        element("small", {}, item.category ?? ""),
      ),
    );
    this.list.replaceChildren(...(options.length ? options : [element("li", { className: "nothing" }, "Nothing found")]));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.#activate(options.length ? 0 : -1);
  }

  #close() {
    clearTimeout(this.timer);
    this.request.abort();
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.#activate(-1);
  }

  /** @param {number} place */
  #activate(place) {
    this.active = place;
    this.input.removeAttribute("aria-activedescendant");
    this.list.querySelectorAll("[role=option]").forEach((/** @type {HTMLElement} */ option, /** @type {number} */ other) => {
      option.setAttribute("aria-selected", String(other === place));
      if (other !== place) return;
      this.input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const open = !this.list.hidden && this.found.length > 0;
    if (event.key === "Escape" && this.list.hidden) this.input.value = "";
    else if (event.key === "Escape") this.#close();
    else if (!open && event.key === "ArrowDown") this.#typed();
    else if (open && event.key === "ArrowDown") this.#activate((this.active + 1) % this.found.length);
    else if (open && event.key === "ArrowUp") this.#activate((this.active + this.found.length - 1) % this.found.length);
    else if (open && event.key === "Enter") this.#take(this.active);
    else return;
    event.preventDefault();
  }

  /** @param {number} place */
  #take(place) {
    const item = this.found[place];
    if (!item) return;
    this.input.value = "";
    this.#close();
    this.choose(item);
  }
}
