/** The legend: categories with their colours; pressing one brings its items out of the crowd. */

import { element, swatchOf } from "./element.js";
import { COLOURED } from "./palette.js";

export class Legend {
  /** @param {HTMLElement} root @param {(code: number) => void} highlight code of the chosen category, or -1 */
  constructor(root, highlight) {
    this.root = root;
    this.highlight = highlight;
    this.chosen = -1;
  }

  /** For another map. @param {import("./catalogue_map.js").CatalogueMap | null} map @param {string[]} colours */
  begin(map, colours) {
    this.chosen = -1;
    this.highlight(-1);
    this.fill(map, colours);
  }

  /** Again, after colours have changed. @param {import("./catalogue_map.js").CatalogueMap | null} map @param {string[]} colours */
  fill(map, colours) {
    const open = this.root.querySelector("details")?.open ?? false;
    if (!map) {
      this.root.replaceChildren();
      return;
    }
    const others = map.categories.map((_, code) => code).filter((code) => !map.coloured.includes(code));
    const children = map.coloured.map((code, place) => this.#button(map.categories[code], code, colours[place]));
    if (others.length > 0) {
      const named = others.map((code) => ({ code, name: map.categories[code] })).sort((a, b) => a.name.localeCompare(b.name));
      const swatch = swatchOf(colours[COLOURED]);
      children.push(
        element(
          "details",
          { open },
          element("summary", {}, swatch, `${others.length} other ${others.length === 1 ? "category" : "categories"}`),
          element("div", {}, ...named.map(({ code, name }) => this.#button(name, code, colours[COLOURED]))),
        ),
      );
    }
    this.root.replaceChildren(...children);
  }

  /** @param {string} name @param {number} code @param {string} colour */
  #button(name, code, colour) {
    const button = element("button", { type: "button", "aria-pressed": String(code === this.chosen), data: { code: String(code) } }, swatchOf(colour), name);
    button.addEventListener("click", () => {
      this.chosen = this.chosen === code ? -1 : code;
      for (const other of this.root.querySelectorAll("button"))
        other.setAttribute("aria-pressed", String(Number(other.dataset.code) === this.chosen));
      this.highlight(this.chosen);
    });
    return button;
  }
}
