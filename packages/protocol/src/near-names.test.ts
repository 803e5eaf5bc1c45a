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
