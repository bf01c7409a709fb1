/** Building pieces of the page. Text always goes in as text: a title with "<b>" in it shows as it is written. */

/**
 * @param {string} tag @param {Record<string, any>} properties set on the element; `data` becomes data attributes
 * @param {(Node | string)[]} children
 * @returns {HTMLElement}
 */
export function element(tag, { data = {}, ...properties } = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  Object.assign(made.dataset, data);
  made.append(...children);
  return made;
}

/** A dot in the colour of a category. @param {string} colour */
export function swatchOf(colour) {
  const swatch = element("i", { className: "swatch" });
  swatch.style.backgroundColor = colour;
  return swatch;
}

/** @param {string} id @returns {any} the element of index.html with this id */
export const byId = (id) => document.getElementById(id);

/** @param {{id: string, title?: string | null}} item */
export const titleOf = (item) => item.title || item.id;
