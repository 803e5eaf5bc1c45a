import { InMemoryStore } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import type { ModelSpec } from "@tutti/protocol";
import { encodeTensors, pack } from "@tutti/wire";
import { expect, test } from "vitest";
import { SampleRows } from "./sample-rows.ts";

const spec = {
  ...{ name: "m", axes: {}, buckets: [{}], samples: "of-m" },
  inputs: [{ name: "x", type: "FP32", dims: ["batch", 2] }],
} as unknown as ModelSpec;
const sample = (value: number): Uint8Array =>
  encodeTensors([{ name: "x", type: "FP32", dims: [1, 2], data: new Uint8Array(Float32Array.of(value, 0).buffer) }]);

/** The store answers when `deliver` is called. */
function rowsOf(object: Uint8Array | undefined) {
  const deliveries: (() => void)[] = [];
  const store = new InMemoryStore({ deliver: (run) => void deliveries.push(run) });
  const deliver = (): void => deliveries.splice(0).forEach((run) => run());
  if (object !== undefined) store.files.put("of-m", object, () => undefined);
  deliver();
  return { samples: new SampleRows(store, noTelemetry.log), deliver };
}

test("whoever waits for samples goes on when they are there; without any, or later, at once", () => {
  const { samples, deliver } = rowsOf(pack([sample(1), sample(2)]));
  const order: string[] = [];
  const { samples: _, ...plain } = spec;
  samples.whenRead(plain, () => order.push("plain"));
  samples.whenRead(spec, () => order.push(`first ${samples.rows("m", 0).length}`));
  samples.whenRead(spec, () => order.push("second"));
  expect(order).toEqual(["plain"]);
  deliver();
  expect(order).toEqual(["plain", "first 2", "second"]);
  samples.whenRead(spec, () => order.push("later"));
  expect(order.at(-1)).toBe("later");
});

test("samples that are missing or can't be read hold nobody up, and random rows are used", () => {
  for (const object of [undefined, new Uint8Array(3), pack([new Uint8Array(1)])]) {
    const { samples, deliver } = rowsOf(object);
    let isRead = false;
    samples.whenRead(spec, () => (isRead = true));
    deliver();
    expect([isRead, samples.rows("m", 0)]).toEqual([true, []]);
  }
});
