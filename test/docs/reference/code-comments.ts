/**
 * Comments in the code on members of an interface or properties of an object: documentation stands beside what it
 * documents.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

export const ROOT = join(import.meta.dirname, "../../..");

export interface Member {
  readonly name: string;
  /** As it is written: a type, or a value. */
  readonly text: string;
  /** The member's comment, in one line; empty without. */
  readonly comment: string;
  readonly isOptional: boolean;
}

/** Members of `interface <name>`. */
export function membersOf(path: string, name: string): Member[] {
  const found = find(path, (node) => ts.isInterfaceDeclaration(node) && node.name.text === name);
  if (found === undefined || !ts.isInterfaceDeclaration(found)) throw new Error(`${path} has no interface ${name}`);
  return found.members.flatMap((member) =>
    ts.isPropertySignature(member)
      ? [
          {
            name: nameOf(member.name),
            text: member.type?.getText() ?? "",
            comment: commentOf(member),
            isOptional: member.questionToken !== undefined,
          },
        ]
      : [],
  );
}

/** Properties of the object literal in `const <name>`, or in the function of that name. */
export function propertiesOf(path: string, name: string): Member[] {
  const declared = find(path, (node) => ts.isVariableDeclaration(node) && node.name.getText() === name);
  const object = declared && firstObject(declared);
  if (object === undefined) throw new Error(`${path} has no object ${name}`);
  return object.properties.flatMap((property) =>
    ts.isPropertyAssignment(property)
      ? [
          {
            name: nameOf(property.name),
            text: property.initializer.getText(),
            comment: commentOf(property),
            isOptional: false,
          },
        ]
      : [],
  );
}

function find(path: string, is: (node: ts.Node) => boolean): ts.Node | undefined {
  const source = ts.createSourceFile(path, readFileSync(join(ROOT, path), "utf8"), ts.ScriptTarget.Latest, true);
  let found: ts.Node | undefined;
  const visit = (node: ts.Node): void => {
    if (found === undefined && is(node)) found = node;
    else ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** The largest object literal below a node: the table, not an option inside it. */
function firstObject(node: ts.Node): ts.ObjectLiteralExpression | undefined {
  let found: ts.ObjectLiteralExpression | undefined;
  const visit = (one: ts.Node): void => {
    if (ts.isObjectLiteralExpression(one) && (found === undefined || one.properties.length > found.properties.length))
      found = one;
    ts.forEachChild(one, visit);
  };
  visit(node);
  return found;
}

const nameOf = (name: ts.PropertyName): string => name.getText().replaceAll('"', "");

function commentOf(node: ts.Node): string {
  const texts = ts.getJSDocCommentsAndTags(node).map((one) => ts.getTextOfJSDocComment(one.comment) ?? "");
  return texts.join(" ").replace(/\s+/g, " ").trim();
}

/** Escapes text for a cell of a table. */
export const cell = (text: string): string =>
  text
    .replaceAll("|", "\\|")
    .replace(/\s*\n\s*/g, " ")
    .trim();
export const table = (headings: readonly string[], rows: readonly (readonly string[])[]): string =>
  [headings, headings.map(() => "---"), ...rows]
    .map((row) => `| ${row.map((one) => cell(one)).join(" | ")} |`)
    .join("\n");
