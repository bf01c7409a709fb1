/**
 * The Poincaré disk: points are {x, y} with x^2 + y^2 < 1, read as complex numbers z = x + iy.
 *
 * Everything the page draws is moved by one kind of isometry: the translation that brings a point c to the centre,
 *     z -> (z - c) / (1 - conj(c) z),
 * which is Möbius addition of -c. It turns nothing at c, so the map never spins under the hand.
 *
 * @typedef {{x: number, y: number}} Point
 */

/** As near to the rim as a point of view or a midpoint may come; hyperbolic distance 16 from the centre. */
const NEAREST_TO_RIM = 1 - 2e-7;

/** @param {number} x @param {number} y @returns {Point} */
export const point = (x, y) => ({ x, y });

export const ORIGIN = Object.freeze(point(0, 0));

/** @param {Point} z @returns {Point} */
export const opposite = (z) => point(-z.x, -z.y);

/** The same direction, but inside the disk. @param {Point} z @param {number} limit @returns {Point} */
export function inside(z, limit = NEAREST_TO_RIM) {
  const radius = Math.hypot(z.x, z.y);
  return radius <= limit ? z : point((z.x * limit) / radius, (z.y * limit) / radius);
}

/** The position of z once c has been moved to the centre. @param {Point} z @param {Point} c @returns {Point} */
export function translate(z, c) {
  const numeratorX = z.x - c.x;
  const numeratorY = z.y - c.y;
  // 1 - conj(c) z
  const denominatorX = 1 - c.x * z.x - c.y * z.y;
  const denominatorY = c.y * z.x - c.x * z.y;
  const squared = denominatorX * denominatorX + denominatorY * denominatorY;
  return point(
    (numeratorX * denominatorX + numeratorY * denominatorY) / squared,
    (numeratorY * denominatorX - numeratorX * denominatorY) / squared,
  );
}

/**
 * The centre c that brings `world` to `place`: (world - c) / (1 - conj(c) world) = place.
 *
 * With a = world - place and b = place * world this is c - b conj(c) = a, so c = (a + b conj(a)) / (1 - |b|^2).
 * @param {Point} world @param {Point} place @returns {Point}
 */
export function centreThatBrings(world, place) {
  const a = point(world.x - place.x, world.y - place.y);
  const b = point(place.x * world.x - place.y * world.y, place.x * world.y + place.y * world.x);
  const scale = 1 / (1 - b.x * b.x - b.y * b.y);
  return inside(point((a.x + b.x * a.x + b.y * a.y) * scale, (a.y + b.y * a.x - b.x * a.y) * scale));
}

/**
 * Every distance from the centre, multiplied: radius r = tanh(d / 2) becomes tanh(factor d / 2).
 *
 * This is the lens: the rim stays where it is, and the middle grows (factor > 1) or makes room for the rim (< 1).
 * At factor 2 the picture is Klein's disk.
 * @param {Point} z @param {number} factor @returns {Point}
 */
export function magnify(z, factor) {
  const radius = Math.hypot(z.x, z.y);
  if (radius === 0) return z;
  const scale = Math.tanh(factor * Math.atanh(Math.min(radius, NEAREST_TO_RIM))) / radius;
  return point(z.x * scale, z.y * scale);
}

/** @param {Point} z @returns {number} */
export const distanceFromCentre = (z) => 2 * Math.atanh(Math.min(Math.hypot(z.x, z.y), NEAREST_TO_RIM));

/** @param {Point} a @param {Point} b @returns {number} */
export const distance = (a, b) => distanceFromCentre(translate(b, a));

/** The point a share of the way along the geodesic from a to b. @param {Point} a @param {Point} b @param {number} share */
export const between = (a, b, share) => translate(magnify(translate(b, a), share), opposite(a));

/**
 * The circle of a radius around the centre of the disk, once `viewer` has been moved there. It is a circle for the eye
 * as well, with the ends of one diameter on the line through the viewer.
 * @param {Point} viewer @param {number} radius hyperbolic @returns {(share: number) => Point} the point after a share of the circle
 */
export function circleSeenFrom(viewer, radius) {
  const away = distanceFromCentre(viewer);
  const far = Math.tanh((away + radius) / 2);
  const near = Math.tanh((away - radius) / 2);
  const length = Math.hypot(viewer.x, viewer.y) || 1;
  const middle = (far + near) / 2 / length;
  return (share) => {
    const angle = 2 * Math.PI * share;
    const reach = (far - near) / 2;
    return point(reach * Math.cos(angle) - viewer.x * middle, reach * Math.sin(angle) - viewer.y * middle);
  };
}

/**
 * The Einstein midpoint, weighted: on the hyperboloid S = sum w_i x_i, and the midpoint is S / sqrt(-<S, S>).
 * @param {Point[]} points @param {number[]} weights @returns {Point | null} null for no points
 */
export function einsteinMidpoint(points, weights) {
  if (points.length === 0) return null;
  let time = 0;
  let sumX = 0;
  let sumY = 0;
  points.forEach((z, index) => {
    const squared = z.x * z.x + z.y * z.y;
    const weight = weights[index] / (1 - squared);
    time += weight * (1 + squared);
    sumX += weight * 2 * z.x;
    sumY += weight * 2 * z.y;
  });
  const length = Math.sqrt(Math.max(time * time - sumX * sumX - sumY * sumY, 0));
  return inside(point(sumX / (time + length), sumY / (time + length)));
}

/** recency^0 for the newest (last), recency^1 for the one before it, ... @param {number} count @param {number} recency */
export const recencyWeights = (count, recency) =>
  Array.from({ length: count }, (_, index) => recency ** (count - 1 - index));
