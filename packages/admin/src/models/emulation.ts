/** `--emulate profiles.yaml`: the README of @tutti/ports/engine has the document's schema. */
import type { DesiredModel } from "@tutti/client/registries";
import { type EmulatedProfiles, parseEmulatedProfiles } from "@tutti/ports/engine";
import { TuttiError } from "@tutti/protocol";
import { CommandError } from "../failure.ts";
import { parseYamlMap } from "./desired-model.ts";

export interface Emulation {
  readonly models: readonly DesiredModel[];
  readonly jitter: EmulatedProfiles["jitter"];
}

/** @throws {CommandError} naming the file, and each problem by its path */
export function parseEmulation(text: string, origin: string): Emulation {
  const document = parseYamlMap(text, origin);
  try {
    const { models, jitter } = parseEmulatedProfiles(document);
    // The cluster counts versions itself.
    return { models: models.map(({ version: _, ...model }) => model), jitter };
  } catch (error) {
    if (!(error instanceof TuttiError)) throw error;
    throw new CommandError(`${origin}: ${error.message}`, undefined, error);
  }
}
