/** The page's end of the feed. The browser connects again by itself; what then comes begins with the whole. */
import type { FeedEvents } from "../src/feed.ts";
import type { LiveStore } from "./live-store.ts";

const NAMES: readonly (keyof FeedEvents)[] = ["hello", "state", "batches", "refusals", "plan", "operation"];

export function listen(store: LiveStore): () => void {
  let source: EventSource | undefined;
  const open = (): void => {
    source = new EventSource("/console/feed");
    source.onopen = () => store.setConnected(true);
    source.onerror = () => {
      store.setConnected(false);
      // A refusal, such as too many pages, closes it for good: then it is tried again from here.
      if (source?.readyState === EventSource.CLOSED) setTimeout(open, 5_000);
    };
    for (const name of NAMES)
      source.addEventListener(name, (event: MessageEvent<string>) => {
        store.apply(name, JSON.parse(event.data) as FeedEvents[typeof name], Date.now());
      });
  };
  open();
  return () => source?.close();
}

/** @throws {Error} with the text that the gateway gave */
export const get = <Answer>(path: string): Promise<Answer> => answerOf(fetch(path, { credentials: "omit" }));

/** @throws {Error} with the text that the gateway gave */
export const ask = <Answer>(path: string, question: object, token?: string): Promise<Answer> =>
  answerOf(
    fetch(path, {
      method: "POST",
      body: JSON.stringify(question),
      credentials: "omit",
      headers: { "content-type": "application/json", ...(token !== undefined && { authorization: `Bearer ${token}` }) },
    }),
  );

async function answerOf<Answer>(asked: Promise<Response>): Promise<Answer> {
  const response = await asked;
  const body = (await response.json().catch(() => ({}))) as { readonly error?: string };
  if (!response.ok) throw new Error(body.error ?? `the gateway answered ${response.status}`);
  return body as Answer;
}
