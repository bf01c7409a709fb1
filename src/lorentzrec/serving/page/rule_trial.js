/** A rule that is tried on the page before it is saved for everyone. */

import { byId, element, titleOf } from "./element.js";

/** @typedef {import("./service.js").Item} Item */

const WORDS = { boost: "up", bury: "down", exclude: "hidden", pin: "first" };

export class RuleTrial {
  /** @param {{attempt: (action: () => Promise<unknown>) => unknown, service: import("./service.js").Service, refresh: () => Promise<void>}} page */
  constructor(page) {
    this.page = page;
    /** The rules of the shop and, last, the one that is tried; null if none is. @type {import("./service.js").Rules | null} */
    this.tried = null;
    byId("rule-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      page.attempt(() => this.#begin());
    });
    byId("rule-save").addEventListener("click", () => page.attempt(() => this.#save()));
    byId("rule-end").addEventListener("click", () => page.attempt(() => this.#end()));
    byId("rule-action").addEventListener("change", () => this.#offerStrength());
  }

  /** The name of the rule that is tried. @returns {string | null} */
  get name() {
    return this.tried ? this.tried.rules[this.tried.rules.length - 1].name : null;
  }

  /** What a rule can be about: an item of the list, or a category. @param {Item[]} items @param {string[]} categories */
  offer(items, categories) {
    if (this.tried) return; // else the rule would be about another item than the reader chose
    const select = byId("rule-items");
    const chosen = select.value;
    const options = [
      ...items.map((item) => element("option", { value: `item ${item.id}` }, titleOf(item))),
      ...categories.map((name) => element("option", { value: `category ${name}` }, `All of category ${name}`)),
    ];
    select.replaceChildren(...options);
    if (options.some((option) => option.value === chosen)) select.value = chosen;
  }

  #offerStrength() {
    byId("rule-strength").hidden = !["boost", "bury"].includes(byId("rule-action").value);
  }

  /** @returns {import("./service.js").Rule} */
  #rule() {
    const action = byId("rule-action").value;
    const [kind, ...rest] = byId("rule-items").value.split(" ");
    const named = rest.join(" ");
    const select = kind === "item" ? { ids: [named] } : { where: { category: named } };
    const effects = { boost: Number(byId("rule-factor").value), bury: Number(byId("rule-factor").value), exclude: true, pin: 1 };
    return { name: `${byId("rule-items").selectedOptions[0].textContent}: ${WORDS[action]}`.slice(0, 90), select, [action]: effects[action] };
  }

  async #begin() {
    const rule = this.#rule();
    const rules = await this.page.service.rules();
    // The same rule, tried again with another strength, replaces the one that was saved.
    this.tried = { ...rules, rules: [...rules.rules.filter(({ name }) => name !== rule.name), rule] };
    await this.#show();
  }

  async #save() {
    if (!this.tried) return;
    await this.page.service.setRules(this.tried, `page: ${this.name}`);
    await this.#end();
  }

  async #end() {
    this.tried = null;
    await this.#show();
  }

  async #show() {
    byId("rule-save").hidden = byId("rule-end").hidden = !this.tried;
    await this.page.refresh();
  }
}
