/** The latest refusals and their meaning. */
import { useState } from "preact/hooks";
import { WINDOW_S } from "../src/feed.ts";
import { type RefusalGroup, explanation, groupRefusals, matchingRefusals, shortCode } from "./explain.ts";
import { clockTime, figure } from "./format.ts";
import type { LiveStore } from "./live-store.ts";
import { Empty, Table } from "./parts.tsx";

/** Number of the latest refusals shown at first. */
const SHOWN = 30;

export function RefusalsView({ store }: { store: LiveStore }) {
  const [isWhole, setWhole] = useState(false);
  const [sought, setSought] = useState("");
  // On a phone the explanations would push the refusals themselves below the fold.
  const [isWide] = useState(() => innerWidth >= 720);
  const { refusals, state, hello } = store;
  const rates = new Map<string, number>();
  for (const { refused } of state?.models ?? [])
    for (const [code, rate] of Object.entries(refused))
      rates.set(`TUTTI_${code}`, (rates.get(`TUTTI_${code}`) ?? 0) + rate);
  const codes = [...new Set([...rates.keys(), ...refusals.map(({ code }) => code)])].sort(
    (a, b) => (rates.get(b) ?? 0) - (rates.get(a) ?? 0),
  );
  const groups = groupRefusals(matchingRefusals(refusals, sought));
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
        <div class="bar">
          <h2 id="refusals">The last ones</h2>
          <label>
            Search{" "}
            <input
              type="search"
              value={sought}
              size={28}
              spellcheck={false}
              placeholder="model, application, id, text"
              onInput={(event) => setSought(event.currentTarget.value)}
            />
          </label>
        </div>
        {groups.length === 0 ? (
          <Empty>{refusals.length === 0 ? "None has been told of yet." : `None of ${refusals.length} has that.`}</Empty>
        ) : (
          <Table name="Refusals" head={HEAD}>
            {shown.map((group, i) => (
              <RefusalRow key={`${group.at} ${i}`} group={group} hasTraces={hello?.traces === true} />
            ))}
          </Table>
        )}
        {groups.length > shown.length && (
          <button type="button" onClick={() => setWhole(true)}>
            Show all {groups.length}
          </button>
        )}
        <p class="quiet">
          An actor tells of sixteen a second at most, and of fewer in a flood; rates count all.{" "}
          <code>tutti refusals --request &lt;id&gt;</code> says more of one.
        </p>
      </section>
    </>
  );
}

const HEAD = [
  "At",
  "Model",
  ["Application", "wide"],
  ["Cause", "wide"],
  "What its publisher reads",
  ["Id", "wide"],
] as const;

function RefusalRow({ group, hasTraces }: { group: RefusalGroup; hasTraces: boolean }) {
  const { at, model, app, code, text, id, trace, count } = group;
  return (
    <tr>
      <td class="nowrap">{clockTime(at)}</td>
      <td>{model === "" ? "–" : model}</td>
      <td class="wide">{app === "" ? "–" : app}</td>
      <td class="nowrap wide">{shortCode(code)}</td>
      <td>
        {text} {count > 1 && <span class="quiet nowrap">and {count - 1} more alike</span>}
      </td>
      <td class="wide">
        <code class="id long">
          {hasTraces && trace !== "" ? (
            <a href={`#traces/${trace}`} title="To its trace">
              {id}
            </a>
          ) : (
            id
          )}
        </code>
      </td>
    </tr>
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
