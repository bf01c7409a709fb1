/** Histories to begin with, made of whatever catalogue is served: items of a category, or a surprise. */

import { COLOURED } from "./palette.js";

/**
 * @typedef {import("./service.js").Item} Item
 * @typedef {{label: string, items: () => Promise<Item[]>}} Example
 */

const BASKET = 3;

/** @param {number} count */
const anyOf = (count) => Math.floor(Math.random() * count);

/**
 * @param {import("./catalogue_map.js").CatalogueMap} map
 * @param {import("./known_items.js").KnownItems} known
 * @returns {Example[]} the first is shown to a visitor who has just arrived
 */
export function examplesOfMap(map, known) {
  // Oldest first: the most popular item comes last and counts most.
  const telling = (/** @type {number} */ code) => map.tellingRows(code, BASKET).reverse();
  const [first, ...others] = map.byPopularity.slice(0, COLOURED);
  const other = others.at(-1);
  const mixed = {
    label: `${map.categories[first]} and ${map.categories[other]}`,
    items: () => known.ofRows([...telling(first).slice(-2), ...telling(other).slice(-1)]),
  };
  const plain = map.byPopularity.slice(0, 3).map((code) => ({ label: map.categories[code], items: () => known.ofRows(telling(code)) }));
  const surprise = () => known.ofRows(map.nearestRows(map.at(anyOf(map.count)), BASKET));
  return [...plain, ...(other === undefined ? [] : [mixed]), { label: "Surprise me", items: surprise }];
}

/**
 * For a version without a map.
 * @param {string[]} categories @param {import("./service.js").Service} service @returns {Example[]}
 */
export function examplesOfCategories(categories, service) {
  // Somebody without a history is recommended the most popular items.
  const popular = async (/** @type {string[]} */ wanted) =>
    (await service.recommend({ history: [], k: BASKET, categories: wanted, diversity: 0, twin: false })).items;
  const surprise = { label: "Surprise me", items: () => popular([categories[anyOf(categories.length)]]) };
  return [{ label: "The most popular", items: () => popular([]) }, ...(categories.length ? [surprise] : [])];
}
