/** A tour for first visitors: short steps that can be skipped, and that do not return by themselves. */

import { byId } from "./element.js";

const KEY = "lorentzrec-tour";
/** Takes about half a minute to read. Steps about what this page does not show are left out. */
const STEPS = [
  { target: "#stage", text: "Each dot is an item. Items chosen by the same customers are close together; the more popular, the larger and the nearer to the centre." },
  { target: "#search", text: "Search for items you like, or click a dot. They form your history, shown as orange rings." },
  { target: "#customer-place", text: "The star is you: the midpoint of your history. It moves with each item you add or remove." },
  { target: "#results-heading", text: "The items that fit you best, with reasons. Their numbers are the same on the disk." },
  { target: "#experiences", text: "Three more lists: similar items, what to buy instead, and what goes with the history." },
  { target: "#other-arm", text: "Several models are in use. Compare the lists of two of them side by side." },
  { target: "#rules-note:not(:empty)", text: "A rule of the shop changed this list, and its name is given here. Try a rule of your own above." },
  { target: "#own-results .new", text: "This product is new. No model was trained on it: similar items or its first customers place it." },
];

/** Whether the reader has seen the tour; also where that cannot be stored, since it would return on every visit. */
function seenBefore() {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return true;
  }
}

/** Begins the tour on a first visit; not for programs, and not with `?tour=0` in the address. */
export function offerTour() {
  if (navigator.webdriver || new URLSearchParams(window.location.search).get("tour") === "0" || seenBefore()) return;
  beginTour();
}

export function beginTour() {
  try {
    localStorage.setItem(KEY, "seen");
  } catch {} // asked for with the button: it runs all the same
  const card = byId("tour");
  const before = document.activeElement;
  const steps = STEPS.filter(({ target }) => document.querySelector(target)?.checkVisibility());
  let place = -1;

  const unmark = () => document.querySelector(".toured")?.classList.remove("toured");
  const end = () => {
    unmark();
    card.hidden = true;
    card.onkeydown = null;
    if (before instanceof HTMLElement) before.focus();
  };
  const next = () => {
    unmark();
    if (++place === steps.length) {
      end();
      return;
    }
    const { target, text } = steps[place];
    byId("tour-text").textContent = text;
    byId("tour-place").textContent = `${place + 1} of ${steps.length}`;
    byId("tour-next").textContent = place === steps.length - 1 ? "Done" : "Next";
    const shown = document.querySelector(target); // a list may have been replaced meanwhile
    shown?.classList.add("toured");
    shown?.scrollIntoView({ block: "nearest" });
  };

  byId("tour-next").onclick = next;
  byId("tour-skip").onclick = end;
  card.onkeydown = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && end();
  card.hidden = false;
  next();
  byId("tour-next").focus({ preventScroll: true });
}
