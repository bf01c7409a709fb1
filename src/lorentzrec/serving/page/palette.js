/**
 * Colours of categories, told apart with normal sight and with every common colour blindness (after Okabe and Ito,
 * darkened or lightened so that each has a contrast of at least 3 to 1 with the page it lies on).
 */

const LIGHT = ["#0072b2", "#c75300", "#00855f", "#b04f8b", "#9a6a00", "#3d3a8c", "#7d1d3f", "#2f8fb8"];
const DARK = ["#56b4e9", "#ff8a4c", "#2ec799", "#f09ccb", "#f0c431", "#a79cff", "#ff6f91", "#b8e4ff"];

/** How many categories get a colour of their own; the others share the grey that comes after them. */
export const COLOURED = LIGHT.length;

/** @param {boolean} dark @returns {string[]} one more than COLOURED: the last is the grey of all other categories */
export const palette = (dark) => (dark ? [...DARK, "#7d8494"] : [...LIGHT, "#7f8691"]);

/** @param {string} colour "#rrggbb" @returns {number[]} red, green, blue in 0..1 */
export const components = (colour) =>
  [1, 3, 5].map((start) => Number.parseInt(colour.slice(start, start + 2), 16) / 255);
