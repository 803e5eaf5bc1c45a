import { expect, test } from "vitest";
import { nearName, noModelError } from "./near-names.ts";

const names = ["ctr", "mlp", "ocr-rec", "resnet50"];

test.each([
  ["mpl", "mlp"],
  ["MLP", "mlp"],
  ["mlpp", "mlp"],
  ["ml", "mlp"],
  ["ocr_rec", "ocr-rec"],
  ["ocrrec", "ocr-rec"],
  ["resnet", "resnet50"],
  ["resnet50-v2", "resnet50"],
  ["ResNet-5O", "resnet50"],
])("for %s, %s is suggested", (typed, near) => {
  expect(nearName(typed, names)).toBe(near);
});

test.each(["bert", "x", "m", "cnn", "rec", "resnot"])("for %s nothing is suggested", (typed) => {
  expect(nearName(typed, names)).toBeUndefined();
});

test("a single letter is near no other, and a close name comes before one that only begins alike", () => {
  expect(nearName("a", ["b"])).toBeUndefined();
  expect(nearName("resnet50", ["resnet", "resnet51"])).toBe("resnet51");
});

test("the refusal names the near model, or says where all are listed", () => {
  expect(noModelError("mpl", names)).toMatchObject({
    code: "TUTTI_NOT_FOUND",
    message: 'no model named "mpl" is loaded: did you mean "mlp"?',
  });
  expect(noModelError("bert", names).message).toBe('no model named "bert" is loaded: "tutti models" lists what is');
});

test("a refusal among thousands of models costs little: a publisher of one that is gone may go on asking", () => {
  const many = Array.from({ length: 4_096 }, (_, i) => `team-${i % 40}_resnet50-variant-${i}`);
  const timeOf = (work: () => void): number => {
    const begin = process.cpuUsage();
    for (let i = 0; i < 20; i++) work();
    const { user, system } = process.cpuUsage(begin);
    return user + system;
  };
  const least = (work: () => void): number => Math.min(...Array.from({ length: 10 }, () => timeOf(work)));
  const lowerCased = least(() => many.forEach((name) => name.toLowerCase().replace(/[-_]/g, "")));
  expect(least(() => nearName("no-such-model", many))).toBeLessThan(0.5 * lowerCased);
});
