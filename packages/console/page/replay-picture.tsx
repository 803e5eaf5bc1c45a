/** One replay: its timeline, drawn like the live one, and the outcome of each model. */
import { useState } from "preact/hooks";
import type { ReplayAnswer } from "../src/feed.ts";
import type { Colours } from "./colours.ts";
import { figure, milliseconds, percent, plural } from "./format.ts";
import { barsOf } from "./live-store.ts";
import { replayNotes, sloText } from "./model-row.ts";
import { Choice, Legend, Meter, Slider, Swatch, Table } from "./parts.tsx";
import { readableSpan } from "./timeline-shapes.ts";
import { Timeline } from "./timeline.tsx";

const GPUS_SHOWN = 64;
const SPANS_S = [0.2, 0.5, 1, 2, 5, 30];
/** Width of all that is beside the bars on a wide screen, in pixels. */
const MARGINS = 130;

export function ReplayPicture({ answer, colours }: { answer: ReplayAnswer; colours: Colours }) {
  const [bars] = useState(() => barsOf(answer.rows, (us) => us / 1_000));
  const [spanS, setSpan] = useState(() =>
    readableSpan(bars, Math.min(1_200, innerWidth) - MARGINS, SPANS_S.slice(0, -1)),
  );
  const [from, setFrom] = useState(0);
  const gpus = Array.from({ length: Math.min(GPUS_SHOWN, answer.gpus) }, (_, gpu) => gpu);
  const models = answer.models.map(({ name }, model) => ({ model, name, colour: colours(name) }));
  const drawnS = answer.left > 0 ? (bars.at(-1)?.end ?? 0) / 1_000 : answer.seconds;
  const most = Math.max(0, drawnS - spanS);
  return (
    <section aria-labelledby="picture">
      <div class="bar">
        <h2 id="picture">
          {plural(answer.gpus, "accelerator")}, {answer.policy}
        </h2>
        <Choice name="Span" value={spanS} choices={SPANS_S} text={(s) => `${s} s`} onChoose={setSpan} />
        <Slider name="From" value={Math.min(from, most)} most={most} step={spanS / 20} onMove={setFrom} />
      </div>
      <Timeline
        bars={() => bars}
        gpus={gpus}
        models={models}
        span={() => ({ from: from * 1_000, to: (from + spanS) * 1_000 })}
        isMoving={false}
        tickText={(time, step) => `${(time / 1_000).toFixed(step < 10 ? 3 : step < 1_000 ? 1 : 0)} s`}
        version={`${from} ${spanS}`}
      />
      {models.length > 1 && <Legend models={models} />}
      {answer.left > 0 && (
        <p class="quiet">
          The first {bars.length.toLocaleString("en")} batches are drawn; {answer.left.toLocaleString("en")} more ran.
        </p>
      )}
      {answer.without.map(({ model, text }) => (
        <p class="quiet" key={model}>
          Without {model}: {text}.
        </p>
      ))}
      <ReplayModels answer={answer} colours={colours} />
      {replayNotes(answer.models).map((note) => (
        <p class="quiet" key={note}>
          {note}
        </p>
      ))}
    </section>
  );
}

const HEAD = [
  "Model",
  ["In time", "wide-cell"],
  ["Asked r/s", "number"],
  ["Batch", "number"],
  ["p99 / SLO", "number"],
] as const;

function ReplayModels({ answer, colours }: { answer: ReplayAnswer; colours: Colours }) {
  return (
    <Table name="Models of the replay" head={HEAD}>
      {answer.models.map((model) => (
        <tr key={model.name}>
          <th scope="row">
            <Swatch colour={colours(model.name)} />
            {model.name}
          </th>
          <td>
            <Meter
              share={1 - model.badRate}
              text={percent(1 - model.badRate)}
              state={model.badRate <= 0.01 ? "good" : "bad"}
            />
          </td>
          <td class="number">{figure(model.offeredRps)}</td>
          <td class="number">{figure(model.batchMean)}</td>
          <td class="number">
            {milliseconds(model.p99Ms)} / {sloText(model)}
          </td>
        </tr>
      ))}
    </Table>
  );
}
