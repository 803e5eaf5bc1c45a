/** The latest refusals and their meaning. */
import { useState } from "preact/hooks";
import { WINDOW_S } from "../src/feed.ts";
import { explanation, groupRefusals, shortCode } from "./explain.ts";
import { clockTime, figure } from "./format.ts";
import type { LiveStore } from "./live-store.ts";
import { Empty, Table } from "./parts.tsx";

/** Number of the latest refusals shown at first. */
const SHOWN = 30;

export function RefusalsView({ store }: { store: LiveStore }) {
  const [isWhole, setWhole] = useState(false);
  // On a phone the explanations would push the refusals themselves below the fold.
  const [isWide] = useState(() => innerWidth >= 720);
  const { refusals, state } = store;
  const rates = new Map<string, number>();
  for (const { refused } of state?.models ?? [])
    for (const [code, rate] of Object.entries(refused))
      rates.set(`TUTTI_${code}`, (rates.get(`TUTTI_${code}`) ?? 0) + rate);
  const codes = [...new Set([...rates.keys(), ...refusals.map(({ code }) => code)])].sort(
    (a, b) => (rates.get(b) ?? 0) - (rates.get(a) ?? 0),
  );
  const groups = groupRefusals(refusals);
  const shown = groups.slice(0, isWhole ? undefined : SHOWN);
  if (codes.length === 0) return <Empty>Nothing was refused lately.</Empty>;
  return (
    <>
      <section aria-labelledby="causes">
        <h2 id="causes">
          Causes <span class="quiet">over the last {WINDOW_S} s</span>
        </h2>
        <div class="causes">
          {codes.map((code) => (
            <Cause key={code} code={code} rate={rates.get(code) ?? 0} isWide={isWide} />
          ))}
        </div>
      </section>
      <section aria-labelledby="refusals">
        <h2 id="refusals">The last ones</h2>
        {refusals.length === 0 ? (
          <Empty>None has been told of yet.</Empty>
        ) : (
          <Table name="Refusals" head={["At", "Model", ["Cause", "wide"], "What its publisher reads"]}>
            {shown.map(({ at, model, code, text, count }, i) => (
              <tr key={`${at} ${i}`}>
                <td class="nowrap">{clockTime(at)}</td>
                <td>{model === "" ? "–" : model}</td>
                <td class="nowrap wide">{shortCode(code)}</td>
                <td>
                  {text} {count > 1 && <span class="quiet nowrap">and {count - 1} more alike</span>}
                </td>
              </tr>
            ))}
          </Table>
        )}
        {groups.length > shown.length && (
          <button type="button" onClick={() => setWhole(true)}>
            Show all {groups.length}
          </button>
        )}
        <p class="quiet">An actor tells of its last sixteen a second; rates count all.</p>
      </section>
    </>
  );
}

function Cause({ code, rate, isWide }: { code: string; rate: number; isWide: boolean }) {
  const { means, look } = explanation(code);
  return (
    <details open={isWide}>
      <summary>
        <strong>{shortCode(code)}</strong> <span class="quiet">{figure(rate)}/s</span>
      </summary>
      {means} <span class="quiet">{look}</span>
    </details>
  );
}
