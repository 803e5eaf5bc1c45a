import { type PullRequest, type PulledItem, type ResultBatch, TOKEN_BYTES } from "@tutti/protocol";
import type { DataClient, DataHandlers, DataPeer, DataServer, PullOutcome } from "@tutti/ports/pull";
import { type ActorKey, actorKey, instant, micros } from "@tutti/units";
import { afterEach, describe, expect, test } from "vitest";

/** One data plane under test: ingresses and executors that reach each other. */
export interface DataPlane {
  serve(key: ActorKey, handlers: DataHandlers): Promise<DataServer>;
  connect(key: ActorKey): Promise<DataClient>;
  /** Closes what is open; the next test starts afresh. */
  closeAll(): Promise<void>;
}

const INGRESS = actorKey(2 ** 40 + 1);
const EXECUTOR = actorKey(2 ** 41 + 2);
/** A time-out that only a hanging test reaches. */
const LONG_MS = 20_000;

const pullOf = (seqs: number[], over: Partial<PullRequest> = {}): PullRequest => ({
  executor: EXECUTOR,
  gpu: 3,
  thread: 64,
  batchId: 17,
  batcher: 99,
  token: new Uint8Array(TOKEN_BYTES).fill(7),
  seqs,
  ...over,
});

/** A row that names its request, of any length. */
function rowOf(seq: number, byteLength = 8): Uint8Array {
  const row = new Uint8Array(byteLength).fill(seq & 0xff);
  new DataView(row.buffer).setFloat64(0, seq, true);
  return row;
}
const itemOf = (seq: number, byteLength = 8): PulledItem => ({ seq, row: rowOf(seq, byteLength), traceparent: "" });
const answering = (byteLength = 8): DataHandlers => ({
  onPull: (pull, reply) => reply(pull.seqs.map((seq) => itemOf(seq, byteLength))),
  onResults: () => {},
});

/** Pulls rows, and copies them while they are valid. @returns the outcome */
function pulled(client: DataClient, peer: DataPeer, pull: PullRequest, timeoutMs = LONG_MS): Promise<PullOutcome> {
  return new Promise((resolve) => {
    client.pull(peer, pull, timeoutMs, (outcome) => {
      if ("failure" in outcome) return resolve(outcome);
      resolve({ items: outcome.items.map((item) => ({ ...item, row: item.row && new Uint8Array(item.row) })) });
    });
  });
}
const peerOf = (key: ActorKey, server: DataServer): DataPeer => ({ key, address: server.address });
const closed = (it: DataServer | DataClient): Promise<void> => new Promise((resolve) => it.close(resolve));

export function dataPlaneConformance(name: string, plane: () => DataPlane): void {
  describe(`data plane: ${name}`, () => {
    afterEach(() => plane().closeAll());
    const start = async (
      handlers: DataHandlers,
    ): Promise<{ client: DataClient; server: DataServer; peer: DataPeer }> => {
      const server = await plane().serve(INGRESS, handlers);
      return { server, client: await plane().connect(EXECUTOR), peer: peerOf(INGRESS, server) };
    };
    pullTests(start);
    failureTests(start, plane);
    resultTests(start, plane);
  });
}

type Start = (handlers: DataHandlers) => Promise<{ client: DataClient; server: DataServer; peer: DataPeer }>;

function pullTests(start: Start): void {
  test("an executor gets the rows that it asked for, in its order, and hears which are gone", async () => {
    let asked: PullRequest | undefined;
    const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const { client, peer } = await start({
      onPull: (pull, reply) => {
        asked = pull;
        reply([itemOf(5), { seq: 2 ** 50, row: undefined, traceparent: "" }, { ...itemOf(3, 24), traceparent: trace }]);
      },
      onResults: () => {},
    });
    const outcome = await pulled(client, peer, pullOf([5, 2 ** 50, 3]));
    expect(outcome).toEqual({
      items: [itemOf(5), { seq: 2 ** 50, row: undefined, traceparent: "" }, { ...itemOf(3, 24), traceparent: trace }],
    });
    expect(asked).toEqual(pullOf([5, 2 ** 50, 3]));
  });

  test("a pull that the ingress does not authorise is forbidden, and the next one is served", async () => {
    const right = pullOf([]).token[0];
    const { client, peer } = await start({
      onPull: (pull, reply) => reply(pull.token[0] === right ? pull.seqs.map((seq) => itemOf(seq)) : undefined),
      onResults: () => {},
    });
    const wrong = pullOf([1], { token: new Uint8Array(TOKEN_BYTES) });
    expect(await pulled(client, peer, wrong)).toEqual({ failure: "forbidden" });
    expect(await pulled(client, peer, pullOf([1]))).toEqual({ items: [itemOf(1)] });
  });

  test("rows of one megabyte, and one larger than a message, come whole", async () => {
    const { client, peer } = await start({
      onPull: (pull, reply) => reply(pull.seqs.map((seq) => itemOf(seq, seq === 4 ? 3_000_000 : 1_048_576))),
      onResults: () => {},
    });
    const outcome = await pulled(client, peer, pullOf([1, 2, 3, 4]));
    const items = "items" in outcome ? outcome.items : [];
    expect(items.map(({ seq, row }) => [seq, row?.byteLength])).toEqual([
      [1, 1_048_576],
      [2, 1_048_576],
      [3, 1_048_576],
      [4, 3_000_000],
    ]);
    // toEqual of megabytes takes seconds; Buffer.compare microseconds.
    for (const { seq, row } of items) expect(Buffer.compare(row!, rowOf(seq, row!.byteLength))).toBe(0);
  });

  test("many pulls in flight, answered in any order, each get their own rows", async () => {
    const held: (() => void)[] = [];
    const { client, peer } = await start({
      onPull: (pull, reply) => {
        held.push(() => reply(pull.seqs.map((seq) => itemOf(seq, 64))));
        if (held.length === 400) for (const answer of held.reverse()) answer();
      },
      onResults: () => {},
    });
    const seqs = Array.from({ length: 400 }, (_, i) => [2 * i + 1, 2 * i + 2]);
    const outcomes = await Promise.all(seqs.map((pair) => pulled(client, peer, pullOf(pair))));
    expect(outcomes).toEqual(seqs.map((pair) => ({ items: pair.map((seq) => itemOf(seq, 64)) })));
  });

  test("an answer is never heard before the call that asks has returned, and only the first one counts", async () => {
    const { client, peer } = await start({
      onPull: (pull, reply) => {
        reply(pull.seqs.map((seq) => itemOf(seq)));
        reply(undefined);
      },
      onResults: () => {},
    });
    for (const target of [peer, { key: actorKey(12), address: undefined }]) {
      let returned = false;
      let calls = 0;
      const heard = new Promise<boolean>((resolve) =>
        client.pull(target, pullOf([1]), LONG_MS, () => {
          calls++;
          resolve(returned);
        }),
      );
      returned = true;
      expect(await heard).toBe(true);
      await pulled(client, peer, pullOf([2]));
      expect(calls).toBe(1);
    }
  });

  test("a pull of nothing is answered with nothing", async () => {
    const { client, peer } = await start(answering());
    expect(await pulled(client, peer, pullOf([]))).toEqual({ items: [] });
  });
}

function failureTests(start: Start, plane: () => DataPlane): void {
  test("a pull that is not answered in time fails once, and its late answer is dropped", async () => {
    let late: (() => void) | undefined;
    const { client, peer } = await start({
      onPull: (pull, reply) => {
        const answer = (): void => reply(pull.seqs.map((seq) => itemOf(seq)));
        if (pull.seqs[0] === 1) late = answer;
        else answer();
      },
      onResults: () => {},
    });
    const outcomes: PullOutcome[] = [];
    const began = performance.now();
    await new Promise<void>((resolve) =>
      client.pull(peer, pullOf([1]), 200, (outcome) => {
        outcomes.push(outcome);
        resolve();
      }),
    );
    expect(performance.now() - began).toBeGreaterThan(150);
    expect(late).toBeDefined();
    late?.();
    await pulled(client, peer, pullOf([2])); // any effect of the late answer has happened by now
    expect(outcomes).toEqual([{ failure: "timeout" }]);
  });

  test("an ingress that nobody serves is unreachable at once, not only when the time is over", async () => {
    const { client, server } = await start(answering());
    await closed(server);
    const gone = { key: INGRESS, address: server.address };
    const began = performance.now();
    expect(await pulled(client, gone, pullOf([1]))).toEqual({ failure: "unreachable" });
    expect(await pulled(client, { key: actorKey(77), address: undefined }, pullOf([1]))).toEqual({
      failure: "unreachable",
    });
    expect(performance.now() - began).toBeLessThan(LONG_MS / 2);
  });

  test("what waits for an ingress that goes away fails, and another ingress of the same key serves again", async () => {
    let asked = (): void => {};
    const arrived = new Promise<void>((resolve) => (asked = resolve));
    const { client, server, peer } = await start({ onPull: () => asked(), onResults: () => {} });
    const waiting = pulled(client, peer, pullOf([1]), 500);
    await arrived;
    await closed(server);
    expect(await waiting).toSatisfy((outcome: PullOutcome) => "failure" in outcome && outcome.failure !== "forbidden");
    const again = await plane().serve(INGRESS, answering());
    expect(await pulled(client, peerOf(INGRESS, again), pullOf([2]))).toEqual({ items: [itemOf(2)] });
  });

  test("a client that forgets a peer fails what waits for it alone, and may ask it again", async () => {
    const other = actorKey(INGRESS + 5);
    let asked = (): void => {};
    const arrived = new Promise<void>((resolve) => (asked = resolve));
    const { client, peer } = await start({
      onPull: (pull, reply) => (pull.seqs[0] === 1 ? asked() : reply(pull.seqs.map((seq) => itemOf(seq)))),
      onResults: () => {},
    });
    let answerOther = (): void => {};
    const otherServer = await plane().serve(other, {
      onPull: (pull, reply) => (answerOther = () => reply(pull.seqs.map((seq) => itemOf(seq)))),
      onResults: () => {},
    });
    const waiting = pulled(client, peer, pullOf([1]));
    const elsewhere = pulled(client, peerOf(other, otherServer), pullOf([9]));
    await arrived;
    client.forget(INGRESS);
    expect(await waiting).toEqual({ failure: "unreachable" });
    expect(await pulled(client, peer, pullOf([2]))).toEqual({ items: [itemOf(2)] });
    answerOther();
    expect(await elsewhere).toEqual({ items: [itemOf(9)] });
  });

  test("a client that closes fails what waits, once, and what is asked afterwards", async () => {
    let asked = (): void => {};
    const arrived = new Promise<void>((resolve) => (asked = resolve));
    const { client, peer } = await start({ onPull: () => asked(), onResults: () => {} });
    const waiting = pulled(client, peer, pullOf([1]));
    await arrived;
    await closed(client);
    expect(await waiting).toEqual({ failure: "unreachable" });
    expect(await pulled(client, peer, pullOf([2]))).toEqual({ failure: "unreachable" });
  });

  test("executors of one ingress get their own rows", async () => {
    const { client, server, peer } = await start({
      onPull: (pull, reply) => reply(pull.seqs.map((seq) => itemOf(seq, pull.executor === EXECUTOR ? 16 : 32))),
      onResults: () => {},
    });
    const second = actorKey(EXECUTOR + 9);
    const other = await plane().connect(second);
    const [mine, theirs] = await Promise.all([
      pulled(client, peer, pullOf([1, 2])),
      pulled(other, peerOf(INGRESS, server), pullOf([3], { executor: second })),
    ]);
    expect(mine).toEqual({ items: [itemOf(1, 16), itemOf(2, 16)] });
    expect(theirs).toEqual({ items: [itemOf(3, 32)] });
  });
}

function resultTests(start: Start, plane: () => DataPlane): void {
  const results = (items: ResultBatch["items"]): ResultBatch => ({
    executor: EXECUTOR,
    gpu: 3,
    thread: 64,
    batchId: 17,
    batcher: 99,
    token: new Uint8Array(TOKEN_BYTES).fill(7),
    batchSize: items.length,
    startedAt: instant(1_790_000_000_000_000),
    finishedAt: instant(1_790_000_000_004_000),
    run: micros(3_900),
    items,
  });
  /** Collects results until `count` items came, copied while they are valid. */
  function collector(count: number) {
    const batches: ResultBatch[] = [];
    let full = (): void => {};
    const all = new Promise<ResultBatch[]>((resolve) => (full = () => resolve(batches)));
    let seen = 0;
    const onResults = (batch: ResultBatch): void => {
      const items = batch.items.map((item) => ({ ...item, outputs: item.outputs && new Uint8Array(item.outputs) }));
      batches.push({ ...batch, items });
      if ((seen += items.length) >= count) full();
    };
    return { all, handlers: { onPull: answering().onPull, onResults } };
  }

  test("results arrive with their outputs and errors, although the outputs' memory is reused at once", async () => {
    const { all, handlers } = collector(3);
    const { client, peer } = await start(handlers);
    await pulled(client, peer, pullOf([1, 2, 3]));
    const small = rowOf(1, 24);
    const large = rowOf(3, 200_000);
    const sent = results([
      { seq: 1, outputs: small, code: 0, text: "" },
      { seq: 2, outputs: undefined, code: 5, text: "Grüße: it broke" },
      { seq: 3, outputs: large, code: 0, text: "" },
    ]);
    client.push(peer, sent);
    small.fill(0xee);
    large.fill(0xee);
    const [batch, ...more] = await all;
    expect(more).toEqual([]);
    expect({ ...batch, items: [] }).toEqual({ ...sent, items: [] });
    expect(batch!.items.map(({ seq, code, text }) => [seq, code, text])).toEqual([
      [1, 0, ""],
      [2, 5, "Grüße: it broke"],
      [3, 0, ""],
    ]);
    expect(batch!.items[0]!.outputs).toEqual(rowOf(1, 24));
    expect(batch!.items[1]!.outputs).toBeUndefined();
    expect(Buffer.compare(batch!.items[2]!.outputs!, rowOf(3, 200_000))).toBe(0);
  });

  test("results of megabytes arrive whole, however many messages they take", async () => {
    const { all, handlers } = collector(4);
    const { client, peer } = await start(handlers);
    await pulled(client, peer, pullOf([1]));
    const items = [1, 2, 3, 4].map((seq) => ({ seq, outputs: rowOf(seq, 700_000 * seq), code: 0, text: "" }));
    client.push(peer, results(items));
    const received = (await all).flatMap((batch) => batch.items);
    expect(received.map(({ seq, outputs }) => [seq, outputs?.byteLength])).toEqual(
      items.map(({ seq, outputs }) => [seq, outputs.byteLength]),
    );
    for (const { seq, outputs } of received) expect(Buffer.compare(outputs!, rowOf(seq, outputs!.byteLength))).toBe(0);
  });

  test("many small results of one turn all arrive, in order", async () => {
    const { all, handlers } = collector(1_000);
    const { client, peer } = await start(handlers);
    await pulled(client, peer, pullOf([1]));
    for (let seq = 1; seq <= 1_000; seq++)
      client.push(peer, results([{ seq, outputs: rowOf(seq, 16), code: 0, text: "" }]));
    const seqs = (await all).flatMap((batch) => batch.items.map(({ seq }) => seq));
    expect(seqs).toEqual(Array.from({ length: 1_000 }, (_, i) => i + 1));
  });

  test("results for an ingress that is gone are dropped, and nothing breaks", async () => {
    const { client, server, peer } = await start(answering());
    await pulled(client, peer, pullOf([1]));
    await closed(server);
    client.push(peer, results([{ seq: 1, outputs: rowOf(1), code: 0, text: "" }]));
    client.push({ key: actorKey(78), address: undefined }, results([]));
    const again = await plane().serve(INGRESS, answering());
    expect(await pulled(client, peerOf(INGRESS, again), pullOf([2]))).toEqual({ items: [itemOf(2)] });
  });
}
