/** The view of the disk: which point is in the middle, how strong the lens is, and its position on the screen. */

import { ORIGIN, between, centreThatBrings, inside, magnify, point, translate } from "./poincare.js";

/** @typedef {import("./poincare.js").Point} Point */

export const WEAKEST_ZOOM = 0.4;
export const STRONGEST_ZOOM = 12;
const FLIGHT_MILLISECONDS = 700;
/** Dragging outside the disk acts as dragging at this radius. */
const GRIP_RADIUS = 0.97;

const stillness = window.matchMedia("(prefers-reduced-motion: reduce)");

/** Runs `step(share)` with share going smoothly from 0 to 1; at once to 1 for those who want no motion. */
export class Motion {
  /** @param {(share: number) => void} step @param {number} milliseconds */
  constructor(step, milliseconds) {
    this.stopped = false;
    if (stillness.matches) {
      step(1);
      return;
    }
    const start = performance.now();
    /** @param {number} now */
    const frame = (now) => {
      if (this.stopped) return;
      const time = Math.min(Math.max((now - start) / milliseconds, 0), 1);
      step(time * time * (3 - 2 * time));
      if (time < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  stop() {
    this.stopped = true;
  }
}

export class View {
  /** @param {() => void} changed called after every change, many times a second while something moves */
  constructor(changed) {
    this.changed = changed;
    /** @type {Point} */
    this.centre = ORIGIN;
    this.zoom = 1;
    this.middle = point(0, 0);
    this.radius = 1;
    /** @type {Motion | null} */
    this.flight = null;
  }

  /** @param {number} width @param {number} height in CSS pixels */
  resize(width, height) {
    this.middle = point(width / 2, height / 2);
    this.radius = Math.max(Math.min(width, height) / 2 - 6, 1);
    this.changed();
  }

  /** @param {Point} world @returns {Point} in CSS pixels */
  toScreen(world) {
    return this.throughLens(translate(world, this.centre));
  }

  /** @param {Point} moved a point of the disk once the centre of the view is in the middle @returns {Point} in CSS pixels */
  throughLens(moved) {
    const place = magnify(moved, this.zoom);
    return point(this.middle.x + this.radius * place.x, this.middle.y - this.radius * place.y);
  }

  /** Where on the lens, as a point of the unit disk, y upwards. @param {Point} screen */
  #onLens(screen) {
    return inside(
      point((screen.x - this.middle.x) / this.radius, (this.middle.y - screen.y) / this.radius),
      GRIP_RADIUS,
    );
  }

  /** Where under the lens, before the centre is taken into account. @param {Point} screen */
  #underLens(screen) {
    return magnify(this.#onLens(screen), 1 / this.zoom);
  }

  /** @param {Point} screen @returns {Point} */
  toWorld(screen) {
    return translate(this.#underLens(screen), point(-this.centre.x, -this.centre.y));
  }

  /** The point that was under `from` is then under `to`. @param {Point} from @param {Point} to */
  pan(from, to) {
    this.flight?.stop();
    this.centre = centreThatBrings(this.toWorld(from), this.#underLens(to));
    this.changed();
  }

  /** Zooms so that the point under `screen` stays there. @param {number} factor @param {Point} screen */
  zoomBy(factor, screen = this.middle) {
    this.flight?.stop();
    const world = this.toWorld(screen);
    this.zoom = Math.min(Math.max(this.zoom * factor, WEAKEST_ZOOM), STRONGEST_ZOOM);
    this.centre = centreThatBrings(world, this.#underLens(screen));
    this.changed();
  }

  /** @param {Point} centre @param {number} zoom */
  jumpTo(centre, zoom) {
    this.flight?.stop();
    this.centre = centre;
    this.zoom = zoom;
    this.changed();
  }

  /** Goes to another centre and zoom along a geodesic. @param {Point} centre @param {number} zoom */
  flyTo(centre, zoom = this.zoom) {
    this.flight?.stop();
    const start = this.centre;
    const startZoom = this.zoom;
    this.flight = new Motion((share) => {
      this.centre = share < 1 ? between(start, inside(centre), share) : inside(centre); // exactly there in the end
      this.zoom = startZoom * (zoom / startZoom) ** share;
      this.changed();
    }, FLIGHT_MILLISECONDS);
  }
}
