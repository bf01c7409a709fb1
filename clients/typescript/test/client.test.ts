/** The client against a real service: tests/serving/test_typescript_client.py starts it and sets the environment. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";

import { Client, ServiceError, type Rule } from "lorentzrec-client";

const { SERVICE: service = "", API_KEY: apiKey = "", EXPECTED: expected = "" } = process.env;
const client = new Client(`${service}/`, { apiKey });

function ids({ items }: { items: { id: string }[] }): string[] {
  return items.map((item) => item.id);
}

async function isServed(item: string): Promise<boolean> {
  const found = await client.recommend({ history: ["i3"] }, { k: 100 });
  return ids(found).includes(item);
}

test("recommendations are those of the model, and options have an effect", async () => {
  const found = await client.recommend({ history: ["i3", "i7"] }, { k: 5, reasons: true });
  assert.deepEqual(ids(found), expected.split(","));
  assert.equal(found.model, (await client.model()).model);
  assert.ok(found.items.some((item) => item.because.length > 0));
  const hats = await client.recommend({ history: ["i3", "i7"] }, { categories: ["hats"] });
  assert.deepEqual(new Set(hats.items.map((item) => item.category)), new Set(["hats"]));
  const nobody = await client.recommend({ user: "nobody" });
  assert.deepEqual(nobody.fallback_kinds, ["popular"]);
});

test("similar items, alternatives and outfits", async () => {
  const all = await client.similar("i3", { k: 4 });
  assert.equal(all.items.length, 4);
  const [first = "", second = ""] = ids(all);
  // Lists become repeated parameters, and an empty one is not the same as none.
  const fewer = await client.similar("i3", { k: 2, exclude: [first, second], categories: [] });
  assert.deepEqual(ids(fewer), ids(all).slice(2));
  assert.deepEqual(ids(await client.similar("i3", { allow: [second, first], fields: ["price"] })), [first, second]);
  assert.deepEqual(ids(await client.similar("i3", { allow: [] })), []);
  const [plain] = (await client.similar("i3", { allow: ["i0"] })).items;
  const [priced] = (await client.similar("i3", { allow: ["i0"], fields: ["price"] })).items;
  assert.deepEqual([plain?.price, priced?.price], [undefined, 9.5]);
  const hat = (await client.search("", 40)).find((item) => item.category === "hats");
  assert.ok(hat);
  const instead = await client.alternatives(hat.id, { k: 5, fields: ["price"], where: { category: ["hats", "coats"] } });
  assert.deepEqual(new Set(instead.items.map((item) => item.category)), new Set(["hats"]));
  assert.ok(!ids(instead).includes(hat.id));
  const outfit = await client.outfits([hat.id], { slots: ["shoes", "coats"], per_category: 1 });
  assert.deepEqual(outfit.slots.map(({ category, items }) => [category, items.length]), [["shoes", 1], ["coats", 1]]);
});

test("nothing is trending without events of the last days", async () => {
  const found = await client.trending({ k: 3, categories: ["hats"], where: { price: { max: 50 } } });
  assert.deepEqual([found.items, found.fallback_kinds, found.days], [[], ["not_trending"], 28]);
  assert.equal((await client.model()).trend?.source, "off");
});

test("rules, sets and conditions", async () => {
  const query = { history: ["i3"] };
  const [first] = (await client.recommend(query, { k: 2 })).items;
  assert.ok(first);
  const rule: Rule = { name: "out", select: { ids: [first.id] }, exclude: true };
  const tried = await client.previewRules([rule], {}, { recommend: { ...query, k: 2 } });
  assert.deepEqual([tried.rules, tried.without_rules[0]?.id], [["out"], first.id]);
  const { revision } = await client.rules();
  const changed = await client.setRules([rule], { DE: ["i1"] }, { reason: "test", instead_of: revision });
  assert.deepEqual([changed.revision, changed.rules], [revision + 1, 1]);
  assert.equal((await client.rulesLog())[0]?.reason, "test");
  const { revision: last } = await client.setRules([]);
  // Until then, the rule may act in other tests.
  while ((await client.model()).rules !== last) await setTimeout(20);
  const where = { price: { max: 10 } };
  assert.deepEqual(ids(await client.similar("i3", { where })), ["i0"]);
  assert.deepEqual(ids(await client.recommend(query, { where })), ["i0"]);
});

test("events, history and erasure, with an id that must be encoded", async () => {
  const user = "a/b c?d";
  const added = await client.addEvents([
    { user, item: "i3", time: 5 },
    { user, item: "i7", time: 9 },
  ]);
  assert.deepEqual([added.accepted, added.duplicates], [2, 0]);
  assert.deepEqual(
    (await client.history(user)).map(({ item, time }) => [item, time]),
    [["i3", 5], ["i7", 9]],
  );
  assert.deepEqual(ids(await client.recommend({ user }, { k: 5 })), expected.split(","));
  assert.equal(await client.forget(user), 2);
  assert.deepEqual(await client.history(user), []);
});

test("the catalogue: search, items, live items and new items", async () => {
  assert.deepEqual(ids({ items: await client.search("number 12") }), ["i12"]);
  assert.equal((await client.item("i12")).title, "Piece number 12");
  const looked = await client.lookup(["i12", "none", "i0"]);
  assert.deepEqual([ids(looked), looked.unknown], [["i12", "i0"], ["none"]]);
  assert.equal((await client.changeLiveItems({ remove: ["i3"] })).removed, 1);
  assert.deepEqual((await client.liveItems()).removed, ["i3"]);
  assert.equal((await client.setLiveItems(null)).live, null);
  const boot = await client.addItem("boot", { title: "Boot", like: ["i3", "none"] });
  assert.deepEqual([boot.placed, boot.unknown_items], [true, 1]);
  // The service follows its store: what was written is served soon, and not at once.
  while (!(await isServed("boot"))) await setTimeout(20);
  assert.equal((await client.removeItem("boot")).id, "boot");
  while (await isServed("boot")) await setTimeout(20);
  await client.addItem("cap", { like: ["i3"] });
  assert.equal(await client.removeItems({ origin: "put", fewer_than: 1 }), 1);
});

test("errors carry the problem", async () => {
  await assert.rejects(client.item("none"), (error) => {
    assert.ok(error instanceof ServiceError);
    assert.match(error.message, /'none' is not in version/);
    assert.deepEqual([error.problem?.status, error.problem?.type], [404, "urn:lorentzrec:unknown-item"]);
    assert.deepEqual(error.problem?.errors, []);
    return true;
  });
  await assert.rejects(client.recommend({ history: [] }, { k: 0 }), (error) => {
    assert.ok(error instanceof ServiceError && error.problem?.errors[0]?.where === "k");
    return true;
  });
  await assert.rejects(new Client(service).model(), /An API key is required/);
});

/** The address of a server whose responses have these statuses in turn; the last one repeats. Requests are kept. */
async function answering(responses: [number, Record<string, string>, string][], received: string[]): Promise<Server> {
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (part) => (text += part));
    request.on("end", () => {
      received.push(text);
      const [status, headers, body] = responses[Math.min(received.length, responses.length) - 1]!;
      response.writeHead(status, headers).end(body);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

test("an unavailable service is tried again, and an event keeps its id", async () => {
  const received: string[] = [];
  const past = { "Retry-After": "Fri, 01 Jan 2016 00:00:00 GMT" };
  const server = await answering([[503, { "Retry-After": "0" }, ""], [503, past, ""], [200, {}, '{"accepted": 1}']], received);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  assert.equal((await new Client(url).addEvents([{ user: "ann", item: 7 }])).accepted, 1);
  assert.equal(received.length, 3);
  assert.equal(new Set(received).size, 1);
  assert.match(JSON.parse(received[0]!).events[0].id, /^(\w+-){3}\w+$/);
  server.close();
});

test("what is not a service, and what cannot be reached, is reported", async () => {
  const received: string[] = [];
  const server = await answering([[502, {}, "<h1>Bad gateway</h1>"]], received);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await assert.rejects(new Client(url).model(), /responded 502 without a problem document: check the URL/);
  assert.equal(received.length, 1, "only a 503 is tried again");
  server.close();
  await once(server, "close");
  await assert.rejects(new Client(url, { retries: 1 }).model(), /cannot be reached: is it running\?/);
});

test("a pause beyond the deadline is not waited for", async () => {
  const received: string[] = [];
  const server = await answering([[503, { "Retry-After": "3600" }, ""]], received);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await assert.rejects(new Client(url).model(), /responded 503/);
  assert.equal(received.length, 1);
  server.close();
});

test("an id that would change the path is not sent", async () => {
  const received: string[] = [];
  const server = await answering([[200, {}, "{}"]], received);
  const away = new Client(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  for (const id of [".", ".."]) {
    await assert.rejects(away.forget(id), /cannot be part of an address/);
    await assert.rejects(away.history(id), ServiceError);
    await assert.rejects(away.similar(id), ServiceError);
    await assert.rejects(away.removeItem(id), ServiceError);
  }
  assert.deepEqual(received, []);
  server.close();
});

test("a service that does not respond is given up", async () => {
  const server = createServer(() => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await assert.rejects(new Client(url, { timeout: 50 }).model(), /cannot be reached/);
  server.closeAllConnections();
  server.close();
});

/** Never called: the compiler fails if one of these wrong requests is accepted. */
export function wrongRequests(): void {
  // @ts-expect-error: a history or a customer
  void client.recommend({});
  // @ts-expect-error: a misspelt option
  void client.recommend({ user: "ann" }, { divesity: 1 });
  // @ts-expect-error: an event has a customer
  void client.addEvents([{ item: "i1" }]);
  // @ts-expect-error: similar items have no history
  void client.similar("i1", { history: ["i2"] });
}
