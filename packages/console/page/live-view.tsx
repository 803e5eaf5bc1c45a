/** The live view: the accelerators, the models, and their figures over the last minutes. */
import { useMemo, useState } from "preact/hooks";
import { type FeedModel, WINDOW_S } from "../src/feed.ts";
import { chartsOf } from "./charts.ts";
import { type Colours, coloursOf } from "./colours.ts";
import { shortCode } from "./explain.ts";
import { figure, milliseconds, percent } from "./format.ts";
import { JobsSection } from "./jobs-section.tsx";
import type { LiveStore } from "./live-store.ts";
import { LiveTimeline } from "./live-timeline.tsx";
import { batchText, latencyText, refusedCauses, rowVerdict } from "./model-row.ts";
import { Empty, Meter, Swatch, Table } from "./parts.tsx";
import { SeriesChart } from "./series-chart.tsx";

export function LiveView({ store }: { store: LiveStore }) {
  const { state } = store;
  const [focus, setFocus] = useState<string>();
  if (state === undefined) return <Empty>Waiting for the cluster to say something …</Empty>;
  const colours = coloursOf(state);
  return (
    <>
      <RefusedLine models={state.models} />
      <LiveTimeline store={store} models={state.models} colours={colours} />
      <section aria-labelledby="models">
        <div class="bar">
          <h2 id="models">
            Models <span class="quiet">over the last {WINDOW_S} s</span>
          </h2>
          {focus !== undefined && (
            <button type="button" onClick={() => setFocus(undefined)}>
              Show all in the charts
            </button>
          )}
        </div>
        {state.models.length === 0 ? (
          <Empty>
            No model is loaded: <code>tutti load</code> does that.
          </Empty>
        ) : (
          <ModelTable models={state.models} colours={colours} focus={focus} onFocus={setFocus} />
        )}
        {state.modelsLeft > 0 && <p class="quiet">{state.modelsLeft} more models are not shown.</p>}
      </section>
      <JobsSection jobs={state.jobs} left={state.jobsLeft} at={state.at} />
      <Charts store={store} colours={colours} focus={focus} />
    </>
  );
}

const CAUSES_SHOWN = 3;
const MODELS_SHOWN = 3;

/** First on the page, so that no screen is too small for it. */
function RefusedLine({ models }: { models: readonly FeedModel[] }) {
  const causes = refusedCauses(models);
  const left = causes.length - CAUSES_SHOWN;
  return (
    <section class="line" aria-label="Refusals">
      {causes.length === 0 ? (
        <span class="quiet">Nothing was refused in the last {WINDOW_S} s.</span>
      ) : (
        <>
          <a href="#refusals">Refused</a> <span class="quiet">in the last {WINDOW_S} s:</span>{" "}
          {causes.slice(0, CAUSES_SHOWN).map(({ code, rate, models: names }, i) => (
            <span key={code}>
              {i > 0 && ", "}
              <strong>{shortCode(code)}</strong> {figure(rate)}/s{" "}
              <span class="quiet">
                {names.slice(0, MODELS_SHOWN).join(", ")}
                {names.length > MODELS_SHOWN && ` and ${names.length - MODELS_SHOWN} more`}
              </span>
            </span>
          ))}
          {left > 0 && `, and ${left} more ${left === 1 ? "cause" : "causes"}`}
        </>
      )}
    </section>
  );
}

const HEAD = [
  "Model",
  ["In time", "wide-cell"],
  ["Good r/s", "number"],
  ["Asked r/s", "number wide"],
  // A phone has them in the charts below.
  ["Queue", "number wide"],
  ["Batch / target", "number wide"],
  ["p99 / SLO", "wide-cell"],
  ["Refused", "wide"],
] as const;

function ModelTable({
  models,
  colours,
  focus,
  onFocus,
}: {
  models: readonly FeedModel[];
  colours: Colours;
  focus: string | undefined;
  onFocus: (name: string | undefined) => void;
}) {
  return (
    <Table name="Models" head={HEAD}>
      {models.map((model) => {
        const { share, inTime, ratio, latency, note } = rowVerdict(model);
        const isFocus = model.name === focus;
        return (
          <tr key={model.name} class={isFocus ? "chosen" : ""}>
            <th scope="row">
              <button
                type="button"
                class="plain"
                aria-pressed={isFocus}
                title="Show it alone in the charts"
                onClick={() => onFocus(isFocus ? undefined : model.name)}
              >
                <Swatch colour={colours(model.name)} />
                {model.name}
              </button>
              {model.state !== "ready" && (
                <span class="tag warn" title={model.reason}>
                  {model.state}
                </span>
              )}
            </th>
            <td>
              <Meter share={share} text={percent(share)} state={inTime} />
            </td>
            <td class="number">{figure(model.good)}</td>
            <td class="number wide">{figure(model.offered)}</td>
            <td class="number wide">{figure(model.queue)}</td>
            <td class="number wide" title={batchText(model)}>
              {figure(model.batchMean)} <span class="quiet">/ {figure(model.target)}</span>
            </td>
            <td title={latencyText(model, note)}>
              <Meter
                share={ratio}
                text={`${milliseconds(model.p99Ms)} / ${milliseconds(model.sloMs)}`}
                state={latency}
              />
            </td>
            <td class="wide">{refusedText(model)}</td>
          </tr>
        );
      })}
    </Table>
  );
}

const refusedText = (model: FeedModel): string =>
  refusedCauses([model])
    .map(({ code, rate }) => `${shortCode(code)} ${figure(rate)}/s`)
    .join(", ");

function Charts({ store, colours, focus }: { store: LiveStore; colours: Colours; focus: string | undefined }) {
  const { history } = store;
  const last = history.at.at(-1);
  const charts = useMemo(() => chartsOf(history, colours, focus), [last, focus, history.models]);
  if (history.at.length < 2) return null;
  return (
    <section aria-labelledby="minutes">
      <h2 id="minutes">{focus === undefined ? "The last minutes" : `The last minutes of ${focus}`}</h2>
      <div class="charts">
        {charts.map((chart) => (
          <SeriesChart key={chart.title} chart={chart} at={history.at} />
        ))}
      </div>
    </section>
  );
}
