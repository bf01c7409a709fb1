/**
 * Which row is which item: requested once, and cached until another version of the model appears. A worker that still
 * uses another version numbers items differently: its responses are ignored.
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

  /** Caches the rows in a response. @param {{items: Item[], model: string}} response */
  remember({ items, model }) {
    if (model !== this.version) return;
    for (const { id, row } of items) if (row !== undefined) this.rows.set(id, row < 0 ? null : row);
  }

  /** @param {number[]} rows @returns {Promise<Item[]>} */
  async ofRows(rows) {
    const unknown = rows.filter((row) => !this.byRow.has(row));
    if (unknown.length) {
      const response = await this.service.itemsOfRows(unknown);
      if (response.model === this.version) for (const item of response.items) this.byRow.set(/** @type {number} */ (item.row), item);
      this.remember(response);
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
