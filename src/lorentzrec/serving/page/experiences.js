/** The four kinds of lists, as tabs: for the customer, similar to an item, instead of it, and what goes with the history. */

import { byId, titleOf } from "./element.js";

/**
 * @typedef {import("./service.js").Item} Item
 * @typedef {"personal" | "similar" | "alternatives" | "outfits"} Experience
 */

export class Experiences {
  /** @param {(name: Experience) => unknown} choose a tab is pressed */
  constructor(choose) {
    /** The kind of list that is shown. @type {Experience} */
    this.shown = "personal";
    /** The item that the list is about; null for lists about the customer. @type {Item | null} */
    this.item = null;
    this.tabs = /** @type {HTMLButtonElement[]} */ ([...byId("experiences").children]);
    for (const tab of this.tabs) tab.addEventListener("click", () => choose(/** @type {Experience} */ (tab.dataset.experience)));
    byId("experiences").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#move(event));
  }

  /** @param {Experience} shown @param {Item | null} item */
  show(shown, item = null) {
    this.shown = shown;
    this.item = item;
  }

  /** Whether what the list was recommended for are items of the history. */
  get explained() {
    return this.item === null;
  }

  /** The heading of the list. */
  get heading() {
    const { item } = this;
    if (item) return `${this.shown === "similar" ? "Similar to" : "Instead of"} ${titleOf(item)}`;
    return this.shown === "outfits" ? "Goes with the history" : "Recommended";
  }

  /** @param {boolean} empty whether there is no history that a list could be about */
  mark(empty) {
    for (const tab of this.tabs) {
      const { experience } = tab.dataset;
      tab.setAttribute("aria-selected", String(experience === this.shown));
      tab.tabIndex = experience === this.shown ? 0 : -1;
      tab.disabled = empty && !this.item && experience !== "personal" && experience !== this.shown;
    }
  }

  /** Arrow keys go from tab to tab, as in every list of tabs. @param {KeyboardEvent} event */
  #move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const usable = this.tabs.filter((tab) => !tab.disabled);
    const place = usable.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    if (!step || place < 0) return;
    event.preventDefault();
    const next = usable[(place + step + usable.length) % usable.length];
    next.focus();
    next.click();
  }
}
