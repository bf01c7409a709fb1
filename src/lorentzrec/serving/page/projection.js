/**
 * All points of the map on the screen, computed here and not on the graphics card: for finding the item under the
 * pointer, and for drawing where there is no WebGL. It does what the vertex shader of webgl_points.js does.
 */

const CELL = 24;

/** How large a point is drawn whose squared distance from the rim on the lens, 1 - |place|^2, is `gap`. */
export const LENS_SIZE = { rim: 0.35, centre: 0.65, zoomPower: 0.35 };

export class Projection {
  /** @param {import("./catalogue_map.js").CatalogueMap} map @param {import("./view.js").View} view */
  constructor(map, view) {
    const { positions, gaps, sizes, count } = map;
    const { centre, middle, radius, zoom } = view;
    const centreGap = 1 - centre.x * centre.x - centre.y * centre.y;
    const growth = zoom ** LENS_SIZE.zoomPower;
    this.count = count;
    this.screen = new Float32Array(2 * count);
    this.sizes = new Float32Array(count);
    for (let row = 0; row < count; row++) {
      const deltaX = positions[2 * row] - centre.x;
      const deltaY = positions[2 * row + 1] - centre.y;
      // 1 - conj(c) z = (1 - |c|^2) - conj(c) (z - c)
      const denominatorX = centreGap - centre.x * deltaX - centre.y * deltaY;
      const denominatorY = centre.y * deltaX - centre.x * deltaY;
      const squared = denominatorX * denominatorX + denominatorY * denominatorY;
      const placeX = (deltaX * denominatorX + deltaY * denominatorY) / squared;
      const placeY = (deltaY * denominatorX - deltaX * denominatorY) / squared;
      const place = Math.sqrt(placeX * placeX + placeY * placeY);
      const gap = (centreGap * gaps[row]) / squared;
      // zoom * atanh(r) with 1 - r = gap / (1 + r), then tanh
      const onLens = Math.tanh(0.5 * zoom * Math.log(((1 + place) * (1 + place)) / gap));
      const scale = place > 1e-9 ? onLens / place : zoom;
      this.screen[2 * row] = middle.x + radius * placeX * scale;
      this.screen[2 * row + 1] = middle.y - radius * placeY * scale;
      this.sizes[row] = sizes[row] * growth * (LENS_SIZE.rim + LENS_SIZE.centre * (1 - onLens * onLens));
    }
    this.columns = Math.ceil((2 * middle.x) / CELL) + 1;
    this.lines = Math.ceil((2 * middle.y) / CELL) + 1;
    /** @type {Uint32Array | null} */
    this.starts = null;
    this.rows = new Uint32Array(0);
  }

  /** Sorts the rows into square cells, by counting. */
  #fillGrid() {
    const cells = new Uint32Array(this.count);
    const starts = new Uint32Array(this.columns * this.lines + 1);
    for (let row = 0; row < this.count; row++) {
      cells[row] = this.#cell(this.screen[2 * row], this.screen[2 * row + 1]);
      starts[cells[row] + 1]++;
    }
    for (let cell = 1; cell < starts.length; cell++) starts[cell] += starts[cell - 1];
    const next = starts.slice();
    this.rows = new Uint32Array(this.count);
    for (let row = 0; row < this.count; row++) this.rows[next[cells[row]]++] = row;
    return starts;
  }

  /** @param {number} x @param {number} y */
  #cell(x, y) {
    const column = Math.min(Math.max(Math.floor(x / CELL), 0), this.columns - 1);
    const line = Math.min(Math.max(Math.floor(y / CELL), 0), this.lines - 1);
    return line * this.columns + column;
  }

  /**
   * The row drawn nearest to a place, or null if the edge of no dot is within `reach` pixels.
   * @param {import("./poincare.js").Point} place @param {number} reach
   * @returns {number | null}
   */
  nearest(place, reach) {
    this.starts ??= this.#fillGrid();
    let best = null;
    let bestDistance = Infinity;
    const far = CELL * Math.ceil(reach / CELL);
    for (let stepY = -far; stepY <= far; stepY += CELL) {
      const first = this.#cell(place.x - far, place.y + stepY);
      const last = this.#cell(place.x + far, place.y + stepY);
      for (let slot = this.starts[first]; slot < this.starts[last + 1]; slot++) {
        const row = this.rows[slot];
        const away = Math.hypot(this.screen[2 * row] - place.x, this.screen[2 * row + 1] - place.y);
        if (away < bestDistance && away < reach + this.sizes[row] / 2) {
          best = row;
          bestDistance = away;
        }
      }
    }
    return best;
  }
}
