import { type Delivery, InMemoryNetwork } from "@tutti/ports/bus";
import { CONTENT, HEADER, type InferRequest, SIZE_HINT_MAX, TuttiError, errorBody } from "@tutti/protocol";
import { RecordingTelemetry } from "@tutti/ports/telemetry";
import { decodeRequest, encodeAnswer, encodeTensors, formOf } from "@tutti/wire";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type InferOptions, TuttiClient } from "./client.ts";
import { connect } from "./connect.ts";
import { tensor } from "./tensors.ts";

const network = () => {
  const net = new InMemoryNetwork();
  const server = net.connect({ name: "server" });
  const client = new TuttiClient(net.connect({ name: "client", inboxPrefix: "_INBOX.shop" }), { app: "shop" });
  return { net, server, client };
};
type Server = ReturnType<typeof network>["server"];

/** Answers each request with what `respond` makes of it. */
function answering(server: Server, respond: (request: InferRequest, delivery: Delivery) => void): void {
  server.subscribe("infer.*.*", (delivery) => {
    const form = formOf(delivery.header(HEADER.contentType), delivery.payload)!;
    respond(decodeRequest(form, new Uint8Array(delivery.payload)), delivery);
  });
}

function echo(server: Server, request: InferRequest, delivery: Delivery, headers: Record<string, string> = {}): void {
  const form = formOf(delivery.header(HEADER.contentType), delivery.payload)!;
  const outputs = request.inputs.map((input) => ({ ...input, name: "y" }));
  const payload = encodeAnswer(form, { model: "mlp", version: "3", tensors: encodeTensors(outputs) });
  server.publish(delivery.reply!, payload, { headers: { [HEADER.contentType]: CONTENT[form], ...headers } });
}

function refuse(server: Server, delivery: Delivery, error: TuttiError): void {
  const headers = { [HEADER.error]: error.message, [HEADER.errorCode]: String(error.status) };
  server.publish(delivery.reply!, new TextEncoder().encode(JSON.stringify(errorBody(error))), { headers });
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

test.each(["binary", "json", "msgpack"] as const)("outputs come back as they were sent, in %s form", async (form) => {
  const { server, client } = network();
  answering(server, (request, delivery) => echo(server, request, delivery, { [HEADER.batchSize]: "4" }));
  const result = await client.infer("mlp", { x: tensor([[1.5, -2]]) }, { form });
  expect(result).toEqual({
    outputs: { y: { type: "FP32", dims: [1, 2], data: Float32Array.of(1.5, -2) } },
    model: "mlp",
    version: form === "binary" ? undefined : "3", // that form carries tensors alone
    batchSize: 4,
    queueUs: undefined,
  });
});

test("a request names its application, its SLO and the outputs that it wants", async () => {
  const { server, client } = network();
  const seen: unknown[] = [];
  answering(server, (request, delivery) => {
    seen.push(delivery.subject, delivery.header(HEADER.slo), delivery.header(HEADER.outputs));
    expect(delivery.reply).toMatch(/^_INBOX\.shop\./);
    echo(server, request, delivery);
  });
  await client.infer("mlp", { x: new Float32Array(2) }, { app: "camera-7", slo: "25ms", outputs: ["y"] });
  expect(seen).toEqual(["infer.mlp.camera-7", "25000us", "y"]);
});

test("an answer is awaited for the cold start of a model that may be parked too, and the SLO is sent as it is", async () => {
  const { server, client } = network();
  const slos: unknown[] = [];
  answering(server, (_, delivery) => void slos.push(delivery.header(HEADER.slo)));
  let error: TuttiError | undefined;
  const asked = client.infer("mlp", { x: [1] }, { slo: "25ms", coldStart: "30s" });
  void asked.catch((failure: TuttiError) => (error = failure));
  await vi.advanceTimersByTimeAsync(30_000);
  expect([slos, error]).toEqual([["25000us"], undefined]);
  await vi.advanceTimersByTimeAsync(100);
  expect(error).toMatchObject({ code: "TUTTI_UNAVAILABLE" });
});

test("a refusal keeps its code, its text and whether to try again", async () => {
  const { server, client } = network();
  const refusal = new TuttiError("TUTTI_OVERLOADED", "too much", { retryAfterMs: 20 });
  answering(server, (_, delivery) => refuse(server, delivery, refusal));
  const error = await client.infer("mlp", { x: [1] }).catch((failure: unknown) => failure);
  expect(error).toBeInstanceOf(TuttiError);
  expect(error).toMatchObject({ code: "TUTTI_OVERLOADED", message: "too much", retryable: true, retryAfterMs: 20 });
});

test("without any ingress a request fails at once, and may be tried again", async () => {
  const { client } = network();
  await expect(client.infer("mlp", { x: [1] })).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE", retryable: true });
});

test("when the answer is lost, that is UNAVAILABLE within the deadline plus 100 ms (T1)", async () => {
  const { server, client } = network();
  answering(server, () => undefined);
  const outcome = client.infer("mlp", { x: [1] }, { slo: "50ms" }).catch((failure: unknown) => failure);
  let settled = false;
  void outcome.then(() => (settled = true));
  await vi.advanceTimersByTimeAsync(50);
  expect(settled).toBe(false);
  await vi.advanceTimersByTimeAsync(100);
  expect(settled).toBe(true);
  expect(await outcome).toMatchObject({ code: "TUTTI_UNAVAILABLE", retryable: true });
});

test("a second answer, and one after the deadline, reach nobody and are counted", async () => {
  const { net, server, client } = network();
  const replies: (() => void)[] = [];
  answering(server, (request, delivery) => {
    const kept = { ...delivery, payload: new Uint8Array(delivery.payload), header: delivery.header.bind(delivery) };
    replies.push(() => echo(server, request, kept));
  });
  const first = client.infer("mlp", { x: [1] });
  const late = client.infer("mlp", { x: [2] }, { slo: 1 }).catch((failure: TuttiError) => failure.code);
  await vi.advanceTimersByTimeAsync(100);
  expect(await late).toBe("TUTTI_UNAVAILABLE");
  replies[0]!();
  replies[0]!();
  replies[1]!();
  expect((await first).outputs["y"]!.data).toEqual(Float32Array.of(1));
  await new Promise<void>((resolve) => net.connect({ name: "after" }).flush(() => resolve()));
  expect(client.lateAnswers).toBe(2);
  expect(client.inFlight).toBe(0);
});

test("a request says how long it is, and a size that is none is refused before it is sent", async () => {
  const { server, client } = network();
  const sizes: (string | undefined)[] = [];
  answering(server, (request, delivery) => {
    sizes.push(delivery.header(HEADER.size));
    echo(server, request, delivery);
  });
  for (const size of [320, 0.25, SIZE_HINT_MAX]) await client.infer("ocr-rec", { x: [1] }, { size });
  await client.infer("ocr-rec", { x: [1] });
  expect(sizes).toEqual(["320", "0.25", "1000000000", undefined]);
  for (const size of [0, -1, NaN, Infinity, SIZE_HINT_MAX * 2])
    await expect(client.infer("ocr-rec", { x: [1] }, { size })).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  expect(sizes).toHaveLength(4);
});

test("aborting rejects with CANCELLED, whatever comes later", async () => {
  const { server, client } = network();
  answering(server, () => undefined);
  const abort = new AbortController();
  const outcome = client.infer("mlp", { x: [1] }, { signal: abort.signal });
  abort.abort();
  await expect(outcome).rejects.toMatchObject({ code: "TUTTI_CANCELLED" });
  await expect(client.infer("mlp", { x: [1] }, { signal: abort.signal })).rejects.toMatchObject({
    code: "TUTTI_CANCELLED",
  });
});

test("closing ends what is in flight, and nothing can be asked afterwards", async () => {
  const { server, client } = network();
  answering(server, () => undefined);
  const outcome = client.infer("mlp", { x: [1] });
  client.close();
  await expect(outcome).rejects.toMatchObject({ code: "TUTTI_CANCELLED" });
  await expect(client.infer("mlp", { x: [1] })).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE", retryable: false });
});

test("more in flight than the bound is refused, and nothing else breaks (T7)", async () => {
  const net = new InMemoryNetwork();
  net.connect({ name: "server" }).subscribe("infer.*.*", () => undefined);
  const client = new TuttiClient(net.connect({ name: "client" }), { inFlightMax: 1 });
  const first = client.infer("mlp", { x: [1] }).catch((failure: TuttiError) => failure.code);
  await expect(client.infer("mlp", { x: [1] })).rejects.toMatchObject({ code: "TUTTI_OVERLOADED" });
  client.close();
  expect(await first).toBe("TUTTI_CANCELLED");
});

test("a request over the server's limit is TOO_LARGE and says the limit; without a connection it is UNAVAILABLE", async () => {
  const net = new InMemoryNetwork({ payloadMax: 1_024 });
  net.connect({ name: "server" }).subscribe("infer.*.*", () => undefined);
  const bus = net.connect({ name: "client" });
  const client = new TuttiClient(bus);
  const large = client.infer("mlp", { x: new Float32Array(1_000) });
  await expect(large).rejects.toMatchObject({ code: "TUTTI_TOO_LARGE", message: expect.stringContaining("1024") });
  bus.disconnect();
  await expect(client.infer("mlp", { x: [1] })).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE" });
});

test("names that can't be subjects, and an SLO that is no duration, never reach the bus", async () => {
  const { client } = network();
  for (const target of ["a.b", "*", "", ">"]) {
    await expect(client.infer(target, { x: [1] })).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  }
  await expect(client.infer("mlp", { x: [1] }, { app: "a b" })).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  await expect(client.infer("mlp", { x: [1] }, { slo: "soon" })).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
});

test("an SLO beyond the limit, and a text with a line break, are refused with what is wrong", async () => {
  const { client } = network();
  const refused = (options: InferOptions): Promise<unknown> =>
    client.infer("mlp", { x: [1] }, options).catch((error: TuttiError) => [error.code, error.message]);
  for (const slo of ["100h", "601s", 0])
    expect(await refused({ slo })).toEqual(["TUTTI_INVALID_INPUT", expect.stringContaining("at most 10 min")]);
  for (const options of [{ id: "a\nb" }, { version: "1\r" }, { outputs: ["y", "z\n"] }])
    expect(await refused(options)).toEqual(["TUTTI_INVALID_INPUT", expect.stringContaining("without line breaks")]);
});

test("an application that is no name is refused before a server is looked for", async () => {
  const connecting = connect({ servers: "nats://127.0.0.1:1", app: "a.b" });
  await expect(connecting).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
});

test("an answer that can't be read is an error, not a crash (T8)", async () => {
  const { server, client } = network();
  answering(server, (_, delivery) => server.publish(delivery.reply!, new TextEncoder().encode("TTN1 but not really")));
  await expect(client.infer("mlp", { x: [1] })).rejects.toMatchObject({ code: "TUTTI_INTERNAL" });
});

/** Records what the ingresses receive, in order, and which requests are cancelled. */
function watching(server: Server) {
  const seen: { slo: string | undefined; id: string | undefined; delivery: Delivery }[] = [];
  const cancelled: string[] = [];
  server.subscribe("infer.*.*", (delivery) => {
    const kept = { ...delivery, payload: new Uint8Array(delivery.payload), header: delivery.header.bind(delivery) };
    seen.push({ slo: delivery.header(HEADER.slo), id: delivery.header(HEADER.messageId), delivery: kept });
  });
  server.subscribe("cancel.*", ({ subject, payload }) => {
    cancelled.push(`${subject} ${new TextDecoder().decode(payload)}`);
  });
  const answer = (attempt: number): void => {
    const { delivery } = seen[attempt]!;
    const form = formOf(delivery.header(HEADER.contentType), delivery.payload)!;
    echo(server, decodeRequest(form, delivery.payload), delivery);
  };
  return { seen, cancelled, answer };
}
const turn = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

test("a request whose ingress died is sent again with the same id and its SLO anew, as often as asked for", async () => {
  const { server, client } = network();
  const { seen, answer } = watching(server);
  const outcome = client.infer("mlp", { x: [7] }, { slo: "50ms", retries: 1 });
  await vi.advanceTimersByTimeAsync(100);
  expect(seen).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(20);
  expect(seen.map(({ slo }) => slo)).toEqual(["50000us", "50000us"]);
  expect(seen[0]!.id).toMatch(/./);
  expect(seen[1]!.id).toBe(seen[0]!.id);
  expect(seen[1]!.delivery.reply).not.toBe(seen[0]!.delivery.reply);
  answer(1);
  expect((await outcome).outputs["y"]!.data).toEqual(Float32Array.of(7));
});

test("with the last attempt lost too, that is UNAVAILABLE at the end of the time for all", async () => {
  const { server, client } = network();
  const { seen } = watching(server);
  let code = "";
  client.infer("mlp", { x: [1] }, { slo: "50ms", retries: 1 }).catch((error: TuttiError) => (code = error.code));
  await vi.advanceTimersByTimeAsync(210);
  expect(code).toBe("");
  await vi.advanceTimersByTimeAsync(20);
  expect([code, seen.length]).toEqual(["TUTTI_UNAVAILABLE", 2]);
});

test("a refusal is tried again when it says, within the time that all attempts have, and not with less than half an SLO", async () => {
  const { server, client } = network();
  const { seen } = watching(server);
  const ask = (within: string): Promise<string> =>
    client.infer("mlp", { x: [1] }, { slo: "50ms", retries: 9, within }).then(
      () => "ok",
      ({ code }: TuttiError) => code,
    );
  const outcome = ask("100ms");
  for (let attempt = 0; attempt < 4; attempt++) {
    await turn();
    if (seen[attempt] === undefined) break;
    refuse(server, seen[attempt]!.delivery, new TuttiError("TUTTI_OVERLOADED", "busy", { retryAfterMs: 30 }));
    await vi.advanceTimersByTimeAsync(30);
  }
  expect(await outcome).toBe("TUTTI_OVERLOADED");
  // At 0 and 30 ms with the whole SLO, at 60 ms with the 40 of 100 ms that are left; at 90 ms too little is left.
  expect(seen.map(({ slo }) => slo)).toEqual(["50000us", "50000us", "40000us"]);
});

test("what no repetition can help is not repeated", async () => {
  const { server, client } = network();
  const { seen } = watching(server);
  const outcome = client.infer("mlp", { x: [1] }, { retries: 3 }).catch(({ code }: TuttiError) => code);
  await turn();
  refuse(server, seen[0]!.delivery, new TuttiError("TUTTI_INVALID_INPUT", "no"));
  expect(await outcome).toBe("TUTTI_INVALID_INPUT");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(seen).toHaveLength(1);
});

test("an answer to the first attempt is as good while the second is under way, which is then taken back; an error of the first is not", async () => {
  const { server, client } = network();
  const { seen, answer, cancelled } = watching(server);
  const ask = (value: number): Promise<unknown> => client.infer("mlp", { x: [value] }, { slo: "50ms", retries: 1 });
  const [one, other] = [ask(3), ask(4)];
  await vi.advanceTimersByTimeAsync(120);
  expect(seen).toHaveLength(4);
  refuse(server, seen[0]!.delivery, new TuttiError("TUTTI_DEADLINE_EXCEEDED", "late"));
  answer(1);
  expect(await other).toMatchObject({ outputs: { y: { data: Float32Array.of(4) } } });
  const replies = seen.slice(2).map(({ delivery }) => delivery.reply);
  await turn();
  expect(cancelled).toEqual([`cancel.shop ${replies[1]}`]);
  answer(2);
  answer(3);
  expect(await one).toMatchObject({ outputs: { y: { data: Float32Array.of(3) } } });
  expect([client.inFlight, cancelled.length]).toEqual([0, 1]);
});

test("aborting and closing take back what is in flight, each by the subject for its answer", async () => {
  const { server, client } = network();
  const { seen, cancelled } = watching(server);
  const abort = new AbortController();
  const aborted = client.infer("mlp", { x: [1] }, { signal: abort.signal }).catch(({ code }: TuttiError) => code);
  const closed = client.infer("mlp", { x: [2] }, { app: "camera" }).catch(({ code }: TuttiError) => code);
  await turn();
  abort.abort();
  expect(await aborted).toBe("TUTTI_CANCELLED");
  client.close();
  expect(await closed).toBe("TUTTI_CANCELLED");
  await turn();
  expect(cancelled).toEqual([`cancel.shop ${seen[0]!.delivery.reply}`, `cancel.camera ${seen[1]!.delivery.reply}`]);
});

test("a request that is aborted between two attempts makes no other", async () => {
  const { server, client } = network();
  const { seen } = watching(server);
  const abort = new AbortController();
  const outcome = client
    .infer("mlp", { x: [1] }, { slo: "50ms", retries: 2, signal: abort.signal })
    .catch(({ code }: TuttiError) => code);
  await turn();
  refuse(server, seen[0]!.delivery, new TuttiError("TUTTI_NOT_READY", "soon", { retryAfterMs: 40 }));
  await vi.advanceTimersByTimeAsync(20);
  abort.abort();
  expect(await outcome).toBe("TUTTI_CANCELLED");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(seen).toHaveLength(1);
});

test("a client's span tells of attempts and refusals, and is recorded where it was refused or late, whatever the head decided", async () => {
  const { net, server } = network();
  const traces = new RecordingTelemetry({ sampled: false });
  const client = new TuttiClient(net.connect({ name: "traced", inboxPrefix: "_INBOX.shop" }), {
    app: "shop",
    telemetry: traces,
  });
  let refusals = 2;
  answering(server, (request, delivery) => {
    const again = new TuttiError("TUTTI_OVERLOADED", "too much", { retryAfterMs: 1 });
    if (refusals-- > 0) refuse(server, delivery, again);
    else echo(server, request, delivery);
  });
  const ask = async (retries: number): Promise<void> => {
    const asked = client.infer("mlp", { x: new Float32Array(1) }, { slo: "50ms", retries }).catch(() => undefined);
    await vi.advanceTimersByTimeAsync(40);
    await asked;
  };
  await ask(1); // both refused
  await ask(0); // well
  const seen = traces.spans.map(({ isRecorded, attributes, events }) => [
    isRecorded,
    attributes["tutti.outcome"],
    events.map(({ name, attributes: { code, reason } }) => `${name}: ${String(code)} ${String(reason)}`),
  ]);
  expect(seen).toEqual([
    [true, "TUTTI_OVERLOADED", ["tried again: TUTTI_OVERLOADED too much", "refused: TUTTI_OVERLOADED too much"]],
    [false, "ok", []],
  ]);
});

test("costs go out with their first step as the SLO, and the wait is for the last one", async () => {
  const { server, client } = network();
  const seen: unknown[] = [];
  let reply: (() => void) | undefined;
  answering(server, (request, delivery) => {
    seen.push(delivery.header(HEADER.slo), delivery.header(HEADER.costs));
    reply = () => echo(server, request, delivery);
  });
  const costs = [
    { after: "25ms", cost: 1 },
    { after: 500, cost: 3 },
  ];
  const answer = client.infer("mlp", { x: [1] }, { costs });
  await vi.advanceTimersByTimeAsync(450); // long after the SLO and its grace
  reply!();
  expect(Object.keys((await answer).outputs)).toEqual(["y"]);
  expect(seen).toEqual(["25000us", "25000us=1, 500000us=3"]);
  for (const [wrong, text] of [
    [{ costs, slo: 25 }, "leave slo out"],
    [{ costs: [] }, "there is no step"],
    [{ costs: [...costs].reverse() }, "not later than"],
    [{ costs: [{ after: 25, cost: NaN }] }, "costs NaN"],
    ...["25ms=1", ["25ms=1"], [["25ms", 1]], [null], [{ cost: 1 }], [{ after: "25ms", cost: "1" }], { after: 25 }].map(
      (costs) => [{ costs }, 'give a list of steps: [{ after: "25ms", cost: 1 }'] as const,
    ),
  ] as const)
    await expect(client.infer("mlp", { x: [1] }, wrong as InferOptions)).rejects.toMatchObject({
      code: "TUTTI_INVALID_INPUT",
      message: expect.stringContaining(text),
    });
});

test("a last attempt keeps the steps that it can still meet", async () => {
  const { server, client } = network();
  const seen: unknown[] = [];
  answering(server, (_, delivery) => {
    seen.push([delivery.header(HEADER.slo), delivery.header(HEADER.costs)]);
    refuse(server, delivery, new TuttiError("TUTTI_OVERLOADED", "busy", { retryAfterMs: 40 }));
  });
  const costs = [
    { after: 25, cost: 1 },
    { after: 50, cost: 2 },
    { after: 100, cost: 3 },
  ];
  const answer = client.infer("mlp", { x: [1] }, { costs, retries: 1, within: 120 }).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(400);
  expect(await answer).toMatchObject({ code: "TUTTI_OVERLOADED" });
  expect(seen).toEqual([
    ["25000us", "25000us=1, 50000us=2, 100000us=3"],
    ["25000us", "25000us=1, 50000us=2"],
  ]);
});
