import nx from "@nx/eslint-plugin";
import tseslint from "typescript-eslint";
import {
  depConstraints,
  impureGlobals,
  impureSyntax,
  impureModules,
  ownedBy,
  ownedLibraries,
  packagesThatHear,
  purePackages,
  unreachableFolders,
} from "./infra/lint/layers.mjs";
import { commentOpener } from "./infra/lint/comment-opener.mjs";
import { commentWidth } from "./infra/lint/comment-width.mjs";
import { noInheritedKeys } from "./infra/lint/inherited-keys.mjs";

const sources = ["**/*.ts", "**/*.tsx"];
const tests = ["**/*.test.ts", "test/**/*.ts"];

/** @param {"included" | "excluded"} withTests @param {string[]} [allow] */
const boundaries = (withTests, allow = []) => ({
  "@nx/enforce-module-boundaries": [
    "error",
    { allow, depConstraints: depConstraints({ tests: withTests }), banTransitiveDependencies: false },
  ],
});

/** @param {object[]} patterns */
const restrictedImports = (patterns) => ({
  "@typescript-eslint/no-restricted-imports": ["error", { patterns }],
});

const enumLike = { selector: "TSEnumDeclaration", message: "Erasable syntax only: a union of strings." };
const sleepInTest = {
  selector: "CallExpression[callee.object.name=/^(test|it|describe)$/][callee.property.name=/^(only|skip|todo)$/]",
  message: "Focused and switched-off tests don't land; ctx.skip(reason) says at run time what is missing.",
};

export default tseslint.config(
  {
    ignores: ["**/node_modules/", "**/dist/", ".tutti/", ".nx/", "test/**/fixtures/"],
  },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  {
    files: [...sources, "**/*.mjs"],
    plugins: { prose: { rules: { "comment-opener": commentOpener, "comment-width": commentWidth } } },
    rules: { "prose/comment-opener": "error", "prose/comment-width": "error" },
  },
  tseslint.configs.eslintRecommended,
  {
    files: sources,
    extends: [tseslint.configs.recommended],
    plugins: { "@nx": nx },
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/await-thenable": "error",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/no-floating-promises": ["error", { ignoreVoid: true }],
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "@typescript-eslint/no-unnecessary-type-assertion": "error",
      "@typescript-eslint/only-throw-error": "error",
      "@typescript-eslint/prefer-promise-reject-errors": "error",
      "@typescript-eslint/return-await": ["error", "error-handling-correctness-only"],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      eqeqeq: "error",
      "no-restricted-syntax": ["error", enumLike],
      "no-warning-comments": ["error", { terms: ["todo", "fixme", "xxx"] }],
      "max-lines": ["error", { max: 450, skipBlankLines: true, skipComments: true }],
      "max-lines-per-function": ["error", { max: 70, skipBlankLines: true, skipComments: true, IIFEs: true }],
      ...boundaries("excluded"),
      ...restrictedImports([...ownedBy(undefined), ...unreachableFolders]),
    },
  },
  ...ownedLibraries.map(({ owner }) => ({
    files: [`packages/${owner}/**/*.ts`],
    rules: restrictedImports([...ownedBy(owner), ...unreachableFolders]),
  })),
  {
    files: packagesThatHear.map((name) => `packages/${name}/**/*.ts`),
    ignores: tests,
    plugins: { tutti: { rules: { "no-inherited-keys": noInheritedKeys } } },
    rules: { "tutti/no-inherited-keys": "error" },
  },
  {
    files: purePackages.map((name) => `packages/${name}/**/*.ts`),
    ignores: tests,
    rules: {
      "no-restricted-globals": ["error", ...impureGlobals],
      "no-restricted-properties": [
        "error",
        { object: "Math", property: "random", message: "Chance is a seeded Prng that comes in from outside (layers)." },
      ],
      "no-restricted-syntax": ["error", enumLike, ...impureSyntax],
      ...restrictedImports([...ownedBy(undefined), ...unreachableFolders, ...impureModules]),
    },
  },
  {
    // A test plays the outside world to its package: a plain NATS client, a bare session of the runtime, a slow clock.
    files: tests,
    rules: {
      "max-lines-per-function": "off",
      "no-restricted-syntax": ["error", enumLike, sleepInTest],
      "@typescript-eslint/no-non-null-assertion": "off",
      ...boundaries("included"),
      ...restrictedImports(unreachableFolders),
    },
  },
  {
    files: ["test/**/*.ts"],
    rules: {
      ...boundaries("included", ["../../infra/**"]), // the scripts there belong to no package
      ...restrictedImports([
        {
          regex: "^(\\.\\./)+services(/|$)|^@tutti/service-",
          message: "Services are started, never imported (layers).",
        },
      ]),
    },
  },
  {
    files: ["**/*.mjs"],
    extends: [tseslint.configs.recommended],
    rules: {
      eqeqeq: "error",
      "max-lines": ["error", { max: 450, skipBlankLines: true, skipComments: true }],
      "max-lines-per-function": ["error", { max: 70, skipBlankLines: true, skipComments: true }],
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", caughtErrors: "none" }],
    },
  },
);
