/**
 * Colours of categories, chosen by search: any two, the grey included, differ by 18 or more (CIE 1976) for normal sight
 * and for those who see no red, no green or no blue; and each has a contrast of 3 to 1 with the page. A test keeps it.
 */

const LIGHT = ["#168edf", "#d25e11", "#1a814f", "#8a3161", "#6f4d00", "#4a4499", "#67002a", "#00163a"];
const DARK = ["#5cc2ff", "#f99356", "#e9bd30", "#a160ba", "#8e8416", "#c8273f", "#b97972", "#c2e2ff"];

/** How many categories get a colour of their own; the others share the grey that comes after them. */
export const COLOURED = LIGHT.length;

/** @param {boolean} dark @returns {string[]} one more than COLOURED: the last is the grey of all other categories */
export const palette = (dark) => (dark ? [...DARK, "#7d8494"] : [...LIGHT, "#7f8691"]);

/** @param {string} colour "#rrggbb" @returns {number[]} red, green, blue in 0..1 */
export const components = (colour) =>
  [1, 3, 5].map((start) => Number.parseInt(colour.slice(start, start + 2), 16) / 255);
