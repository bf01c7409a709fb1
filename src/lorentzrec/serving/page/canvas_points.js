/** Draws the points of the map where there is no WebGL 2. */

import { COLOURED } from "./palette.js";
import { Projection } from "./projection.js";

export class CanvasPoints {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.kind = "canvas";
    /** @type {import("./catalogue_map.js").CatalogueMap | null} */
    this.map = null;
  }

  /** @param {import("./catalogue_map.js").CatalogueMap} map */
  load(map) {
    this.map = map;
  }

  /**
   * @param {import("./view.js").View} view
   * @param {{colours: string[], highlightColour: string, highlighted: number}} look
   * @param {number} stride draws every stride-th point
   */
  draw(view, look, stride) {
    const { context, canvas, map } = this;
    const ratio = canvas.width / (2 * view.middle.x);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (!map) return;
    const { screen, sizes } = new Projection(map, view);
    let last = "";
    for (let place = 0; place < map.count; place += stride) {
      const row = map.order[place];
      const group = map.groups[row];
      const chosen = map.codes[row] === look.highlighted;
      const dimmed = look.highlighted >= 0 && !chosen;
      const colour = chosen && group === COLOURED ? look.highlightColour : look.colours[group];
      const style = colour + (dimmed ? "20" : chosen ? "f2" : group === COLOURED ? "80" : "d1");
      if (style !== last) context.fillStyle = last = style;
      const size = Math.max(sizes[row] * (chosen ? 1.25 : 1), 1);
      const x = screen[2 * row];
      const y = screen[2 * row + 1];
      if (size < 3) {
        context.fillRect(x - size / 2, y - size / 2, size, size);
      } else {
        context.beginPath();
        context.arc(x, y, size / 2, 0, 2 * Math.PI);
        context.fill();
      }
    }
  }
}
