/** The frame: the state of the cluster in one line, and the views below it. */
import { useEffect, useState } from "preact/hooks";
import { type FeedState, WINDOW_S } from "../src/feed.ts";
import { goodShare } from "../src/history.ts";
import { ActorsView } from "./actors-view.tsx";
import { rememberKey } from "./feed-client.ts";
import { figure, percent, plural } from "./format.ts";
import type { LiveStore } from "./live-store.ts";
import { LiveView } from "./live-view.tsx";
import { PlanView } from "./plan-view.tsx";
import { RefusalsView } from "./refusals-view.tsx";
import { SimulatorView } from "./simulator-view.tsx";
import { useHash } from "./theme.ts";
import { TracesView } from "./traces-view.tsx";

const VIEWS = [
  ["live", "Live", LiveView],
  ["actors", "Actors", ActorsView],
  ["plan", "Plan", PlanView],
  ["refusals", "Refusals", RefusalsView],
  ["traces", "Traces", TracesView],
  ["simulator", "Simulator", SimulatorView],
] as const;

export function App({ store }: { store: LiveStore }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const draw = (): void => redraw((count) => count + 1);
    draw(); // Draw changes made before this effect ran: a gateway that wants a key sends nothing after that.
    return onceAFrame((listener) => store.subscribe(listener), draw);
  }, [store]);
  const hash = useHash();
  const [id, title, View] = VIEWS.find(([name]) => name === hash.split("/")[0]) ?? VIEWS[0];
  useEffect(() => {
    document.title = `${title} · Tutti`;
  }, [title]);
  return (
    <>
      <a
        class="skip"
        href="#content"
        onClick={(event) => (event.preventDefault(), document.getElementById("content")?.focus())}
      >
        To the content
      </a>
      <header>
        <div class="head">
          <h1>Tutti</h1>
          <Pill store={store} />
          {store.state !== undefined && <Totals state={store.state} />}
        </div>
        <nav aria-label="Views">
          {VIEWS.map(([name, text]) => (
            <a key={name} href={`#${name}`} aria-current={name === id ? "page" : undefined}>
              {text}
              {name === "actors" && <Troubles state={store.state} />}
            </a>
          ))}
        </nav>
      </header>
      <main id="content" tabIndex={-1}>
        {store.needsKey ? <KeyForm /> : <View store={store} />}
      </main>
    </>
  );
}

/** Asks for the key that the gateway wants, and appears again where the key is refused. */
function KeyForm() {
  const [key, setKey] = useState("");
  const send = (event: Event): void => {
    event.preventDefault();
    rememberKey(key);
  };
  return (
    <form class="bar" onSubmit={send}>
      <label>
        Administrator's key{" "}
        <input
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Open</button>
    </form>
  );
}

function Pill({ store }: { store: LiveStore }) {
  const { state, connected, hello } = store;
  const [kind, text] =
    state === undefined || !connected
      ? (["warn", connected ? "waiting" : "not connected"] as const)
      : state.missing.length === 0
        ? (["good", "serving"] as const)
        : (["bad", state.missing.join(", ")] as const);
  return (
    <p class="status" role="status">
      <span class={`tag ${kind}`}>{text}</span>
      {hello !== undefined && hello.cluster !== "main" && <span class="quiet"> {hello.cluster}</span>}
    </p>
  );
}

function Totals({ state }: { state: FeedState }) {
  const add = (read: (model: FeedState["models"][number]) => number | null): number =>
    state.models.reduce((sum, model) => sum + (read(model) ?? 0), 0);
  const refused = add((model) => Object.values(model.refused).reduce((sum, rate) => sum + rate, 0));
  const share = goodShare({ good: add(({ good }) => good), late: add(({ late }) => late), refused: { all: refused } });
  const busy = state.gpus.flatMap((gpu) => gpu.busy ?? []);
  const figures = [
    ["asked", `${figure(add(({ offered }) => offered))} r/s`],
    ["in time", percent(share)],
    ["refused", refused === 0 ? "0" : `${figure(refused)}/s`],
    ["waiting", figure(add(({ queue }) => queue))],
    [
      plural(state.gpus.length + state.gpusLeft, "accelerator"),
      busy.length === 0 ? "–" : `${percent(busy.reduce((sum, one) => sum + one, 0) / busy.length)} busy`,
    ],
  ] as const;
  return (
    <dl class="totals" title={`Rates and shares are those of the last ${WINDOW_S} s.`}>
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Troubles({ state }: { state: FeedState | undefined }) {
  const count = (state?.actors ?? []).filter(({ health }) => health.join() !== "ok").length;
  if (count === 0) return null;
  return (
    <span class="count">
      {count}
      <span class="hidden-text"> not well</span>
    </span>
  );
}

/** Draws at most once a frame, however often something changes. */
function onceAFrame(subscribe: (listener: () => void) => () => void, draw: () => void): () => void {
  let due = 0;
  const stop = subscribe(() => {
    if (due === 0)
      due = requestAnimationFrame(() => {
        due = 0;
        draw();
      });
  });
  return () => {
    stop();
    cancelAnimationFrame(due);
  };
}
