/** Replays of the last minutes with other accelerators, or under another policy. Drawn like the live view. */
import { useState } from "preact/hooks";
import {
  type FeedRecord,
  REPLAY_GPUS_MAX,
  REPLAY_MINUTES_MAX,
  type ReplayAnswer,
  type ReplayWish,
} from "../src/feed.ts";
import { coloursOf } from "./colours.ts";
import { ask } from "./feed-client.ts";
import { duration, figure, milliseconds, percent, plural } from "./format.ts";
import type { LiveStore } from "./live-store.ts";
import { Choice, Empty, Meter, Table } from "./parts.tsx";
import { ReplayPicture } from "./replay-picture.tsx";

/** Results kept side by side. */
const KEPT = 12;

interface Run {
  readonly id: number;
  readonly answer: ReplayAnswer;
}

export function SimulatorView({ store }: { store: LiveStore }) {
  const { state, hello } = store;
  const [runs, setRuns] = useState<readonly Run[]>([]);
  const [shown, setShown] = useState(0);
  const [phase, setPhase] = useState<"idle" | "running" | "failed">("idle");
  const [problem, setProblem] = useState("");
  if (state === undefined) return <Empty>Waiting for the cluster to say something …</Empty>;
  const run = async (wish: ReplayWish): Promise<void> => {
    setPhase("running");
    try {
      const answer = await ask<ReplayAnswer>("/console/replay", wish);
      const id = (runs[0]?.id ?? 0) + 1;
      setRuns([{ id, answer }, ...runs].slice(0, KEPT));
      setShown(id);
      setPhase("idle");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setPhase("failed");
    }
  };
  const one = runs.find(({ id }) => id === shown);
  return (
    <>
      <section aria-labelledby="replay">
        <h2 id="replay">Replay what came</h2>
        <RecordText record={state.record} />
        <WishForm
          policies={hello?.policies ?? ["default"]}
          here={Math.max(1, state.gpus.length + state.gpusLeft)}
          isRunning={phase === "running"}
          onWish={(wish) => void run(wish)}
        />
        <div role="status">{phase === "failed" && <p class="failed">{problem}</p>}</div>
      </section>
      {runs.length > 0 && <Results runs={runs} shown={shown} onShow={setShown} />}
      {one !== undefined && <ReplayPicture key={one.id} answer={one.answer} colours={coloursOf(state)} />}
    </>
  );
}

function RecordText({ record }: { record: FeedRecord }) {
  return (
    <p class="quiet">
      The requests that came lately, {plural(record.arrivals, "arrival")} in {duration(record.seconds * 1_000)}, run
      again in the simulator by the schedulers that serve here, with the latencies and delays that are measured now. No
      inputs are kept.
      {record.left > 0 && ` ${record.left.toLocaleString("en")} more came than could be kept.`}
    </p>
  );
}

interface WishFormProps {
  readonly policies: readonly string[];
  /** Number of accelerators that the cluster has. */
  readonly here: number;
  readonly isRunning: boolean;
  readonly onWish: (wish: ReplayWish) => void;
}

function WishForm({ policies, here, isRunning, onWish }: WishFormProps) {
  const [minutes, setMinutes] = useState(REPLAY_MINUTES_MAX);
  const [gpus, setGpus] = useState<number>();
  const [policy, setPolicy] = useState("default");
  const submit = (event: Event): void => {
    event.preventDefault();
    onWish({ minutes, gpus: gpus ?? here, policy });
  };
  return (
    <form class="bar" onSubmit={submit}>
      <Choice
        name="The last"
        value={minutes}
        choices={[1, 2, 5, REPLAY_MINUTES_MAX]}
        text={(count) => plural(count, "minute")}
        onChoose={setMinutes}
      />
      <label>
        Accelerators{" "}
        <input
          type="number"
          min={1}
          max={REPLAY_GPUS_MAX}
          required
          value={gpus ?? here}
          onInput={(event) => setGpus(event.currentTarget.valueAsNumber)}
        />
      </label>
      <Choice name="Policy" value={policy} choices={policies} text={(name) => name} onChoose={setPolicy} />
      <button type="submit" class="primary" disabled={isRunning}>
        {isRunning ? "Running …" : "Replay"}
      </button>
    </form>
  );
}

const HEAD = [
  "Replay",
  ["In time", "wide-cell"],
  ["Good r/s", "number"],
  ["Batch", "number"],
  ["Queueing p99", "number"],
  ["Busy", "number"],
] as const;

function Results({ runs, shown, onShow }: { runs: readonly Run[]; shown: number; onShow: (id: number) => void }) {
  return (
    <section aria-labelledby="results">
      <h2 id="results">Results</h2>
      <Table name="Results" head={HEAD}>
        {runs.map(({ id, answer }) => (
          <tr key={id} class={id === shown ? "chosen" : ""}>
            <th scope="row">
              <button type="button" class="plain" aria-pressed={id === shown} onClick={() => onShow(id)}>
                {plural(answer.gpus, "accelerator")}, {answer.policy}
              </button>
            </th>
            <td>
              <Meter
                share={1 - answer.badRate}
                text={percent(1 - answer.badRate)}
                state={answer.badRate <= 0.01 ? "good" : "bad"}
              />
            </td>
            <td class="number">{figure(answer.goodRps)}</td>
            <td class="number">{figure(answer.batchMean)}</td>
            <td class="number">{milliseconds(answer.queueP99Ms)}</td>
            <td class="number">{percent(answer.busyFraction)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
