/** What is drawn over the points: a faint grid, the history, the results joined to the star by geodesics, and the star. */

import { placeNextTo, freeSpot } from "./placement.js";
import { smoothCurve } from "./curves.js";
import { ORIGIN, between, circleSeenFrom, point } from "./poincare.js";

/**
 * @typedef {import("./poincare.js").Point} Point
 * @typedef {{point: Point, label: string}} Mark
 * @typedef {object} Scene
 * @property {Point | null} star the position of the customer
 * @property {Point | null} source where arcs begin: the star, or the item whose similar items are shown
 * @property {Mark | null} [asked] the item whose similar items are shown
 * @property {Mark[]} history
 * @property {(Mark | null)[]} results best first; null for one without a place on the map
 * @property {Mark | null} hovered
 * @property {number} emphasised index of the result that is pointed at in the list, or -1
 * @property {boolean} crosshair
 * @typedef {{ink: string, paper: string, accent: string, grid: string, star: string, font: string}} Colours
 */

/** The number of results, best first, whose numbers are moved where they have no room; more would cover the map. */
const ASIDE = 15;
const RAYS = 12;
const RINGS = [1, 2, 3, 4, 5, 6];
/** Where the rays end, just inside the rim. */
const RAY_LENGTH = 0.9999;

export class Overlay {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.taken = [];
  }

  /** @param {import("./view.js").View} view @param {Scene} scene @param {Colours} colours */
  draw(view, scene, colours) {
    const { context, canvas } = this;
    const ratio = canvas.width / (2 * view.middle.x);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.lineCap = context.lineJoin = "round";
    this.view = view;
    this.colours = colours;
    this.scale = Math.min(Math.max(view.radius / 300, 0.75), 1); // marks are smaller on a phone
    this.#grid();
    this.#dot(view.toScreen(ORIGIN), 1.5, colours.grid);
    if (scene.source) this.#arcs(scene.source, scene);
    const star = scene.star && view.toScreen(scene.star);
    const history = scene.history.map((mark) => view.toScreen(mark.point));
    /** What later marks and labels keep away from. @type {import("./placement.js").Obstacle[]} */
    this.taken = history.map((place) => ({ ...place, radius: 7.5 * this.scale }));
    if (star) this.taken.push({ ...star, radius: 12 * this.scale });
    for (const place of history) this.#historyMark(place);
    const emphasised = this.#resultMarks(scene, star ?? view.middle);
    if (star) this.#star(star);
    if (scene.asked) this.#ring(view.toScreen(scene.asked.point), 13, colours.ink, 2.5);
    if (scene.crosshair) this.#crosshair();
    if (scene.hovered) this.#ring(view.toScreen(scene.hovered.point), 9, colours.ink, 2);
    if (emphasised) this.#caption(emphasised, scene.results[scene.emphasised].label);
    else if (scene.hovered?.label) this.#caption(view.toScreen(scene.hovered.point), scene.hovered.label);
    else if (scene.asked) this.#caption(view.toScreen(scene.asked.point), scene.asked.label);
  }

  /** Circles around the centre of the disk, one unit of distance apart, and rays from it. */
  #grid() {
    const { view, colours } = this;
    for (const distance of RINGS) {
      const ring = circleSeenFrom(view.centre, distance);
      this.#stroke(smoothCurve((share) => view.throughLens(ring(share))), colours.grid, 1);
    }
    for (let ray = 0; ray < RAYS; ray++) {
      const angle = (2 * Math.PI * ray) / RAYS;
      this.#geodesic(ORIGIN, point(RAY_LENGTH * Math.cos(angle), RAY_LENGTH * Math.sin(angle)), colours.grid, 1);
    }
  }

  /** @param {Point} from @param {Point} to @param {string} colour @param {number} width */
  #geodesic(from, to, colour, width) {
    this.#stroke(smoothCurve((share) => this.view.toScreen(between(from, to, share))), colour, width);
  }

  /** @param {Point[]} places on the screen @param {string} colour @param {number} width */
  #stroke(places, colour, width) {
    const { context } = this;
    context.beginPath();
    for (const { x, y } of places) context.lineTo(x, y);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }

  /** @param {Point} place on the screen @param {number} radius @param {string} colour */
  #dot({ x, y }, radius, colour) {
    this.context.beginPath();
    this.context.arc(x, y, radius * this.scale, 0, 2 * Math.PI);
    this.context.fillStyle = colour;
    this.context.fill();
  }

  /** A ring with a halo of paper, so that it shows on any colour. */
  #ring({ x, y }, radius, colour, width) {
    const { context } = this;
    context.beginPath();
    context.arc(x, y, radius * this.scale, 0, 2 * Math.PI);
    for (const [stroke, lineWidth] of [[this.colours.paper, width + 2.5], [colour, width]]) {
      context.strokeStyle = stroke;
      context.lineWidth = lineWidth;
      context.stroke();
    }
  }

  #arcs(source, scene) {
    scene.results.forEach((mark, place) => {
      if (!mark) return;
      const emphasised = place === scene.emphasised;
      this.context.globalAlpha = emphasised ? 1 : 0.5;
      this.#geodesic(source, mark.point, this.colours.accent, emphasised ? 2.5 : 1.25);
    });
    this.context.globalAlpha = 1;
  }

  #historyMark(place) {
    this.#dot(place, 7.5, this.colours.paper);
    this.#dot(place, 5.5, this.colours.star);
    this.#dot(place, 2, this.colours.paper);
  }

  /**
   * Numbered as in the list. A number that would cover another mark is moved, with a line to its place, which a ring
   * marks; where there is no room, the ring is alone.
   * @param {Scene} scene @param {Point} star @returns {Point | null} where the number of the emphasised result is
   */
  #resultMarks(scene, star) {
    const { taken, view, colours, context } = this;
    const radius = 10.5 * this.scale;
    const disk = { ...view.middle, radius: view.radius };
    const places = scene.results.map((mark) => mark && view.toScreen(mark.point));
    const order = [...places.keys()].filter((index) => places[index]);
    if (scene.emphasised >= 0) order.sort((a, b) => Number(b === scene.emphasised) - Number(a === scene.emphasised));
    const numbers = order.flatMap((index) => {
      const place = /** @type {Point} */ (places[index]);
      const others = places.filter((other) => other && other !== place).map((other) => ({ ...other, radius: 4 * this.scale }));
      // At its own place a number may cover the places of others, which are moved in turn; a moved one may not.
      const spotAmong = (/** @type {import("./placement.js").Obstacle[]} */ marks) => freeSpot(place, radius, marks, star, disk);
      const mayMove = index < ASIDE || index === scene.emphasised;
      const spot = spotAmong(taken) === place ? place : mayMove ? spotAmong([...taken, ...others, { ...place, radius: 5 }]) : null;
      if (spot) taken.push({ ...spot, radius });
      if (spot !== place) {
        if (spot) this.#stroke([place, spot], colours.accent, 1.5);
        this.#ring(place, 4, colours.accent, 1.75);
      }
      return spot ? [{ index, spot }] : [];
    });
    for (const { index, spot } of numbers.reverse()) {
      this.#dot(spot, 10.5, colours.paper);
      this.#dot(spot, 9, colours.accent);
      context.fillStyle = colours.paper;
      context.font = `600 ${11 * this.scale}px ${colours.font}`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(String(index + 1), spot.x, spot.y + 0.5);
    }
    return numbers.find(({ index }) => index === scene.emphasised)?.spot ?? null;
  }

  /** @param {Point} place @param {string} label */
  #caption(place, label) {
    const { context, colours } = this;
    context.font = `600 14px ${colours.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const box = { width: context.measureText(label).width + 12, height: 20 };
    const { x, y } = placeNextTo(place, box, this.taken, this.view.middle, 12);
    context.strokeStyle = colours.paper;
    context.lineWidth = 5;
    context.strokeText(label, x, y);
    context.fillStyle = colours.ink;
    context.fillText(label, x, y);
  }

  /** @param {Point} place */
  #star({ x, y }) {
    const { context } = this;
    context.beginPath();
    for (let corner = 0; corner < 10; corner++) {
      const radius = (corner % 2 ? 6 : 14) * this.scale;
      const angle = (Math.PI * corner) / 5 - Math.PI / 2;
      context.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
    }
    context.closePath();
    context.strokeStyle = this.colours.paper;
    context.lineWidth = 5;
    context.stroke();
    context.fillStyle = this.colours.star;
    context.fill();
    context.strokeStyle = this.colours.ink;
    context.lineWidth = 1.25;
    context.stroke();
  }

  #crosshair() {
    const { context } = this;
    const { x, y } = this.view.middle;
    context.beginPath();
    for (const [stepX, stepY] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(x + 12 * stepX, y + 12 * stepY);
      context.lineTo(x + 22 * stepX, y + 22 * stepY);
    }
    context.strokeStyle = this.colours.ink;
    context.lineWidth = 1.5;
    context.stroke();
  }
}
