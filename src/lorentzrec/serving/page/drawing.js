/** Drawings of items without an image: a shape for the category, a colour and a pattern for the id. Always the same. */

const WIDTH = 56;
const HEIGHT = 72;
/** Outlines by the words of a category that name them; the first word that fits is used. @type {[RegExp, string][]} */
const SHAPES = [
  [/shorts/, "M17 22H39L43 50H30L28 38L26 50H13Z"],
  [/jeans|chinos|joggers|leggings|trousers|pants/, "M18 10H38L42 63H32L28 28L24 63H14Z"],
  [/vest|gilet|waistcoat/, "M19 13L24 11Q28 20 32 11L37 13Q36 25 41 29V60H15V29Q20 25 19 13Z"],
  [/coat|parka/, "M18 11L24 8L28 16L32 8L38 11L51 44L45 47L39 32L41 65H29L28 18L27 65H15L17 32L11 47L5 44Z"],
  [/jacket|blazer|suit|cardigan/, "M18 14L24 11L28 24L32 11L38 14L50 46L44 49L38 33V59H29L28 26L27 59H18V33L12 49L6 46Z"],
  [/t-shirt|polo|top/, "M18 15L24 12Q28 18 32 12L38 15L49 27L43 34L38 30V60H18V30L13 34L7 27Z"],
  [/shirt|jumper|neck|hoodie|sweater|pullover/, "M18 14L24 11Q28 16 32 11L38 14L50 46L44 49L38 33V60H18V33L12 49L6 46Z"],
  [/boots/, "M17 14H32V42Q47 43 47 52V59H17Z"],
  [/trainers|loafers|sandals|shoes/, "M7 38Q13 42 19 35L25 31Q31 42 45 43Q50 45 49 54H7Z"],
  [/belt/, "M4 30H52V42H4ZM33 27V45H43V27ZM36 30H40V42H36Z"],
  [/scarf/, "M20 11H36Q38 21 33 26L39 60H28L27 33L22 52H13L22 26Q18 20 20 11Z"],
  [/hat|cap/, "M16 42Q15 22 28 22Q41 22 40 42Q50 43 52 49H4Q6 43 16 42Z"],
  [/bag|backpack/, "M12 31H17Q17 14 28 14Q39 14 39 31H44L48 61H8ZM21 31H35Q35 18 28 18Q21 18 21 31Z"],
];
/** For all other categories. */
const ABSTRACT = ["M28 16A20 20 0 1 1 27.9 16Z", "M10 18H46V54H10Z", "M28 12L50 36L28 60L6 36Z", "M28 14L50 56H6Z", "M18 16H38L48 36L38 56H18L8 36Z"];
/** What is drawn over the colour, in a square of eight. */
const PATTERNS = ["", "M0 2H8", "M2 0V8", "M0 8L8 0", "M0 2H8M2 0V8", "M4 3V5"];
const SVG = "http://www.w3.org/2000/svg";
let drawn = 0;

/** A number that depends on all characters (FNV-1a). @param {string} text */
function hash(text) {
  let value = 2166136261;
  for (let place = 0; place < text.length; place++) value = Math.imul(value ^ text.charCodeAt(place), 16777619) >>> 0;
  return (value ^ (value >>> 15)) >>> 0;
}

/** @param {string} tag @param {Record<string, string>} attributes @param {Element[]} children */
function shape(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** @param {import("./service.js").Item} item */
export function drawingOf({ id, category }) {
  const kind = (category ?? "").toLowerCase();
  const outline = SHAPES.find(([words]) => words.test(kind))?.[1] ?? ABSTRACT[hash(kind) % ABSTRACT.length];
  const number = hash(id);
  const pattern = `pattern-${(drawn += 1)}`;
  const lines = shape("path", { d: PATTERNS[Math.floor(number / 360) % PATTERNS.length], stroke: "#fff", "stroke-width": "2", "stroke-opacity": "0.45" });
  const path = { d: outline, "fill-rule": "evenodd" };
  return shape(
    "svg",
    { class: "picture drawn", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" },
    shape("pattern", { id: pattern, width: "8", height: "8", patternUnits: "userSpaceOnUse" }, lines),
    shape("path", { ...path, fill: `hsl(${number % 360} 45% 52%)` }),
    shape("path", { ...path, fill: `url(#${pattern})` }),
  );
}
