/** Sentences for the reader about the model, its scores and its recommendations. */

import { titleOf } from "./element.js";

/** What each of `fallback_kinds` means for the reader. @type {Record<string, string>} */
const FALLBACKS = {
  popular: "Nothing of the history is known and liked: these are the most popular items.",
  recent: "Their order is that of the customers who bought them in the last days.",
  midpoint: "This model has a point per customer; the midpoint of the history is used instead.",
  partial: "Unknown items of the history are left out.",
  allowed: "Unknown items of the allow-list are left out.",
  categories: "Unknown categories are left out.",
  basket: "No category is left out for this basket.",
  not_learned: "This model has not learned what is bought together: these items are of other categories and fit the history.",
  budget: "The budget leaves out items without a price, or all of them.",
  slots: "Some of the requested categories stay open.",
  widened: "Its category has too few: items of the parent category follow.",
  no_category: "The category of this item is not known, so nothing can replace it.",
  not_trending: "No item is more popular than usual.",
  nothing_live: "No item is live, so there is nothing to recommend.",
  nothing_allowed: "None of the requested items and categories is live.",
  nothing_by_rules: "The rules of the shop leave no item to recommend.",
  all_excluded: "All items that could be recommended are excluded or in the history.",
};

/** @param {import("./service.js").Recommendations} result @returns {string} "" if there is nothing to report */
export function noticeOf({ fallback, fallback_kinds, degraded }) {
  const parts = fallback_kinds.every((kind) => kind in FALLBACKS) ? fallback_kinds.map((kind) => FALLBACKS[kind]) : [`${fallback}.`];
  if (degraded) parts.push(`${degraded.charAt(0).toUpperCase()}${degraded.slice(1)}.`);
  return parts.join(" ");
}

/** Whether the items are the most popular ones, scored by how often they were chosen. @param {import("./service.js").Recommendations} result */
export const isPopular = ({ fallback_kinds }) => fallback_kinds.includes("popular");

/** Whether the most popular items are those of the last days. @param {import("./service.js").Recommendations} result */
export const isRecent = ({ fallback_kinds }) => fallback_kinds.includes("recent");

/** @param {(import("./service.js").Item & {reason: string})[]} items */
export const trendingOf = (items) =>
  items.length ? `More popular than usual: ${items.map((item) => `${titleOf(item)} (${item.reason})`).join("; ")}.` : "";

/** What scores are. */
export const SCORES = {
  distance: "the distance, smaller is better",
  inner: "the inner product, larger is better",
  similar: "how alike customers and directions are, up to 1, larger is better",
  alternatives: "how alike customers and directions are, with a part for popularity, larger is better",
  outfits: "how often it is bought with the history, compared with how often it is bought, larger is better",
  boosted: "minus the distance, raised by what is often bought together, larger is better",
  count: "how often the item was chosen in the training data, or how many customers chose it in the last days",
};

/** Scores in words. @type {Record<keyof SCORES, (score: number) => string>} */
const TEXTS = {
  distance: (score) => `distance ${Math.abs(score).toFixed(3)}`,
  // A minus sign that does not look like a hyphen, or break.
  inner: (score) => `score ${score.toFixed(3).replace("-", "\u2212")}`,
  similar: (score) => `similarity ${score.toFixed(2).replace("-", "\u2212")}`,
  alternatives: (score) => TEXTS.inner(score),
  outfits: (score) => TEXTS.inner(score),
  boosted: (score) => TEXTS.inner(score),
  count: (score) => `chosen ${score.toLocaleString("en")} ${score === 1 ? "time" : "times"}`,
};

/** @param {number} score @param {keyof SCORES} kind @returns {{text: string, title: string}} */
export function scoreOf(score, kind) {
  return { text: TEXTS[kind](score), title: `score: ${SCORES[kind]}` };
}

/** @param {string[]} rules the names of those that acted @param {string | null} tried the name of the one that is tried */
export function rulesOf(rules, tried) {
  const acted = rules.length ? `${rules.length === 1 ? "Rule" : "Rules"} that acted on this list: ${rules.join(", ")}.` : "";
  if (tried === null) return acted;
  const change = rules.includes(tried) ? [] : ["It changes nothing here."];
  return ["Only you see this list: the rule is tried, not saved.", ...change, acted].join(" ").trim();
}

/** @param {number | null | undefined} price */
export const priceOf = (price) => (typeof price === "number" ? price.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : "");

/** What the items of an outfit cost together. @param {import("./service.js").Recommendations} result */
export const outfitPriceOf = ({ items, price }) => (typeof price === "number" && items.length ? `Together ${priceOf(price)}` : "");

/** @param {import("./service.js").Model} model */
export function factsOf({ model, items, geometry, dimension }) {
  return `${items.toLocaleString("en")} items · ${geometry}, ${dimension} dimensions · version ${model}`;
}

/**
 * Where the star is, for those who cannot see it.
 * @param {number | null} distance @param {string[]} near categories of the items around it, most frequent first
 */
export function placeOf(distance, near) {
  if (distance === null) return "The history is empty, so the customer has no position on the disk yet.";
  const nearby = near.length ? `, near ${near.slice(0, 2).join(" and ")}` : "";
  return `★ On this map, the customer is ${distance < 0.5 ? "close to" : "away from"} the centre${nearby}.`;
}
