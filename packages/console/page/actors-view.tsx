/** The processes, the actors that share each, and the button that restarts one. */
import { useState } from "preact/hooks";
import type { FeedHello } from "../src/feed.ts";
import { clockTime, duration, figure } from "./format.ts";
import type { LiveStore } from "./live-store.ts";
import { Empty, Table } from "./parts.tsx";
import { type ProcessRow, processRows } from "./process-rows.ts";
import { RestartDialog } from "./restart-dialog.tsx";
import { RestartRight } from "./restart-right.tsx";

const HEAD = [
  "Process",
  "Role",
  ["Actor", "wide"],
  "Health",
  ["Duty", ""],
  ["Epoch", "number wide"],
  ["Queue", "number wide"],
  ["Up", "number wide"],
  ["Restarts", "number wide"],
  ["Host", "wide"],
  ["Restart", "hidden-text"],
] as const;

export function ActorsView({ store }: { store: LiveStore }) {
  const { state, hello, operations } = store;
  const [chosen, setChosen] = useState<ProcessRow>();
  if (state === undefined) return <Empty>Waiting for the cluster to say something …</Empty>;
  const now = state.at;
  const access = hello?.restart ?? "closed";
  const several = new Set(state.actors.flatMap(({ subCluster }) => subCluster ?? [])).size > 1;
  return (
    <>
      <section aria-labelledby="actors">
        <h2 id="actors">Actors</h2>
        <Table name="Actors" head={HEAD}>
          {processRows(state.actors).map((process) => (
            <ProcessRows
              key={process.key}
              process={process}
              {...{ now, several, access }}
              onRestart={() => setChosen(process)}
            />
          ))}
        </Table>
        {state.actorsLeft > 0 && <p class="quiet">{state.actorsLeft} more are not shown.</p>}
        <p class="quiet">
          <RestartRight access={access} />
        </p>
      </section>
      {operations.length > 0 && (
        <section aria-labelledby="operations">
          <h2 id="operations">What was done from here</h2>
          <ol class="log">
            {operations.toReversed().map(({ at, what, text, end }, i) => (
              <li key={`${at} ${i}`} class={end ?? ""}>
                <time>{clockTime(at)}</time> {what}: {text}
              </li>
            ))}
          </ol>
        </section>
      )}
      {chosen !== undefined && <RestartDialog process={chosen} store={store} onClose={() => setChosen(undefined)} />}
    </>
  );
}

interface ProcessRowsProps {
  readonly process: ProcessRow;
  readonly now: number;
  /** Whether there are several sub-clusters. */
  readonly several: boolean;
  readonly access: FeedHello["restart"];
  readonly onRestart: () => void;
}

/** A line for each role; what they have in common stands once. */
function ProcessRows({ process, now, several, access, onRestart }: ProcessRowsProps) {
  const { name, actors, restartBy } = process;
  const shared = actors[0]!;
  return (
    <>
      {actors.map((actor, i) => (
        <tr key={actor.actor} class={i > 0 ? "joined" : ""}>
          {i === 0 && (
            <th scope="rowgroup" rowSpan={actors.length}>
              <strong>{name}</strong>
            </th>
          )}
          <td>{actor.role}</td>
          <td class="wide">
            <code class="id">{actor.actor}</code>
          </td>
          <td>
            <Health words={actor.health} />
          </td>
          <td>
            {actor.duty}
            {several && actor.subCluster !== null && ` in ${actor.subCluster}`}
          </td>
          <td class="number wide">{actor.epoch ?? "–"}</td>
          <td class="number wide">{figure(actor.queue)}</td>
          {i === 0 && (
            <>
              <td class="number wide" rowSpan={actors.length}>
                {duration(now - shared.startedAt)}
              </td>
              <td class="number wide" rowSpan={actors.length}>
                {shared.restarts ?? "–"}
              </td>
              <td class="wide" rowSpan={actors.length}>
                {shared.host}, {shared.pid}
              </td>
              <td rowSpan={actors.length}>
                <button
                  type="button"
                  disabled={restartBy === undefined}
                  title={access === "key" ? "Needs an administrator's key" : "Needs an admin token"}
                  aria-label={`Restart ${name} ${restartBy?.actor ?? ""}`}
                  onClick={onRestart}
                >
                  Restart
                </button>
              </td>
            </>
          )}
        </tr>
      ))}
    </>
  );
}

function Health({ words }: { words: readonly string[] }) {
  const isWell = words.length === 1 && words[0] === "ok";
  return <span class={`tag ${isWell ? "good" : "warn"}`}>{words.join(", ")}</span>;
}
