/** The actors, their state, and the button that restarts one. */
import { useState } from "preact/hooks";
import type { FeedActor } from "../src/feed.ts";
import { clockTime, duration, figure } from "./format.ts";
import type { LiveStore } from "./live-store.ts";
import { Empty, Table } from "./parts.tsx";
import { RestartDialog } from "./restart-dialog.tsx";
import { RestartRight } from "./restart-right.tsx";

const HEAD = [
  "Actor",
  "Health",
  ["Duty", ""],
  ["Epoch", "number wide"],
  ["Up", "number wide"],
  ["Restarts", "number wide"],
  ["Queue", "number wide"],
  ["Host", "wide"],
  "",
] as const;

export function ActorsView({ store }: { store: LiveStore }) {
  const { state, hello, operations } = store;
  const [chosen, setChosen] = useState<FeedActor>();
  if (state === undefined) return <Empty>Waiting for the cluster to say something …</Empty>;
  const now = state.at;
  const access = hello?.restart ?? "closed";
  const several = new Set(state.actors.flatMap(({ subCluster }) => subCluster ?? [])).size > 1;
  return (
    <>
      <section aria-labelledby="actors">
        <h2 id="actors">Actors</h2>
        <Table name="Actors" head={HEAD.map((cell) => (cell === "" ? (["Restart", "hidden-text"] as const) : cell))}>
          {state.actors.map((actor) => (
            <tr key={`${actor.actor} ${actor.process}`}>
              <th scope="row">
                <strong>{actor.process === "" ? actor.role : actor.process}</strong> <code>{actor.actor}</code>
              </th>
              <td>
                <Health words={actor.health} />
              </td>
              <td>
                {actor.duty}
                {several && actor.subCluster !== null && ` in ${actor.subCluster}`}
              </td>
              <td class="number wide">{actor.epoch ?? "–"}</td>
              <td class="number wide">{duration(now - actor.startedAt)}</td>
              <td class="number wide">{actor.restarts ?? "–"}</td>
              <td class="number wide">{figure(actor.queue)}</td>
              <td class="wide">
                {actor.host}, {actor.pid}
              </td>
              <td>
                <button
                  type="button"
                  disabled={actor.actor === ""}
                  title={access === "key" ? "Needs an administrator's key" : "Needs an admin token"}
                  aria-label={`Restart ${actor.process || actor.role} ${actor.actor}`}
                  onClick={() => setChosen(actor)}
                >
                  Restart
                </button>
              </td>
            </tr>
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
      {chosen !== undefined && <RestartDialog actor={chosen} store={store} onClose={() => setChosen(undefined)} />}
    </>
  );
}

function Health({ words }: { words: readonly string[] }) {
  const isWell = words.length === 1 && words[0] === "ok";
  return <span class={`tag ${isWell ? "good" : "warn"}`}>{words.join(", ")}</span>;
}
