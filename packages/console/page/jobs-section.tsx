/** Background jobs: what waits, when it is done, and what was given up. */
import type { FeedJobs } from "../src/feed.ts";
import { explanation, shortCode } from "./explain.ts";
import { expectedEnd, figure } from "./format.ts";
import { Table } from "./parts.tsx";

const HEAD = ["Model", ["In queue", "number"], ["Done/s", "number"], "Expected end", "Dead letters"] as const;

/** Nothing where there are no jobs. */
export function JobsSection({ jobs, left, at }: { jobs: readonly FeedJobs[]; left: number; at: number }) {
  if (jobs.length === 0) return null;
  const hasDead = jobs.some(({ dead }) => Object.keys(dead).length > 0);
  return (
    <section aria-labelledby="jobs">
      <h2 id="jobs">
        Background jobs <span class="quiet">in time that no request needs</span>
      </h2>
      <Table name="Background jobs" head={HEAD}>
        {jobs.map(({ model, queued, rate, endsInS, dead }) => (
          <tr key={model}>
            <th scope="row">
              <strong>{model}</strong>
            </th>
            <td class="number">{queued.toLocaleString("en")}</td>
            <td class="number">{figure(rate)}</td>
            <td>{expectedEnd(endsInS, at)}</td>
            <td>
              {Object.entries(dead).map(([code, count], i) => (
                <span key={code} title={explanation(code).means}>
                  {i > 0 && ", "}
                  {count.toLocaleString("en")} <span class="quiet">{shortCode(code)}</span>
                </span>
              ))}
            </td>
          </tr>
        ))}
      </Table>
      {left > 0 && <p class="quiet">{left} more models are not shown.</p>}
      {hasDead && (
        <p class="quiet">
          Dead letters were given up: <code>tutti jobs dead</code> lists them, <code>--requeue</code> tries them again.
        </p>
      )}
    </section>
  );
}
