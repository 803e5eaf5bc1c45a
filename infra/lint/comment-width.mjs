/**
 * A lint rule: comments are no wider than code. Its fix refills the paragraph that is too wide; a comment behind code
 * first moves onto a line of its own.
 */

export const COMMENT_WIDTH = 120;

/** The beginning of a paragraph of its own: a rule's id, an item of a list, or a tag. */
const MARKER = /^(\s*)((?:[A-Z]{1,12}-?\d+[a-z]?\.|[-*]|\d+\.)\s+|@\w+\s)/;
/** Comments for tools, which no person has to read. */
const FOR_TOOLS = /eslint-|@ts-|prettier-ignore|v8 ignore|^\/\/\/|@type |@typedef|@import/;
/** Two spaces within a text: a table, or a picture. */
const DRAWN = /\S {2,}\S.* {2,}\S|\t/;

/** @typedef {{ readonly first: string, readonly rest: string, readonly words: string[] }} Paragraph */

/**
 * @param {readonly string[]} lines - of a comment, without its comment marks
 * @param {number} width
 * @returns {string[]} lines within that width where possible; paragraphs that were narrow enough are unchanged
 */
export function filled(lines, width) {
  /** @type {string[]} */
  const out = [];
  for (let i = 0; i < lines.length;) {
    const paragraph = paragraphAt(lines, i);
    const own = lines.slice(i, paragraph.end);
    const isWide = own.some((line) => line.length > width);
    out.push(...(isWide && !own.some((line) => DRAWN.test(line)) ? fill(paragraph, width) : own));
    i = paragraph.end;
  }
  return out;
}

/** @param {readonly string[]} lines @param {number} at @returns {Paragraph & { readonly end: number }} */
function paragraphAt(lines, at) {
  const line = lines[at] ?? "";
  const [, indent = "", marker = ""] = MARKER.exec(line) ?? [/^\s*/.exec(line)?.[0], /^\s*/.exec(line)?.[0]];
  const rest = indent + (marker.startsWith("@") ? "  " : " ".repeat(marker.length));
  let end = at + 1;
  if (line.trim() !== "") while (end < lines.length && continues(lines[end] ?? "", rest)) end++;
  const words = lines.slice(at, end).join(" ").split(/\s+/).filter(Boolean);
  return { first: indent, rest, words, end };
}

/** @param {string} line @param {string} indent */
const continues = (line, indent) =>
  line.trim() !== "" && !MARKER.test(line) && /^\s*/.exec(line)?.[0].length === indent.length;

/** @param {Paragraph} paragraph @param {number} width @returns {string[]} */
function fill({ first, rest, words }, width) {
  const out = [];
  let line = first;
  let isEmpty = true;
  for (const word of words) {
    if (!isEmpty && line.length + 1 + word.length > width) {
      out.push(line);
      [line, isEmpty] = [rest, true];
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...out, line];
}

/** @param {string} body - between the comment's marks @param {number} column @param {boolean} isDoc */
function blockOf(body, column, isDoc) {
  const indent = " ".repeat(column);
  const lines = body
    .replace(/^\*/, "")
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd());
  if (lines[0]?.trim() === "") lines.shift();
  else lines[0] = lines[0]?.trimStart() ?? "";
  if (lines.at(-1)?.trim() === "") lines.pop();
  const text = filled(lines, COMMENT_WIDTH - column - 3);
  return [
    isDoc ? "/**" : "/*",
    ...text.map((line) => `${indent} *${line === "" ? "" : ` ${line}`}`),
    `${indent} */`,
  ].join("\n");
}

/** @type {import("eslint").Rule.RuleModule} */
export const commentWidth = {
  meta: {
    type: "layout",
    fixable: "code",
    schema: [],
    messages: { wide: `A comment is at most ${COMMENT_WIDTH} columns wide: \`npm run lint -- --fix\` fills it anew.` },
  },
  create: (context) => ({ Program: () => check(context) }),
};

/** @param {import("eslint").Rule.RuleContext} context */
function check({ sourceCode, report }) {
  const { lines } = sourceCode;
  const comments = sourceCode.getAllComments().filter(({ value }) => !FOR_TOOLS.test(value));
  const isAlone = (/** @type {import("estree").Comment} */ { loc, value }) => {
    if (loc === undefined || loc === null) return false;
    const before = lines[loc.start.line - 1]?.slice(0, loc.start.column) ?? "";
    return before.trim() === "" && value !== undefined;
  };
  const isWide = (/** @type {import("estree").Comment} */ { loc }) =>
    loc !== undefined &&
    loc !== null &&
    lines.slice(loc.start.line - 1, loc.end.line).some((line) => line.length > COMMENT_WIDTH);
  for (let i = 0; i < comments.length; i++) {
    const comment = comments[i];
    if (!comment?.loc || comment.range === undefined) continue;
    const group = [comment];
    const { loc, range } = comment;
    const { column } = loc.start;
    if (comment.type === "Line" && isAlone(comment))
      while (follows(comments[i + 1], group.at(-1)) && isAlone(/** @type {any} */ (comments[i + 1])))
        group.push(/** @type {any} */ (comments[++i]));
    if (!group.some(isWide)) continue;
    const end = group.at(-1)?.range?.[1] ?? range[1];
    report({
      loc,
      messageId: "wide",
      fix: (fixer) => {
        if (!isAlone(comment)) return comment.type === "Line" ? moved(fixer, sourceCode, comment) : null;
        const text = sourceCode.getText().slice(range[0], end);
        const fixed =
          comment.type === "Line"
            ? filled(
                group.map(({ value }) => value.replace(/^ /, "").trimEnd()),
                COMMENT_WIDTH - column - 3,
              )
                .map((line) => `// ${line}`.trimEnd())
                .join(`\n${" ".repeat(column)}`)
            : blockOf(comment.value, column, comment.value.startsWith("*"));
        return fixed === text ? null : fixer.replaceTextRange([range[0], end], fixed);
      },
    });
  }
}

/** @param {import("estree").Comment | undefined} next @param {import("estree").Comment | undefined} before */
const follows = (next, before) =>
  next?.type === "Line" &&
  next.loc?.start.line === (before?.loc?.end.line ?? 0) + 1 &&
  next.loc.start.column === before?.loc?.start.column;

/**
 * @param {import("eslint").Rule.RuleFixer} fixer
 * @param {import("eslint").SourceCode} sourceCode
 * @param {import("estree").Comment} comment
 */
function moved(fixer, sourceCode, comment) {
  const [start = 0, end = 0] = comment.range ?? [];
  const line = sourceCode.lines[(comment.loc?.start.line ?? 1) - 1] ?? "";
  const indent = /^\s*/.exec(line)?.[0] ?? "";
  const lineStart = start - (comment.loc?.start.column ?? 0);
  const code = line.slice(0, comment.loc?.start.column).trimEnd();
  const text = filled([comment.value.trim()], COMMENT_WIDTH - indent.length - 3)
    .map((one) => `${indent}// ${one}\n`)
    .join("");
  return fixer.replaceTextRange([lineStart, end], text + code);
}
