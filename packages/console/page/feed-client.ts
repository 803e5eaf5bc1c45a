/**
 * The page's end of the feed. It is read by `fetch`, since a browser's EventSource can send no key. When it ends the
 * page requests it again, and the new feed begins with the whole state.
 */
import type { FeedEvents } from "../src/feed.ts";
import type { LiveStore } from "./live-store.ts";
import { ServerEvents } from "./server-events.ts";

const NAMES: ReadonlySet<string> = new Set<keyof FeedEvents>([
  ...(["hello", "history", "historyModel", "state", "batches", "refusals", "plan", "operation"] as const),
]);
const AGAIN_MS = 1_000;
/** Pause after a refusal, such as too many pages. */
const REFUSED_AGAIN_MS = 5_000;

/** The key, kept as long as the page is open, and nowhere else. */
let key = "";
let onKey: () => void = () => undefined;

export const rememberedKey = (): string => key;
export function rememberKey(given: string): void {
  key = given;
  onKey();
}

const keyHeader = (): Record<string, string> => (key === "" ? {} : { authorization: `Bearer ${key}` });

export function listen(store: LiveStore): () => void {
  const gone = new AbortController();
  const follow = async (): Promise<void> => {
    while (!gone.signal.aborted) {
      const end = await followOnce(store, gone.signal).catch(() => "lost" as const);
      store.setConnected(false);
      store.setNeedsKey(end === "no key");
      if (end === "no key") await new Promise<void>((resolve) => (onKey = resolve));
      else await new Promise((resolve) => setTimeout(resolve, end === "refused" ? REFUSED_AGAIN_MS : AGAIN_MS));
    }
  };
  void follow();
  return () => gone.abort();
}

async function followOnce(store: LiveStore, signal: AbortSignal): Promise<"no key" | "refused" | "lost"> {
  const response = await fetch("/console/feed", { credentials: "omit", headers: keyHeader(), signal });
  if (response.status === 401 || response.status === 403) return "no key";
  if (!response.ok || response.body === null) return "refused";
  store.setNeedsKey(false);
  store.setConnected(true);
  const events = new ServerEvents((name, data) => {
    if (!NAMES.has(name)) return;
    const known = name as keyof FeedEvents;
    store.apply(known, JSON.parse(data) as FeedEvents[typeof known], Date.now());
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return "lost";
    events.read(value);
  }
}

/** @throws {Error} with the text that the gateway gave */
export const get = <Answer>(path: string): Promise<Answer> =>
  answerOf(fetch(path, { credentials: "omit", headers: keyHeader() }));

/** @throws {Error} with the text that the gateway gave */
export const ask = <Answer>(path: string, question: object, token: string = key): Promise<Answer> =>
  answerOf(
    fetch(path, {
      method: "POST",
      body: JSON.stringify(question),
      credentials: "omit",
      headers: { "content-type": "application/json", ...(token !== "" && { authorization: `Bearer ${token}` }) },
    }),
  );

async function answerOf<Answer>(asked: Promise<Response>): Promise<Answer> {
  const response = await asked;
  const body = (await response.json().catch(() => ({}))) as { readonly error?: string };
  if (!response.ok) throw new Error(body.error ?? `the gateway answered ${response.status}`);
  return body as Answer;
}
