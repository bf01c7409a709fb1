/** Hands on the disk: mouse, wheel, two fingers and keys become moves of the view. One finger scrolls the page. */

import { point } from "./poincare.js";

const STILL_PIXELS = 6;
const KEY_STEP = 48;

/**
 * @param {HTMLElement} stage
 * @param {import("./view.js").View} view
 * @param {object} actions
 * @param {(place: import("./poincare.js").Point, kind: string) => void} actions.pick a click or a tap
 * @param {(place: import("./poincare.js").Point | null) => void} actions.hover
 * @param {(place: import("./poincare.js").Point) => void} actions.oneFinger one finger tries to drag
 * @param {() => void} actions.pickCentre Enter
 * @param {() => void} actions.showAll the key "0"
 * @param {() => void} actions.goToStar the key "c"
 */
export function listenToGestures(stage, view, actions) {
  /** Pointers that are down, by id. @type {Map<number, import("./poincare.js").Point>} */
  const down = new Map();
  let travelled = 0;

  /** @param {MouseEvent} event */
  const placeOf = (event) => {
    const box = stage.getBoundingClientRect();
    return point(event.clientX - box.left, event.clientY - box.top);
  };

  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || (event.target instanceof Element && event.target.closest("button"))) return;
    stage.setPointerCapture(event.pointerId);
    if (down.size === 0) travelled = 0;
    down.set(event.pointerId, placeOf(event));
  });

  stage.addEventListener("pointermove", (event) => {
    const place = placeOf(event);
    const before = down.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") actions.hover(place);
      return;
    }
    travelled += Math.hypot(place.x - before.x, place.y - before.y);
    if (travelled < STILL_PIXELS) return;
    actions.hover(null);
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const middle = point((before.x + other.x) / 2, (before.y + other.y) / 2);
      const spread = Math.hypot(before.x - other.x, before.y - other.y);
      if (spread > 1) view.zoomBy(Math.hypot(place.x - other.x, place.y - other.y) / spread, middle);
      view.pan(middle, point((place.x + other.x) / 2, (place.y + other.y) / 2));
    } else if (event.pointerType === "touch") {
      actions.oneFinger(place);
    } else {
      view.pan(before, place);
    }
    down.set(event.pointerId, place);
  });

  stage.addEventListener("pointerup", (event) => {
    if (down.delete(event.pointerId) && down.size === 0 && travelled < STILL_PIXELS)
      actions.pick(placeOf(event), event.pointerType);
  });
  stage.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
  // A finger that is lifted leaves too, but what it tapped stays in view.
  stage.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && actions.hover(null));

  // The style sheet lets the page scroll under a finger; with two of them nothing but the disk moves.
  for (const type of ["touchstart", "touchmove"]) {
    stage.addEventListener(type, (event) => /** @type {TouchEvent} */ (event).touches.length > 1 && event.preventDefault(), { passive: false });
  }

  stage.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      // A wheel in lines counts as forty pixels a line; a pinch on a touchpad comes as a wheel with Ctrl, in small steps.
      const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 40 : 1);
      view.zoomBy(Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.0016)), placeOf(event));
    },
    { passive: false },
  );

  /** @type {Record<string, (step: number) => void>} */
  const keys = {
    ArrowLeft: (step) => view.pan(view.middle, point(view.middle.x + step, view.middle.y)),
    ArrowRight: (step) => view.pan(view.middle, point(view.middle.x - step, view.middle.y)),
    ArrowUp: (step) => view.pan(view.middle, point(view.middle.x, view.middle.y + step)),
    ArrowDown: (step) => view.pan(view.middle, point(view.middle.x, view.middle.y - step)),
    "+": () => view.zoomBy(1.25),
    "=": () => view.zoomBy(1.25),
    "-": () => view.zoomBy(0.8),
    0: () => actions.showAll(),
    c: () => actions.goToStar(),
    Enter: () => actions.pickCentre(),
  };
  stage.addEventListener("keydown", (event) => {
    if (event.target !== stage || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key](event.shiftKey ? 3 * KEY_STEP : KEY_STEP);
  });
}
