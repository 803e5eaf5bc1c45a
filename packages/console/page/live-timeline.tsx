/** The accelerators now, or at the moment at which the user paused them. */
import { useRef, useState } from "preact/hooks";
import type { FeedModel } from "../src/feed.ts";
import type { Colours } from "./colours.ts";
import { clockTime } from "./format.ts";
import type { Bar, LiveStore } from "./live-store.ts";
import { Choice, Empty, Legend, Slider } from "./parts.tsx";
import { useSize } from "./theme.ts";
import { LEFT, Timeline } from "./timeline.tsx";
import { readableSpan } from "./timeline-shapes.ts";

/** Delay of the live view. Reports come once a second, and a little later here, so that far back all are known. */
const BEHIND_MS = 1_500;
const SPANS_S = [0.2, 0.5, 1, 2, 5, 10, 30];
/** The picture of a shorter span would run too fast to be read: it stands still for a second at a time. */
const MOVES_FROM_S = 2;
/** The longest span that is chosen by itself, and the batches from which on it is. */
const CHOSEN_MOST_S = 5;
const CHOSEN_FROM = 30;
/** Length of the bars' history. */
const KEPT_S = 60;
const GPUS_SHOWN = 64;

interface LiveTimelineProps {
  readonly store: LiveStore;
  readonly models: readonly FeedModel[];
  readonly colours: Colours;
}

export function LiveTimeline({ store, models, colours }: LiveTimelineProps) {
  const [box, width] = useSize<HTMLElement>();
  const [chosenS, setSpan] = useState<number>();
  const readableS = useRef<number>(undefined);
  if (width > 0 && store.bars.length >= CHOSEN_FROM)
    readableS.current ??= readableSpan(store.bars, width - LEFT, SPANS_S.slice(0, SPANS_S.indexOf(CHOSEN_MOST_S) + 1));
  const spanS = chosenS ?? readableS.current ?? (innerWidth < 720 ? 2 : CHOSEN_MOST_S);
  const [paused, setPaused] = useState<{ readonly to: number; readonly bars: readonly Bar[] }>();
  const [back, setBack] = useState(0);
  const gpus = (store.state?.gpus ?? []).map(({ gpu }) => gpu);
  const shown = gpus.slice(0, GPUS_SHOWN);
  const now = (): number => {
    const moment = Date.now() + store.offset - BEHIND_MS;
    return spanS < MOVES_FROM_S && paused === undefined ? Math.floor(moment / 1_000) * 1_000 : moment;
  };
  const span = (): { from: number; to: number } => {
    const to = (paused?.to ?? now()) - back * 1_000;
    return { from: to - spanS * 1_000, to };
  };
  const pause = (): void => {
    setBack(0);
    setPaused(paused === undefined ? { to: now(), bars: store.bars } : undefined);
  };
  return (
    <section aria-labelledby="accelerators" ref={box}>
      <div class="bar">
        <h2 id="accelerators">Accelerators</h2>
        <button type="button" aria-pressed={paused !== undefined} onClick={pause}>
          {paused === undefined ? "Pause" : "Go on"}
        </button>
        <Choice name="Span" value={spanS} choices={SPANS_S} text={(s) => `${s} s`} onChoose={setSpan} />
        {paused !== undefined && (
          <Slider name="Back" value={back} most={KEPT_S - spanS} step={spanS / 20} onMove={setBack} />
        )}
      </div>
      {shown.length === 0 ? (
        <Empty>No executor is there.</Empty>
      ) : (
        <Timeline
          bars={() => paused?.bars ?? store.bars}
          gpus={shown}
          models={models.map(({ number: model, name }) => ({ model, name, colour: colours(name) }))}
          span={span}
          isMoving={paused === undefined}
          tickText={tickText}
          version={`${spanS} ${back} ${paused?.to} ${shown.length}`}
        />
      )}
      <TimelineNotes store={store} models={models} colours={colours} gpus={gpus.length} />
    </section>
  );
}

function TimelineNotes({ store, models, colours, gpus }: LiveTimelineProps & { readonly gpus: number }) {
  const seen = models.filter(({ number }) => store.bars.some(({ model }) => model === number));
  const left = store.barsLeft;
  return (
    <>
      <p class="quiet note">
        A bar is a batch, the number in it its requests. The thin line before it begins when its first request came: so
        long it was put off, so that more could join it or an accelerator became free.
        {gpus > GPUS_SHOWN && ` The first ${GPUS_SHOWN} of ${gpus} accelerators are shown.`}
        {left > 0 && ` ${left.toLocaleString("en")} batches were too many to be drawn.`}
      </p>
      {seen.length > 1 && <Legend models={seen.map(({ name }) => ({ name, colour: colours(name) }))} />}
    </>
  );
}

function tickText(time: number, step: number): string {
  if (step >= 1_000) return clockTime(time);
  const fraction = String(Math.floor(time) % 1_000).padStart(3, "0");
  return `${clockTime(time)}.${fraction.slice(0, step < 100 ? 2 : 1)}`;
}
