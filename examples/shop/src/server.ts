/**
 * A small shop: `node dist/server.js`. The key stays on this server; browsers receive finished pages.
 *
 * It is for trying, on your own machine: whoever names a customer is that customer, because neither `?customer=` nor the
 * cookie is checked, and opening a page writes an event. A real shop takes the customer from a signed session.
 */

import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

import { Client, ServiceError } from "lorentzrec-client";

import type { Html } from "./html.js";
import * as pages from "./pages.js";
import { alsoLike, alternatives, completeOutfit, goesWith, optional, personalPage, similar, soldOut } from "./surfaces.js";

const service = process.env.SERVICE ?? "http://127.0.0.1:8000";
const client = new Client(service, { apiKey: process.env.API_KEY, timeout: 2_000, retries: 0 });
/** Largest number of items in an outfit: each of them is a request to the service. */
const OUTFIT = 20;
const style = await readFile(new URL("../shop.css", import.meta.url));

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const address = new URL(request.url ?? "/", "http://shop");
  const customer = customerOf(request, address);
  if (address.pathname === "/shop.css") {
    response.setHeader("Content-Type", "text/css").end(style);
    return;
  }
  // Pages need no script, and load nothing from elsewhere.
  response.setHeader("Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:");
  response.setHeader("Set-Cookie", `customer=${encodeURIComponent(customer)}; Path=/; HttpOnly; SameSite=Lax`);
  const [status, page] = await pageAt(address, customer);
  response.writeHead(status, { "Content-Type": "text/html; charset=utf-8" }).end(page.text);
}

async function pageAt(address: URL, customer: string): Promise<[number, Html]> {
  const product = /^\/products\/([^/]+)$/.exec(address.pathname)?.[1];
  if (address.pathname === "/") {
    const filters = { brand: address.searchParams.get("brand") || undefined, most: numberIn(address, "most") };
    return [200, pages.personal(customer, await optional(personalPage(client, customer, filters)), filters)];
  }
  if (address.pathname === "/outfit") {
    const ids = (address.searchParams.get("items") ?? "").split(",").filter(Boolean).map(decodeURIComponent);
    if (ids.length > OUTFIT) return [400, pages.problem("Too many", `An outfit has at most ${OUTFIT} items.`)];
    const items = await Promise.all(ids.map((id) => client.item(id)));
    const budget = numberIn(address, "budget");
    const shelf = ids.length > 0 ? await optional(completeOutfit(client, ids, budget)) : null;
    return [200, pages.outfit(items, shelf, budget)];
  }
  if (product !== undefined) return [200, await productPage(decodeURIComponent(product), customer)];
  return [404, pages.problem("Not found", "This page does not exist.")];
}

async function productPage(id: string, customer: string): Promise<Html> {
  const [item, gone] = await Promise.all([client.item(id), soldOut(client)]);
  const instead = gone(id) ? alternatives(client, id) : similar(client, id);
  const shelves = [optional(instead), optional(goesWith(client, id)), optional(alsoLike(client, customer, id))];
  const page = pages.product(item, !gone(id), await Promise.all(shelves));
  // The visit counts from the next page on. The id of an event makes it safe to send again.
  const visit = { user: customer, item: id, time: Date.now() / 1000 };
  client.addEvents([visit]).catch((error: Error) => console.warn("a visit was not stored:", error.message));
  return page;
}

/** A positive number that the visitor typed; anything else is no filter. */
function numberIn(address: URL, name: string): number | undefined {
  const value = Number.parseFloat(address.searchParams.get(name) ?? "");
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

/** Who is looking: `?customer=` to try others, else the cookie, else someone new. Nothing of this is checked. */
function customerOf(request: IncomingMessage, address: URL): string {
  const cookie = /(?:^|; )customer=([^;]+)/.exec(request.headers.cookie ?? "")?.[1];
  return address.searchParams.get("customer") ?? (cookie ? decodeURIComponent(cookie) : `guest-${randomUUID().slice(0, 8)}`);
}

const server = createServer((request, response) => {
  respond(request, response).catch((error: Error) => {
    const missing = error instanceof ServiceError && error.problem?.status === 404;
    console.warn(error.message);
    const page = missing
      ? pages.problem("Not found", "We do not sell this.")
      : pages.problem("Out of order", "Please try again in a minute.");
    response.writeHead(missing ? 404 : 503, { "Content-Type": "text/html; charset=utf-8" }).end(page.text);
  });
});
server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1", () => {
  const bound = server.address();
  console.log(`The shop is at http://127.0.0.1:${typeof bound === "object" && bound ? bound.port : ""}`);
});
