/** Lists of items: the history, and results with their reasons and buttons. */

import { drawingOf } from "./drawing.js";
import { element, swatchOf, titleOf } from "./element.js";
import { priceOf, scoreOf } from "./notices.js";

/** @typedef {import("./service.js").Item} Item */
/** What scores are. @typedef {"distance" | "inner" | "similar" | "alternatives" | "outfits" | "count"} Scored */

/** Replaces the lines of a list and keeps the focus on the same button, or on the last line if the list became shorter. */
function refill(list, lines, whenEmpty) {
  const focused = list.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  const place = focused ? Array.from(list.children).indexOf(focused.closest("li")) : -1;
  const action = focused?.dataset.action;
  list.replaceChildren(...lines);
  if (place < 0) return;
  const line = list.children[Math.min(place, lines.length - 1)];
  const next = line?.querySelector(`[data-action="${action}"]`) ?? whenEmpty;
  next?.focus();
}

/**
 * @param {HTMLElement} list
 * @param {(Item & {stored?: boolean, disliked?: boolean})[]} items oldest first; shown newest first
 * @param {(place: number) => void} remove
 * @param {HTMLElement} whenEmpty gets the focus if the last button goes
 */
export function fillHistory(list, items, remove, whenEmpty) {
  const lines = items.map((item, place) => {
    const name = element("span", {}, titleOf(item), ...(item.disliked ? [" (disliked)"] : []));
    const className = `${item.stored ? "stored" : ""}${item.disliked ? " disliked" : ""}`;
    const line = element("li", { className, data: { id: item.id } }, name);
    if (!item.stored) {
      const button = element("button", { type: "button", "aria-label": `Remove ${titleOf(item)}`, data: { action: "remove" } }, "×");
      button.addEventListener("click", () => remove(place));
      line.append(button);
    }
    return line;
  });
  refill(list, lines.reverse(), whenEmpty);
}

/** @param {import("./service.js").Reason[] | undefined} reasons @param {boolean} ruled whether rules acted, which may be why an item is here */
function because(reasons, ruled) {
  const share = (/** @type {import("./service.js").Reason} */ reason) => (reasons?.length === 1 ? "" : `\u00a0(${Math.round(100 * reason.share)}\u00a0%)`);
  const named = (/** @type {import("./service.js").ReasonKind} */ kind, /** @type {string} */ words) => {
    const names = (reasons ?? []).filter((reason) => reason.kind === kind).map((reason) => `${reason.title || reason.item}${share(reason)}`);
    return names.length ? [`${words} ${names.join(", ")}`] : [];
  };
  const before = (reasons ?? []).filter((reason) => reason.kind === "bought_before");
  const again = before.map((reason) => (reason.bought && reason.bought > 1 ? `bought before, ${reason.bought} times` : "bought before"));
  const trending = (reasons ?? []).filter((reason) => reason.kind === "trending").map((reason) => `more popular than usual${share(reason)}`);
  const parts = [...again, ...named("often_after", "often bought after"), ...named("often_with", "often bought with"), ...named("category_with", "of a category that goes with that of"), ...named("near", "because of"), ...trending];
  return element("p", { className: "because" }, parts.length ? parts.join("; ") : ruled ? "" : "fits the history as a whole");
}

/**
 * @param {HTMLElement} list
 * @param {import("./service.js").RecommendedItem[]} items best first
 * @param {object} options
 * @param {Set<string>} options.shared ids that the other list contains, too
 * @param {Scored} options.scored
 * @param {boolean} options.explained whether items of the history are given as reasons
 * @param {boolean} options.ruled whether rules acted on the list
 * @param {(category: string | null) => string} options.colourOf
 * @param {(item: Item) => void} options.add
 * @param {(item: Item) => void} options.similar
 * @param {(item: Item) => void} options.alternatives
 * @param {((item: Item) => void) | null} options.show a title is pressed; null where there is no disk
 * @param {(place: number) => void} [options.emphasise] a line is pointed at (-1: none)
 */
export function fillResults(list, items, { shared, scored, explained, ruled, colourOf, add, similar, alternatives, show, emphasise }) {
  // One word for the scores of a list, also where only some are raised.
  const raised = scored === "distance" && items.some(({ because: reasons }) => reasons?.some(({ kind }) => kind !== "near"));
  const lines = items.map((item, place) => {
    const title = titleOf(item);
    const button = (/** @type {string} */ name, /** @type {string} */ label, /** @type {(item: Item) => void} */ act, text) => {
      const made = element("button", { type: "button", "aria-label": label, data: { action: name } }, text);
      made.addEventListener("click", () => act(item));
      return made;
    };
    const score = scoreOf(item.score, raised ? "boosted" : scored);
    const price = priceOf(item.price);
    const line = element(
      "li",
      { className: shared.has(item.id) ? "shared" : "", data: { id: item.id } },
      item.image ? element("img", { className: "picture", src: item.image, alt: "", loading: "lazy" }) : drawingOf(item),
      element("span", { className: "place", "aria-hidden": "true" }, String(place + 1)),
      element("p", { className: "title" }, show && !item.new ? button("show", `Show ${title} on the disk`, show, title) : title),
      element(
        "p",
        { className: "facts" },
        ...(item.category ? [element("span", {}, swatchOf(colourOf(item.category)), item.category)] : []),
        ...(price ? [element("span", { className: "price" }, price)] : []),
        element("span", { className: "score", title: score.title }, score.text),
        ...(item.new ? [element("em", { className: "new", title: "The model does not contain this item yet: its first customers or similar items place it." }, "new")] : []),
        ...(shared.has(item.id) ? [element("em", {}, "in both")] : []),
      ),
      ...(explained ? [because(item.because, ruled)] : []),
      element(
        "div",
        { className: "buttons" },
        button("add", `Add ${title} to the history`, add, "Add"),
        button("similar", `Similar to ${title}`, similar, "Similar"),
        button("alternatives", `Instead of ${title}`, alternatives, "Instead"),
      ),
    );
    if (emphasise) {
      for (const event of ["pointerenter", "focusin"]) line.addEventListener(event, () => emphasise(place));
      for (const event of ["pointerleave", "focusout"]) line.addEventListener(event, () => emphasise(-1));
    }
    return line;
  });
  refill(list, lines.length ? lines : [element("li", { className: "nothing" }, "Nothing to recommend here. Choose another category, or clear the history.")], null);
}

/** Says why an item is drawn in the middle of the disk, away from the others. @param {HTMLElement} list @param {boolean[]} central for each line */
export function markCentral(list, central) {
  for (const [place, line] of [...list.children].entries()) {
    if (central[place]) line.querySelector(".facts")?.append(element("em", { className: "central" }, "popular: near to everyone"));
  }
}
