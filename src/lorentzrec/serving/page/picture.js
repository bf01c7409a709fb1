/** Draws history and results: looks up the positions of their items on the map and passes them to the disk. */

import { byFrequency } from "./catalogue_map.js";
import { byId, titleOf } from "./element.js";
import { ORIGIN, distance, distanceFromCentre, einsteinMidpoint, recencyWeights } from "./poincare.js";
import { placeOf } from "./notices.js";

/** The number of items nearest to the star whose categories describe its neighbourhood. */
const NEIGHBOURS = 15;
/** The distance from the centre of the disk up to which an item is near to everyone. */
const CENTRAL = 0.5;

/** @typedef {import("./service.js").Item} Item */

export class Picture {
  /** @param {import("./disk.js").Disk} disk @param {import("./known_items.js").KnownItems} known */
  constructor(disk, known) {
    this.disk = disk;
    this.known = known;
    this.turn = 0;
  }

  /**
   * @param {Item[]} history oldest first
   * @param {Item[]} results best first
   * @param {Item | null} from where arcs begin; null for the customer's star
   * @param {number} recency weight of each step back
   * @returns {Promise<boolean[]>} which results are in the middle of the disk, nearer to its centre than to where arcs begin
   */
  async draw(history, results, from, recency) {
    const turn = ++this.turn;
    const { map } = this.disk;
    if (!map) {
      byId("customer-place").textContent = "";
      return [];
    }
    const items = [...history, ...results, ...(from ? [from] : [])];
    const rows = await this.known.rowsOf(items.map(({ id }) => id));
    if (turn !== this.turn || map !== this.disk.map) return []; // a later picture is already on its way
    // An item that this version does not contain has no position; the others keep their weights.
    const placed = items.map((item, index) => {
      const row = rows[index];
      return row === null || row >= map.count ? null : { point: map.at(row), label: titleOf(item) };
    });
    const historyMarks = placed.slice(0, history.length);
    const weights = recencyWeights(history.length, recency).filter((_, index) => historyMarks[index]);
    const present = historyMarks.filter((mark) => mark !== null);
    const star = einsteinMidpoint(present.map((mark) => mark.point), weights);
    // A result without a position would shift the numbers of those after it, so it stays as a gap.
    const resultMarks = placed.slice(history.length, history.length + results.length).map((mark) => mark ?? null);
    const asked = from ? (placed[placed.length - 1] ?? null) : null;
    const source = from ? (asked?.point ?? null) : this.disk.scene.star;
    // A list about an item is not about the customer, who is then not drawn.
    this.disk.show({ history: from ? [] : present, results: resultMarks, source, asked, emphasised: -1, hovered: null });
    this.disk.moveStar(from ? null : star, from === null);
    byId("disk-side").classList.toggle("about-an-item", from !== null);
    this.#describe(star, map, from);
    const begin = from ? source : star;
    return resultMarks.map((mark) => Boolean(mark && begin && distanceFromCentre(mark.point) < CENTRAL && distance(mark.point, ORIGIN) < distance(mark.point, begin)));
  }

  /** @param {import("./poincare.js").Point | null} star @param {import("./catalogue_map.js").CatalogueMap} map @param {Item | null} from */
  #describe(star, map, from) {
    const neighbours = star ? map.nearestRows(star, NEIGHBOURS) : [];
    const near = byFrequency(neighbours.map((row) => map.categories[map.codes[row]]));
    const place = byId("customer-place");
    place.textContent = from ? `The list is about ${titleOf(from)}, in the large ring.` : placeOf(star && distanceFromCentre(star), near);
    place.dataset.star = star ? `${star.x.toFixed(6)} ${star.y.toFixed(6)}` : "";
  }
}
