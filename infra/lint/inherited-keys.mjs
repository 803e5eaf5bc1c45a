/**
 * A lint rule for packages that text from outside reaches. A constant table in which any string may be looked up has to
 * be a Map. An object also answers to `constructor` and its other inherited keys. Keys of a narrower type were checked
 * before.
 */

/** @type {import("eslint").Rule.RuleModule} */
export const noInheritedKeys = {
  meta: {
    type: "problem",
    schema: [],
    messages: { table: "`{{name}}` answers to inherited names such as `constructor` too: make it a Map." },
  },
  create: (context) => ({
    MemberExpression(node) {
      if (!node.computed || node.object.type !== "Identifier") return;
      const { name } = node.object;
      if (!/^[A-Z][A-Z0-9_]*$/.test(name)) return;
      /** @type {import("eslint").Scope.Scope | null} */
      let scope = context.sourceCode.getScope(node);
      while (scope !== null && !scope.set.has(name)) scope = scope.upper;
      const declared = /** @type {any} */ (scope?.set.get(name)?.defs[0]?.name)?.typeAnnotation;
      if (declared && /^:\s*(Readonly<)?Record<string,/.test(context.sourceCode.getText(declared)))
        context.report({ node, messageId: "table", data: { name } });
    },
  }),
};
