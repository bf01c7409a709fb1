/**
 * E-mails from a batch: `node dist/emails.js BATCH.jsonl FOLDER`.
 *
 * The batch is that of `lorentzrec recommend-all MODEL --out BATCH.jsonl`, one line per customer and rank, sorted by
 * customer. It is read line by line, so its size does not matter. One HTML file per customer is what a mailer sends.
 */

import { createReadStream } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Client, type Item } from "lorentzrec-client";

import { html, type Html } from "./html.js";
import { soldOut } from "./surfaces.js";

interface Line {
  user: string | number;
  rank: number;
  item: string | number;
  score: number;
}

const [batch, folder] = process.argv.slice(2);
if (batch === undefined || folder === undefined) {
  console.error("usage: node dist/emails.js BATCH.jsonl FOLDER");
  process.exit(2);
}
const shop = process.env.SHOP ?? "http://127.0.0.1:8080";
const service = process.env.SERVICE ?? "http://127.0.0.1:8000";
const client = new Client(service, { apiKey: process.env.API_KEY });

/** Titles are looked up once per item, not once per customer. */
const catalogue = new Map<string, Promise<Item>>();
function lookUp(id: string): Promise<Item> {
  const found = catalogue.get(id) ?? client.item(id);
  catalogue.set(id, found);
  return found;
}

function email(items: Item[]): Html {
  const lines = items.map(
    (item) => html`<tr><td style="padding: 12px 0; border-top: 1px solid #e4ded4">
      <a href="${shop}/products/${encodeURIComponent(item.id)}" style="color: #1f1b16; font-size: 18px">${item.title ?? item.id}</a>
      <div style="color: #6f665a; font-size: 14px">${item.category}</div>
    </td></tr>`,
  );
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>New for you at Minkowski &amp; Sons</title>
      </head>
      <body style="margin: 0; background: #f6f3ee; font-family: Georgia, serif">
        <table role="presentation" align="center" width="100%" style="max-width: 560px; padding: 32px 24px">
          <tr><td style="padding-bottom: 20px"><h1 style="margin: 0; font-size: 26px">New for you</h1></td></tr>
          ${lines}
        </table>
      </body>
    </html>`;
}

async function write(user: string, ids: string[]): Promise<number> {
  if (ids.length === 0) return 0;
  const name = `${encodeURIComponent(user)}.html`;
  await writeFile(join(folder!, name), email(await Promise.all(ids.map(lookUp))).text);
  return 1;
}

await mkdir(folder, { recursive: true });
// The batch was made hours ago: what has been sold out since then is left out.
const gone = await soldOut(client);
let written = 0;
let left = 0;
let customer: string | null = null;
let ids: string[] = [];
for await (const text of createInterface({ input: createReadStream(batch), crlfDelay: Infinity })) {
  const line = JSON.parse(text) as Line;
  if (String(line.user) !== customer) {
    if (customer !== null) written += await write(customer, ids);
    [customer, ids] = [String(line.user), []];
  }
  if (gone(line.item)) left += 1;
  else ids.push(String(line.item));
}
if (customer !== null) written += await write(customer, ids);
console.log(`${written} e-mails are in ${folder}; ${left} recommendations were sold out and left out`);
