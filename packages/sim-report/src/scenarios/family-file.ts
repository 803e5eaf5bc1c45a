/**
 * A YAML file that is one document or, with `vary`, a family of documents. It is read, filled in for a choice, and
 * checked against its schema.
 */
import { readFile } from "node:fs/promises";
import { usageError } from "@tutti/admin";
import { LocatedYaml, type Problem } from "./located-yaml.ts";
import { type Axis, type Choice, axesOf, fillIn, resolveChoice } from "./scenario-family.ts";
import type { SchemaCheck } from "./scenario-schema.ts";

export interface FileKind {
  readonly check: SchemaCheck;
  /** Advice for a file that doesn't exist. */
  readonly example: string;
  /** Advice for a document that is no map. */
  readonly advice: string;
}

export class FamilyFile {
  readonly axes: readonly Axis[];
  readonly origin: string;
  readonly #yaml: LocatedYaml;
  readonly #check: SchemaCheck;

  private constructor(yaml: LocatedYaml, axes: readonly Axis[], check: SchemaCheck) {
    this.#yaml = yaml;
    this.origin = yaml.origin;
    this.axes = axes;
    this.#check = check;
  }

  /** @throws {CommandError} there is no such file, or it is no YAML */
  static async read(path: string, kind: FileKind): Promise<FamilyFile> {
    const text = await readFile(path, "utf8").catch(({ code }: NodeJS.ErrnoException) => {
      const why = code === "ENOENT" ? "there is no such file" : code;
      throw usageError(`${path} can't be read (${why}); give ${kind.example}`);
    });
    return FamilyFile.of(text, path, kind);
  }

  /** @param origin - for errors, and for paths in it. @throws {CommandError} it is no YAML */
  static of(text: string, origin: string, { check, advice }: FileKind): FamilyFile {
    const yaml = new LocatedYaml(text, origin);
    if (typeof yaml.value !== "object" || yaml.value === null || Array.isArray(yaml.value)) {
      throw yaml.failure([{ path: [], text: advice }]);
    }
    return new FamilyFile(yaml, axesOf((yaml.value as Readonly<Record<string, unknown>>)["vary"]), check);
  }

  /**
   * @param choice - a label for each axis
   * @returns the document after the schema check
   * @throws {CommandError} naming file, line and column of every error, and saying what to write instead
   */
  document(choice: Choice): unknown {
    const { origin, value } = this.#yaml;
    const problems: Problem[] = [];
    this.giveUpOn(this.#check(value).filter(({ path }) => path[0] === "vary"));
    const variables = resolveChoice(this.axes, choice, origin);
    const filled = fillIn(value, variables, problems);
    this.giveUpOn(problems);
    this.giveUpOn(this.#check(filled));
    return filled;
  }

  /** @throws {CommandError} there are problems */
  giveUpOn(problems: readonly Problem[]): void {
    if (problems.length > 0) throw this.#yaml.failure(problems);
  }
}
