/** The pages of the shop. */

import type { Item, RecommendedItem } from "lorentzrec-client";

import { html, type Html } from "./html.js";
import type { Filters, Shelf } from "./surfaces.js";

type Product = Pick<Item, "id" | "title" | "category"> & { price?: number | null };

export function personal(customer: string, shelf: Shelf | null, filters: Filters = {}): Html {
  return page(
    "Home",
    html`<section class="hero">
        <h1>Hello, ${customer}</h1>
        <p>What you look at changes what you see here, from the next page on.</p>
      </section>
      <form class="filters" aria-label="Filters">
        <label>Brand <input name="brand" value="${filters.brand ?? ""}"></label>
        <label>At most <input name="most" type="number" min="0" step="any" value="${filters.most ?? ""}"></label>
        <button>Show</button>
      </form>
      ${shelf ? shelfOf(shelf) : filters.brand || filters.most ? html`<p>Nothing fits these filters.</p>` : null}`,
  );
}

export function product(item: Product, inStock: boolean, shelves: (Shelf | null)[]): Html {
  const action = inStock
    ? html`<a class="button" href="/outfit?items=${encodeURIComponent(item.id)}">Build an outfit with it</a>`
    : html`<p class="sold-out">Out of stock</p>`;
  return page(
    nameOf(item),
    html`<section class="product">
        ${picture(item)}
        <div>
          <p class="category">${item.category}</p>
          <h1>${nameOf(item)}</h1>
          ${priceOf(item.price)}
          ${action}
        </div>
      </section>
      ${shelves.flatMap((shelf) => (shelf === null ? [] : [shelfOf(shelf)]))}`,
  );
}

export function outfit(items: Product[], shelf: Shelf | null, budget?: number): Html {
  const ids = items.map((item) => item.id);
  const without = (id: string) => outfitAddress(ids.filter((other) => other !== id));
  const chosen = items.map((item) => card(item, html`<a href="${without(item.id)}">Remove</a>`));
  return page(
    "Your outfit",
    html`<h1>Your outfit</h1>
      ${items.length === 0 ? html`<p>Nothing yet. Open a product and start with it.</p>` : null}
      <ul class="shelf">${chosen}</ul>
      <form class="filters" aria-label="Budget">
        <input type="hidden" name="items" value="${ids.map(encodeURIComponent).join(",")}">
        <label>The rest may cost <input name="budget" type="number" min="0.01" step="any" value="${budget ?? ""}"></label>
        <button>Show</button>
      </form>
      ${shelf && shelfOf(shelf, (item) => html`<a href="${outfitAddress([...ids, item.id])}">Add</a>`)}`,
  );
}

export function problem(heading: string, text: string): Html {
  return page(heading, html`<h1>${heading}</h1><p>${text}</p>`);
}

function outfitAddress(ids: string[]): string {
  return `/outfit?items=${ids.map(encodeURIComponent).join(",")}`;
}

function page(title: string, content: Html): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>${title} · Minkowski &amp; Sons</title>
        <link rel="icon" href="data:,">
        <link rel="stylesheet" href="/shop.css">
      </head>
      <body>
        <header>
          <a class="name" href="/">Minkowski &amp; Sons</a>
          <nav aria-label="Shop"><a href="/">For you</a> <a href="/outfit">Outfit</a></nav>
        </header>
        <main>${content}</main>
      </body>
    </html>`;
}

function shelfOf(shelf: Shelf, below?: (item: RecommendedItem) => Html): Html {
  return html`<section aria-label="${shelf.heading}">
    <h2>${shelf.heading}</h2>
    ${typeof shelf.price === "number" ? html`<p class="together">Together ${money(shelf.price)}</p>` : null}
    <ul class="shelf">${shelf.items.map((item) => card(item, below?.(item) ?? reasonOf(item)))}</ul>
  </section>`;
}

function reasonOf(item: RecommendedItem): Html | null {
  const reason = item.because[0];
  if (reason === undefined) return null;
  if (reason.kind === "bought_before") return html`<span class="reason">Bought before</span>`;
  if (reason.kind === "trending") return html`<span class="reason">More popular than usual</span>`;
  const words = {
    near: "Because of",
    often_after: "Often bought after",
    often_with: "Often bought with",
    category_with: "Goes with",
  };
  return html`<span class="reason">${words[reason.kind]} ${reason.title ?? reason.item}</span>`;
}

function card(item: Product, below: Html | null): Html {
  return html`<li>
    <a href="/products/${encodeURIComponent(item.id)}">${picture(item)}<span class="title">${nameOf(item)}</span></a>
    ${priceOf(item.price)}
    ${below}
  </li>`;
}

/** A shop has photographs. Here the category gives the colour. */
function picture(item: Product): Html {
  const category = item.category ?? "";
  const hue = [...category].reduce((sum, letter) => (31 * sum + letter.charCodeAt(0)) % 360, 7);
  return html`<span class="picture" style="--hue: ${hue}" aria-hidden="true">${category}</span>`;
}

function priceOf(price: number | null | undefined): Html | null {
  return typeof price === "number" ? html`<span class="price">${money(price)}</span>` : null;
}

function money(amount: number): string {
  return amount.toFixed(2);
}

function nameOf(item: Product): string {
  return item.title ?? item.id;
}
