/** Where numbers and labels go, so that they cover as little as possible. */

import { point } from "./poincare.js";

/**
 * @typedef {import("./poincare.js").Point} Point
 * @typedef {Point & {radius: number}} Obstacle a circle on the screen
 */

const DIRECTIONS = [[0, -1], [0, 1], [1, 0], [-1, 0], [0.7, -0.7], [-0.7, -0.7], [0.7, 0.7], [-0.7, 0.7]];
const TURNS = 12;

/**
 * The middle of a box next to a point, inside the stage, over the fewest obstacles; above the point if that is free.
 * @param {Point} anchor @param {{width: number, height: number}} box
 * @param {Obstacle[]} obstacles @param {Point} stage its middle @param {number} gap between point and box
 */
export function placeNextTo(anchor, { width, height }, obstacles, stage, gap) {
  const inside = (/** @type {number} */ value, /** @type {number} */ half, /** @type {number} */ middle) =>
    middle <= half ? middle : Math.min(Math.max(value, half), 2 * middle - half);
  const covered = (/** @type {Point} */ middle) =>
    [...obstacles, { ...anchor, radius: gap }].filter(
      ({ x, y, radius }) => Math.abs(x - middle.x) < width / 2 + radius && Math.abs(y - middle.y) < height / 2 + radius,
    ).length;
  let best = anchor;
  let fewest = Infinity;
  for (const [stepX, stepY] of DIRECTIONS) {
    const middle = point(
      inside(anchor.x + stepX * (gap + 1) + Math.sign(stepX) * (width / 2), width / 2, stage.x),
      inside(anchor.y + stepY * (gap + 1) + Math.sign(stepY) * (height / 2), height / 2, stage.y),
    );
    const count = covered(middle);
    if (count < fewest) {
      fewest = count;
      best = middle;
    }
  }
  return best;
}

/**
 * Where a round mark does not overlap the others: at its own place, or elsewhere in the disk, preferably away from `from`.
 * @param {Point} place @param {number} radius @param {Obstacle[]} taken @param {Point} from @param {Obstacle} disk
 * @returns {Point | null} null if there is no room nearby
 */
export function freeSpot(place, radius, taken, from, disk) {
  const free = (/** @type {Point} */ spot) => taken.every((other) => Math.hypot(other.x - spot.x, other.y - spot.y) >= other.radius + radius);
  if (free(place)) return place;
  const away = Math.atan2(place.y - from.y, place.x - from.x);
  for (const far of [2.2, 3.4, 4.8]) {
    for (let turn = 0; turn < TURNS; turn++) {
      // 0, +1, -1, +2, -2, ... twelfths of a turn
      const angle = away + ((turn % 2 ? turn + 1 : -turn) * Math.PI) / TURNS;
      const spot = point(place.x + far * radius * Math.cos(angle), place.y + far * radius * Math.sin(angle));
      if (free(spot) && Math.hypot(spot.x - disk.x, spot.y - disk.y) + radius < disk.radius) return spot;
    }
  }
  return null;
}
