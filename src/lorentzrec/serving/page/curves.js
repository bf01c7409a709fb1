/** Curves on the screen, with as many points as they need to look smooth. */

/** @typedef {import("./poincare.js").Point} Point */

const FIRST_STEPS = 48;
const LONGEST_PIXELS = 8;
const MOST_HALVINGS = 8;

/**
 * Points along a curve: steps that are long on the screen are halved until they are short.
 * @param {(share: number) => Point} at where the curve is on the screen after a share of it, from 0 to 1
 * @returns {Point[]}
 */
export function smoothCurve(at) {
  const points = [at(0)];
  /** @param {number} start @param {number} end @param {Point} from @param {Point} to @param {number} halvings left */
  const add = (start, end, from, to, halvings) => {
    if (halvings > 0 && Math.hypot(to.x - from.x, to.y - from.y) > LONGEST_PIXELS) {
      const middle = (start + end) / 2;
      const place = at(middle);
      add(start, middle, from, place, halvings - 1);
      add(middle, end, place, to, halvings - 1);
    } else {
      points.push(to);
    }
  };
  for (let step = 0; step < FIRST_STEPS; step++) {
    const end = (step + 1) / FIRST_STEPS;
    add(step / FIRST_STEPS, end, points[points.length - 1], at(end), MOST_HALVINGS);
  }
  return points;
}
