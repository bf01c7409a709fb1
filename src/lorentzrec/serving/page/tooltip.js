/** The small card beside a point of the disk. Under a finger it has a button; under a mouse the click itself adds. */

import { byId, titleOf } from "./element.js";

const PAUSE_MILLISECONDS = 50;

export class Tooltip {
  /**
   * @param {(row: number) => Promise<import("./service.js").Item>} look
   * @param {(item: import("./service.js").Item) => void} add
   */
  constructor(look, add) {
    this.look = look;
    this.card = byId("tooltip");
    this.button = this.card.querySelector("button");
    /** @type {number | null} */
    this.row = null;
    /** @type {import("./service.js").Item | null} */
    this.item = null;
    this.timer = 0;
    this.button.addEventListener("click", () => {
      if (this.item) add(this.item);
      this.hide();
    });
  }

  /** @param {number} row @param {import("./poincare.js").Point} place @param {string} kind of pointer */
  show(row, place, kind) {
    this.button.hidden = kind !== "touch";
    this.card.style.left = `${place.x}px`;
    this.card.style.top = `${place.y}px`;
    const width = this.card.parentElement.clientWidth;
    this.card.classList.toggle("below", place.y < 90);
    this.card.classList.toggle("from-left", place.x < 110);
    this.card.classList.toggle("from-right", place.x > width - 110);
    if (row === this.row) return;
    this.hide();
    this.row = row;
    this.timer = window.setTimeout(() => this.#fill(row), PAUSE_MILLISECONDS);
  }

  /** @param {number} row */
  async #fill(row) {
    const item = await this.look(row).catch(() => null); // no card is better than an error under every move
    if (row !== this.row || !item) return;
    this.item = item;
    this.card.querySelector("strong").textContent = titleOf(item);
    this.card.querySelector("span").textContent = item.category ?? "no category";
    this.card.hidden = false;
  }

  hide() {
    clearTimeout(this.timer);
    this.row = this.item = null;
    this.card.hidden = true;
  }
}
