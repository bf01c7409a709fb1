/** History and answer, drawn: looks up where their items lie on the map and hands places to the disk. */

import { byFrequency } from "./catalogue_map.js";
import { byId, titleOf } from "./element.js";
import { distanceFromCentre, einsteinMidpoint, recencyWeights } from "./poincare.js";
import { placeOf } from "./notices.js";

/** Items nearest to the star on the map that tell among what it stands. */
const COMPANY = 15;

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
   * @param {Item[]} answers best first
   * @param {Item | null} from where arcs begin; null for the customer's star
   * @param {number} recency weight of each step back
   */
  async draw(history, answers, from, recency) {
    const turn = ++this.turn;
    const { map } = this.disk;
    if (!map) {
      byId("customer-place").textContent = "";
      return;
    }
    const asked = [...history, ...answers, ...(from ? [from] : [])];
    const rows = await this.known.rowsOf(asked.map(({ id }) => id));
    if (turn !== this.turn || map !== this.disk.map) return; // a later picture is already on its way
    // An item that this version does not know has no place; the others keep their weights.
    const placed = asked.map((item, index) => {
      const row = rows[index];
      return row === null || row >= map.count ? null : { point: map.at(row), label: titleOf(item) };
    });
    const historyMarks = placed.slice(0, history.length);
    const weights = recencyWeights(history.length, recency).filter((_, index) => historyMarks[index]);
    const present = historyMarks.filter((mark) => mark !== null);
    const star = einsteinMidpoint(present.map((mark) => mark.point), weights);
    // An answer without a place would shift the numbers of those after it, so it stays as a gap.
    const answerMarks = placed.slice(history.length, history.length + answers.length).map((mark) => mark ?? null);
    const source = from ? (placed[placed.length - 1]?.point ?? null) : this.disk.scene.star;
    this.disk.show({ history: present, answers: answerMarks, source, emphasised: -1, hovered: null });
    this.disk.moveStar(star, from === null);
    this.#tell(star, map);
  }

  /** @param {import("./poincare.js").Point | null} star @param {import("./catalogue_map.js").CatalogueMap} map */
  #tell(star, map) {
    const company = star ? map.nearestRows(star, COMPANY) : [];
    const near = byFrequency(company.map((row) => map.categories[map.codes[row]]));
    const place = byId("customer-place");
    place.textContent = placeOf(star && distanceFromCentre(star), near);
    place.dataset.star = star ? `${star.x.toFixed(6)} ${star.y.toFixed(6)}` : "";
  }
}
