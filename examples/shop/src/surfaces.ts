/** Where a shop recommends, and which request each place needs. This file is what to copy; the rest is an ordinary shop. */

import type { Client, Id, RecommendedItem, Where } from "lorentzrec-client";

export interface Shelf {
  heading: string;
  items: RecommendedItem[];
  /** What they cost together, of an outfit whose prices are known. */
  price?: number | null;
}

/** What cards show besides the title. */
const fields: ("price" | "image")[] = ["price", "image"];

/** What a visitor has narrowed the shop down to. Any column of the items can be a filter. */
export interface Filters {
  brand?: string | undefined;
  most?: number | undefined;
}

function where({ brand, most }: Filters): Where {
  return { ...(brand === undefined ? {} : { brand }), ...(most === undefined ? {} : { price: { max: most } }) };
}

/** The personal page: items for this customer, not too similar to one another, each with the reason for it. */
export async function personalPage(client: Client, customer: Id, filters: Filters = {}): Promise<Shelf> {
  const found = await client.recommend({ user: customer }, { k: 12, diversity: 0.3, reasons: true, fields, where: where(filters) });
  // Nothing is known about the customer, or the store could not be read: these items are popular, not personal.
  const popular = found.fallback_kinds.includes("popular") || found.degraded !== null;
  return { heading: popular ? "Popular right now" : "Picked for you", items: found.items };
}

/** A product page: what this customer might like, given that they are looking at this product now. */
export async function alsoLike(client: Client, customer: Id, product: Id): Promise<Shelf> {
  const found = await client.recommend({ user: customer }, { context: [product], exclude: [product], k: 6, fields });
  return { heading: "You might also like", items: found.items };
}

/** A product that is out of stock: what to buy instead, of its category, and if that has too few, of the department. */
export async function alternatives(client: Client, product: Id): Promise<Shelf> {
  const found = await client.alternatives(product, { k: 6, fields });
  return { heading: "In stock instead", items: found.items };
}

/** A product page: what others look at who look at this product, whoever is asking. */
export async function similar(client: Client, product: Id): Promise<Shelf> {
  const found = await client.similar(product, { k: 6, fields });
  return { heading: "Similar products", items: found.items };
}

/** An outfit: what is bought with the products chosen so far, one of each kind that it does not contain yet. */
export async function completeOutfit(client: Client, outfit: Id[], budget?: number): Promise<Shelf> {
  const found = await client.outfits(outfit, { k: 6, reasons: true, fields, ...(budget === undefined ? {} : { budget }) });
  return { heading: "Complete the outfit", items: found.items, price: found.price };
}

/** A product page: what goes with the product. */
export async function goesWith(client: Client, product: Id): Promise<Shelf> {
  const found = await client.outfits([product], { k: 4, fields });
  return { heading: "Goes with it", items: found.items };
}

/** Items that must not be shown at the moment. The service leaves them out itself; a batch made earlier cannot. */
export async function soldOut(client: Client): Promise<(item: Id) => boolean> {
  const live = await client.liveItems();
  const only = live.items === null ? null : new Set(live.items);
  const removed = new Set(live.removed);
  return (item) => removed.has(String(item)) || (only !== null && !only.has(String(item)));
}

/** Recommendations must never cost the page they are on: if they fail, the shelf is missing and the log says why. */
export async function optional(shelf: Promise<Shelf>): Promise<Shelf | null> {
  try {
    const found = await shelf;
    return found.items.length > 0 ? found : null;
  } catch (error) {
    console.warn("no recommendations:", error instanceof Error ? error.message : error);
    return null;
  }
}
