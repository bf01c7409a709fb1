/** HTML whose values are escaped: titles and ids are data. */

export class Html {
  constructor(readonly text: string) {}
}

type Value = Html | string | number | null | readonly Html[];

export function html(parts: TemplateStringsArray, ...values: Value[]): Html {
  return new Html(parts.reduce((text, part, place) => text + render(values[place - 1] ?? null) + part));
}

function render(value: Value): string {
  if (value === null) return "";
  if (value instanceof Html) return value.text;
  if (typeof value === "object") return value.map(render).join("");
  return String(value).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
