import { expect, test } from "vitest";
import { ServerEvents } from "./server-events.ts";

test("events are the same however their text is cut, and what is no event is passed over", () => {
  const text = 'retry: 1000\nevent: hello\ndata: {"a":1}\n\n: still here\n\nevent: state\ndata: {"b":2}\n\n';
  for (let cut = 0; cut <= text.length; cut++) {
    const heard: string[] = [];
    const events = new ServerEvents((name, data) => heard.push(`${name} ${data}`));
    for (const piece of [text.slice(0, cut), text.slice(cut)]) events.read(piece);
    expect(heard).toEqual(['hello {"a":1}', 'state {"b":2}']);
  }
});
