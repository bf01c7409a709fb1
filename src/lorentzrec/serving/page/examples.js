/** Example histories from the catalogue that is served: items of a category, or random ones. */

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
 * @returns {Example[]} the first is shown at the start
 */
export function examplesOfMap(map, known) {
  // Oldest first: the most popular item comes last and counts most.
  const typical = (/** @type {number} */ code) => map.typicalRows(code, BASKET).reverse();
  const [first, ...others] = map.byPopularity.slice(0, COLOURED);
  const other = others.at(-1);
  const mixed = {
    label: `${map.categories[first]} and ${map.categories[other]}`,
    items: () => known.ofRows([...typical(first).slice(-2), ...typical(other).slice(-1)]),
  };
  const plain = map.byPopularity.slice(0, 3).map((code) => ({ label: map.categories[code], items: () => known.ofRows(typical(code)) }));
  const surprise = () => known.ofRows(map.nearestRows(map.at(anyOf(map.count)), BASKET));
  return [...plain, ...(other === undefined ? [] : [mixed]), { label: "Surprise me", items: surprise }];
}

/**
 * For a version without a map.
 * @param {string[]} categories @param {import("./service.js").Service} service @returns {Example[]}
 */
export function examplesOfCategories(categories, service) {
  // For an empty history the service recommends the most popular items.
  const popular = async (/** @type {string[]} */ wanted) =>
    (await service.recommend({ history: [], k: BASKET, categories: wanted, diversity: 0 })).items;
  const surprise = { label: "Surprise me", items: () => popular([categories[anyOf(categories.length)]]) };
  return [{ label: "The most popular", items: () => popular([]) }, ...(categories.length ? [surprise] : [])];
}
