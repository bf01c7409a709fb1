/** The catalogue as points of the disk: what `GET /v1/map` sends, and what drawing needs to know of each row. */

import { COLOURED } from "./palette.js";
import { point } from "./poincare.js";

const SMALLEST = 3.4;
const LARGEST = 16;
/** Up to this many items, points have their full size; beyond it they shrink so that the disk stays readable. */
const ROOMY = 3000;
const HALF_WITHIN = 0.72;

/** Each name once, most frequent first, then in the order given. @param {(string | null | undefined)[]} names @returns {string[]} */
export function byFrequency(names) {
  const counts = new Map();
  for (const name of names) if (name) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([name]) => name);
}

export class CatalogueMap {
  /**
   * @param {ArrayBuffer} bytes float32 x, y of every row; then int32 category codes; then float32 popularity
   * @param {string[]} categories the names of the codes
   */
  constructor(bytes, categories) {
    if (bytes.byteLength % 16 !== 0) throw new Error(`the map has ${bytes.byteLength} bytes, not 16 for each item`);
    this.categories = categories;
    this.count = bytes.byteLength / 16;
    this.positions = new Float32Array(bytes, 0, 2 * this.count);
    this.codes = new Int32Array(bytes, 8 * this.count, this.count);
    this.popularity = new Float32Array(bytes, 12 * this.count, this.count);
    /** All categories, most popular first. */
    this.byPopularity = this.#byPopularity();
    /** The category of each colour: at first the most popular ones. */
    this.coloured = this.byPopularity.slice(0, COLOURED);
    this.groups = this.#groups();
    this.sizes = this.#sizes();
    this.gaps = this.#gaps();
    /** The lens under which half of the items lie within HALF_WITHIN of the disk on the screen. */
    this.fittingZoom = this.#fittingZoom();
    this.bySize = Uint32Array.from(this.sizes.keys()).sort((a, b) => this.sizes[b] - this.sizes[a]);
    /** Rows in the order of drawing: grey before coloured, then large before small, so that nothing hides. */
    this.order = this.#order();
  }

  /**
   * Gives these categories a colour; each takes that of the least popular one which is not among them. A category keeps
   * its colour for as long as it has one. @param {number[]} codes most important first
   * @returns {boolean} whether a colour has changed
   */
  colour(codes) {
    const wanted = [...new Set(codes)].slice(0, this.coloured.length);
    const free = this.byPopularity.filter((code) => this.coloured.includes(code) && !wanted.includes(code));
    const without = wanted.filter((code) => !this.coloured.includes(code));
    for (const code of without) this.coloured[this.coloured.indexOf(/** @type {number} */ (free.pop()))] = code;
    if (without.length === 0) return false;
    this.groups = this.#groups();
    this.order = this.#order();
    return true;
  }

  /** @param {number} row */
  at(row) {
    return point(this.positions[2 * row], this.positions[2 * row + 1]);
  }

  /**
   * Rows of popular items of a category, without the top sellers: those are in the middle, near to everything, and not
   * typical of a customer. @param {number} code @param {number} limit
   */
  typicalRows(code, limit) {
    const rows = [];
    for (let row = 0; row < this.count; row++) if (this.codes[row] === code) rows.push(row);
    const start = Math.min(rows.length >> 2, Math.max(rows.length - limit, 0));
    return rows.sort((a, b) => this.popularity[b] - this.popularity[a]).slice(start, start + limit);
  }

  /** The rows nearest to a place, nearest first. @param {import("./poincare.js").Point} place @param {number} limit */
  nearestRows(place, limit) {
    /** @type {{row: number, far: number}[]} */
    let nearest = [];
    // Only the nearest so far are stored and sorted: sorting a million would block the page for seconds.
    for (let row = 0; row < this.count; row++) {
      const x = this.positions[2 * row] - place.x;
      const y = this.positions[2 * row + 1] - place.y;
      const far = (x * x + y * y) / this.gaps[row]; // grows with the distance in the disk
      if (nearest.length < limit || far < nearest[limit - 1].far) {
        nearest = [...nearest, { row, far }].sort((a, b) => a.far - b.far).slice(0, limit);
      }
    }
    return nearest.map(({ row }) => row);
  }

  #byPopularity() {
    const sums = new Float64Array(this.categories.length);
    for (let row = 0; row < this.count; row++) if (this.codes[row] >= 0) sums[this.codes[row]] += this.popularity[row];
    return Array.from(sums.keys()).sort((a, b) => sums[b] - sums[a]);
  }

  /** The place of each row's colour in the palette. */
  #groups() {
    const groupOfCode = new Uint8Array(this.categories.length).fill(COLOURED);
    this.coloured.forEach((code, place) => (groupOfCode[code] = place));
    return Uint8Array.from(this.codes, (code) => (code >= 0 ? groupOfCode[code] : COLOURED));
  }

  /** Diameters in CSS pixels at the centre, by the logarithm of popularity. */
  #sizes() {
    let most = 0;
    for (const count of this.popularity) most = Math.max(most, count);
    const crowd = Math.max((ROOMY / Math.max(this.count, ROOMY)) ** 0.25, 0.35);
    const scale = 1 / Math.log1p(Math.max(most, 1));
    return Float32Array.from(
      this.popularity,
      (count) => crowd * (SMALLEST + (LARGEST - SMALLEST) * (Math.log1p(Math.max(count, 0)) * scale) ** 2),
    );
  }

  /** 1 - |z|^2 of each row, in double precision: near the rim float32 shaders would lose it. */
  #gaps() {
    const gaps = new Float32Array(this.count);
    for (let row = 0; row < this.count; row++) {
      const x = this.positions[2 * row];
      const y = this.positions[2 * row + 1];
      gaps[row] = Math.max(1 - x * x - y * y, 1e-7);
    }
    return gaps;
  }

  #fittingZoom() {
    const gap = this.gaps.slice().sort()[this.count >> 1] ?? 0.5;
    return Math.min(Math.max(Math.atanh(HALF_WITHIN) / Math.atanh(Math.sqrt(1 - gap)), 0.5), 1.5);
  }

  #order() {
    const grey = this.bySize.filter((row) => this.groups[row] === COLOURED);
    const order = new Uint32Array(this.count);
    order.set(grey);
    order.set(this.bySize.filter((row) => this.groups[row] !== COLOURED), grey.length);
    return order;
  }
}
