/** Histories to begin with, made of whatever catalogue is served: popular items of a category, or a surprise. */

import { distance } from "./poincare.js";

/**
 * @typedef {import("./service.js").Item} Item
 * @typedef {{label: string, items: () => Promise<Item[]>}} Example
 */

const BASKET = 3;

/** @param {number} count */
const anyOf = (count) => Math.floor(Math.random() * count);

/** A row and its nearest neighbours on the map. @param {import("./catalogue_map.js").CatalogueMap} map @param {number} row */
function neighbourhood(map, row) {
  const start = map.at(row);
  /** @type {{other: number, far: number}[]} */
  let nearest = [];
  // Only the nearest so far are kept and sorted: all of a million would hold the page up for seconds.
  for (let other = 0; other < map.count; other++) {
    const far = distance(start, map.at(other));
    if (nearest.length < BASKET || far < nearest[BASKET - 1].far) {
      nearest = [...nearest, { other, far }].sort((a, b) => a.far - b.far).slice(0, BASKET);
    }
  }
  return nearest.map(({ other }) => other);
}

/**
 * @param {import("./catalogue_map.js").CatalogueMap} map
 * @param {import("./known_items.js").KnownItems} known
 * @returns {Example[]} the first is shown to a visitor who has just arrived
 */
export function examplesOfMap(map, known) {
  // Oldest first: the most popular item comes last and counts most.
  const popular = (/** @type {number} */ code) => map.popularRows(code, BASKET).reverse();
  const examples = map.coloured.slice(0, 3).map((code) => ({
    label: map.categories[code],
    items: () => known.ofRows(popular(code)),
  }));
  if (map.coloured.length > 1) {
    const [first, second] = [map.coloured[0], map.coloured[map.coloured.length - 1]];
    examples.push({
      label: `${map.categories[first]} and ${map.categories[second]}`,
      items: () => known.ofRows([...popular(first).slice(-2), ...popular(second).slice(-1)]),
    });
  }
  return [...examples, { label: "Surprise me", items: () => known.ofRows(neighbourhood(map, anyOf(map.count))) }];
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
