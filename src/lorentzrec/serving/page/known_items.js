/** Which row is which item: asked of the service once, kept until another version of the model appears. */

/** @typedef {import("./service.js").Item} Item */

export class KnownItems {
  /** @param {import("./service.js").Service} service */
  constructor(service) {
    this.service = service;
    /** @type {Map<number, Item>} */
    this.byRow = new Map();
    /** @type {Map<string, number | null>} */
    this.rows = new Map();
  }

  forget() {
    this.byRow.clear();
    this.rows.clear();
  }

  /** Takes the rows that an answer of this version names. @param {Item[]} items */
  remember(items) {
    for (const { id, row } of items) if (row !== undefined) this.rows.set(id, row);
  }

  /** @param {number[]} rows @returns {Promise<Item[]>} */
  async ofRows(rows) {
    const items = await this.service.itemsOfRows(rows.filter((row) => !this.byRow.has(row)));
    for (const item of items) this.byRow.set(/** @type {number} */ (item.row), item);
    this.remember(items);
    return rows.flatMap((row) => this.byRow.get(row) ?? []);
  }

  /** The rows of items; null for one that this version does not know. @param {string[]} ids */
  async rowsOf(ids) {
    const unknown = [...new Set(ids.filter((id) => !this.rows.has(id)))];
    const found = await this.service.rowsOfItems(unknown);
    unknown.forEach((id, place) => this.rows.set(id, found[place]));
    return ids.map((id) => this.rows.get(id) ?? null);
  }
}
