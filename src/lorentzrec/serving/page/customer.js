/** The customer: a new one with the history chosen here, or a known one with the stored history. */

/** @typedef {import("./service.js").Item} Item */

export class Customer {
  constructor() {
    /** The id of a known customer; null for a new one. @type {string | null} */
    this.id = null;
    /** Stored events, oldest first. @type {(Item & {disliked?: boolean})[]} */
    this.stored = [];
    /** What was chosen on this page and is not stored, oldest first. @type {Item[]} */
    this.chosen = [];
    /** What the new customer had chosen before a known one was loaded. @type {Item[]} */
    this.mine = [];
  }

  /** Switches to a known customer, or back to the new one. @param {string | null} id @param {Item[]} stored */
  become(id, stored) {
    if (this.id === null) this.mine = this.chosen;
    this.id = id;
    this.stored = stored;
    this.chosen = id === null ? this.mine : [];
  }

  /** The history without dislikes, oldest first. */
  get liked() {
    return this.history.filter(({ disliked }) => !disliked);
  }

  /** @returns {(Item & {stored: boolean, disliked?: boolean})[]} oldest first */
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

  /** @returns {{history: string[]} | {user: string, context: string[]}} the customer, as fields of POST /v1/recommend */
  get query() {
    const ids = this.chosen.map(({ id }) => id);
    return this.id === null ? { history: ids } : { user: this.id, context: ids };
  }
}
