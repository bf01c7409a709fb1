/** Who is asked about: somebody new with the history chosen here, or a known customer with what the store holds. */

/** @typedef {import("./service.js").Item} Item */

export class Customer {
  constructor() {
    /** The id of a known customer; null for somebody new. @type {string | null} */
    this.id = null;
    /** What the store holds, oldest first. @type {Item[]} */
    this.stored = [];
    /** What was chosen on this page and is not stored, oldest first. @type {Item[]} */
    this.chosen = [];
  }

  /** @returns {(Item & {stored: boolean})[]} oldest first */
  get history() {
    return [...this.stored.map((item) => ({ ...item, stored: true })), ...this.chosen.map((item) => ({ ...item, stored: false }))];
  }

  /** @param {Item} item the newest from now on, even if it was chosen before */
  choose(item) {
    this.chosen = [...this.chosen.filter(({ id }) => id !== item.id), item];
  }

  /** @param {number} place in `history` */
  remove(place) {
    this.chosen.splice(place - this.stored.length, 1);
  }

  /** @returns {{history: string[]} | {user: string, context: string[]}} who, in the words of POST /v1/recommend */
  get question() {
    const ids = this.chosen.map(({ id }) => id);
    return this.id === null ? { history: ids } : { user: this.id, context: ids };
  }
}
