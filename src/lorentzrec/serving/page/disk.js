/** The disk on the screen: points, overlay and gestures put together. It knows rows and places, nothing of the service. */

import { CanvasPoints } from "./canvas_points.js";
import { listenToGestures } from "./gestures.js";
import { Overlay } from "./overlay.js";
import { palette } from "./palette.js";
import { ORIGIN, between } from "./poincare.js";
import { Projection } from "./projection.js";
import { Motion, View } from "./view.js";
import { WebglPoints } from "./webgl_points.js";

const REACH = { mouse: 10, pen: 14, touch: 22, keyboard: 60 };
const STAR_MILLISECONDS = 650;
const REST_MILLISECONDS = 300;
/** Frames that take longer than this are no longer smooth. */
const SLOW_MILLISECONDS = 45;
const LARGEST_STRIDE = 8;
/** As many points are always drawn, if there are. */
const FEWEST_POINTS = 5000;

/** @typedef {import("./poincare.js").Point} Point */

export class Disk {
  /**
   * @param {HTMLElement} stage holds two canvases: .points and .overlay
   * @param {object} actions
   * @param {(row: number | null, place: Point, kind: string) => void} actions.point a row is pointed at, or no longer
   * @param {(row: number | null, place: Point, kind: string) => void} actions.pick a row is clicked, tapped or entered;
   *   null if none is within reach
   * @param {(text: string, place: Point) => void} actions.hint
   */
  constructor(stage, actions) {
    this.stage = stage;
    this.actions = actions;
    const canvas = /** @type {HTMLCanvasElement} */ (stage.querySelector(".points"));
    const withoutWebgl = new URLSearchParams(window.location.search).has("canvas");
    this.points = (withoutWebgl ? null : WebglPoints.create(canvas)) ?? new CanvasPoints(canvas);
    this.overlay = new Overlay(/** @type {HTMLCanvasElement} */ (stage.querySelector(".overlay")));
    stage.dataset.renderer = this.points.kind;
    this.view = new View(() => this.#viewChanged());
    /** @type {import("./catalogue_map.js").CatalogueMap | null} */
    this.map = null;
    /** @type {Projection | null} */
    this.projection = null;
    /** @type {import("./overlay.js").Scene} */
    this.scene = { star: null, source: null, history: [], results: [], hovered: null, emphasised: -1, crosshair: false };
    this.highlighted = -1;
    /** The row that the reader was last reported to point at. @type {number | null} */
    this.pointed = null;
    this.frame = 0;
    this.lastFrame = 0;
    this.moving = false;
    this.stride = 1;
    this.rest = 0;
    this.flight = null;
    /** The position of the star, or the end of its flight. @type {Point | null} */
    this.starTarget = null;
    listenToGestures(stage, this.view, {
      pick: (place, kind) => this.#pick(place, kind),
      hover: (place) => this.#hover(place, "mouse"),
      oneFinger: (place) => actions.hint("Two fingers move the disk", place),
      pickCentre: () => this.#pick(this.view.middle, "keyboard"),
      showAll: () => this.showAll(),
      goToStar: () => this.goToStar(),
    });
    for (const event of ["focus", "blur"]) stage.addEventListener(event, () => this.#keyboard());
    stage.addEventListener("keyup", () => this.#keyboard());
    canvas.addEventListener("redraw", () => this.redraw());
    new ResizeObserver(() => this.#resize()).observe(stage);
    this.readColours();
  }

  /** Colours come from the style sheet, so that both themes are written in one place. */
  readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    this.colours = { ink: read("--ink"), paper: read("--paper"), accent: read("--accent"), grid: read("--grid"), star: read("--star"), font: getComputedStyle(document.body).fontFamily };
    this.palette = palette(read("--scheme") === "dark");
    this.redraw();
  }

  /** @param {import("./catalogue_map.js").CatalogueMap | null} map */
  load(map) {
    this.map = map;
    this.stride = 1;
    if (map) this.points.load(map);
    this.view.jumpTo(ORIGIN, map?.fittingZoom ?? 1);
  }

  /** The categories have other colours. */
  recolour() {
    if (this.map) this.points.load(this.map);
    this.redraw();
  }

  /** @param {number} code of the category to bring out, or -1 */
  highlight(code) {
    this.highlighted = code;
    this.redraw();
  }

  /** @param {Partial<import("./overlay.js").Scene>} change */
  show(change) {
    Object.assign(this.scene, change);
    this.redraw();
  }

  /**
   * The star goes to its new place along a geodesic.
   * @param {Point | null} target @param {boolean} withArcs whether the arcs begin at the star and follow it
   */
  moveStar(target, withArcs) {
    this.flight?.stop();
    this.starTarget = target;
    const start = this.scene.star ?? ORIGIN;
    if (!target) {
      this.show(withArcs ? { star: null, source: null } : { star: null });
      return;
    }
    this.flight = new Motion((share) => {
      const star = between(start, target, share);
      this.show(withArcs ? { star, source: star } : { star });
    }, STAR_MILLISECONDS);
  }

  /** The whole disk, as it is seen at the start. */
  showAll() {
    this.view.flyTo(ORIGIN, this.map?.fittingZoom ?? 1);
  }

  /** Brings an item to the middle, with its name. @param {import("./overlay.js").Mark} mark */
  goTo(mark) {
    this.show({ hovered: mark });
    this.view.flyTo(mark.point);
  }

  /** To where the star is going, should it still be on its way. */
  goToStar() {
    if (this.starTarget) this.view.flyTo(this.starTarget);
  }

  redraw() {
    this.frame ||= requestAnimationFrame((now) => {
      this.frame = 0;
      this.#keepPace(now);
      this.#draw(this.moving ? this.stride : 1);
    });
  }

  /** @param {number} stride */
  #draw(stride) {
    const { palette: colours, highlighted } = this;
    this.points.draw(this.view, { colours, highlightColour: this.colours.accent, highlighted }, stride);
    this.overlay.draw(this.view, this.scene, this.colours);
    this.stage.dataset.stride = String(stride);
  }

  /**
   * Where drawing is slow, fewer points while something moves, and all of them at rest. They thin out evenly, since
   * every stride-th one in the order of drawing is left.
   * @param {number} now
   */
  #keepPace(now) {
    const elapsed = now - this.lastFrame;
    this.lastFrame = now;
    this.moving = elapsed < REST_MILLISECONDS;
    const largest = Math.min(LARGEST_STRIDE, (this.map?.count ?? 0) / FEWEST_POINTS);
    if (this.moving && elapsed > SLOW_MILLISECONDS && 2 * this.stride <= largest) this.stride *= 2;
    clearTimeout(this.rest);
    this.rest = window.setTimeout(() => {
      this.moving = false;
      if (this.stride > 1) this.#draw(1);
      this.stride = Math.max(this.stride / 2, 1); // one slow moment is not held against the machine for ever
    }, REST_MILLISECONDS);
  }

  #viewChanged() {
    this.projection = null;
    this.stage.dataset.zoom = this.view.zoom.toFixed(3);
    this.stage.dataset.centre = `${this.view.centre.x.toFixed(4)} ${this.view.centre.y.toFixed(4)}`;
    this.redraw();
  }

  #resize() {
    const { clientWidth, clientHeight } = this.stage;
    if (!clientWidth || !clientHeight) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const canvas of this.stage.querySelectorAll("canvas")) {
      canvas.width = Math.round(clientWidth * ratio);
      canvas.height = Math.round(clientHeight * ratio);
    }
    this.view.resize(clientWidth, clientHeight);
  }

  /** @param {Point} place @param {string} kind */
  #rowAt(place, kind) {
    if (!this.map) return null;
    this.projection ??= new Projection(this.map, this.view);
    return this.projection.nearest(place, REACH[kind] ?? REACH.mouse);
  }

  /** @param {Point | null} place @param {string} kind */
  #hover(place, kind) {
    const row = place ? this.#rowAt(place, kind) : null;
    if (row === null && this.pointed === null && !this.scene.hovered) return; // hovered: a redraw may have cleared it already
    this.pointed = row;
    this.show({ hovered: row === null || !this.map ? null : { point: this.map.at(row), label: "" } });
    this.stage.classList.toggle("over-item", row !== null);
    this.actions.point(row, row === null || !this.map ? this.view.middle : this.view.toScreen(this.map.at(row)), kind);
  }

  /** Keys have no pointer: with the keyboard, the middle of the disk points. */
  #keyboard() {
    const active = this.stage.matches(":focus-visible");
    if (!active && !this.scene.crosshair) return; // a mouse or a finger is at work, and points for itself
    this.show({ crosshair: active });
    this.#hover(active ? this.view.middle : null, "keyboard");
  }

  /** @param {Point} place @param {string} kind */
  #pick(place, kind) {
    const row = this.#rowAt(place, kind);
    if (kind !== "mouse") this.#hover(place, kind);
    this.actions.pick(row, place, kind);
  }
}
