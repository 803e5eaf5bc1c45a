/**
 * The layers of docs/architecture.md, section 6, as lint rules. A package names its layer in its package.json
 * (`"nx": {"tags": ["layer:core"]}`); what a layer may import stands here and nowhere else.
 */

/** @param {string} name */
const tag = (name) => `layer:${name}`;

/** @param {string} name @param {string[]} may */
const layer = (name, ...may) => ({ sourceTag: tag(name), onlyDependOnLibsWithTags: may.map(tag) });

const low = ["base", "contract", "core", "port", "actor"];
const everyPackage = [...low, "sim", "adapter", "user"];

/**
 * Layers whose code runs unchanged in the simulator. They use no npm package, since one may bring a clock or an await.
 */
const withoutNpm = new Set(["base", "core", "port", "actor", "sim"]);

/** Packages that tests of every layer may import besides. */
const testTools = ["vitest", "vitest/*", "fast-check"];

const layers = [
  layer("base", "base"),
  layer("contract", "base", "contract"),
  layer("core", "base", "contract", "core"),
  layer("port", "base", "contract"),
  layer("actor", ...low),
  layer("sim", ...low, "sim"),
  layer("adapter", "base", "contract", "port"),
  layer("user", ...everyPackage),
  layer("service", ...everyPackage), // never another service
  layer("infra", ...everyPackage), // scripts that need a package; what runs before npm ci imports nothing
  layer("test", ...everyPackage, "test"), // plays the outside world; starts services as processes, never imports one
];

/**
 * The constraints for `@nx/enforce-module-boundaries`.
 *
 * @param {{ tests: "included" | "excluded" }} options - with tests, the npm packages that tests use are allowed too
 */
export function depConstraints({ tests }) {
  const extra = tests === "included" ? testTools : [];
  return layers.map((constraint) => {
    const name = constraint.sourceTag.slice("layer:".length);
    if (withoutNpm.has(name)) return { ...constraint, allowedExternalImports: [...extra] };
    if (name === "contract") return { ...constraint, allowedExternalImports: ["msgpackr", ...extra] };
    return constraint;
  });
}

/** Pure packages, of which the core is made: no clock, no randomness, no I/O, no await. */
export const purePackages = ["units", "collections", "protocol", "profile", "scheduling", "dynamic", "planning"];

/**
 * Packages that look up text from outside. They use a Map, since an object also finds the properties that it inherits.
 */
export const packagesThatHear = [
  ...["actors", "admin", "cli", "client", "executor", "gateway", "host", "ingress", "jobs", "node", "onnx-tools"],
  ...["pipelines", "ports", "protocol", "units", "wire"],
];

/** Globals through which time, chance or the outside world reach code. */
export const impureGlobals = [
  ...["Date", "performance", "Temporal", "setTimeout", "setInterval", "setImmediate", "queueMicrotask"],
  ...["process", "global", "globalThis", "console", "fetch", "crypto", "require"],
].map((name) => ({ name, message: "Core code decides; time, chance and I/O come in with its events (layers)." }));

export const impureSyntax = [
  ["AwaitExpression", "A turn of the core runs to its end: no await (layers)."],
  ["ForOfStatement[await=true]", "A turn of the core runs to its end: no await (layers)."],
  [":function[async=true]", "A turn of the core runs to its end: no async function (layers)."],
  ["ImportExpression", "Core code is loaded statically (layers)."],
].map(([selector, message]) => ({ selector: String(selector), message: String(message) }));

/** Libraries that exactly one package may know. */
export const ownedLibraries = [
  { group: ["@nats-io/*", "nats"], owner: "bus-nats" },
  { group: ["onnxruntime-node", "onnxruntime-node/*", "onnxruntime-common"], owner: "engine-onnx" },
  { group: ["msgpackr", "msgpackr/*"], owner: "wire" },
];

/** @param {string | undefined} owner - the package whose own library is allowed */
export const ownedBy = (owner) =>
  ownedLibraries
    .filter((library) => library.owner !== owner)
    .map((library) => ({ group: library.group, message: `Only packages/${library.owner} imports this (layers).` }));

/** Folders that nothing imports from: services only wire packages together, and test suites only watch. */
export const unreachableFolders = [
  {
    regex: "^(\\.\\./)+(services|test)(/|$)|^@tutti/(service-[^/]+|test)(/|$)",
    message: "Nothing imports services/ or test/ (layers).",
  },
];

/** Modules that core code doesn't import, though its layer's tags would allow it. */
export const impureModules = [
  {
    regex:
      "^node:|^(fs|path|os|net|http|https|crypto|child_process|worker_threads|timers|events|stream|util|url|perf_hooks)(/|$)",
    message: "Core code imports nothing of Node (layers).",
  },
  { regex: "^@tutti/wire(/|$)", message: "Core code knows messages, never their encoding (layers)." },
];
