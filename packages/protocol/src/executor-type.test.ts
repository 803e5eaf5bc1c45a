import { expect, test } from "vitest";
import { executorType, isAcceleratorName, isPartType } from "./executor-type.ts";

test("a type says its engine, its accelerator where that has a name, and which part of it", () => {
  expect(executorType("onnx-cpu", { part: 100 })).toBe("onnx-cpu");
  expect(executorType("onnx-cuda", { accelerator: "h200", part: 100 })).toBe("onnx-cuda-h200");
  expect(executorType("onnx-cuda", { accelerator: "h200", part: 50 })).toBe("onnx-cuda-h200-50");
});

test.each(["h200", "geforce-rtx4090", "a100-sxm4-80gb", "old_one", "Rack-2a"])(
  "%s tells accelerators apart, and only a part of one reads as a part",
  (accelerator) => {
    expect(isAcceleratorName(accelerator)).toBe(true);
    const types = [100, 50, 7].map((part) => executorType("onnx-cuda", { accelerator, part }));
    expect(types.map(isPartType)).toEqual([false, true, true]);
  },
);

test.each(["geforce-rtx-4090", "50", "", "a b", "-a"])("%j names no accelerator", (name) => {
  expect(isAcceleratorName(name)).toBe(false);
});
