/**
 * Output of every `tutti plan`: a table or JSON, then the reasons, and optionally a page. The exit code says whether
 * the plan holds.
 */
import type { PlanPage } from "./plan-page.ts";
import { renderPlanPage } from "./plan-page.ts";
import { EXIT } from "@tutti/admin";
import { typedCommand, writeOutput } from "../present/output-file.ts";
import type { PlanFlags } from "./plan-file.ts";

export interface Planned {
  readonly result: { readonly kind: string; readonly feasible: boolean };
  readonly text: () => string;
  readonly explain: () => readonly string[];
  readonly page: () => PlanPage;
}

export function deliver(flags: PlanFlags, { result, text, explain, page }: Planned): void {
  const reasons = flags.explain === true || flags.html !== undefined ? explain() : [];
  if (flags.html !== undefined) writeOutput(flags.html, renderPlanPage(page(), reasons, typedCommand()));
  if (flags.json === true) {
    const told = flags.explain === true ? { ...result, explanation: reasons } : result;
    process.stdout.write(`${JSON.stringify(told)}\n`);
  } else {
    const told = flags.explain === true ? ["", ...reasons.map((reason) => `- ${reason}`)] : [];
    process.stdout.write(`${[text(), ...told].join("\n")}\n`);
  }
  if (!result.feasible) process.exitCode = EXIT.failed;
}
