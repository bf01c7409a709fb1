/**
 * Which row is which item: asked of the service once, kept until another version of the model appears. A worker that is
 * still at another version numbers items otherwise: what it says is not taken.
 */

/** @typedef {import("./service.js").Item} Item */

export class KnownItems {
  /** @param {import("./service.js").Service} service */
  constructor(service) {
    this.service = service;
    /** @type {string | null} */
    this.version = null;
    /** @type {Map<number, Item>} */
    this.byRow = new Map();
    /** @type {Map<string, number | null>} */
    this.rows = new Map();
  }

  /** Forgets all that is known of other versions. @param {string} version the one whose rows are meant from now on */
  begin(version) {
    this.version = version;
    this.byRow.clear();
    this.rows.clear();
  }

  /** Takes the rows that an answer names. @param {{items: Item[], model: string}} answer */
  remember({ items, model }) {
    if (model !== this.version) return;
    for (const { id, row } of items) if (row !== undefined) this.rows.set(id, row);
  }

  /** @param {number[]} rows @returns {Promise<Item[]>} */
  async ofRows(rows) {
    const unknown = rows.filter((row) => !this.byRow.has(row));
    if (unknown.length) {
      const answer = await this.service.itemsOfRows(unknown);
      if (answer.model === this.version) for (const item of answer.items) this.byRow.set(/** @type {number} */ (item.row), item);
      this.remember(answer);
    }
    return rows.flatMap((row) => this.byRow.get(row) ?? []);
  }

  /** The rows of items; null for one that this version does not know. @param {string[]} ids */
  async rowsOf(ids) {
    const unknown = [...new Set(ids.filter((id) => !this.rows.has(id)))];
    if (unknown.length) {
      const { rows, model } = await this.service.rowsOfItems(unknown);
      if (model === this.version) unknown.forEach((id, place) => this.rows.set(id, rows[place]));
    }
    return ids.map((id) => this.rows.get(id) ?? null);
  }
}
