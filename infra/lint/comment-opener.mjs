/** A lint rule: a comment opens with what it is about, and not with a clause that leaves that to the reader. */

const OPENER =
  /^(Of|What|Who|Whoever|Whose|Whom|That|Whatever|By whom|By how|From whom|To whom)\b(?! (is|are|does|do|was|happens)\b.*\?)/;

/** @type {import("eslint").Rule.RuleModule} */
export const commentOpener = {
  meta: {
    type: "suggestion",
    schema: [],
    messages: {
      bare: 'A comment that opens with "{{opener}}" makes the reader guess its subject: name the noun, then the verb.',
    },
  },
  create: ({ sourceCode, report }) => ({
    Program: () => {
      let lastLine = -1;
      for (const comment of sourceCode.getAllComments()) {
        const { loc, type, value } = comment;
        if (loc === undefined || loc === null) continue;
        // Lines that follow one another are one comment.
        const continues = type === "Line" && loc.start.line === lastLine + 1;
        lastLine = type === "Line" ? loc.end.line : -1;
        const [, opener] = OPENER.exec(value.replace(/^\**\s*(\*\s*)?/, "").trim()) ?? [];
        if (opener !== undefined && !continues) report({ loc, messageId: "bare", data: { opener } });
      }
    },
  }),
};
