/** The small card next to a point of the disk. Under a finger it has a button; under a mouse the click itself adds. */

import { byId, titleOf } from "./element.js";
import { placeNextTo } from "./placement.js";
import { point } from "./poincare.js";

const PAUSE_MILLISECONDS = 50;
const READING_MILLISECONDS = 2500;

export class Tooltip {
  /**
   * @param {(row: number) => Promise<import("./service.js").Item>} look
   * @param {(item: import("./service.js").Item) => void} add
   * @param {() => import("./placement.js").Obstacle[]} marks what the card should not cover
   */
  constructor(look, add, marks) {
    this.look = look;
    this.marks = marks;
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
    if (row === this.row) {
      this.#move(place);
      return;
    }
    this.hide();
    this.row = row;
    this.timer = window.setTimeout(() => this.#fill(row, place, kind), PAUSE_MILLISECONDS);
  }

  /** @param {number} row @param {import("./poincare.js").Point} place @param {string} kind */
  async #fill(row, place, kind) {
    const item = await this.look(row).catch(() => null); // no card is better than an error under every move
    if (row !== this.row || !item) return;
    this.item = item;
    this.button.hidden = kind !== "touch";
    this.#put(titleOf(item), item.category ?? "", place);
    if (kind === "keyboard") byId("announcement").textContent = titleOf(item);
  }

  /** A hint where there is no item. @param {string} text @param {import("./poincare.js").Point} place */
  say(text, place) {
    this.hide();
    this.button.hidden = true;
    this.#put(text, "", place);
    byId("announcement").textContent = text;
    this.timer = window.setTimeout(() => this.hide(), READING_MILLISECONDS);
  }

  /** @param {string} title @param {string} more @param {import("./poincare.js").Point} place */
  #put(title, more, place) {
    this.card.querySelector("strong").textContent = title;
    this.card.querySelector("span").textContent = more;
    this.#move(place);
    this.card.classList.add("shown");
  }

  /** @param {import("./poincare.js").Point} place */
  #move(place) {
    const { card } = this;
    const stage = card.parentElement;
    const middle = placeNextTo(place, { width: card.offsetWidth, height: card.offsetHeight }, this.marks(), point(stage.clientWidth / 2, stage.clientHeight / 2), 14);
    card.style.left = `${middle.x - card.offsetWidth / 2}px`;
    card.style.top = `${middle.y - card.offsetHeight / 2}px`;
  }

  /** Until another row is pointed at. */
  dismiss() {
    const { row } = this;
    this.hide();
    this.row = row;
  }

  hide() {
    clearTimeout(this.timer);
    this.row = this.item = null;
    this.card.classList.remove("shown");
    byId("announcement").textContent = "";
  }
}
