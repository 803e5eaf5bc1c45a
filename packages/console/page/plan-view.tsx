/** The plan: which models are served where, where they move next, and why. */
import type { FeedPlan } from "../src/feed.ts";
import { bytes, duration, figure, percent, plural } from "./format.ts";
import type { LiveStore } from "./live-store.ts";
import { Empty, Table } from "./parts.tsx";

export function PlanView({ store }: { store: LiveStore }) {
  const { plan, state } = store;
  if (plan === undefined || plan.epoch === 0)
    return <Empty>Nobody has planned yet: every model and accelerator belongs to the sub-cluster main.</Empty>;
  const now = state?.at ?? Date.now();
  const ago = (at: number | null): string => (at === null ? "never" : `${duration(now - at)} ago`);
  return (
    <>
      <section aria-labelledby="next">
        <h2 id="next">The next change</h2>
        <Changes plan={plan} />
        <p class="quiet">
          Plan {plan.epoch}, made {ago(plan.madeAt)}; the planner last said what it sees {ago(plan.seenAt)}.
        </p>
      </section>
      <section aria-labelledby="advice">
        <h2 id="advice">Accelerators that the load needs</h2>
        <p>{adviceText(plan)}</p>
      </section>
      <section aria-labelledby="placement">
        <h2 id="placement">What is served where</h2>
        <Table
          name="Placement"
          head={["Model", "Sub-cluster", "Next", ["r/s", "number"], ["Work", "number"], ["Memory", "number"]]}
        >
          {plan.models.map(({ model, subCluster, next, rate, work, memoryBytes }) => (
            <tr key={model}>
              <th scope="row">{model}</th>
              <td>{subCluster}</td>
              <td>{next === null || next === subCluster ? "stays" : `→ ${next}`}</td>
              <td class="number">{figure(rate)}</td>
              <td class="number">{figure(work)}</td>
              <td class="number">{bytes(memoryBytes === 0 ? null : memoryBytes)}</td>
            </tr>
          ))}
        </Table>
        <p class="quiet">Work: accelerators that the model's requests keep busy.</p>
      </section>
      {plan.reasons.length > 0 && (
        <section aria-labelledby="reasons">
          <h2 id="reasons">Why</h2>
          <ol class="log">
            {plan.reasons.map(({ at, about, text }, i) => (
              <li key={i}>
                <time>{ago(at)}</time> {about} {text}
              </li>
            ))}
          </ol>
        </section>
      )}
    </>
  );
}

function Changes({ plan }: { plan: FeedPlan }) {
  const moving = plan.models.filter(({ next, subCluster }) => next !== null && next !== subCluster);
  const { accelerators, leftOut } = plan;
  if (moving.length + accelerators.length + leftOut.length === 0) return <p>None is due: the next plan is the same.</p>;
  return (
    <ul>
      {moving.map(({ model, subCluster, next, state }) => (
        <li key={model}>
          {model} goes from {subCluster} to {next}:{" "}
          {state === "moving" ? "it is being loaded there" : "it waits for room"}.
        </li>
      ))}
      {accelerators.map(({ gpu, from, to }) => (
        <li key={gpu}>
          Accelerator {gpu} goes from {from} to {to}, once it has loaded what it lacks.
        </li>
      ))}
      {leftOut.map(({ model, text }) => (
        <li key={model} class="failed">
          {model} {text}
        </li>
      ))}
    </ul>
  );
}

function adviceText({ advice }: FeedPlan): string {
  if (advice === null || advice.gpus === 0) return "The planner has given no advice yet.";
  const { gpus, advice: change, badRate, idleShare } = advice;
  const what =
    change === 0
      ? "as many as there are"
      : change > 0
        ? `${change} more than there are`
        : `${-change} fewer than there are`;
  return `${plural(Math.max(1, gpus + change), "accelerator")}, ${what}: ${percent(badRate)} of the requests were bad, and accelerators were idle ${percent(idleShare)} of the time.`;
}
