import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { once } from "node:events";
import { status } from "@grpc/grpc-js";
import { afterEach, expect, test } from "vitest";
import type { InferenceService } from "../inference-service.ts";
import { BODY_BYTES_MAX, BodyReader } from "../http/body-reader.ts";
import { GrpcFront } from "./grpc-front.ts";
import { MessageMeter } from "./message-meter.ts";

const ROOM = 2_000_000;
let front: GrpcFront | undefined;
let session: ClientHttp2Session;
afterEach(() => {
  if (front === undefined) return;
  session.destroy();
  front.close();
  front = undefined;
});
async function serving(): Promise<BodyReader> {
  const bodies = new BodyReader(BODY_BYTES_MAX, ROOM);
  front = new GrpcFront({ unready: () => [], log: { error: () => undefined } } as unknown as InferenceService, bodies);
  const address = await front.listen("127.0.0.1", { port: 0 });
  session = connect(`http://${address}`);
  session.on("error", () => undefined);
  return bodies;
}

interface Call {
  readonly stream: ClientHttp2Stream;
  grpcStatus: number | undefined;
}
function call(method: string): Call {
  const stream = session.request({
    ...{ ":method": "POST", ":path": `/inference.GRPCInferenceService/${method}` },
    ...{ "content-type": "application/grpc", te: "trailers" },
  });
  const made: Call = { stream, grpcStatus: undefined };
  const note = (headers: object): void => {
    const said = (headers as Record<string, string>)["grpc-status"];
    if (said !== undefined) made.grpcStatus = Number(said);
  };
  stream
    .on("response", note)
    .on("trailers", note)
    .on("error", () => undefined)
    .resume();
  return made;
}
const prefix = (length: number, flag = 0): Buffer => {
  const bytes = Buffer.alloc(5, flag);
  bytes.writeUInt32BE(length, 1);
  return bytes;
};
const until = async (fits: () => boolean): Promise<void> => {
  while (!fits()) await new Promise((resolve) => setTimeout(resolve, 10));
};

test("messages that are never whole count while they come, and beyond what there is for all their calls are refused", async () => {
  const bodies = await serving();
  const calls = Array.from({ length: 40 }, () => call("ModelInfer"));
  for (const { stream } of calls) {
    stream.write(prefix(30_000_000));
    stream.write(Buffer.alloc(100_000));
  }
  const refused = (): Call[] => calls.filter(({ grpcStatus }) => grpcStatus === status.RESOURCE_EXHAUSTED);
  await until(() => refused().length >= 20);
  expect(bodies.bytes).toBeGreaterThan(ROOM / 2);
  expect(bodies.bytes).toBeLessThanOrEqual(ROOM);
  session.destroy();
  await until(() => bodies.bytes === 0);
});

test("a whole message counts until its call ends, whether or not its client ever ends its half", async () => {
  const bodies = await serving();
  const { stream } = call("ModelInfer");
  stream.write(prefix(50_000));
  stream.write(Buffer.alloc(50_000));
  await until(() => bodies.bytes === 50_000);
  stream.close();
  await until(() => bodies.bytes === 0);
});

test("pieces of one byte count what they take", async () => {
  const bodies = await serving();
  const { stream } = call("ModelInfer");
  stream.write(prefix(1_000_000));
  for (let i = 0; i < 500; i++) {
    stream.write(Buffer.alloc(1));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await until(() => bodies.bytes > 50_000);
});

test("a call that nothing is wrong with is answered, and nothing of it counts afterwards", async () => {
  const bodies = await serving();
  const asked = call("ServerReady");
  asked.stream.end(prefix(0));
  await once(asked.stream, "close");
  expect([asked.grpcStatus, bodies.bytes]).toEqual([status.OK, 0]);
});

test("a message that is too long to be decoded is refused with its reason", async () => {
  await serving();
  const long = call("ServerReady");
  long.stream.end(Buffer.concat([prefix(70_000), Buffer.alloc(70_000)]));
  await once(long.stream, "close");
  expect(long.grpcStatus).toBe(status.RESOURCE_EXHAUSTED);
});

test("of a compressed message counts what it may become", () => {
  let held = 0;
  const meter = new MessageMeter({
    messageBytesMax: 100_000,
    hold: (bytes) => (held += bytes) <= 150_000,
    release: (bytes) => (held -= bytes),
  });
  expect(meter.take(Buffer.concat([prefix(10, 1), Buffer.alloc(10)]))).toBe(true);
  expect(held).toBe(10_320);
  expect(meter.take(Buffer.concat([prefix(5_000, 1), Buffer.alloc(5_000)]))).toBe(true);
  expect(held).toBe(110_320);
  meter.answered();
  expect([held, meter.hasWhole]).toEqual([100_000, true]);
  meter.end();
  expect(held).toBe(0);
});
