import { expect, test } from "vitest";
import { appNameProblem } from "./app-names.ts";
import { ROLES } from "./subjects.ts";

test("an application may have any name but those that Tutti uses itself", () => {
  for (const app of ["shop", "camera-7", "default", "tutti", "administration", "clinic", "app1"])
    expect([app, appNameProblem(app)]).toEqual([app, undefined]);
  const reserved = ["cli", "doctor", "admin", "warm-up", "recorder", "answers", "tutti-infer", "app-shop", ...ROLES];
  for (const app of reserved) expect(appNameProblem(app)).toContain(`"${app}" is reserved for Tutti itself`);
});

test("what is no name at all is told by the rule of names", () => {
  for (const app of ["", "a.b", "*", "-x", "x".repeat(65)]) expect(appNameProblem(app)).toContain("letters, digits");
});
