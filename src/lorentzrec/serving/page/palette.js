/**
 * Colours of categories, chosen by search. Any two differ by 35 or more (CIE 1976), and by 18 for those who see no red,
 * no green or no blue; from text, numbers and star they differ by 28. Each has a contrast of 3 to 1 with the page, and
 * none is as dark as text. A test checks it.
 */

const LIGHT = ["#4b78b4", "#c3784b", "#2d5a3c", "#e10069", "#a58700", "#a569f0", "#a50f00", "#960078"];
const DARK = ["#0fa5e1", "#b45a00", "#a5f078", "#e10f5a", "#ffe13c", "#7869f0", "#ffa5a5", "#4bffff"];

/** How many categories get a colour of their own; the others share the grey that comes after them. */
export const COLOURED = LIGHT.length;

/** @param {boolean} dark @returns {string[]} one more than COLOURED: the last is the grey of all other categories */
export const palette = (dark) => (dark ? [...DARK, "#7d8494"] : [...LIGHT, "#7f8691"]);

/** @param {string} colour "#rrggbb" @returns {number[]} red, green, blue in 0..1 */
export const components = (colour) =>
  [1, 3, 5].map((start) => Number.parseInt(colour.slice(start, start + 2), 16) / 255);
