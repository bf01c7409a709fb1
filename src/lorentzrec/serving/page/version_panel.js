/** What the version in use knows about itself: its age, its reality check, and what the daily job measured. */

import { byId, element } from "./element.js";

const HOUR = 3600;
/** Lengths of time: below the second number, they are given in units of the first. @type {[number, number, string][]} */
const UNITS = [[60, 2 * HOUR, "minute"], [HOUR, 48 * HOUR, "hour"], [24 * HOUR, Infinity, "day"]];

/** @param {number} seconds @returns {string} "1 minute", "26 hours", "3 days" */
export function lengthOf(seconds) {
  const whole = Math.max(seconds, 0); // the clock of this machine may be behind
  const [unit, , name] = UNITS.find(([, below]) => whole < below);
  const count = Math.floor(whole / unit);
  return `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`;
}

/** @param {number} seconds since 1970 @returns {string} "2026-11-18 20:15 UTC" */
function momentOf(seconds) {
  const moment = new Date(seconds * 1000);
  return Number.isNaN(moment.getTime()) ? "unknown" : `${moment.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

const isKnown = (/** @type {unknown} */ value) => typeof value === "number";

/**
 * What is not known is left out.
 * @param {import("./service.js").Version} version @param {number} now seconds since 1970 @returns {[string, string][]}
 */
export function factsOfVersion({ created, newest_event, check, compared_with, overlap }, now) {
  /** @type {[string, string][]} */
  const facts = [["Age", `${lengthOf(now - created)}, made at ${momentOf(created)}`]];
  if (isKnown(newest_event)) facts.push(["Newest event learned", `${momentOf(newest_event)}, ${lengthOf(now - newest_event)} ago`]);
  if (check && isKnown(check.ndcg) && isKnown(check.best_baseline_ndcg)) {
    const events = `${check.events} events of ${check.customers.toLocaleString("en")} ${check.customers === 1 ? "customer" : "customers"}`;
    facts.push(["NDCG@10", `${check.ndcg.toFixed(4)}, and ${check.best_baseline_ndcg.toFixed(4)} of the best baseline, ${check.best_baseline}, on ${events}`]);
  }
  if (isKnown(overlap) && compared_with) facts.push(["Overlap@10", `${overlap.toFixed(2)} with version ${compared_with}, which it was compared with`]);
  return facts;
}

/** @param {import("./service.js").Day} day */
function rowOf({ time, ndcg, best_baseline, coverage, new_item_share }) {
  const numbers = [[ndcg, 4], [best_baseline, 4], [coverage, 3], [new_item_share, 3]];
  const cells = numbers.map(([value, digits]) => element("td", {}, isKnown(value) ? value.toFixed(digits) : "\u2013"));
  return element("tr", {}, element("th", { scope: "row" }, momentOf(time).slice(0, 10)), ...cells);
}

/** @param {import("./service.js").Version | null} version */
export function fillVersion(version) {
  byId("version-panel").hidden = !version;
  if (!version) return;
  const facts = factsOfVersion(version, Date.now() / 1000);
  byId("version-facts").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
  const { days } = version;
  const table = byId("version-days");
  table.hidden = !days?.length;
  table.tBodies[0].replaceChildren(...[...(days ?? [])].reverse().map(rowOf));
  const none = days ? "The daily job had measured no day before this version." : "No daily job has published this version.";
  byId("version-note").textContent = days?.length ? "" : none;
}
