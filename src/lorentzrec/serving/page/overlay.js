/** What lies over the points: a faint grid, the history, the answer joined to its star by geodesics, and the star. */

import { ORIGIN, geodesic, point } from "./poincare.js";

/**
 * @typedef {import("./poincare.js").Point} Point
 * @typedef {{point: Point, label: string}} Mark
 * @typedef {object} Scene
 * @property {Point | null} star where the customer stands
 * @property {Point | null} source where arcs begin: the star, or the item whose like are shown
 * @property {Mark[]} history
 * @property {(Mark | null)[]} answers best first; null for one without a place on the map
 * @property {Mark | null} hovered
 * @property {number} emphasised place of the answer that is pointed at in the list, or -1
 * @property {boolean} crosshair
 * @typedef {{ink: string, paper: string, accent: string, grid: string, star: string, font: string}} Colours
 */

const RAYS = 12;
const RINGS = [1, 2, 3, 4, 5, 6];
const RING_STEPS = 240; // many: near the rim of the view a few of them make most of the ring

export class Overlay {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.rings = RINGS.map((distance) =>
      Array.from({ length: RING_STEPS + 1 }, (_, step) => {
        const angle = (2 * Math.PI * step) / RING_STEPS;
        const radius = Math.tanh(distance / 2);
        return point(radius * Math.cos(angle), radius * Math.sin(angle));
      }),
    );
    this.rays = Array.from({ length: RAYS }, (_, ray) => {
      const angle = (2 * Math.PI * ray) / RAYS;
      return geodesic(ORIGIN, point(0.9999 * Math.cos(angle), 0.9999 * Math.sin(angle)));
    });
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
    for (const line of [...this.rings, ...this.rays]) this.#line(line, colours.grid, 1);
    this.#dot(ORIGIN, 1.5, colours.grid);
    if (scene.source) this.#arcs(scene.source, scene);
    for (const mark of scene.history) this.#historyMark(mark.point);
    this.#answerMarks(scene);
    if (scene.star) this.#star(scene.star);
    if (scene.crosshair) this.#crosshair();
    if (scene.hovered) this.#ring(scene.hovered.point, 9, colours.ink, 2);
  }

  /** @param {Point[]} world @param {string} colour @param {number} width */
  #line(world, colour, width) {
    const { context } = this;
    context.beginPath();
    for (const place of world) {
      const screen = this.view.toScreen(place);
      context.lineTo(screen.x, screen.y);
    }
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }

  /** @param {Point} world @param {number} radius @param {string} colour */
  #dot(world, radius, colour) {
    const { x, y } = this.view.toScreen(world);
    this.context.beginPath();
    this.context.arc(x, y, radius * this.scale, 0, 2 * Math.PI);
    this.context.fillStyle = colour;
    this.context.fill();
  }

  /** A ring with a halo of paper, so that it shows on any colour. */
  #ring(world, radius, colour, width) {
    const { x, y } = this.view.toScreen(world);
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
    scene.answers.forEach((mark, place) => {
      if (!mark) return;
      const emphasised = place === scene.emphasised;
      this.context.globalAlpha = emphasised ? 1 : 0.5;
      this.#line(geodesic(source, mark.point), this.colours.accent, emphasised ? 2.5 : 1.25);
    });
    this.context.globalAlpha = 1;
  }

  #historyMark(world) {
    this.#dot(world, 7.5, this.colours.paper);
    this.#dot(world, 5.5, this.colours.star);
    this.#dot(world, 2, this.colours.paper);
  }

  /** Numbered as in the list; a number that would cover another is left out, its ring stays. */
  #answerMarks(scene) {
    const taken = scene.star ? [this.view.toScreen(scene.star)] : [];
    const order = scene.answers.map((_, place) => place);
    if (scene.emphasised >= 0) order.sort((a, b) => Number(b === scene.emphasised) - Number(a === scene.emphasised));
    const numbered = order.filter((place) => {
      const world = scene.answers[place]?.point;
      if (!world) return false;
      const screen = this.view.toScreen(world);
      const free = taken.every((other) => Math.hypot(other.x - screen.x, other.y - screen.y) > 18 * this.scale);
      if (free) taken.push(screen);
      else this.#ring(world, 4.5, this.colours.accent, 1.75);
      return free;
    });
    for (const place of numbered) this.#number(scene.answers[place].point, String(place + 1));
    const emphasised = scene.answers[scene.emphasised];
    if (emphasised) this.#caption(emphasised);
  }

  /** @param {Point} world @param {string} number */
  #number(world, number) {
    const { context } = this;
    const { x, y } = this.view.toScreen(world);
    this.#dot(world, 10.5, this.colours.paper);
    this.#dot(world, 9, this.colours.accent);
    context.fillStyle = this.colours.paper;
    context.font = `600 ${11 * this.scale}px ${this.colours.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(number, x, y + 0.5);
  }

  /** @param {Mark} mark */
  #caption(mark) {
    const { context } = this;
    const { x, y } = this.view.toScreen(mark.point);
    context.font = `600 14px ${this.colours.font}`;
    context.textAlign = "center";
    const half = context.measureText(mark.label).width / 2;
    const middle = Math.min(Math.max(x, half + 6), 2 * this.view.middle.x - half - 6);
    const line = y > 40 ? y - 22 : y + 24;
    context.strokeStyle = this.colours.paper;
    context.lineWidth = 5;
    context.strokeText(mark.label, middle, line);
    context.fillStyle = this.colours.ink;
    context.fillText(mark.label, middle, line);
  }

  #star(world) {
    const { context } = this;
    const { x, y } = this.view.toScreen(world);
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
