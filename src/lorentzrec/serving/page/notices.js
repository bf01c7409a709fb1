/** What the service says besides its items, put into sentences for the reader. */

/** The reasons of `fallback`, each by its first word, and what the reader should make of it. */
const FALLBACKS = {
  popular: "These are the most popular items",
  midpoint: "This model has a point per customer; it answered with the midpoint of the history instead",
  partial: "Part of the history was left out",
  allowed: "Part of the wanted items was left out",
};

/** @param {string} reason one of those joined by "; " in `fallback` */
function sentence(reason) {
  const [word, ...rest] = reason.split(": ");
  const known = FALLBACKS[/** @type {keyof FALLBACKS} */ (word)];
  const text = known ? [known, ...rest].join(": ") : reason;
  return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;
}

/** @param {import("./service.js").Answer} answer @returns {string} "" if there is nothing to say */
export function noticeOf({ fallback, degraded }) {
  const parts = (fallback ?? "").split("; ").filter(Boolean).map(sentence);
  if (degraded) parts.push(sentence(degraded));
  return parts.join(" ");
}

/** Whether an answer is the most popular items, scored by how often they were chosen. @param {import("./service.js").Answer} answer */
export const isPopular = ({ fallback }) => (fallback ?? "").startsWith("popular");

/** What scores are. */
export const SCORES = {
  distance: "minus the distance, nearer is better",
  inner: "the inner product, larger is better",
  count: "how often the item was chosen in the data of the model",
};

/** @param {number} score @param {keyof SCORES} kind @returns {{text: string, title: string}} */
export function scoreOf(score, kind) {
  // A minus sign that does not look like a hyphen, or break.
  const text = kind === "count" ? `chosen ${score.toLocaleString("en")} ${score === 1 ? "time" : "times"}` : score.toFixed(3).replace("-", "\u2212");
  return { text, title: `score: ${SCORES[kind]}` };
}

/** @param {import("./service.js").Model} model */
export function factsOf({ model, items, geometry, dimension }) {
  return `${items.toLocaleString("en")} items · ${geometry}, ${dimension} dimensions · version ${model}`;
}

/**
 * Where the star is, for those who cannot see it.
 * @param {number | null} distance @param {string[]} near categories of the items around it, most frequent first
 */
export function placeOf(distance, near) {
  if (distance === null) return "The history is empty: the customer has no place on the disk yet.";
  const among = near.length ? `, among ${near.slice(0, 2).join(" and ")}` : "";
  return `★ The customer stands at distance ${distance.toFixed(2)} from the centre${among}.`;
}
